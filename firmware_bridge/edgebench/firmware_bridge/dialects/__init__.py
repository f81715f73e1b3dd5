"""Commands and replies of boards, as state machines without I/O: one dialect per file."""
