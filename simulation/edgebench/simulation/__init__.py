"""Simulated devices that heat up and throttle, for tests, demonstrations and checks in CI.

The agent finds this package through the entry-point group of `edgebench.protocol.simulation` and
never imports it by name, so that the package need not be deployed to real devices.
"""
