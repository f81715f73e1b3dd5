"""Sessions end whatever fails: the disk, the driver's library, or a read that never returns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgpack
import pytest
from support.energy import header

from edgebench.meters import recorder
from edgebench.meters.base import MeterSession
from edgebench.meters.polled import PolledSession
from edgebench.meters.recorder import Recorder
from edgebench.meters.spool import SpoolWriter, read_packets
from edgebench.meters.stream import StreamSession

HEADER = header(rate_hz=1000.0)
Read = Callable[[], bytes]


class Line:
    """A transport whose reads a test decides on."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.stopped_count = 0

    def read(self, timeout_s: float) -> bytes:
        """What the test says."""
        return self._read()

    def write(self, data: bytes) -> None:
        """Nobody listens."""

    def close(self) -> None:
        """Nothing is held."""

    def stop(self) -> None:
        """Told to stop."""
        self.stopped_count += 1


def streamed(read: Read, path: Path) -> StreamSession:
    """A session of a meter that sends."""
    line = Line(read)
    return StreamSession(line, HEADER, path, start=lambda: None, stop=line.stop)


def polled(read: Read, path: Path) -> PolledSession:
    """A session of a meter that is asked."""
    return PolledSession(lambda: [(1, read())], HEADER, path)


Make = Callable[[Read, Path], MeterSession]
both = pytest.mark.parametrize("make", [streamed, polled])


@both
@pytest.mark.filterwarnings("error")
def test_library_that_raises_what_it_likes_ends_the_recording(make: Make, tmp_path: Path) -> None:
    """The thread dies, nobody notices, and half a stream looks whole."""
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
    """What was buffered does not fit, and the run with all its latencies is not collected."""
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
    """A hung sensor keeps the run, its lease and the device for ever."""
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
    assert session.recording().trouble == "the meter has not answered for 0.05 s"
    assert isinstance(session, Recorder)
    assert len(list(read_packets(tmp_path / "spool"))) == 2
    released.set()
    session._thread.join(10)
    assert len(list(read_packets(tmp_path / "spool"))) == 2, "nothing is written behind the end"
