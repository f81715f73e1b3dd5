"""Transports of bytes to and from boards, with times of arrival: one kind per file."""
