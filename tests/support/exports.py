"""Stored runs of several kinds to export, and copies of them with other names and verdicts."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgebench.host.export.exported import ExportedRun, find_exported
from edgebench.host.export.registry import named_format
from edgebench.host.result.facts import SetMember
from edgebench.host.result.verdict import State
from edgebench.host.store.layout import Store
from support.changes import changed

RUNS = Path(__file__).resolve().parents[1] / "fixtures" / "runs" / "v7"
PLAIN, INVALID, METERED = "20261123-031046", "20261123-031049", "20261123-031057"
ACCURACY, PROFILE, SET = "20261123-031102", "20261123-031106", "20261123-03111[24]"
"""Ids of runs, of their beginnings."""
ALL = "20261123"
HOSTILE = '=cmd|"/c calc"!A1 `x` @all <b>|\\'
"""A name that a spreadsheet, XML, JSON, Markdown and OpenMetrics would each take for something."""
Stored = Callable[[str], list[ExportedRun]]


def find_stored(pattern: str) -> list[ExportedRun]:
    """The stored runs whose ids begin like this."""
    names = sorted(str(path) for path in RUNS.glob(f"{pattern}*"))
    assert names, pattern
    return find_exported(Store(RUNS.parent), names)


def written(name: str, runs: Sequence[ExportedRun]) -> bytes:
    """Runs in a format."""
    out = io.BytesIO()
    named_format(name).load()(runs, out)
    return out.getvalue()


def judged(one: ExportedRun, state: State) -> ExportedRun:
    """The run with another verdict."""
    run = one.run
    verdict = replace(run.verdict, state=state)
    if state is State.VALID:
        passed = tuple(rule for rule in verdict.rules if rule not in verdict.failures)
        verdict = replace(verdict, rules=passed)
    return replace(one, run=replace(run, verdict=verdict))


def renamed(one: ExportedRun, name: str = HOSTILE) -> ExportedRun:
    """The run of a model and a device with this name."""
    run = one.run
    model, device = replace(run.model, name=name), replace(run.device, name=name)
    return replace(one, run=replace(run, model=model, device=device))


def set_of(one: ExportedRun, name: str, p50s_ns: tuple[int, ...]) -> list[ExportedRun]:
    """Runs of a set with these medians."""
    return [
        replace(
            one,
            run=changed(
                one.run,
                {
                    "run_id": f"20260102-030405-{name:0>7}{number}",
                    "member": SetMember(f"set-{name}", number, len(p50s_ns)),
                    "metrics.latency_ns.p50": p50_ns,
                    "metrics.end_to_end_ns.p50": p50_ns,
                    "model.name": name,
                    "metrics.warmup.level_range_ratio": None,
                    "verdict": judged(one, State.VALID).run.verdict,
                },
            ),
        )
        for number, p50_ns in enumerate(p50s_ns)
    ]
