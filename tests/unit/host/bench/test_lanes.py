"""Several devices at once: which work in parallel, and what happens to the others."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.events import DeviceFailed, DeviceSelected, MeasurementEvent
from edgebench.host.bench.lanes import measure_side_by_side
from edgebench.host.bench.runs import DeviceRuns
from edgebench.host.bench.session import Target
from edgebench.host.devices.files import KnownDevice
from edgebench.host.result.facts import EnergyRequest
from edgebench.protocol.errors import Unreachable

WAIT_S = 10.0


@dataclass(frozen=True)
class Work:
    """What is done on one device."""

    target: Target
    act: Callable[[str, Cancellation], None]

    def measure(self, cancellation: Cancellation) -> None:
        """Perform the action."""
        self.act(self.target.device.name, cancellation)


def target(name: str, meter: str | None = None) -> Target:
    """Return a device, with a meter and perhaps the agent of the device."""
    meter, _, agent = (meter or "").partition(" of ")
    energy = EnergyRequest(meter=meter) if meter else None
    return Target(KnownDevice(name, name, agent or name, ("192.0.2.1",), 7747), energy)


def measure_on(
    targets: Sequence[Target], act: Callable[[str, Cancellation], None], parallel: int = 2
) -> list[MeasurementEvent]:
    """Do the same on all devices; return the events."""
    seen: list[MeasurementEvent] = []
    works = cast("list[DeviceRuns]", [Work(one, act) for one in targets])
    measure_side_by_side(works, seen.append, Cancellation(), parallel=parallel)
    return seen


def wait_for(cancellation: Cancellation) -> None:
    """Wait until the measurement is cancelled."""
    requested = threading.Event()
    with cancellation.performing(requested.set):
        assert requested.wait(WAIT_S)


def test_devices_work_at_the_same_time() -> None:
    """Otherwise ten boards would take ten nights."""
    together = threading.Barrier(3, timeout=WAIT_S)
    seen = measure_on([target(name) for name in "cab"], lambda *_: void(together.wait()), 3)
    assert seen == [DeviceSelected(name, 3) for name in "cab"]


def void(_: object) -> None:
    """Do nothing."""


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
    """Otherwise the meter of one board would record the other board's run."""
    lock, active, seen = threading.Lock(), set[str](), [0]
    full = threading.Event()

    def measure(name: str, _: Cancellation) -> None:
        with lock:
            active.add(name)
            seen[0] = max(seen[0], len(active))
            if len(active) == most:
                full.set()
        full.wait(WAIT_S)
        time.sleep(0.02)  # for a device that should not be there
        with lock:
            active.discard(name)

    targets = [target(f"d{i}", meter) for i, meter in enumerate(meters)]
    measure_on(targets, measure, parallel)
    assert seen[0] == most


def test_device_that_is_off_keeps_no_other_from_being_measured() -> None:
    """Otherwise one board without power would end the night."""
    measured: list[str] = []

    def measure(name: str, _: Cancellation) -> None:
        if name == "off":
            raise Unreachable("no answer")
        measured.append(name)

    seen = measure_on([target("off"), target("on")], measure)
    assert measured == ["on"]
    failed = [event for event in seen if isinstance(event, DeviceFailed)]
    assert [(event.device, str(event.error)) for event in failed] == [("off", "no answer")]


def test_error_of_the_only_device_is_the_command_s() -> None:
    """Otherwise a command for one device would end with success, and nothing measured."""

    def measure(_: str, __: Cancellation) -> None:
        raise Unreachable("no answer")

    with pytest.raises(Unreachable):
        measure_on([target("off")], measure)


def test_bug_in_one_lane_stops_the_others_and_is_seen() -> None:
    """Otherwise a thread would swallow a defect of ours."""

    def measure(name: str, cancellation: Cancellation) -> None:
        if name == "a":
            raise ZeroDivisionError
        wait_for(cancellation)
        raise Interrupted(None)

    with pytest.raises(ZeroDivisionError):
        measure_on([target("a"), target("b")], measure)


def ctrl_c_when(ready: Callable[[], object]) -> threading.Thread:
    """Press Ctrl-C when something is ready."""

    def press() -> None:
        ready()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_ctrl_c_stops_every_lane() -> None:
    """Otherwise the boards would measure on for hours."""
    together, stopped = threading.Barrier(3, timeout=WAIT_S), list[str]()

    def measure(name: str, cancellation: Cancellation) -> None:
        together.wait()
        wait_for(cancellation)
        stopped.append(name)
        raise Interrupted(None)

    thread = ctrl_c_when(together.wait)
    with pytest.raises(Interrupted):
        measure_on([target("a"), target("b")], measure)
    thread.join()
    assert sorted(stopped) == ["a", "b"]
