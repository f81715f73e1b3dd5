"""The vocabulary that host and agent share: specs, messages, codec, traces, clock, errors.

Nothing in this portion reads a file, opens a socket or looks at a clock.
"""
