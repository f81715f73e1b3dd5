"""The only package that formats text, tables and pictures for people."""
