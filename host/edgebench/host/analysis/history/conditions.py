"""Settings, which identify a history, and conditions, which may change within a history.

A nightly job measures with the same settings every night. The conditions may change, for example
because the model is exported again, a runtime is updated, or the governor is changed. Runs with
other settings belong to another history; a change of the conditions is marked in the history.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from edgebench.host.analysis.compare.comparability import KEYS, Fingerprint, fingerprint
from edgebench.host.result.run import Run

CONDITIONS = frozenset(
    {
        *("os", "cpu", "usable_cpus", "memory", "kernel", "virtualization", "python", "packages"),
        *("firmware", "emulator", "runtime_version", "delegates_used", "governor"),
        *("cpu_quota", "android_build", "android_group"),
    }
)
"""Keys of a fingerprint whose values may change on a device while the settings stay the same."""
SUBJECT_KEYS = frozenset(
    {"device", "runtime", "scenario", "threads", "kind", "simulated", "emulated"}
)
"""Keys of the settings that are fields of `HistorySubject`."""
MODEL = "model"
"""Key of the condition for the model's content, which is not part of a fingerprint."""


def settings_of(run: Run) -> Fingerprint:
    """The device, and the settings that the user chose."""
    return fingerprint(run, [key for key in KEYS if key not in CONDITIONS])


def conditions_of(run: Run) -> Fingerprint:
    """Conditions of the measurement on the device, and the content of the model."""
    model = (run.model.sha256 or run.model.name)[:12]
    return {MODEL: model, **fingerprint(run, sorted(CONDITIONS))}


def digest(facts: Mapping[str, str]) -> str:
    """Short hash of the given facts."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def changed_items(was: str, now: str) -> tuple[str, str]:
    """Items, such as packages, that only one of two comma-separated lists contains.

    >>> changed_items("numpy 1.0, six 1.1", "numpy 2.0, six 1.1")
    ('numpy 1.0', 'numpy 2.0')
    """
    before, after = was.split(", "), now.split(", ")
    gone = [item for item in before if item not in after]
    new = [item for item in after if item not in before]
    return ", ".join(gone) or "none", ", ".join(new) or "none"
