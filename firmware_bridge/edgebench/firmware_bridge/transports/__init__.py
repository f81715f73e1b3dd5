"""Transports to a board: bytes with their time of arrival, one kind per file."""
