"""Migration of stored runs from older schema versions.

    1   latencies of invocations, memory, cold start, a verdict of twelve rules
    2   queries of all scenarios, counters and clocks at both ends of the loop, outputs, thermal
    3   energy
    4   shared errors of a meter in an energy; raw bytes of a meter have checksums
    5   several meters' channels in one energy
    6   uncertainty of every power and of percentiles of energy
    7   findings are data: value, limit, unit and reason; `not_applicable` is an outcome

A step converts a document to the next version, in place. Keys that were added with a default need
no step. tests/fixtures/runs has a run of every version; `promises.py` defines which keys every run
of a version has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgebench.host.result.promises import is_promised, place_of

CHECKSUMMED_SINCE = 4
"""First version whose raw meter bytes have checksums, so that they can be decoded again."""
AS_STORED = "as_stored"
"""Reason of a finding that an older version stored as a sentence without data."""
_NO_COUNTERS = {"own_cpu_s": 0.0, "involuntary_switch_count": 0}


def migrated(document: dict[str, Any], version: int) -> dict[str, Any]:
    """Migrate a document of any older version to this version, in place."""
    for older, step in _STEPS.items():
        if version <= older:
            step(document)
    return document


def migrated_facts(plain: Any) -> Any:
    """The stored `HostFacts` with the energy request as a single object.

    Up to version 6, each part of the request was a separate field of `HostFacts`.
    """
    if not isinstance(plain, dict) or "energy" in plain or plain.get("meter") is None:
        return plain
    names = ("meter", "sync", "battery_capacity_j")
    return plain | {"energy": {name: plain.get(name) for name in names}}


def migrated_record(plain: Any) -> Any:
    """The agent's record of a run in the present form.

    Version 1 lacks the counters at both ends of the loop.
    """
    worker = plain.get("worker") if isinstance(plain, dict) else None
    if not isinstance(worker, dict) or "before" in worker:
        return plain
    switches = worker["involuntary_switch_count"]
    ends = [
        {**_NO_COUNTERS, "monotonic_ns": monotonic_ns, "wall_ns": wall_ns}
        for monotonic_ns, wall_ns in zip(worker["monotonic_ns"], worker["wall_ns"], strict=True)
    ]
    return plain | {
        "worker": worker
        | {
            "before": ends[0],
            "after": ends[1] | {"involuntary_switch_count": switches},
            "scheduling": {"cpus": worker["cpu_affinity"], "policy": "other", "nice": 0},
            "sample_count": 1,
        },
        "telemetry": {"absent": plain["telemetry_absent"]},
    }


def promised(
    stored: dict[str, Any], computed: dict[str, Any], version: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The stored and the recomputed document, reduced to what the older version guaranteed.

    Keys that were added or redefined later are removed. Lines of text are compared only for
    presence, because their wording may change. A rule that was added, or became stricter or milder,
    does not change the stored verdict; `edgebench verify --rejudge` applies today's rules.
    """
    held = {rule["id"]: rule["outcome"] for rule in stored["verdict"]["rules"]}
    today = {rule["id"]: rule["outcome"] for rule in computed["verdict"]["rules"]}
    for name in held.keys() & today.keys():
        if today[name] == "not_applicable" and held[name] != "fail":
            today[name] = held[name]  # inapplicable rules were stored as passed, or unknown
        if version < _STRICTER.get(name, 0) and (held[name], today[name]) == ("pass", "fail"):
            today[name] = "pass"
        if version < _MILDER.get(name, 0) and (held[name], today[name]) == ("fail", "pass"):
            today[name] = "fail"
    failed = {
        rule["severity"]
        for rule in computed["verdict"]["rules"]
        if rule["id"] in held and today[rule["id"]] == "fail"
    }
    state = next((state for state in ("invalid", "suspect") if state in failed), "valid")
    is_switching = (computed["metrics"]["warmup"] or {}).get("class") == "switching"
    sides = (
        {**stored, "verdict": {"state": stored["verdict"]["state"], "rules": held}},
        {**computed, "verdict": {"state": state, "rules": today}},
    )
    for side in sides:
        side.pop("schema_version")
        for path, since in _REDEFINED.items():
            if version < since:
                _drop(side, path.split("."))
        if version < 7 and is_switching:
            _drop(side, ["metrics", "warmup", "class"])
    return sides[0], _without_later_keys(sides[0], sides[1], version)


_STRICTER = dict.fromkeys(
    (
        *("steady_state", "accuracy", "agreement", "agreement_of_all", "thermal", "interference"),
        *("frequency", "background_load", "cpu_pressure", "cpu_share", "energy_sync"),
        "energy",
    ),
    7,
)
"""Maps rules that became stricter to the version of the change."""
_MILDER = {"steady_state": 7}
"""Maps rules that became milder to the version of the change."""
_SPANS = (
    "metrics.latency_ns",
    "metrics.end_to_end_ns",
    "metrics.thermal.latency_ns_before",
    "metrics.thermal.latency_ns_after",
)
_IN_STEP = (
    *("u95_absolute_j", "u95_comparative_j", "components_j", "net_components_j"),
    *("net_u95_absolute_j", "net_u95_comparative_j", "power_w_mean_u95_absolute"),
    *("power_w_idle_u95_absolute", "energy_delay_u95_absolute_js", "battery.u95_ratio"),
    *(f"phases.{phase}.u95_absolute_j" for phase in ("load", "warmup", "steady")),
)
_CORRELATED = ("p50_ci95", "p90_ci95", "p99_ci95", "mean_ci95", "effective_count")

