"""CPU frequency governors, only when the operator asks: set for a run, and always restored.

What was there before is on disk before anything is changed, so that an agent that was killed
restores it when it starts again.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from edgebench.agent.telemetry.source import numbered, read_text
from edgebench.protocol.errors import TargetError

logger = logging.getLogger(__name__)

KEPT_FILE = "governors.json"


class Governors:
    """The governors of one device."""

    def __init__(self, state: Path, root: Path = Path("/")) -> None:
        self._kept = state / KEPT_FILE
        self._policies = numbered(root / "sys/devices/system/cpu/cpufreq", "policy")

    def set(self, name: str) -> None:
        """Set every policy to this governor.

        Raises:
            TargetError: it is not offered, or may not be set; everything is as it was before.
        """
        if not self._policies:
            raise TargetError(f"governor {name} not set: the kernel offers no frequency policies")
        for policy in self._policies:
            offered = read_text(policy / "scaling_available_governors").split()
            if offered and name not in offered:
                raise TargetError(f"governor {name} is not offered: there are {', '.join(offered)}")
        before = {str(p): read_text(p / "scaling_governor") for p in self._policies}
        self._keep(before)
        try:
            for policy in self._policies:
                (policy / "scaling_governor").write_text(name)
        except OSError as exc:
            self.restore()
            raise TargetError(f"governor {name} not set: {exc.strerror}: {exc.filename}") from exc

    def restore(self) -> None:
        """Put back what was there before; nothing when nothing was changed."""
        try:
            before = json.loads(self._kept.read_text())
        except (OSError, ValueError):
            return
        for policy, name in before.items() if isinstance(before, dict) else ():
            try:
                (Path(policy) / "scaling_governor").write_text(name)
            except OSError as exc:
                logger.warning("governor %s of %s not restored: %s", name, policy, exc)
        self._kept.unlink(missing_ok=True)

    def _keep(self, before: dict[str, str]) -> None:
        """On disk, whole, before anything changes."""
        part = self._kept.with_suffix(".part")
        with part.open("w") as file:
            json.dump(before, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._kept)
