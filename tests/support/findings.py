"""Findings of every reason, with facts of the right types."""

from __future__ import annotations

from typing import Any

from edgebench.host.result.reason import Fact, Reason, ReasonKind

FACTS: dict[str, Fact] = {
    "qps": 60_000.0,
    "per_s": 6640.0,
    "target_s": 0.08,
    "target_percentile": 0.99,
    "p99_ns": 7.86e9,
    "needed": 40_000,
    "cpu_count": 2,
}
"""Facts of a server that has too much to do."""
_OF_TYPES: tuple[tuple[type, Fact], ...] = (
    (str, "something"),
    (bool, True),
    (int, 3),
    (float, 1.5),
    (tuple, (Reason("other_causes", {"causes": "something"}),)),
)


def some_facts(kind: ReasonKind[Any]) -> dict[str, Fact]:
    """Facts of a kind of reason, of which none is absent."""
    made: dict[str, Fact] = {}
    for name, types in kind.fact_types.items():
        known = [FACTS[name]] if name in FACTS else []
        fitting = [fact for fact in (*known, *dict(_OF_TYPES).values()) if type(fact) in types]
        made[name] = fitting[0]
    return made
