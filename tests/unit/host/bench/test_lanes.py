"""Several devices at once: who works beside whom, and what happens to the others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.lanes import Target, measure_targets
from edgebench.host.bench.model import Model
from edgebench.host.bench.request import BenchRequest
from edgebench.host.bench.watcher import OutcomeWatcher, Watcher
from edgebench.host.devices.files import KnownDevice
from edgebench.host.result.facts import EnergyRequest
from edgebench.host.result.run import Run
from edgebench.protocol.errors import EdgebenchError, Unreachable

REQUEST = BenchRequest(models=())
WAIT_S = 10.0
RUN = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)


class Seen(Watcher):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.failed_devices: list[tuple[str, EdgebenchError]] = []
        self.kept: list[Run] = []

    def device_failed(self, device: str, error: EdgebenchError) -> None:
        """A device failed."""
        self.failed_devices.append((device, error))

    def run_finished(self, run: Run) -> None:
        """A run is stored."""
        self.kept.append(run)


def target(name: str, meter: str | None = None) -> Target:
    """A device with a request, which names a meter, and may name the agent of the device."""
    meter, _, agent = (meter or "").partition(" of ")
    energy = EnergyRequest(meter=meter) if meter else None
    device = KnownDevice(name, name, agent or name, ("192.0.2.1",), 7747)
    return Target(device, replace(REQUEST, energy=energy))


def wait_for(cancellation: Cancellation) -> None:
    """Wait until somebody cancels."""
    requested = threading.Event()
    with cancellation.performing(requested.set):
        assert requested.wait(WAIT_S)


def run_named(name: str) -> Run:
    """A run that can be told from others."""
    return replace(RUN, run_id=name)


def test_devices_work_at_the_same_time_and_keep_their_order() -> None:
    """Ten boards take ten nights."""
    together = threading.Barrier(3, timeout=WAIT_S)

    def measure(one: Target, _: Watcher, __: Cancellation) -> list[Run]:
        together.wait()
        return [run_named(one.device.name)]

    targets = [target(name) for name in "cab"]
    runs = measure_targets(targets, measure, Seen(), Cancellation(), parallel=3)
    assert [run.run_id for run in runs] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("meters", "parallel", "most"),
    [
        (("ppk2:/dev/a", "ppk2:/dev/a", "ppk2:/dev/a"), 8, 1),
        (("agent:ina", "agent:ina", None), 1, 1),
        (("agent:ina", "agent:ina", None), 8, 3),
        (("ppk2:/dev/a", "ppk2:/dev/b", "ppk2:/dev/a"), 8, 2),
        (("agent:ina of one", "agent:ina of one", "agent:ina of two"), 8, 2),
    ],
)
def test_no_meter_has_two_devices(meters: tuple[str | None, ...], parallel: int, most: int) -> None:
    """The meter of one board records the other one's run."""
    lock, active, seen = threading.Lock(), set[str](), [0]
    full = threading.Event()

    def measure(one: Target, _: Watcher, __: Cancellation) -> list[Run]:
        with lock:
            active.add(one.device.name)
            seen[0] = max(seen[0], len(active))
            if len(active) == most:
                full.set()
        full.wait(WAIT_S)
        time.sleep(0.02)  # for one that should not be there
        with lock:
            active.discard(one.device.name)
        return []

    targets = [target(f"d{i}", meter) for i, meter in enumerate(meters)]
    measure_targets(targets, measure, Seen(), Cancellation(), parallel=parallel)
    assert seen[0] == most


def test_device_that_is_off_keeps_no_other_from_being_measured() -> None:
    """One board without power ends the night."""

    def measure(one: Target, _: Watcher, __: Cancellation) -> list[Run]:
        if one.device.name == "off":
            raise Unreachable("no answer")
        return [run_named(one.device.name)]

    watcher = Seen()
    runs = measure_targets(
        [target("off"), target("on")], measure, watcher, Cancellation(), parallel=2
    )
    assert [run.run_id for run in runs] == ["on"]
    assert [(name, str(error)) for name, error in watcher.failed_devices] == [("off", "no answer")]


def test_error_of_the_only_device_is_the_command_s() -> None:
    """A command for one device ends with success though nothing was measured."""

    def measure(_: Target, __: Watcher, ___: Cancellation) -> list[Run]:
        raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        measure_targets([target("off")], measure, Seen(), Cancellation(), parallel=2)


def test_bug_in_one_lane_stops_the_others_and_is_seen() -> None:
    """A defect of ours is swallowed by a thread."""

    def measure(one: Target, _: Watcher, cancellation: Cancellation) -> list[Run]:
        if one.device.name == "a":
            raise ZeroDivisionError
        wait_for(cancellation)
        raise Interrupted(None)

    with pytest.raises(ZeroDivisionError):
        measure_targets([target("a"), target("b")], measure, Seen(), Cancellation(), parallel=2)


def ctrl_c_when(ready: Callable[[], object]) -> threading.Thread:
    """Presses Ctrl-C when something is ready."""

    def press() -> None:
        ready()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_ctrl_c_stops_every_lane_and_keeps_what_each_has() -> None:
    """The boards measure on for hours, or the run of one of them is lost."""
    together = threading.Barrier(3, timeout=WAIT_S)

    def measure(one: Target, _: Watcher, cancellation: Cancellation) -> list[Run]:
        together.wait()
        wait_for(cancellation)
        raise Interrupted(run_named(one.device.name))

    watcher = Seen()
    thread = ctrl_c_when(together.wait)
    with pytest.raises(Interrupted):
        measure_targets([target("a"), target("b")], measure, watcher, Cancellation(), parallel=2)
    thread.join()
    assert sorted(run.run_id for run in watcher.kept) == ["a", "b"]


def test_outcomes_are_recorded_and_all_events_are_forwarded() -> None:
    """A device's health is kept, and the progress of its runs is not shown any more."""
    events: list[str] = []
    outcomes: list[str] = []

    class EventLog(Watcher):
        """Records its events."""

        def run_failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
            events.append(f"failed {runtime}")

        def run_finished(self, run: Run) -> None:
            events.append("finished")

        def earlier_run_rejected(self, run_id: str, error: EdgebenchError) -> None:
            events.append(f"rejected {run_id}")

    watcher = OutcomeWatcher(
        EventLog(),
        lambda: outcomes.append("finished"),
        lambda error, model: outcomes.append(f"{model}: {error}"),
    )
    error = EdgebenchError("no")
    watcher.run_failed(find_model("digits_int8.onnx"), "onnx", error)
    watcher.run_finished(RUN)
    watcher.earlier_run_rejected("r", error)
    assert events == ["failed onnx", "finished", "rejected r"]
    assert outcomes == ["digits_int8.onnx: no", "finished"]
