"""Local operations of all edgebench programs: files, processes, environment, terminal.

This portion does not exchange data between machines: that is `protocol`, which does no I/O.
"""
