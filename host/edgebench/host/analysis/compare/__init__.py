"""Is one model better than another? Statistics, and which runs may be compared."""
