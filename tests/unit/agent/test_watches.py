"""Watchers of seats, below the network."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.records import DEVICE

from edgebench.agent import server, watches
from edgebench.agent.server import ConnectionHandler
from edgebench.agent.telemetry import sampler
from edgebench.agent.telemetry.job import UNWATCHED, WATCHED, LiveReading, LiveSample, SamplerJob
from edgebench.agent.telemetry.live import Observer
from edgebench.agent.watches import Notice, Watches
from edgebench.protocol import messages as m
from edgebench.protocol.live import MAX_SAMPLES, unpack_samples
from edgebench.protocol.record import Phase

SENSORS = ("thermal.cpu.0.temp_c", "cpufreq.policy0.freq_hz")
JOB = SamplerJob(1, zones=("cpu",), freq_sources=("scaling_cur_freq",))


def live_of(printed: str) -> LiveReading:
    """The reading in a sampler's line."""
    from edgebench.agent.telemetry.process import _message

    message = _message(printed.encode())
    assert isinstance(message, LiveReading)
    return message


class FakeSeat:
    """A seat without a device."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.running: str | None = None
        self.phase: Phase | None = None
        self.is_there = True
        self.lease = SimpleNamespace(holder=None)
        self.surroundings = SimpleNamespace(load_1m=lambda: 0.5, temp_c=lambda: 40.0)
        self.runner = SimpleNamespace(watch=self._watch)
        self.on_reading: Any = None

    def _watch(self, on_reading: Any) -> None:
        self.on_reading = on_reading

    def state(self) -> m.SeatState:
        """The state, for watchers."""
        return m.SeatState(self.name, DEVICE, running=self.running, phase=self.phase)


class FakeConnection:
    """A connection whose other end does not read."""

    def __init__(self) -> None:
        self.peer = SimpleNamespace(name="mallory")
        self.transport = SimpleNamespace(abort=self._abort)
        self.is_aborted = False
        self.pending = 0

    def _abort(self) -> None:
        self.is_aborted = True

    async def send(self, data: bytes) -> None:
        """Never complete."""
        self.pending += len(data)
        await asyncio.Event().wait()


def test_samples_are_kept_only_while_somebody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a run would pay for absent watchers, or a batch would lack or repeat samples."""
    observer = Observer(SENSORS, JOB)
    observer.report(0, [50.0, 1e9])
    for number in range(1, 11):
        observer.keep(number * 100_000_000, [50.0 + number, 1e9])
    observer.report(1_000_000_001, [60.5, 1e9])
    observer.report(2_000_000_000, [61.0, 1e9])
    first, second, third = map(live_of, capsys.readouterr().out.splitlines())
    assert (first.samples, third.samples) == ((), ())
    assert second.samples == tuple(
        LiveSample(number * 100_000_000, 50.0 + number, 1e9) for number in range(1, 11)
    )


def test_fast_sampler_sends_no_more_than_fits_into_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Otherwise, at 100 Hz, the line would be longer than the daemon reads, and be lost."""
    observer = Observer(SENSORS, JOB)
    for number in range(100):
        observer.keep(number * 10_000_000, [50.0, 1e9])
    observer.report(1_000_000_000, [50.0, 1e9])
    for number in range(1000):  # a look that was very late
        observer.keep(10**18 + number * 10**9, [50.123456789, 1234567890.0])
    observer.report(2 * 10**18, [50.0, 1e9])
    lines = capsys.readouterr().out.splitlines()
    assert len(live_of(lines[0]).samples) in (10, 11, 12)
    assert len(live_of(lines[1]).samples) == MAX_SAMPLES
    assert len(lines[1]) < 4096


def test_clock_that_is_a_mean_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a mean over a tenth of a second, off by a tenth, would look like throttling."""
    sensors = ("thermal.cpu.0.temp_c", "cpufreq.policy0.cycles")
    observer = Observer(sensors, SamplerJob(1, zones=("cpu",), freq_sources=("time_in_state",)))
    observer.report(1, [50.0, 0.0])
    for number in range(1, 4):
        observer.keep(number * 10**8, [50.0, number * 1e8])
    observer.report(10**9, [50.0, 1e9])
    samples = live_of(capsys.readouterr().out.splitlines()[1]).samples
    assert [sample.freq_hz for sample in samples] == [None, None, pytest.approx(1e9)]


@contextmanager
def as_stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The other end of standard input."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield write_end


