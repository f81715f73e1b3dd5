"""Comparison of models: statistics, and which runs may be compared."""
