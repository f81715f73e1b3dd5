"""What boards say and are told, as state machines without I/O: one dialect a file."""
