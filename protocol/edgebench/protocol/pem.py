"""A type for certificates, in a separate module so that `--help` does not import `typing`."""

from __future__ import annotations

from typing import NewType

Pem = NewType("Pem", str)
"""A certificate in PEM format; it has many lines, so unlike other received texts it is not made
printable."""
