"""Inference libraries, each behind the `Runtime` interface; see `registry`."""
