"""The types that are run.json."""
