"""What the device's owner says is wired to it; no host may say that."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wiring:
    """Said when the agent is started."""

    sync_line: str | None = None
    """To a meter's digital input: `gpio:PATH` or `uart:PATH`."""
    meters: tuple[str, ...] = ()
    """That runs may ask for."""
