"""The health check of a device reads its status report, and makes a quick run of a model.

A board with a model in its firmware runs that model, because it accepts no other model.

The run is stored in a temporary store. Runs that earlier commands left on the device stay there for
the next command that measures.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from edgebench.host.analysis.verdict.clock import ClockRule
from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import Place, raise_failures
from edgebench.host.bench.model import Model, model_on_device
from edgebench.host.bench.plan import runtimes_for
from edgebench.host.bench.request import new_request
from edgebench.host.bench.session import DeviceSession, RunOrder
from edgebench.host.client import Client
from edgebench.host.devices.health import CHECK_FAILED, CheckState, HealthCheck, failure_code
from edgebench.host.result.metrics import headline_latency
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import RuleOutcome
from edgebench.host.show.sentences import sentence
from edgebench.host.store.layout import Store
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    LeaseHeld,
    NoSpace,
    RuntimeUnavailable,
    StoreError,
    TargetError,
    TooHot,
    Unreachable,
    UsageError,
)
from edgebench.protocol.sizes import format_distinct_sizes
from edgebench.protocol.spec import SpecChanges

MODELS = ("digits_int8.tflite", "digits_int8.onnx")
"""Built-in models of at most 25 kB. A health check runs the first of these models that a runtime of
the device can load."""
MIN_ROOM_BYTES = 16 * 2**20
"""Minimum free space for models on a device, enough for MobileNetV2: its 3.4 million weights take
14 MB as 32-bit numbers. Source: Sandler et al., MobileNetV2 (2018), table 4."""
_CHANGES: SpecChanges = {
    "duration_s": 0.5,
    "min_query_count": 20,
    "warmup_query_count": 1,
    "is_checked": False,
    "cooldown_timeout_s": 0.0,
}
"""Settings that make the run short; the check tests whether the run succeeds, not its speed."""


def refused(name: str, error: EdgebenchError) -> HealthCheck:
    """The outcome of a health check that raised an error."""
    if isinstance(error, LeaseHeld):
        return HealthCheck(name=name, state=CheckState.BUSY, reason=str(error))
    is_ours = isinstance(error, (StoreError, UsageError)) or (
        isinstance(error, Unreachable) and error.is_offline
    )
    return HealthCheck(
        name=name,
        state=CheckState.UNWELL,
        reason=str(error),
        code=failure_code(error) or CHECK_FAILED,
        is_of_device=not is_ours,
    )


def check_device(client: Client, name: str, cancellation: Cancellation) -> HealthCheck:
    """Check the device that the client is connected to.

    Raises:
        Interrupted: the command was cancelled.
        LeaseHeld: another client is measuring on the device.
        EdgebenchError: the device failed the check; the message is the reason.
    """
    system = client.describe()
    seat = next((state for state in client.seats() if state.name == client.seat), None)
    temp_c = seat.temp_c if seat else None
    if seat is not None and seat.fault:
        raise TargetError(seat.fault)
    room = system.models_room_bytes
    if room is not None and room < MIN_ROOM_BYTES:
        has, needs = format_distinct_sizes(room, MIN_ROOM_BYTES)
        raise NoSpace(f"room for models is {has}, at least {needs} is needed")
    _require_cool(system, temp_c)
    model = _model_for(system)
    run = _quick_run(client, name, model, cancellation)
    for finding in run.verdict.rules:
        if finding.id == ClockRule.id and finding.outcome is RuleOutcome.FAIL:
            raise TargetError(sentence(finding))
    latency = None if run.verdict.is_refused else headline_latency(run)
    return HealthCheck(
        name=name,
        state=CheckState.WELL,
        temp_c=temp_c,
        models_room_bytes=system.models_room_bytes,
        uncollected_count=len(client.list_runs().finished),
        model=model.name,
        latency_ns_p50=latency.p50 if latency else None,
    )


def _require_cool(system: SystemDescription, temp_c: float | None) -> None:
    # Imported here because every command imports this module, but only a check reads profiles.
    from edgebench.device_profiles.load import find_profile

    profile = find_profile(system.device.profile)
    limit_c = profile.limits.abort_c if profile else None
    if temp_c is not None and limit_c is not None and temp_c >= limit_c:
        raise TooHot(f"idle temperature is {temp_c:.1f} °C, and runs are aborted at {limit_c:g} °C")


def _model_for(system: SystemDescription) -> Model:
    """The model to run on this device: the model in its firmware, or else a built-in model.

    Raises:
        RuntimeUnavailable: the device has no usable runtime for any built-in model.
    """
    if system.own_model is not None:
        return model_on_device(system.own_model)
    refusals: list[str] = []
    for name in MODELS:
        model = find_model(name)
        try:
            runtimes_for(model, None, system)
        except (UsageError, RuntimeUnavailable) as exc:
            refusals.append(str(exc))
        else:
            return model
    raise RuntimeUnavailable("; ".join(refusals))


def _quick_run(client: Client, name: str, model: Model, cancellation: Cancellation) -> Run:
    """Make a short run, and store it in a temporary store."""
    named = () if model.is_on_device else (model.path,)
    request = new_request(named, on=[name], preset="quick", runs=1, **_CHANGES)
    with tempfile.TemporaryDirectory(prefix="edgebench-check-") as folder:
        session = DeviceSession(
            name=name,
            client=client,
            store=Store(Path(folder)),
            notify=raise_failures,
            cancellation=cancellation,
        )
        session.take_lease()
        try:
            return session.make(RunOrder(request=request, place=Place(1, 1)))
        finally:
            with suppress(EdgebenchError):  # the lease of a lost link expires
                client.release()
