"""Options that users set, with their names, and how their values are read and printed."""
