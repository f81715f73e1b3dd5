"""Commands and replies of boards, as state machines without I/O: a dialect per file."""
