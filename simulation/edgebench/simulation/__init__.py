"""Simulated devices that heat up and throttle, for tests, demonstrations and gates.

The agent finds them through the entry-point group of `edgebench.protocol.simulation` and never
imports them by name, so that they need not be deployed to real devices.
"""
