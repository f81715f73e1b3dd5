"""Publishing the live status: what a run writes, and that every event is forwarded."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.records import RUN_ID, store_run

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.live import publish_status
from edgebench.host.bench.watcher import Place, Watcher
from edgebench.host.store.layout import Store
from edgebench.host.store.live import LiveDevice, LiveReader
from edgebench.protocol.errors import EdgebenchError, LeaseHeld, LinkLost
from edgebench.protocol.messages import Progress, Telemetry
from edgebench.protocol.record import Phase, PhaseProgress, ProgressUnit


class Recorder(Watcher):
    """Records the events that it receives."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def for_device(self, device: str, device_count: int) -> Watcher:
        """The same watcher for every device."""
        del device, device_count
        return self

    def progress(self, progress: Progress) -> None:
        """The run entered a phase."""
        self.events.append(progress.phase.value)

    def telemetry(self, telemetry: Telemetry) -> None:
        """The device sent its temperature."""
        self.events.append(f"{telemetry.temp_c}")

    def push_progress(self, done: int, total: int) -> None:
        """Bytes of the model."""
        self.events.append(f"{done} of {total}")

    def device_failed(self, device: str, error: EdgebenchError) -> None:
        """A device was given up."""
        self.events.append(f"{device}: {error}")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store."""
    return Store(tmp_path)


def now(store: Store) -> LiveDevice:
    """Status of the only device, as an observer reads it."""
    reader = LiveReader(store)
    reader.poll()
    [source] = reader.sources.values()
    [device] = source.devices.values()
    return device


def test_a_run_is_published_phase_by_phase(store: Store) -> None:
    """The page shows another phase, or the temperature of a run that is over."""
    store_run(store)
    watcher, model = Recorder(), find_model("digits_int8.tflite")
    with publish_status(store, "bench", watcher) as publisher:
        one = publisher.for_device("pi5", 1)
        one.device_busy("pi5", LeaseHeld("in use by desk"), 60.0)
        assert (now(store).state, now(store).reason) == ("waiting", "in use by desk")
        one.run_started("pi5", model, "litert", Place(2, 5, "threads 2"))
        begun = now(store)
        assert (begun.state, begun.reason, begun.phase) == ("measuring", "", None)
        assert (begun.model, begun.number, begun.count) == (model.name, 2, 5)
        one.push_progress(1, 2)
        one.notice(Progress("r1", Phase.MEASURING, 10.0))
        one.notice(Telemetry("r1", 1, temp_c=61.5, freq_hz=1.5e9))
        seen = now(store)
        assert (seen.run_id, seen.phase, seen.expected_s) == ("r1", Phase.MEASURING, 10.0)
        assert (seen.temp_c, seen.freq_hz) == (61.5, 1.5e9)
        reached = PhaseProgress(3, 9, ProgressUnit.WINDOWS)
        one.progress(Progress("r1", Phase.MEASURING, reached=reached))
        assert (now(store).reached, now(store).phase_begun_utc) == (reached, seen.phase_begun_utc)
        one.run_finished(store.run(RUN_ID))
        ended = now(store)
        assert (ended.state, ended.phase, ended.temp_c) == ("between_runs", None, None)
        assert (ended.run_id, ended.stored_count) == (RUN_ID, 1)
        one.run_started("pi5", model, "litert", Place(3, 5))
        assert now(store).runs_left_s is not None
        publisher.device_failed("pi5", LinkLost("cable"))
        assert (now(store).state, now(store).reason) == ("failed", "cable")
    assert watcher.events == ["1 of 2", "measuring", "61.5", "measuring", "pi5: cable"]


def test_failures_are_raised_if_the_watcher_ignores_them(store: Store) -> None:
    """A failed run goes unnoticed: a script without a watcher takes it for a success."""
    model = find_model("digits_int8.tflite")
    with publish_status(store, "bench", Watcher()) as publisher, pytest.raises(LinkLost):
        publisher.for_device("pi5", 1).run_failed(model, "litert", LinkLost("cable"))
    assert now(store).failed_count == 1
