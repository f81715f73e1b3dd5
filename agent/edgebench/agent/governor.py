"""CPU frequency governors: set for a run only on request, and always restored.

The previous governors are stored on disk before any change. If the agent is killed, the next start
of the agent restores the governors.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from edgebench.agent.files import disk_errors, write_private
from edgebench.agent.telemetry.source import numbered, read_text
from edgebench.protocol.errors import GovernorRefused

logger = logging.getLogger(__name__)

KEPT_FILE = "governors.json"

_GOVERNOR = re.compile(r"[\w-]{1,32}", re.ASCII)


class Governors:
    """The governors of a device."""

    def __init__(self, state: Path, root: Path = Path("/")) -> None:
        self._kept = state / KEPT_FILE
        self._folder = root / "sys/devices/system/cpu/cpufreq"
        self._policies = numbered(self._folder, "policy")

    def set(self, name: str) -> None:
        """Set every frequency policy to the governor `name`.

        Raises:
            GovernorRefused: the governor is not offered or cannot be set; the previous governors
                are restored.
        """
        if not self._policies:
            raise GovernorRefused(
                f"governor {name} not set: the kernel offers no frequency policies"
            )
        for policy in self._policies:
            offered = read_text(policy / "scaling_available_governors").split()
            if offered and name not in offered:
                raise GovernorRefused(
                    f"governor {name} is not offered; available: {', '.join(offered)}"
                )
        before = {str(p): read_text(p / "scaling_governor") for p in self._policies}
        if unread := [policy for policy, governor in before.items() if not governor]:
            raise GovernorRefused(
                f"governor {name} not set: cannot read the current governor of {unread[0]}"
            )
        # A stored governor that was not restored yet has priority: it is the operator's choice.
        with disk_errors(f"governor {name} not set", self._kept):
            self._keep(before | self._kept_before())
        try:
            for policy in self._policies:
                (policy / "scaling_governor").write_text(name)
        except OSError as exc:
            self.restore()
            raise GovernorRefused(
                f"governor {name} not set: {exc.strerror}: {exc.filename}"
            ) from exc

    def restore(self) -> None:
        """Restore the previous governors; a failed restore is repeated by the next call."""
        before = self._kept_before()
        left = {policy: name for policy, name in before.items() if not _restored(policy, name)}
        try:
            if left:
                self._keep(left)
            else:
                self._kept.unlink(missing_ok=True)
        except OSError as exc:  # the list stays, and is tried again
            logger.warning(
                "record of changed governors not written: %s: %s", exc.strerror, self._kept
            )

    def _kept_before(self) -> dict[str, str]:
        """Maps each policy to its governor stored on disk, without invalid policies and names."""
        try:
            plain: Any = json.loads(self._kept.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(plain, dict):
            return {}
        return {
            policy: name
            for policy, name in plain.items()
            if Path(policy).parent == self._folder
            and isinstance(name, str)
            and _GOVERNOR.fullmatch(name)
        }

    def _keep(self, before: dict[str, str]) -> None:
        write_private(self._kept, json.dumps(before))


def _restored(policy: str, name: str) -> bool:
    try:
        (Path(policy) / "scaling_governor").write_text(name)
    except OSError as exc:
        logger.warning("governor %s of %s not restored: %s", name, policy, exc.strerror)
        return False
    return True
