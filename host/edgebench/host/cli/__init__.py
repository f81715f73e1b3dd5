"""The command line: `main` is tiny, and each command is a module."""
