"""Rules about where the model ran: on the delegate that was asked for, or somewhere else."""

from __future__ import annotations

from edgebench.host.analysis.delegates import delegated_count, operator_places, plain_name
from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    Ruling,
    at_least,
    holds,
    not_applicable,
    unknown,
)
from edgebench.protocol.record import WorkerRecord

DELEGATED_LIMIT_RATIO = 0.5
"""Share of the operators; below, it is not the delegate that was measured."""


def delegation(evidence: Evidence) -> Ruling:
    """A delegate that was asked for was used."""
    runtime = evidence.worker.runtime
    asked = [name for name in runtime.delegates_requested if name != "none"]
    facts = {"asked": ", ".join(asked), "ran": _placement_text(evidence.worker)}
    if not asked:
        return not_applicable("not_asked", facts=facts)
    places = set(operator_places(evidence.worker))
    used = {plain_name(name) for name in (*runtime.delegates_used, *places)}
    missing = [name for name in asked if plain_name(name) not in used]
    # The interpreter lists no operators of a graph that a signature names.
    is_listed = places or evidence.record.spec.signature is None
    if missing and is_listed and (places or not all("/" in name for name in missing)):
        return holds(False, facts=facts)
    if missing or not places:
        return unknown("not_told", facts=facts)
    return holds(True, facts=facts)


def delegated_share(evidence: Evidence) -> Ruling:
    """Most of the model ran where it was meant to run."""
    asked = {plain_name(n) for n in evidence.worker.runtime.delegates_requested if n != "none"}
    if not asked:
        return not_applicable("not_asked")
    counts = delegated_count(evidence.worker, asked)
    if counts is None:
        return unknown("not_told")
    count, total = counts
    share = count / total if total else 0.0
    return at_least(share, DELEGATED_LIMIT_RATIO, "ratio", facts={"count": count, "total": total})


def _placement_text(worker: WorkerRecord) -> str:
    """How many operators ran where, as far as the runtime reports it: names and counts."""
    counts = operator_places(worker)
    if not counts:
        return f"used: {', '.join(worker.runtime.delegates_used) or 'none'}"
    total = sum(counts.values())
    places = ", ".join(f"{place} {count}" for place, count in counts.items())
    return f"of {total} operators: {places}"