def test_sampler_hears_that_somebody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a message to the sampler would end it, or the end of the daemon would not."""
    observer = Observer(SENSORS, JOB)
    with as_stdin(monkeypatch) as write_end:
        heard = []
        for words in (b"", WATCHED, UNWATCHED, WATCHED + UNWATCHED + WATCHED):
            os.write(write_end, words)
            assert sampler._wait_until(time.monotonic() + 0.02, observer)
            while select.select([sys.stdin], [], [], 0)[0]:  # a busy machine: the time was over
                assert sampler._wait_until(time.monotonic() + 0.02, observer)
            heard.append(observer.is_watched)
        os.close(write_end)
        assert not sampler._wait_until(time.monotonic() + 60.0, observer)
    assert heard == [False, True, False, True]


def test_watcher_that_does_not_read_is_cut_off() -> None:
    """Otherwise notices for a host that hangs would fill the memory of the device."""

    async def push() -> FakeConnection:
        connection = FakeConnection()
        agent = cast(Any, SimpleNamespace(first=None))
        handler = ConnectionHandler(agent, cast(Any, connection))
        data = bytes(1024)
        for _ in range(server.MAX_BEHIND_BYTES // len(data)):
            handler._push_bounded(data)
        await asyncio.sleep(0)
        assert not connection.is_aborted
        assert connection.pending == server.MAX_BEHIND_BYTES
        handler._push_bounded(data)
        await asyncio.sleep(0)
        assert connection.pending == server.MAX_BEHIND_BYTES
        for task in handler._sends:
            task.cancel()
        return connection

    assert asyncio.run(push()).is_aborted


def test_nothing_is_done_while_nobody_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an agent that was watched once would read its sensors for ever."""
    monkeypatch.setattr(watches, "PERIOD_S", 0.01)
    told: list[tuple[Notice, bytes]] = []

    def send(notice: Notice, payload: bytes) -> None:
        told.append((notice, payload))

    async def watch() -> None:
        seats: Any = [FakeSeat("a"), FakeSeat("b")]
        all_of_them = Watches()
        [state] = all_of_them.add(seats[:1], send)
        assert state.name == "a"
        assert (seats[0].on_reading is None, seats[1].on_reading is None) == (False, True)
        while len(told) < 2:
            await asyncio.sleep(0.005)
        all_of_them.remove(send)
        assert seats[0].on_reading is None
        count = len(told)
        await asyncio.sleep(0.05)
        assert len(told) == count
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(watch())
    notice, payload = told[0]
    assert isinstance(notice, m.SeatReadings)
    assert (notice.seat, notice.run_id, notice.load_1m) == ("a", None, 0.5)
    assert unpack_samples(payload, notice.sample_count).temp_c == (40.0,)


def test_seat_that_takes_the_place_of_a_forgotten_one_is_watched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a page would show a board as gone for ever, if another had its name before."""
    monkeypatch.setattr(watches, "PERIOD_S", 60.0)
    told: list[Notice] = []

    async def watch() -> None:
        seats: Any = [FakeSeat("a"), FakeSeat("a")]
        all_of_them = Watches()
        all_of_them.add(seats[:1], lambda notice, _: told.append(notice), is_for_all=True)
        seats[0].is_there = False
        all_of_them.seat_changed(seats[0])
        all_of_them.seat_changed(seats[1])
        seats[1].running = "run-1"
        seats[1].on_reading(LiveReading(5, 50.0, 1e9))

    asyncio.run(watch())
    *_, changed, readings = told
    assert isinstance(changed, m.SeatChange)
    assert changed.state.running == "run-1"
    assert isinstance(readings, m.SeatReadings)
    assert readings.sample_count == 1


def test_change_of_state_comes_before_readings_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a run would begin unannounced, or the page redraw its state each second."""
    monkeypatch.setattr(watches, "PERIOD_S", 60.0)
    told: list[Notice] = []

    async def watch() -> None:
        seats: Any = [FakeSeat("a")]
        all_of_them = Watches()
        all_of_them.add(seats, lambda notice, _: told.append(notice))
        reading = LiveReading(5, 50.0, 1e9, (LiveSample(4, 49.0, 1e9), LiveSample(5, 50.0, 1e9)))
        seats[0].on_reading(reading)
        seats[0].running, seats[0].phase = "run-1", Phase.MEASURING
        seats[0].on_reading(LiveReading(6, 50.0, 1e9))
        seats[0].on_reading(reading)  # older than what was reported

    asyncio.run(watch())
    assert [type(one) for one in told] == [
        m.SeatReadings,
        m.SeatChange,
        m.SeatReadings,
        m.SeatReadings,
    ]
    counts = [one.sample_count for one in told if isinstance(one, m.SeatReadings)]
    assert counts == [2, 1, 0]
