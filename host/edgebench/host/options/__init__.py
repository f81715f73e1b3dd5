"""Options that users set: names, and functions that parse and format the values."""
