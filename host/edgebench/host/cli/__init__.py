"""The command line, in which `main` selects a command, and each command is a module."""
