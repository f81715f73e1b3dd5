"""Simulated devices, which grow warm and slow down: for tests, demonstrations and gates.

An agent finds them by the entry-point group of `edgebench.protocol.simulation` and never imports
them by name, so that they need not be sent to real devices.
"""
