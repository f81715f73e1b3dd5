"""Charging of a phone, suspended while its battery is measured, and resumed whatever happens.

A phone on a cable charges, and its gauge then measures the charger. Android has a property that
lets it run from its battery on the cable. A maker may ignore it, so what counts is what the gauge
shows afterwards. `edgebench.system.android_settings` resumes the charging, also if the agent is
killed.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.system.android_settings import ChangedSettings
from edgebench.system.paths import user_paths

MARK_FILE = "charging-suspended"
"""Name of the mark in the user's data directory."""


def mark_path() -> Path:
    """Mark of this user."""
    return Path(user_paths(os.environ).data) / MARK_FILE


class ChargeSwitch:
    """The charging of this phone."""

    def __init__(self, root: Path = Path("/"), mark: Path | None = None) -> None:
        self._settings = ChangedSettings(mark or mark_path(), root)

    def suspend(self) -> None:
        """Suspend the charging until `resume`; nothing, where somebody else has suspended it.

        Raises:
            TargetError: the system is no Android, or refuses.
        """
        self._settings.change({"charging_suspended": "true"})

    def resume(self) -> None:
        """Let the phone charge again, if we have suspended it; may be called twice."""
        self._settings.restore()
