"""Latency of queries: percentiles with intervals, warm-up, outliers."""
