"""Charging of a phone, suspended while its battery is measured, and resumed whatever happens.

Theory of operation. A phone on a cable charges, and its gauge then measures the charger. Android
has a property that lets it run from its battery on the cable: `power.battery_input.suspended`. A
maker may ignore it, so what counts is what the gauge shows afterwards.

Whoever suspends the charging may be killed. So a process of its own resumes it, a shell that waits
for the end of a pipe: the end of its parent, however that comes, is the end of the pipe. A mark on
the disk says that charging is suspended, for the case that the shell is killed, too, as by the end
of adbd: the next agent resumes it. A reboot resets the property.

Source: AndroidX benchmark, `PowerMetric` (suspends the battery's input by this property);
platform/system/core, init (properties without `persist.` do not outlast a boot).
"""

from __future__ import annotations

import logging
import os
import subprocess
from contextlib import suppress
from pathlib import Path

from edgebench.protocol.errors import TargetError
from edgebench.system.android_commands import COMMANDS, command_environment, is_android, run_command
from edgebench.system.paths import user_paths
from edgebench.system.whole_files import make_directory, write_whole

logger = logging.getLogger(__name__)

PROPERTY = "power.battery_input.suspended"
MARK_FILE = "charging-suspended"
"""Name of the mark in the user's data directory; it holds the id of the boot."""
RESUME_TIMEOUT_S = 10.0
_GUARD = 'trap "" HUP INT TERM; read -r line; "$0" "$1" false && rm -f "$2"'
"""Waits until its standard input ends; its words: setprop, the property, the mark."""


def mark_path() -> Path:
    """Mark of this user."""
    return Path(user_paths(os.environ).data) / MARK_FILE


class ChargeSwitch:
    """The charging of this phone."""

    def __init__(self, root: Path = Path("/"), mark: Path | None = None) -> None:
        self._root = root
        self._mark = mark or mark_path()
        self._guard: subprocess.Popen[bytes] | None = None

    def suspend(self) -> None:
        """Suspend the charging until `resume`; nothing, where somebody else has suspended it.

        Raises:
            TargetError: the system is no Android, or refuses.
        """
        if not is_android(self._root):
            raise TargetError("charging not suspended: only Android can do that")
        if self._guard is not None or self._is_suspended():
            return
        try:
            make_directory(self._mark.parent, mode=0o700)
            write_whole(self._mark, _boot_id(self._root), mode=0o600)
            self._guard = self._start_guard()
        except OSError as exc:
            raise TargetError(f"charging not suspended: {exc.strerror}: {exc.filename}") from exc
        output = run_command(self._root, "setprop", PROPERTY, "true")
        if output.failure:
            self.resume()
            raise TargetError(f"charging not suspended: {output.failure}")

    def resume(self) -> None:
        """Let the phone charge again, if we have suspended it; may be called twice."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        assert guard.stdin is not None
        with suppress(OSError):
            guard.stdin.close()
        try:
            code = guard.wait(RESUME_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            code = guard.wait()
        if code != 0:  # it was killed, or could not: nobody else is left to do it
            recover(self._root, self._mark)

    def _is_suspended(self) -> bool:
        return run_command(self._root, "getprop", PROPERTY).text.strip() == "true"

    def _start_guard(self) -> subprocess.Popen[bytes]:
        commands = self._root / COMMANDS
        return subprocess.Popen(
            [str(commands / "sh"), "-c", _GUARD, str(commands / "setprop"), PROPERTY, self._mark],
            env=command_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C must not end it
        )


def recover(root: Path = Path("/"), mark: Path | None = None) -> None:
    """Let the phone charge again, where a process that suspended it was killed with its guard."""
    mark = mark or mark_path()
    try:
        boot_id = mark.read_text(errors="replace")
    except OSError:  # there is none
        return
    if boot_id == _boot_id(root):
        output = run_command(root, "setprop", PROPERTY, "false")
        if output.failure:
            logger.warning("charging not resumed: %s", output.failure)
            return
        logger.warning("charging resumed, which a process that was killed had suspended")
    with suppress(OSError):
        mark.unlink(missing_ok=True)


def _boot_id(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
