"""Numbers and verdicts from traces: pure functions, without I/O."""
