"""Ways to reach an agent; each has one `connect` that gives a `Link`."""
