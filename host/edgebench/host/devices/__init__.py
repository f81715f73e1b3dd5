"""Which devices there are, and how to bring one in."""
