"""Sessions end whatever fails: the disk, the driver's library, or a read that never returns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import pytest
from support.energy import header

from edgebench.meters import recorder, stream
from edgebench.meters.base import MeterSession
from edgebench.meters.polled import PolledSession
from edgebench.meters.recorder import Recorder
from edgebench.meters.spool import SpoolWriter, read_packets
from edgebench.meters.stream import StreamSession
from edgebench.protocol.errors import TargetError

HEADER = header(rate_hz=1000.0)
Read = Callable[[], bytes]
NOT_STARTED = "can't start new thread"


class Line:
    """A transport whose reads the test controls."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.stopped_count = 0

    def read(self, timeout_s: float) -> bytes:
        """The data that the test provides."""
        return self._read()

    def write(self, data: bytes) -> None:
        """Ignore the data."""

    def close(self) -> None:
        """Close nothing."""

    def stop(self) -> None:
        """Count the call."""
        self.stopped_count += 1


def streamed(read: Read, path: Path) -> StreamSession:
    """A session of a meter that streams."""
    line = Line(read)
    return StreamSession(line, HEADER, path, start=lambda: None, stop=line.stop)


def polled(read: Read, path: Path) -> PolledSession:
    """A session of a meter that is polled."""
    return PolledSession(lambda: [(1, read())], HEADER, path)


Make = Callable[[Read, Path], MeterSession]
both = pytest.mark.parametrize("make", [streamed, polled])


@both
@pytest.mark.filterwarnings("error")
def test_library_that_raises_what_it_likes_ends_the_recording(make: Make, tmp_path: Path) -> None:
    """Otherwise the thread would die unnoticed, and half a stream look whole."""
    answers: Iterator[bytes] = iter([b"one", b"two"])

    def read() -> bytes:
        found = next(answers, None)
        if found is None:
            raise ValueError("VI_ERROR\nof a sort")
        return found

    session = make(read, tmp_path / "spool")
    with session:
        while session.trouble is None:
            threading.Event().wait(0.001)
    assert session.recording().trouble == "the meter's driver failed: VI_ERROR of a sort"
    packets = [packet.data for packet in read_packets(tmp_path / "spool")]
    assert packets in ([b"one", b"two"], [msgpack.packb([(1, one)]) for one in (b"one", b"two")])


@both
def test_disk_that_is_full_at_the_end_is_a_trouble(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a buffer that does not fit would lose the run with all its latencies."""
    close = SpoolWriter.close

    def full(writer: SpoolWriter) -> None:
        close(writer)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(SpoolWriter, "close", full)
    session = make(lambda: b"data", tmp_path / "spool")
    with session:
        pass
    trouble = session.recording().trouble
    assert trouble is not None
    assert trouble.startswith("recording cannot be written: No space left on device")


@both
def test_read_that_never_returns_holds_no_run(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a hung sensor would keep the run, its lease and the device for ever."""
    monkeypatch.setattr(recorder, "JOIN_S", 0.05)
    released, is_hung = threading.Event(), threading.Event()
    began: list[int] = []

    def read() -> bytes:
        began.append(1)
        if len(began) > 2:
            is_hung.set()
            released.wait()
        return b"data"

    session = make(read, tmp_path / "spool")
    with session:
        assert is_hung.wait(10)
    assert session.recording().trouble == "the meter did not respond within 0.05 s"
    assert isinstance(session, Recorder)
    assert len(list(read_packets(tmp_path / "spool"))) == 2
    released.set()
    session._thread.join(10)
    assert len(list(read_packets(tmp_path / "spool"))) == 2, "nothing is written behind the end"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("VI_ERROR"), TargetError("no")])
def test_start_that_fails_half_way_is_undone(error: BaseException, tmp_path: Path) -> None:
    """Otherwise the device would have its supply, and the meter send, long after a failed start."""
    done: list[str] = []

    def start() -> None:
        done.append("start")
        raise error

    line = Line(lambda: b"data")
    session = StreamSession(
        line, HEADER, tmp_path / "spool", start=start, stop=lambda: done.append("stop")
    )
    with pytest.raises(type(error)) as caught, session:
        raise AssertionError
    assert caught.value is error
    assert done == ["start", "stop"]
    assert not (tmp_path / "spool").exists()


@both
def test_system_without_a_thread_left_is_undone(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise what was begun would go on, as no thread is left to end it."""
    session = make(lambda: b"data", tmp_path / "spool")
    stopped: list[int] = []
    assert isinstance(session, Recorder)
    monkeypatch.setattr(session, "_finish", lambda: stopped.append(1))

    def start(thread: threading.Thread) -> None:
        raise RuntimeError(NOT_STARTED)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match=NOT_STARTED), session:
        raise AssertionError
    assert stopped == [1]
    assert not (tmp_path / "spool").exists()


class Interrupted(threading.Event):
    """An event whose wait is interrupted by Ctrl-C, and once more."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_count = 0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait, but not at the first calls."""
        self.waited_count += 1
        if self.waited_count < 3:
            raise KeyboardInterrupt
        return super().wait(timeout)


def test_ctrl_c_while_it_ends_stops_the_meter_all_the_same(tmp_path: Path) -> None:
    """Otherwise a second Ctrl-C would leave the device's supply on.

    Or two threads would use the device.
    """
    done = Interrupted()
    stopped: list[bool] = []
    session = StreamSession(
        Line(lambda: b"data" if done.waited_count == 0 else b""),
        HEADER,
        tmp_path / "spool",
        start=lambda: None,
        stop=lambda: stopped.append(done.is_set()),
    )
    session._is_done = done
    with pytest.raises(KeyboardInterrupt), session:
        pass
    assert stopped == [True], "once, and behind the thread's last read"


class Clock:
    """A clock that advances as a test reads."""

    def __init__(self) -> None:
        self.now_ns = 0

    def perf_counter_ns(self) -> int:
        """The time."""
        return self.now_ns

    def silence(self) -> bytes:
        """A second without a byte."""
        self.now_ns += 1_000_000_000
        return b""


@pytest.mark.parametrize(("rate_hz", "silent_s"), [(1000.0, 2), (1.0, 3), (0.2, 15)])
def test_slow_meter_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate_hz: float, silent_s: int
) -> None:
    """Otherwise a sound meter with a value in five seconds would be given up after two."""
    clock = Clock()
    monkeypatch.setattr(stream, "time", clock)
    session = StreamSession(
        Line(clock.silence),
        header(rate_hz=rate_hz),
        tmp_path / "spool",
        start=lambda: None,
        stop=lambda: None,
    )
    with session:
        session._thread.join(10)
    assert session.trouble == f"the meter sent nothing for {silent_s} s"
    assert clock.now_ns == (silent_s + 1) * 1e9
