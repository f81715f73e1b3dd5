"""Settings of Android that are changed temporarily, and restored in any case.

Theory of operation. Before any change, the previous values are written to a file, called the mark.
A shell, called the guard, is started as a separate process and waits until a pipe is closed. When
the process that changed the settings ends for any reason, the pipe is closed; the guard then
restores the values and removes the mark. If the guard is killed as well, for example by the end of
adbd, the mark remains, and the next agent restores the values.

The system of a vendor may ignore a change, and yet report success. So each setting is read back
after it is set.

Source: platform/frameworks/base, `Settings.Global.AIRPLANE_MODE_ON`,
`Settings.System.SCREEN_BRIGHTNESS`; platform/packages/modules/Connectivity, the command
`airplane-mode` of `cmd connectivity` (Android 11); AndroidX benchmark, `PowerMetric` (suspends the
battery's input by a property); platform/system/core, init (properties without `persist.` do not
outlast a boot).
"""

from __future__ import annotations

import json
import logging
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.protocol.errors import TargetError
from edgebench.system.android_commands import COMMANDS, command_environment, is_android, run_command
from edgebench.system.whole_files import make_directory, write_whole

logger = logging.getLogger(__name__)

RESTORE_TIMEOUT_S = 10.0
CHARGING_PROPERTY = "power.battery_input.suspended"
_VALUE = re.compile(r"true|false|[0-9]{1,5}")
_GUARD = 'trap "" HUP INT TERM; read -r line; restored=true; {commands} $restored && rm -f "$0"'
"""Script of the guard, which waits until its standard input ends; `$0` is the mark (a file)."""


