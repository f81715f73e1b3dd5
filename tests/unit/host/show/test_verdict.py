"""Causes of a verdict as text."""

from __future__ import annotations

from dataclasses import replace

from support.changes import changed
from support.reported import runs_of_set, stored_run
from support.screens import BUSY

from edgebench.host.analysis.run_set import find_set
from edgebench.host.show.verdict import cause_texts


def test_cause_of_a_refusal_ends_with_what_is_refused() -> None:
    """Otherwise a wait that made other sets suspect would seem to make this one invalid."""
    base = stored_run(BUSY)
    busy = [replace(run, verdict=base.verdict) for run in runs_of_set(base)]
    spread = [
        changed(run, {"metrics.latency_ns.p50": 100_000 * 2**place})
        for place, run in enumerate(busy)
    ]
    kept, refused = (cause_texts(find_set(runs))[0] for runs in (busy, spread))
    assert kept.cause is refused.cause
    assert "as a result" not in kept.evidence
    begin, _, result = refused.evidence.partition("; as a result, ")
    assert begin == kept.evidence
    assert result.startswith("p50 ±")
    assert result.endswith("between runs (95 % CI), limit 25 %")
