"""Microcontrollers over a serial line, as one more runtime of the agent.

The bridge implements `edgebench.protocol.runtime.Runtime` and registers it under the entry-point
group `edgebench.runtimes`; the agent finds it there and never imports it by name.
"""
