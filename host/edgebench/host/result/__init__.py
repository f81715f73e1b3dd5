"""Types of run.json, and their conversion to and from JSON."""
