"""Removes the names of people, machines and places from runs.

These items are removed from all texts:

    names and ids of devices, which are replaced by `device 1`, `device 2`, …
    the names of this host and its user
    serial numbers of meters
    tags and notes
    paths and network addresses

Models and their hashes, hardware, versions, settings, times and all numbers are kept.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
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
"""Patterns of addresses and paths, with their replacements."""
_KEPT = frozenset({"profile", "placement", "inputs", "outputs", "input_shapes", "kind"})
"""Fields that are not changed. They contain words of a fixed list, or names inside a model; such
names may look like paths."""
_GENERIC = frozenset({"root", "user", "localhost", "edgebench"})
"""Names that do not identify a person."""
_SHORTEST_SERIAL = 4
_SHORTEST_NAME = 3
"""Minimum length of the names of hosts and users that are removed; shorter names are often
words."""


class Anonymizer:
    """Removes names from runs and texts; each device gets one replacement everywhere."""

    def __init__(self, runs: Iterable[Run], devices: Iterable[str] = ()) -> None:
        """Collect the names to remove.

        Args:
            runs: All runs of the page.
            devices: Further names of devices, such as those of a campaign's plan.
        """
        self._names: dict[str, str] = {}
        serials: dict[str, str] = {}
        for run in runs:
            self._learn(run.device.name, run.device.id)
            energy = run.metrics.energy
            if energy is None or energy.boundary == SYNTHETIC:
                continue
            # The serial number follows vendor and model; findings and errors may also contain it.
            for word in re.findall(r"[\w-]+", energy.meter)[2:]:
                if len(word) >= _SHORTEST_SERIAL and re.search(r"\d", word):
                    serials[word] = "[serial]"
        for name in devices:
            self._learn(name)
        others = [socket.gethostname(), Path.home().name]
        with suppress(KeyError, OSError):  # a container may run as a user without a name
            others.append(getpass.getuser())
        secrets = {
            name: "[name]"
            for name in others
            if len(name) >= _SHORTEST_NAME and name not in _GENERIC
        }
        self._secrets: Mapping[str, str] = serials | secrets | self._names
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
        """The text with names, paths and addresses replaced."""
        for pattern, word in _PATTERNS[:2]:
            text = pattern.sub(word, text)
        if self._pattern is not None:
            text = self._pattern.sub(lambda found: self._secrets[found[0]], text)
        for pattern, word in _PATTERNS[2:]:
            text = pattern.sub(word, text)
        return text

    def run(self, run: Run) -> Run:
        """The run with names, paths and addresses replaced; numbers and verdict are unchanged."""
        # A command may name paths and meters, and would not run with other names.
        result = self.value(replace(run, unknown=(), files={}, command=None))
        result = replace(
            result, model=replace(result.model, name=run.model.name.rpartition("/")[2])
        )
        energy = run.metrics.energy
        if energy is None:
            return result
        meter = energy.meter
        if energy.boundary != SYNTHETIC:  # vendor and model, then the serial number
            meter = " ".join(meter.partition(":")[0].split()[:2])
        # Channel names are needed to read the meter's file.
        kept = replace(self.value(energy), channels=energy.channels, meter=meter)
        return replace(result, metrics=replace(result.metrics, energy=kept))

    def value(self, value: T) -> T:
        """The value with all texts in it anonymised; enumerators are kept."""
        result: Any = value
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            result = self.text(value)
        elif isinstance(value, tuple):
            result = tuple(map(self.value, value))
        elif isinstance(value, dict):
            result = {self.value(key): self.value(item) for key, item in value.items()}
        elif is_dataclass(value) and not isinstance(value, type):
            parts = [
                field.name for field in fields(value) if field.init and field.name not in _KEPT
            ]
            result = replace(value, **{name: self.value(getattr(value, name)) for name in parts})
        return cast("T", result)
