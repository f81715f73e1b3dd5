"""A metric over time: its points, its levels, and where it changed."""
