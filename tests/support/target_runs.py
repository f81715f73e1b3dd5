"""Runs of targets that are started by hand, message by message."""

from __future__ import annotations

import pytest

from edgebench.host.client import Client
from edgebench.protocol.errors import LeaseHeld
from edgebench.protocol.messages import RunEnded
from edgebench.protocol.record import Outcome
from edgebench.protocol.spec import Engine, RunSpec
from support.started import start

ON_TARGET = RunSpec("firmware", engine=Engine.TARGET, duration_s=1.0, warmup_duration_s=0.0)
"""A run of a board."""
HERE = RunSpec("litert", duration_s=0.2, min_query_count=1, warmup_duration_s=0.0)
"""A run of the machine that the agent is on."""


def started(client: Client, spec: RunSpec) -> str:
    """A run of a small model that is in progress; its id."""
    return start(client, spec, "digits_int8.tflite")


def outcome(client: Client) -> Outcome:
    """How the followed run ends."""
    *_, last = client.follow_run()
    assert isinstance(last, RunEnded)
    return last.outcome


def assert_boards_only_beside_boards(machine: Client, one: Client, other: Client) -> None:
    """Two boards of an agent run at the same time, and neither beside a run of their machine."""
    run_id = started(one, ON_TARGET)
    started(other, ON_TARGET)
    with pytest.raises(LeaseHeld, match=rf"{run_id}|{other.seat}"):
        started(machine, HERE)
    assert (outcome(one), outcome(other)) == (Outcome.COMPLETED, Outcome.COMPLETED)
    started(machine, HERE)
    with pytest.raises(LeaseHeld, match="machine"):
        started(one, ON_TARGET)
    assert outcome(machine) is Outcome.COMPLETED
