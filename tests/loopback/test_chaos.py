"""Every process is killed once, in a row: the short form of tests/system/chaos.py."""

from __future__ import annotations

import pytest
from support.chaos import Fault, Mark, Outcome, Plan, Victim, bed

PLAN = Plan(
    number=0,
    meter=None,
    duration_s=0.5,
    is_checked=False,
    faults=(
        Fault(Victim.LINK, Mark.BEGIN, 0.3, silence_s=0.3),
        Fault(Victim.SAMPLER, Mark.ADMITTED, 0.0),
        Fault(Victim.HOST, Mark.BEGIN, 0.1),
        # Of the run whose host is gone, while the next command waits for the device.
        Fault(Victim.WORKER, Mark.BEGIN, 0.1),
        Fault(Victim.CONNECTION, Mark.EXPECTED, 0.05),
        Fault(Victim.AGENT, Mark.ADMITTED, 0.1),
    ),
)


def test_every_run_is_stored_or_named_whatever_dies(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Otherwise a run could vanish unreported, or a worker, a lease or a file stay for ever."""
    with bed(tmp_path_factory.mktemp("chaos")) as made:
        report = made.play(PLAN)
    assert report.violations == []
    assert Outcome.MISSED not in dict(report.outcomes).values()
