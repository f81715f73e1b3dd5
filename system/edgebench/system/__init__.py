"""What every program of edgebench does on its own machine: files, processes, environment, terminal.

Nothing in this portion travels between machines: that is `protocol`, which does no I/O.
"""
