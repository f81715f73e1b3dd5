"""The pytest plugin, by which tests measure models and fail if a metric has become worse."""
