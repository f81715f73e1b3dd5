"""The vocabulary that host and agent share: specs, messages, codec, traces, clock, errors.

This portion does not read files, open sockets or read clocks.
"""
