"""Traces of a run over time, for charts and trace files."""
