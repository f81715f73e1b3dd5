"""The pytest plugin: tests that measure, and fail on a regression."""
