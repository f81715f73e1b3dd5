"""Kinds of reasons of a run's results, with their sentences."""
