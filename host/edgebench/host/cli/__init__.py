"""The command line: `main` selects a command; each command is a separate module."""
