"""Rules about where the model ran: on the delegate that was asked for, or somewhere else."""

from __future__ import annotations

from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.protocol.record import WorkerRecord

DELEGATED_LIMIT_RATIO = 0.5
"""Of the operators; below, it is not the delegate that was measured."""


def delegation(evidence: Evidence) -> tuple[bool | None, str]:
    """A delegate that was asked for was used."""
    runtime = evidence.worker.runtime
    asked = [name for name in runtime.delegates_requested if name != "none"]
    ran = _placement_text(evidence.worker)
    if not asked:
        return True, f"no delegate was asked for, {ran}"
    text = f"asked for {', '.join(asked)}, {ran}"
    places = {part.place for part in evidence.worker.placement}
    used = {_plain_name(name) for name in (*runtime.delegates_used, *places)}
    missing = [name for name in asked if _plain_name(name) not in used]
    if missing and (places or not all("/" in name for name in missing)):
        return False, text
    if missing or not places:
        return None, f"{text}; the runtime does not tell whether it was used"
    return True, text


def delegated_share(evidence: Evidence) -> tuple[bool | None, str]:
    """Most of the model ran where it was meant to run."""
    asked = {_plain_name(n) for n in evidence.worker.runtime.delegates_requested if n != "none"}
    parts = evidence.worker.placement
    if not asked or not parts:
        return (True, "no delegate was asked for") if not asked else (None, "not told")
    total = sum(part.count for part in parts)
    there = sum(part.count for part in parts if _plain_name(part.place) in asked)
    return there >= DELEGATED_LIMIT_RATIO * total, (
        f"{there} of {total} operators ran on it, at least {DELEGATED_LIMIT_RATIO:.0%}"
    )


def _plain_name(delegate: str) -> str:
    """CUDAExecutionProvider and cuda are the same."""
    return delegate if "/" in delegate else delegate.lower().removesuffix("executionprovider")


def _placement_text(worker: WorkerRecord) -> str:
    """How many operators ran where, as far as the runtime tells."""
    counts: dict[str, int] = {}
    for part in worker.placement:
        counts[part.place] = counts.get(part.place, 0) + part.count
    if not counts:
        return f"used: {', '.join(worker.runtime.delegates_used) or 'none'}"
    total = sum(counts.values())
    places = ", ".join(f"{place} {count}" for place, count in counts.items())
    return f"of {total} operators: {places}"
