"""Dialects of boards, one per file: state machines for commands and replies, without I/O."""
