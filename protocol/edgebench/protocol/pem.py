"""A type for certificates, in a separate module so that `--help` does not import `typing`."""

from __future__ import annotations

from typing import NewType

Pem = NewType("Pem", str)
"""A certificate in PEM format. It has many lines, so its line feeds are kept; in other received
texts, line feeds are replaced."""
