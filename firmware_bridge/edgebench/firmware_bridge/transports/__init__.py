"""Transports of bytes to and from boards, with arrival times; each file has one transport."""