_REDEFINED: dict[str, int] = {
    "conditions.background_busy_ratio": 2,
    "conditions.cpu_affinity": 2,
    "conditions.involuntary_switch_count": 2,
    **{f"{span}.{name}": 7 for span in _SPANS for name in _CORRELATED},
    **{f"metrics.energy.{name}": 7 for name in _IN_STEP},
    "metrics.warmup.class": 2,
    "verdict.rules.background_load": 2,
    "verdict.state": 2,
}
"""Maps keys whose definition changed to the version that introduced the present definition.

For runs of version 1, the recomputed verdict may differ from the stored verdict:

- Neighbouring queries were treated as independent.
- A steady state was not detected.
- The share of busy CPUs was stored without the counters behind it.

Up to version 6:

- The effective count was a simpler estimate, which made intervals narrower.
- The uncertainty due to samples in step with the loop was computed from at most 50 phases.
"""


_WORDS = frozenset({"refused", "net_refused", "reason", "detail", "trouble", "error"})
"""Keys whose values are text for people."""


def _drop(plain: Any, path: list[str]) -> None:
    for name in path[:-1]:
        plain = plain.get(name) if isinstance(plain, dict) else None
    if isinstance(plain, dict):
        plain.pop(path[-1], None)


def _without_later_keys(stored: Any, computed: Any, version: int, path: str = "") -> Any:
    """The computed value without optional keys of this version that the stored run lacks."""
    if stored == computed:  # as most parts of a document are, and nothing is lacking
        return computed
    if isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        return [
            _without_later_keys(item, other, version, path)
            for item, other in zip(stored, computed, strict=True)
        ]
    if not (isinstance(stored, dict) and isinstance(computed, dict)):
        return computed
    kept: dict[str, Any] = {}
    for key, value in computed.items():
        place = place_of(path, key)
        if key not in stored:
            if is_promised(place, version):
                kept[key] = value
        elif key in _WORDS and isinstance(value, str) and isinstance(stored[key], str):
            kept[key] = stored[key]
        else:
            kept[key] = _without_later_keys(stored[key], value, version, place)
    return kept


def _from_1(document: dict[str, Any]) -> None:
    """Convert a document of version 1; it has no queries, and its conditions have other keys."""
    conditions = document["conditions"]
    if "scheduling" in conditions:
        return  # a document that was read and written again is migrated already
    switches = conditions.pop("involuntary_switch_count")
    cpus = conditions.pop("cpu_affinity")
    conditions.setdefault("background_busy_ratio", None)
    conditions["scheduling"] = {"cpus": cpus, "policy": "other", "nice": 0}
    conditions["before"] = conditions["after"] = None
    conditions["sample_count"] = 1
    conditions["involuntary_switch_count"] = switches
    for rule in document["verdict"]["rules"]:
        rule.setdefault("severity", _SEVERITIES_OF_1.get(rule["id"], "suspect"))


_SEVERITIES_OF_1 = dict.fromkeys(
    ("complete", "real_time", "enough_queries", "enough_time", "finite_outputs", "delegation"),
    "invalid",
) | {"harness_dominates": "invalid", "clock": "invalid"}


def _from_2(document: dict[str, Any]) -> None:
    """Convert a document of version 2; some of these documents lack the modified scores."""
    outliers = document["metrics"].get("outliers")
    if outliers is not None:
        outliers.setdefault("score_max", None)
        outliers.setdefault("score_outlier_count", None)


def _from_6(document: dict[str, Any]) -> None:
    """Convert a document of version 6, which has three facts as text only.

    The facts are the data of a finding, the rule that refuses an energy, and whether a phase is too
    short.
    """
    for rule in document["verdict"]["rules"]:
        rule.setdefault("reason", AS_STORED)
    energy = document["metrics"].get("energy")
    if energy is None:
        return
    for phase in (energy.get("phases") or {}).values():
        phase["is_too_short"] = "too short" in (phase.get("refused") or "")
    refused = energy.get("refused")
    if refused is not None:
        details = {
            rule["id"]: rule["detail"]
            for rule in document["verdict"]["rules"]
            if rule["outcome"] == "fail"
            and rule["id"] in ("meter", "energy_sync")
            and rule.get("detail")
        }
        same = [name for name, text in details.items() if text in refused or refused in text]
        energy["refused_by"] = same[0] if same else "energy"


_STEPS: dict[int, Callable[[dict[str, Any]], None]] = {1: _from_1, 2: _from_2, 6: _from_6}
"""Maps each version to the step that migrates documents of this version."""
