"""Bench instruments that speak SCPI, by VISA."""
