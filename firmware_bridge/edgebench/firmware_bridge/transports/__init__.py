"""Ways to a board: bytes with the time they came, one kind a file."""
