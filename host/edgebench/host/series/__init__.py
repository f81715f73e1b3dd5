"""Traces of a run over time, for pictures and trace files."""
