"""Statistics of the latency of queries: percentiles with intervals, warm-up and outliers."""
