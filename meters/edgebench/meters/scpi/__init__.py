"""Bench instruments that are controlled with SCPI commands, over VISA."""
