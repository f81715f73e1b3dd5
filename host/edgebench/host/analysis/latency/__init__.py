"""What a query takes: percentiles with intervals, warm-up, outliers."""
