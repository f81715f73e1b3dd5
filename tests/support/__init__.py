"""Shared by the tests: real agents, real command lines, and the rule for skipping."""
