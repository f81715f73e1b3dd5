"""Transports to a board: bytes with their time of arrival, a kind per file."""
