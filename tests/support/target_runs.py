"""Runs of targets that are started by hand, message by message."""

from __future__ import annotations

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.run import new_run_id
from edgebench.host.client import Client
from edgebench.protocol.messages import RunEnded
from edgebench.protocol.record import Outcome
from edgebench.protocol.spec import Engine, RunSpec

ON_TARGET = RunSpec("firmware", engine=Engine.TARGET, duration_s=1.0, warmup_duration_s=0.0)
"""A run of a board."""
HERE = RunSpec("litert", duration_s=0.2, min_query_count=1, warmup_duration_s=0.0)
"""A run of the machine that the agent is on."""


def started(client: Client, spec: RunSpec) -> str:
    """A run of a small model that is in progress."""
    model = find_model("digits_int8.tflite")
    client.acquire()
    client.push_model(model.path, model.sha256)
    run_id = new_run_id()
    client.start_run(
        run_id,
        spec,
        sha256=model.sha256,
        model_name=model.name,
        size_bytes=model.size_bytes,
    )
    return run_id


def outcome(client: Client) -> Outcome:
    """How the followed run ends."""
    *_, last = client.follow_run()
    assert isinstance(last, RunEnded)
    return last.outcome
