"""Measurements: the request, the plan of runs, making a run, and collecting its result."""
