"""A type for certificates; in a module of its own, as help must not wait for `typing`."""

from __future__ import annotations

from typing import NewType

Pem = NewType("Pem", str)
"""A certificate in letters, of many lines: no text that anybody reads."""
