"""Publishing the live status: what a run writes, and that every event is forwarded."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.records import RUN_ID, store_run

from edgebench.host.bench import events
from edgebench.host.bench.live import publish_status
from edgebench.host.store.layout import Store
from edgebench.host.store.live import LiveDevice, LiveReader
from edgebench.protocol.errors import LeaseHeld, LinkLost
from edgebench.protocol.messages import Progress, Telemetry
from edgebench.protocol.record import Phase, PhaseProgress, ProgressUnit


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store."""
    return Store(tmp_path)


def now(store: Store) -> LiveDevice:
    """Return the status of the only device, as an observer reads it."""
    reader = LiveReader(store)
    reader.poll()
    [source] = reader.sources.values()
    [device] = source.devices.values()
    return device


def test_a_run_is_published_phase_by_phase(store: Store) -> None:
    """Otherwise the page would show another phase, or the temperature of a run that is over."""
    store_run(store)
    seen: list[events.MeasurementEvent] = []
    with publish_status(store, "bench", seen.append) as notify:
        notify(events.DeviceSelected("pi5", 1))
        notify(events.DeviceBusy("pi5", LeaseHeld("in use by desk"), 60.0))
        assert (now(store).state, now(store).reason) == ("waiting", "in use by desk")
        place = events.Place(2, 5, "threads 2")
        notify(events.RunBegan("pi5", "pi5", "m.tflite", "litert", place))
        begun = now(store)
        assert (begun.state, begun.reason, begun.phase) == ("measuring", "", None)
        assert (begun.model, begun.number, begun.count) == ("m.tflite", 2, 5)
        notify(events.PhaseReport("pi5", Progress("r1", Phase.MEASURING, 10.0)))
        telemetry = Telemetry("r1", 1, temp_c=61.5, freq_hz=1.5e9)
        notify(events.TelemetryReport("pi5", telemetry))
        shown = now(store)
        assert (shown.run_id, shown.phase, shown.expected_s) == ("r1", Phase.MEASURING, 10.0)
        assert (shown.temp_c, shown.freq_hz) == (61.5, 1.5e9)
        reached = PhaseProgress(3, 9, ProgressUnit.WINDOWS)
        notify(events.PhaseReport("pi5", Progress("r1", Phase.MEASURING, reached=reached)))
        assert (now(store).reached, now(store).phase_begun_utc) == (reached, shown.phase_begun_utc)
        notify(events.RunStored("pi5", store.run(RUN_ID)))
        ended = now(store)
        assert (ended.state, ended.phase, ended.temp_c) == ("between_runs", None, None)
        assert (ended.run_id, ended.stored_count) == (RUN_ID, 1)
        notify(events.RunBegan("pi5", "pi5", "m.tflite", "litert", events.Place(3, 5)))
        assert now(store).runs_left_s is not None
        notify(events.DeviceFailed("pi5", LinkLost("cable")))
        assert (now(store).state, now(store).reason) == ("failed", "cable")
    assert len(seen) == 9, "every event is passed on"


def test_failures_are_raised_if_nothing_else_consumes_them(store: Store) -> None:
    """Otherwise a script would take a failed run for a success."""
    with publish_status(store, "bench", events.raise_failures) as notify:
        notify(events.DeviceSelected("pi5", 1))
        with pytest.raises(LinkLost):
            notify(events.RunFailed("pi5", "m.tflite", "litert", LinkLost("cable")))
        assert now(store).failed_count == 1
