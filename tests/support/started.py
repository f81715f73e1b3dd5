"""A run that a client has started, and does not wait for."""

from __future__ import annotations

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.run import new_run_id
from edgebench.host.client import Client
from edgebench.protocol.spec import RunSpec, Scenario

SPEC = RunSpec(
    "onnx",
    scenario=Scenario.SERVER,  # such a run waits more than it computes
    target_qps=100.0,
    duration_s=60.0,
    min_query_count=10,
    warmup_duration_s=0,
    is_checked=False,
    cooldown_timeout_s=0.0,
)


def start(client: Client, spec: RunSpec = SPEC, model_name: str = "digits_int8.onnx") -> str:
    """A run of a built-in model, of a minute if nothing else is asked for; its id."""
    model = find_model(model_name)
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
