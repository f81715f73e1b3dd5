"""Comparison of models: the statistics, and the check whether runs may be compared."""
