"""The rules behind a verdict."""
