"""A run without the names of people, machines and places.

What goes: the names and ids of devices (a page calls them `device 1`, `device 2`, …), the names of
this host and its user, serial numbers of meters, tags and notes, paths, and addresses of networks,
wherever in a text they stand. What stays: models and their hashes, hardware, versions, settings,
times of day, and every number.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

from edgebench.host.result.energy import SYNTHETIC
from edgebench.host.result.run import Run

T = TypeVar("T")
_GROUP = "[0-9a-f]{1,4}"
"""Group of digits of an IPv6 address."""
_PATTERNS = (
    (re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\b"), "[address]"),
    (re.compile(r"\b[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE), "[address]"),
    (re.compile(r"\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b", re.IGNORECASE), "[address]"),
    (
        re.compile(
            rf"(?<![\w:.])(?:{_GROUP}(?::{_GROUP}){{7}}|"
            rf"(?:{_GROUP}(?::{_GROUP}){{0,6}})?::{_GROUP}(?::{_GROUP}){{0,6}})(?![\w:])",
            re.IGNORECASE,
        ),
        "[address]",
    ),
    (re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"), "[address]"),
    (re.compile(r"\b[\w-]+(?:\.[\w-]+)*\.(?:local|lan|internal|home)\b", re.I), "[address]"),
    (re.compile(r"(?<![\w/.~-])(?:~|\.{1,2})?/[^\s'\",;:)\]]+"), "[path]"),
)
"""What names a person, a machine or a place by its form."""
_KEPT = frozenset({"profile", "placement", "inputs", "outputs", "input_shapes", "kind"})
"""Fields with names inside a model, which may look like paths, and with one of a few words."""
_NOBODY = frozenset({"root", "user", "localhost", "edgebench"})
"""Names that tell of nobody."""
_SHORTEST_NAME = 3
"""Names of hosts and users with fewer letters are words of other texts as well."""


class Anonymizer:
    """Leaves names out of runs and texts; one device has one name in all of them."""

    def __init__(self, runs: Iterable[Run], devices: Iterable[str] = ()) -> None:
        """Learn the names of the devices.

        Args:
            runs: All runs of the page.
            devices: Further names of devices, as a plan has them.
        """
        self._names: dict[str, str] = {}
        for run in runs:
            self._learn(run.device.name, run.device.id)
        for name in devices:
            self._learn(name)
        others = [socket.gethostname(), _user(), Path.home().name]
        secrets = {
            name: "[name]" for name in others if len(name) >= _SHORTEST_NAME and name not in _NOBODY
        }
        self._secrets: Mapping[str, str] = secrets | self._names
        longest_first = sorted(filter(None, self._secrets), key=len, reverse=True)
        words = "|".join(map(re.escape, longest_first))
        self._pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)") if words else None

    def _learn(self, name: str, device_id: str = "") -> None:
        if name not in self._names:
            known = set(self._names.values())
            self._names[name] = f"device {len(known) + 1}"
        if device_id:
            self._names.setdefault(device_id, self._names[name])

    def text(self, text: str) -> str:
        """A text without names, paths and addresses."""
        for pattern, word in _PATTERNS[:2]:
            text = pattern.sub(word, text)
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._secrets[found[0]], text)
        for pattern, word in _PATTERNS[2:]:
            text = pattern.sub(word, text)
        return text

    def run(self, run: Run) -> Run:
        """A run without them; its numbers and its verdict are the same."""
        found = self.value(replace(run, unknown=(), files={}))
        found = replace(found, model=replace(found.model, name=run.model.name.rpartition("/")[2]))
        energy = run.metrics.energy
        if energy is None:
            return found
        meter = energy.meter
        if energy.boundary != SYNTHETIC:  # vendor and model, then the serial number
            meter = " ".join(meter.partition(":")[0].split()[:2])
        # Channels are names in the meter's file, which is read by them.
        kept = replace(self.value(energy), channels=energy.channels, meter=meter)
        return replace(found, metrics=replace(found.metrics, energy=kept))

    def value(self, value: T) -> T:
        """A value with every text in it, but not what is one of a few words."""
        found: Any = value
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            found = self.text(value)
        elif isinstance(value, tuple):
            found = tuple(map(self.value, value))
        elif isinstance(value, dict):
            found = {self.value(key): self.value(one) for key, one in value.items()}
        elif is_dataclass(value) and not isinstance(value, type):
            parts = [one.name for one in fields(value) if one.init and one.name not in _KEPT]
            found = replace(value, **{name: self.value(getattr(value, name)) for name in parts})
        return cast("T", found)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name
        return ""
