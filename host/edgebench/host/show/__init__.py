"""The only place that formats for people."""