@dataclass(frozen=True, slots=True)
class AndroidSetting:
    """Commands that read and change a setting."""

    failure: str
    """Beginning of the error message if the setting cannot be changed."""
    get: tuple[str, ...]
    put: tuple[str, ...]
    """The command, to which the value is appended."""
    words: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps a value that `get` prints to the argument of `put`; contains only values for which the
    two differ."""
    unset: Mapping[str, str] = field(default_factory=dict[str, str])
    """For a setting that was never set: maps the text that `get` prints to the value of the
    setting."""
    is_lost_at_boot: bool = False
    needs: str = ""
    """First version of Android with this setting."""

    def put_words(self, value: str) -> tuple[str, ...]:
        """The command that sets this value."""
        return (*self.put, self.words.get(value, value))


SETTINGS: dict[str, AndroidSetting] = {
    "charging_suspended": AndroidSetting(
        "charging not suspended",
        get=("getprop", CHARGING_PROPERTY),
        put=("setprop", CHARGING_PROPERTY),
        unset={"": "false"},
        is_lost_at_boot=True,
    ),
    "airplane_mode": AndroidSetting(
        "airplane mode not set",
        get=("settings", "get", "global", "airplane_mode_on"),
        put=("cmd", "connectivity", "airplane-mode"),
        words={"0": "disable", "1": "enable"},
        unset={"null": "0"},
        needs="Android 11 (API 30)",
    ),
    "brightness_mode": AndroidSetting(
        "adaptive brightness not switched off",
        get=("settings", "get", "system", "screen_brightness_mode"),
        put=("settings", "put", "system", "screen_brightness_mode"),
        unset={"null": "0"},
    ),
    "brightness": AndroidSetting(
        "screen brightness not set",
        get=("settings", "get", "system", "screen_brightness"),
        put=("settings", "put", "system", "screen_brightness"),
    ),
}


class ChangedSettings:
    """Settings that this process has changed."""

    def __init__(self, mark: Path, root: Path = Path("/")) -> None:
        self._mark, self._root = mark, root
        self._guard: subprocess.Popen[bytes] | None = None

    def change(self, wanted: Mapping[str, str]) -> None:
        """Change settings until `restore` is called; skip settings that have the wanted value.

        Args:
            wanted: Maps names in `SETTINGS` to wanted values, in the order of the changes.

        Raises:
            TargetError: the system is not Android, or a setting cannot be changed; all settings are
                restored before the error is raised.
        """
        if wanted and not is_android(self._root):
            raise TargetError(f"{SETTINGS[next(iter(wanted))].failure}: only Android supports it")
        before = {name: self._read(name) for name in wanted}
        before = {name: value for name, value in before.items() if value != wanted[name]}
        if not before:
            return
        assert self._guard is None, "one change at a time"
        # A value that was not restored yet has priority: it is the value that the owner chose.
        undo = before | _read_mark(self._mark, self._root)
        try:
            make_directory(self._mark.parent, mode=0o700)
            _write_mark(self._mark, self._root, undo)
            self._guard = self._start_guard(undo)
        except OSError as exc:
            failure = SETTINGS[next(iter(before))].failure
            raise TargetError(f"{failure}: {exc.strerror}: {exc.filename}") from exc
        try:
            for name in before:
                self._put(name, wanted[name])
        except TargetError:
            self.restore()
            raise

    def restore(self) -> None:
        """Restore the changed settings; may be called twice."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        assert guard.stdin is not None
        with suppress(OSError):
            guard.stdin.close()
        try:
            code = guard.wait(RESTORE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            code = guard.wait()
        if code != 0:  # it was killed, or failed: this process has to restore them
            recover(self._mark, self._root)

    def _read(self, name: str) -> str:
        setting = SETTINGS[name]
        output = run_command(self._root, *setting.get)
        text = output.text.strip()
        value = setting.unset.get(text, text)
        if output.failure or not _VALUE.fullmatch(value):
            why = output.failure or f"{' '.join(setting.get)} printed {text[:40]!r}"
            raise TargetError(f"{setting.failure}: {why}")
        return value

    def _put(self, name: str, value: str) -> None:
        setting = SETTINGS[name]
        words = setting.put_words(value)
        failure = run_command(self._root, *words).failure
        if not failure and (now := self._read(name)) != value:
            failure = f"{' '.join(words)} had no effect: the value is {now}"
        if failure:
            needs = f"; it needs {setting.needs}" if setting.needs else ""
            raise TargetError(f"{setting.failure}: {failure}{needs}")

    def _start_guard(self, undo: Mapping[str, str]) -> subprocess.Popen[bytes]:
        commands = self._root / COMMANDS
        words = [SETTINGS[name].put_words(undo[name]) for name in reversed(list(undo))]
        return subprocess.Popen(
            [str(commands / "sh"), "-c", _guard_script(commands, words), str(self._mark)],
            env=command_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C must not end it
        )


def recover(mark: Path, root: Path = Path("/")) -> None:
    """Restore the settings of a process that was killed together with its guard.

    Settings that cannot be restored stay in the mark, and the next agent tries again.
    """
    if not mark.exists():
        return
    before = _read_mark(mark, root)
    left = {
        name: before[name] for name in reversed(list(before)) if not _is_back(name, before, root)
    }
    with suppress(OSError):  # in that case, the next agent tries all of them again
        if left:
            _write_mark(mark, root, left)
        else:
            mark.unlink(missing_ok=True)


def _is_back(name: str, before: Mapping[str, str], root: Path) -> bool:
    setting, value = SETTINGS[name], before[name]
    text = run_command(root, *setting.get).text.strip()
    if setting.unset.get(text, text) == value:
        return True
    if failure := run_command(root, *setting.put_words(value)).failure:
        logger.warning("%s not restored to %s: %s", name, value, failure)
        return False
    logger.warning("%s restored to %s", name, value)
    return True


def _guard_script(commands: Path, undo: Sequence[Sequence[str]]) -> str:
    lines = [shlex.join([str(commands / words[0]), *words[1:]]) for words in undo]
    return _GUARD.format(commands=" ".join(f"{line} || restored=false;" for line in lines))


def _write_mark(mark: Path, root: Path, before: Mapping[str, str]) -> None:
    content = {"boot_id": _boot_id(root), "before": before}
    write_whole(mark, json.dumps(content), mode=0o600)


def _read_mark(mark: Path, root: Path) -> dict[str, str]:
    """Values to restore, without settings that a reboot has reset; empty for a damaged mark."""
    try:
        content = json.loads(mark.read_bytes())
        is_same_boot = content["boot_id"] == _boot_id(root)
        return {
            name: value
            for name, value in content["before"].items()
            if name in SETTINGS
            and isinstance(value, str)
            and _VALUE.fullmatch(value)
            and (is_same_boot or not SETTINGS[name].is_lost_at_boot)
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _boot_id(root: Path) -> str:
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
