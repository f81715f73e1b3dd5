"""Numbers and verdicts from traces: pure functions, nothing is read or printed here."""
