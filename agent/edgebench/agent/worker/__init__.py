"""The process that runs a single model, once."""
