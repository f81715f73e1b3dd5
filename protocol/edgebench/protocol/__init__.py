"""Definitions that host and agent share: specifications, messages, codec, traces, clock, errors.

The modules of this package do not read files, open sockets or read clocks.
"""
