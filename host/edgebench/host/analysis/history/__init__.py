"""History of a metric over time, with its points, its levels, and its changes."""
