"""The rules that determine a verdict."""
