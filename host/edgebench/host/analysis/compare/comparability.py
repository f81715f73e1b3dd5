"""What two runs must have in common before their numbers may be compared.

The fingerprint of a run names everything that changes its numbers and is not the thing under
test: device, runtime, settings, conditions. The model is the usual thing under test, and no part
of it. A comparison names the keys in which the sides differ, and is refused unless the user says
that just this difference is what is to be measured.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from edgebench.protocol.errors import NotComparable, UsageError

KEYS: dict[str, tuple[str, ...]] = {
    "device": ("device", "id"),
    "arch": ("device", "arch"),
    "os": ("device", "os"),
    "cpu": ("environment", "cpu", "model"),
    "usable_cpus": ("environment", "cpu", "usable_count"),
    "memory": ("environment", "memory_total_bytes"),
    "kernel": ("environment", "kernel"),
    "virtualization": ("environment", "virtualization"),
    "python": ("environment", "python"),
    "packages": ("environment", "packages"),
    "runtime": ("runtime", "name"),
    "runtime_version": ("runtime", "version"),
    "delegates_used": ("runtime", "delegates_used"),
    "scenario": ("spec", "scenario"),
    "engine": ("spec", "engine"),
    "threads": ("spec", "threads"),
    "delegate": ("spec", "delegate"),
    "samples_per_query": ("spec", "samples_per_query"),
    "target_qps": ("spec", "target_qps"),
    "sample_count": ("spec", "sample_count"),
    "duration": ("spec", "duration_s"),
    "cpus": ("conditions", "scheduling", "cpus"),
    "policy": ("conditions", "scheduling", "policy"),
    "governor": ("conditions", "before", "governors"),
    "kind": ("kind",),
    "emulated": ("emulated",),
    "simulated": ("simulated",),
}
"""Names of the parts of a fingerprint, and where run.json has them."""

IMPLIED = {"runtime": frozenset({"runtime_version", "delegates_used", "delegate"})}
"""Who allows a key allows these: another runtime has another version."""

Fingerprint = dict[str, str]
Differences = dict[str, tuple[str, ...]]
"""Key and the values that occur."""


def fingerprint(document: Mapping[str, Any]) -> Fingerprint:
    """Everything about a run that has to be equal for a comparison; absent is a value too."""
    return {key: _text(document, path) for key, path in KEYS.items()}


def differences(documents: Iterable[Mapping[str, Any]]) -> Differences:
    """The keys in which these runs differ, with the values that occur."""
    prints = [fingerprint(document) for document in documents]
    found = {key: tuple(dict.fromkeys(one[key] for one in prints)) for key in KEYS}
    return {key: values for key, values in found.items() if len(values) > 1}


def check_keys(allowed: Collection[str]) -> None:
    """Refuse keys that do not exist.

    Raises:
        UsageError: there is no such key.
    """
    if unknown := set(allowed) - KEYS.keys():
        raise UsageError(f"unknown key {', '.join(sorted(unknown))}: there are {', '.join(KEYS)}")


def check_comparable(
    baseline: Sequence[Mapping[str, Any]],
    candidate: Sequence[Mapping[str, Any]],
    allowed: Collection[str] = (),
) -> Differences:
    """Refuse runs that differ in more than the model; the differences that were allowed.

    Raises:
        NotComparable: they differ in a key that is not allowed.
        UsageError: there is no such key, or a side has two models.
    """
    check_keys(allowed)
    allowed = set(allowed).union(*(IMPLIED.get(key, ()) for key in allowed))
    for side, documents in (("baseline", baseline), ("candidate", candidate)):
        names = {document["model"]["sha256"]: document["model"]["name"] for document in documents}
        if len(names) > 1:
            raise UsageError(f"{side} has several models: {', '.join(names.values())}")
    found = differences([*baseline, *candidate])
    refused = [
        f"{key} ({' / '.join(values)})" for key, values in found.items() if key not in allowed
    ]
    if refused:
        keys = [key for key in found if key not in allowed]
        text = f"runs cannot be compared, they differ in {', '.join(refused)}"
        raise NotComparable(text, keys)
    return found


def _text(document: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = document
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value[name]}" for name in sorted(value))
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)
