"""Options that users set: their names, and how values are read and printed."""
