"""Which runs of a campaign are made again because they were stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.records import RUN_ID, store_run

from edgebench.host.analysis.verdict.table import was_stopped
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.store.layout import Store
from edgebench.protocol.record import Outcome


@pytest.mark.parametrize(
    ("ended", "why", "expected"),
    [
        (Outcome.INTERRUPTED, None, True),
        (Outcome.INTERRUPTED, "the CPU had 91 °C", False),
        (Outcome.FAILED, None, False),
    ],
)
def test_run_that_would_be_cut_again_is_not_made_for_ever(
    ended: Outcome, why: str | None, expected: bool, tmp_path: Path
) -> None:
    """Otherwise a hot device would be heated until morning, or a run cut by Ctrl-C would count."""
    finding = Finding(
        id="complete",
        outcome=RuleOutcome.FAIL,
        severity=State.INVALID,
        facts={"ended": ended.value, "why": why},
    )
    store = Store(tmp_path)
    store_run(store)
    run = store.run(RUN_ID)
    assert not was_stopped(run)
    cut = replace(run, verdict=Verdict(state=State.INVALID, rules=(finding,)))
    assert was_stopped(cut) is expected


@pytest.mark.parametrize("is_stopped", [True, False])
def test_run_that_was_stopped_in_its_data_set_is_made_again(
    is_stopped: bool, tmp_path: Path
) -> None:
    """Otherwise a part of a data set would count for good, or a failing one be made for ever."""
    finding = Finding(
        id="dataset_complete",
        outcome=RuleOutcome.FAIL,
        severity=State.SUSPECT,
        value=3.0,
        limit=360.0,
        reason="why",
        facts={"why": "stopped before it was done", "is_stopped": is_stopped},
    )
    store = Store(tmp_path)
    store_run(store)
    run = store.run(RUN_ID)
    cut = replace(run, verdict=Verdict(state=State.SUSPECT, rules=(finding,)))
    assert was_stopped(cut) is is_stopped
