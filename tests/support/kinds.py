"""Stores whose runs all have one kind of number: trusted, refused, or with a mark."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.host.result.document import from_document, to_document
from edgebench.host.result.facts import SetMember
from edgebench.host.result.migrations import AS_STORED
from edgebench.host.result.run import Failure, Run
from edgebench.host.result.verdict import Finding, NumberKind, RuleOutcome, State
from edgebench.host.store.layout import RUN_FILE, Store
from support.changes import changed
from support.exports import METERED, RUNS

P50_NS, GROSS_J = 7_654_321, 4.321987
"""Numbers by which a run is found in any text."""
NUMBERS = r"7[.,]?65[0-9]*\s*(?:ms|e)|765\d{4}\b|0?\.00765|4[.,]32(?:2|19)"
"""Both of them, in any unit and rounded as any surface rounds."""
RUNS_OF_A_SET = 6
SCATTER = (0.2, 0.4, 0.9, 1.1, 3.0, 9.0)
"""Medians of runs that are too far apart, over that of the set, which none of them has."""


@dataclass(frozen=True)
class Kind:
    """A kind of run."""

    name: str
    changes: tuple[tuple[str, object], ...] = ()
    """To the run, by the place of the attribute."""
    marks: tuple[str, ...] = ()
    """Words that every surface has beside the number."""
    is_refused: bool = False
    factors: tuple[float, ...] = (1.0,) * RUNS_OF_A_SET
    """Median of each run of a set, over `P50_NS`."""


def _broken(
    state: State, harms: tuple[NumberKind, ...] | None = None
) -> tuple[tuple[str, object], ...]:
    """A verdict of one rule that failed."""
    rule = Finding(
        id="block_stability",
        outcome=RuleOutcome.FAIL,
        severity=state,
        reason=AS_STORED,
        harms=harms,
        detail="its blocks are apart",
    )
    return ("verdict.state", state), ("verdict.rules", (rule,))


KINDS = (
    Kind("valid"),
    Kind("suspect", _broken(State.SUSPECT), ("suspect",)),
    Kind("suspect energy", _broken(State.SUSPECT, (NumberKind.ENERGY,)), ("suspect",)),
    Kind("invalid run", _broken(State.INVALID), ("invalid",), is_refused=True),
    Kind("invalid set", (), ("invalid",), is_refused=True, factors=SCATTER),
    Kind(
        "failed",
        (
            *_broken(State.INVALID),
            ("failure", Failure(code="worker_died", message="the worker died")),
        ),
        ("failed",),
        is_refused=True,
    ),
    Kind("simulated", (("simulated", True),), ("simulated",)),
    Kind("emulated", (("emulated", True),), ("emulated",)),
    Kind("synthetic", (("metrics.energy.boundary", "synthetic"),), ("synthetic",)),
    Kind("unwatched", (("verdict.unwatched", ("heat", "load")),), ("unwatched", "heat, load")),
)


def metered_run() -> Path:
    """The directory of a stored run with latencies and an energy."""
    [path] = RUNS.glob(f"{METERED}*")
    return path


def of_kind(run: Run, kind: Kind, factor: float = 1.0) -> Run:
    """The run as one of a kind, with the numbers by which it is found."""
    run = changed(
        run,
        {
            "metrics.latency_ns.p50": round(P50_NS * factor),
            "metrics.latency_ns.p50_ci95": (
                round(P50_NS * factor) - 900,
                round(P50_NS * factor) + 900,
            ),
            "verdict.state": State.VALID,
            "verdict.unwatched": (),
            "verdict.rules": (),
        },
    )
    if run.metrics.energy is not None:
        run = changed(
            run,
            {
                "metrics.energy.gross_j_per_inference": GROSS_J * factor,
                "metrics.energy.u95_absolute_j": 0.001,
                "metrics.energy.refusal": (),
                "metrics.energy.refused": None,
                "metrics.energy.boundary": "device input",
                "metrics.energy.common_j": {},
                "metrics.energy.components_j": {"meter": 0.0005},
            },
        )
    return changed(run, dict(kind.changes))


def store_of(root: Path, kind: Kind, days: Sequence[int] = (1, 2)) -> Store:
    """A store with a set of such runs for each day of March."""
    store, source = Store(root), metered_run()
    run = from_document(json.loads((source / RUN_FILE).read_text()))
    of_set = [of_kind(run, kind, factor) for factor in kind.factors]
    for day in days:
        for number, member in enumerate(of_set):
            made = replace(
                member,
                run_id=f"202603{day:02}-00000{number}-0123abcd",
                created_utc=f"2026-03-{day:02}T00:00:0{number}+00:00",
                member=SetMember(f"set-{day}", number, len(kind.factors)),
            )
            folder = store.directory(made.run_id)
            shutil.copytree(source, folder)
            (folder / RUN_FILE).write_text(json.dumps(to_document(made)))
    return store


def rewritten(store: Store, kind: Kind) -> None:
    """Make the runs of a store, which are of one cell after the other, runs of a kind."""
    for number, run_id in enumerate(store.run_ids()):
        made = of_kind(store.run(run_id), kind, kind.factors[number % len(kind.factors)])
        (store.directory(run_id) / RUN_FILE).write_text(json.dumps(to_document(made)))
