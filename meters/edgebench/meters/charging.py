"""Suspends the charging of a phone while its battery is measured, and always resumes it.

A phone on a USB cable charges, and its gauge then measures the charging current. Android has a
property that makes the phone run from its battery although the cable is connected. Some vendors'
systems ignore this property, so only the gauge's readings prove that charging has stopped.
`edgebench.system.android_settings` resumes charging even if the agent is killed.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.system.android_settings import ChangedSettings
from edgebench.system.paths import user_paths

MARK_FILE = "charging-suspended"
"""Name of the file in the user's data directory that stores the previous setting while charging is
suspended."""


def mark_path() -> Path:
    """Path of the file that stores the previous setting while charging is suspended."""
    return Path(user_paths(os.environ).data) / MARK_FILE


class ChargeSwitch:
    """Suspends and resumes the charging of this phone."""

    def __init__(self, root: Path = Path("/"), mark: Path | None = None) -> None:
        self._settings = ChangedSettings(mark or mark_path(), root)

    def suspend(self) -> None:
        """Suspend charging until `resume`; do nothing if another program has suspended it already.

        Raises:
            TargetError: the system is not Android, or rejects the change.
        """
        self._settings.change({"charging_suspended": "true"})

    def resume(self) -> None:
        """Resume charging if `suspend` stopped it; may be called twice."""
        self._settings.restore()
