"""Local operations of all edgebench programs: files, processes, environment, terminal.

Messages between machines are in `protocol`, which does no I/O.
"""
