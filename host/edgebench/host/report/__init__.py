"""Self-contained HTML reports of runs, campaigns and histories."""
