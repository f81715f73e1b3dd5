"""Pure functions that compute numbers and verdicts from traces, without I/O."""
