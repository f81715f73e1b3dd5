"""What tells one history from another, and what may change within one.

Who measures every night asks the same question: the settings. What the device answers with changes
meanwhile: the model is exported anew, a runtime is updated, somebody sets a governor. Runs with
other settings are another history; a change of the conditions is marked in it.
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
    }
)
"""Keys of a fingerprint that change under a device while everybody asks the same."""
MODEL = "model"
"""Content of the model, which is no part of a fingerprint."""


def settings_of(run: Run) -> Fingerprint:
    """What the user asked for, with the device that it was asked of."""
    return fingerprint(run, KEYS.keys() - CONDITIONS)


def conditions_of(run: Run) -> Fingerprint:
    """What the device measured with, and the content of the model."""
    model = (run.model.sha256 or run.model.name)[:12]
    return {MODEL: model, **fingerprint(run, sorted(CONDITIONS))}


def digest(facts: Mapping[str, str]) -> str:
    """A short text that is the same for equal facts only."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
