"""SPEC PTDaemon as a client, against a made-up daemon that is exact to the byte.

The made-up daemon was checked against mlcommons/power-dev by hand: the class `Ptd` of its server.py
started it, measured, and stopped it, at commit 0151270 (Hello, Identify, RR, SR, Go, Stop) and with
the later way to read samples (RL, Uncertainty, Watts). That code is on no package index, so no test
can install it.
"""

from __future__ import annotations

import math
import socket
import threading
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from support.agents import wait_until
from support.ptdaemon import PtdEmulator, PtdFaults
from support.recordings import Decoded, decoded

from edgebench.meters.base import AbsentMeter, Flag, Header
from edgebench.meters.ptdaemon import PtDaemonDecoder, sample_of
from edgebench.meters.registry import find_meter
from edgebench.meters.uncertainty import Kind
from edgebench.protocol.errors import TargetError, WrongMeterOption


def recorded(
    path: Path, faults: PtdFaults | None = None, *, samples: float = 8
) -> tuple[Decoded, str | None, PtdEmulator]:
    """A recording of so many samples, or until something ends it; and why it ended early."""
    with PtdEmulator(power_w=lambda time_s: 10 * time_s, faults=faults or PtdFaults()) as daemon:
        meter = find_meter(f"ptdaemon:{daemon.address}")
        assert isinstance(meter.open(), Header)
        with meter.session(path) as session:
            wait_until(lambda: daemon.read_count >= samples or session.trouble, "recording is over")
        meter.close()
    return decoded(path), session.trouble, daemon


def opened(ranges: str, interval_s: float = 1.0) -> Header:
    """Header of a daemon with these ranges."""
    with PtdEmulator(ranges=ranges, interval_s=interval_s) as daemon:
        meter = find_meter(f"ptdaemon:{daemon.address}")
        header = meter.open()
        meter.close()
        assert not daemon.is_measuring
        assert daemon.commands == ["Hello", "Identify", "RR"], "it only looks"
    assert isinstance(header, Header), header
    return header


@pytest.mark.parametrize("faults", [PtdFaults(), PtdFaults(pieces=True), PtdFaults(repeats=True)])
def test_samples_are_means_that_follow_each_other(tmp_path: Path, faults: PtdFaults) -> None:
    """Otherwise a sample would be read twice or not at all, or have another interval."""
    found, trouble, daemon = recorded(tmp_path / "r", faults)
    assert trouble is None
    assert not daemon.is_measuring, "it was stopped"
    assert "Go,100,0,edgebench" in daemon.commands
    count = len(found.power_w)
    assert count >= 8
    assert found.power_w == pytest.approx(10 * 0.1 * np.arange(1, count + 1))
    assert (found.begin_ns[1:] == found.time_ns[:-1]).all()
    assert (found.time_ns - found.begin_ns)[2:] / 1e9 == pytest.approx(0.1, abs=0.04)
    assert found.loss.lost_count == 0


@pytest.mark.parametrize(("late_s", "step_s"), [(0.0, 0.0), (0.8, 0.0), (0.0, 3600.0)])
def test_missed_samples_are_counted_by_the_clock_of_the_daemon(
    late_s: float, step_s: float
) -> None:
    """Otherwise a first sample that was read late, or a clock that was set, would hide a loss."""
    decoder = PtDaemonDecoder(opened("Ranges,1,-1.0,1,-1.0"))
    points = []
    for second in (1, 2, 3, 6, 7):
        stamp = datetime(2026, 1, 1) + timedelta(seconds=second + (step_s if second > 5 else 0))
        text = f"Time,{stamp:%d-%m-%Y %H:%M:%S}.000,Watts,5.0,Mark,x"
        rx_s = second + (late_s if second < 4 else 0.0)
        points += decoder.points([(round(rx_s * 1e9), text.encode())])
    assert [math.isnan(point.power_w) for point in points] == [False] * 3 + [True] * 2 + [False] * 2
    times_ns = [point.time_ns for point in points]
    assert times_ns == sorted(set(times_ns))


def test_sample_that_has_no_place_is_counted_with_the_loss_before_it() -> None:
    """Otherwise a first sample that was read later than the next one would hide a loss."""
    decoder = PtDaemonDecoder(opened("Ranges,1,-1.0,1,-1.0", interval_s=0.1))
    points = []
    for tenth, late_tenths in ((1, 5), (4, 0), (8, 0)):  # the second one ends before the first one
        stamp = f"01-01-2026 00:00:00.{tenth}00"
        text = f"Time,{stamp},Watts,5.0,Mark,x"
        rx_ns = 100_000_000 * (tenth + late_tenths)
        points += decoder.points([(rx_ns, text.encode())])
    assert [math.isnan(point.power_w) for point in points] == [False] + [True] * 6 + [False]


def test_samples_are_placed_where_they_were_taken(tmp_path: Path) -> None:
    """Otherwise a host that reads late, or another time zone, would shift every sample."""
    import time

    with PtdEmulator() as daemon:
        meter = find_meter(f"ptdaemon:{daemon.address}")
        meter.open()
        before_ns = time.perf_counter_ns()
        with meter.session(tmp_path / "r"):
            threading.Event().wait(0.7)
        after_ns = time.perf_counter_ns()
        meter.close()
    found = decoded(tmp_path / "r")
    taken_ns = found.time_ns[-1] - 100_000_000 * np.arange(len(found.time_ns))[::-1]
    assert found.time_ns[3:] == pytest.approx(taken_ns[3:], abs=30_000_000)
    assert before_ns < found.begin_ns[0] + 60_000_000
    assert found.time_ns[-1] < after_ns


def test_header_says_what_the_analyser_is() -> None:
    """Otherwise an analyser's mean would pass for an instant, or lack its range error."""
    header = opened("Ranges,0,0.5,0,300.0")
    capability = header.capability
    assert header.info.model == "YokogawaWT310E-C3UB12345E"
    assert header.info.firmware.startswith("1.11.1")
    assert capability.is_averaging
    assert (capability.rate_hz, capability.min_window_s) == (1.0, 20.0)
    values = {term.kind: term.value for term in header.uncertainty}
    assert values == {Kind.GAIN: 0.01, Kind.OFFSET: pytest.approx(0.15), Kind.EDGE: 1.0}
    unknown = {term.kind for term in opened("Ranges,1,-1.0,1,-1.0").uncertainty}
    assert unknown == {Kind.GAIN, Kind.EDGE}


@pytest.mark.parametrize("words", ["0,inf,0,300", "0,0.5,0,1e300", "0,1e300,0,1e-3", "0,1,0,nan"])
def test_range_that_no_analyser_has_is_not_known(words: str) -> None:
    """Otherwise an infinite error would be stored as that of an analyser."""
    kinds = {term.kind for term in opened(f"Ranges,{words}").uncertainty}
    assert kinds == {Kind.GAIN, Kind.EDGE}


def test_samples_that_are_missing_stay_missing(tmp_path: Path) -> None:
    """Otherwise a hole would be filled with its surroundings, or -1 W be taken for a power."""
    faults = PtdFaults(lost=range(3, 5), not_given=(1,))
    found, trouble, _ = recorded(tmp_path / "r", faults)
    assert trouble is None
    is_missing = (found.flags & Flag.MISSING) != 0
    assert np.flatnonzero(is_missing).tolist() == [1, 3, 4]
    assert np.isnan(found.power_w[is_missing]).all()
    good = found.power_w[~is_missing]
    assert good == pytest.approx([1.0, 3.0, *(10 * 0.1 * np.arange(6, 6 + len(good) - 2))])
    assert found.loss.lost_count == 3


def test_clock_that_is_set_back_loses_no_sample(tmp_path: Path) -> None:
    """Otherwise samples after the end of summer time would pass for samples already read."""
    found, trouble, _ = recorded(tmp_path / "r", PtdFaults(set_back_at=4))
    assert trouble is None
    good = found.power_w[found.flags == 0]
    assert good == pytest.approx(10 * 0.1 * np.arange(1, len(good) + 1))
    assert (np.diff(found.time_ns) > 0).all()


def test_direct_current_analyser_is_asked_in_its_own_way(tmp_path: Path) -> None:
    """Otherwise a daemon for direct current would refuse to be read."""
    found, trouble, daemon = recorded(tmp_path / "r", PtdFaults(is_direct=True))
    assert trouble is None
    assert "DC-RL" in daemon.commands
    assert len(found.power_w) >= 8


def test_daemon_that_goes_away_costs_nothing_that_was_read(tmp_path: Path) -> None:
    """Otherwise a recording would be lost with the connection."""
    found, trouble, _ = recorded(tmp_path / "r", PtdFaults(gone_after=4), samples=math.inf)
    assert trouble is not None
    assert "closed the connection" in trouble or "is gone" in trouble  # closed, or reset
    assert found.power_w[:4] == pytest.approx([1.0, 2.0, 3.0, 4.0])


def test_analyser_that_falls_silent_ends_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a run would be waited for without end."""
    monkeypatch.setattr("edgebench.meters.ptdaemon._RESPONSE_S", 0.2)
    found, trouble, daemon = recorded(tmp_path / "r", PtdFaults(silent_after=3), samples=math.inf)
    assert trouble == "PTDaemon delivered no sample for 0.7 s"
    assert len(found.power_w) == 3
    assert not daemon.is_measuring


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        (PtdFaults(hello="220 mail ready"), "not a PTDaemon: it replied '220 mail ready'"),
        (PtdFaults(mode="temperature"), "has YokogawaWT310E-C3UB12345E, not a power analyser"),
    ],
)
def test_what_is_no_analyser_says_why(faults: PtdFaults, said: str) -> None:
    """Otherwise the port of the thermometer would give watts."""
    with PtdEmulator(faults=faults) as daemon:
        found = find_meter(f"ptdaemon:{daemon.address}").open()
    assert isinstance(found, AbsentMeter)
    assert said in found.reason


def test_measurement_of_somebody_else_is_not_ended(tmp_path: Path) -> None:
    """Otherwise ours would stop an MLPerf run on the same daemon."""
    with PtdEmulator(faults=PtdFaults(busy=True)) as daemon:
        meter = find_meter(f"ptdaemon:{daemon.address}")
        meter.open()
        with pytest.raises(TargetError, match="did not start a measurement: Error: measurement al"):
            meter.session(tmp_path / "r").__enter__()
        meter.close()
    assert "Stop" not in daemon.commands


def test_address_without_a_daemon_says_so() -> None:
    """Otherwise a wrong address would be a traceback, or wait for minutes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    nameless = find_meter("ptdaemon").open()
    assert isinstance(nameless, AbsentMeter)
    assert "as in ptdaemon:192.168.1.9" in nameless.reason
    with pytest.raises(WrongMeterOption, match="address must be HOST or HOST:PORT, got 'lab:x'"):
        find_meter("ptdaemon:lab:x")
    found = find_meter(f"ptdaemon:127.0.0.1:{port}").open()
    assert isinstance(found, AbsentMeter)
    assert found.reason == f"no PTDaemon at 127.0.0.1:{port}: Connection refused"


@pytest.mark.parametrize("line", [b"", b"Watts,1", b"Time,x,Watts,1", b"Time,1,2", b"\xff,\xff"])
def test_line_that_is_no_sample_is_none(line: bytes) -> None:
    """Otherwise a damaged recording could not be read at all."""
    assert sample_of(line) is None


def test_first_watts_are_those_of_all_channels() -> None:
    """Otherwise one phase of a multichannel analyser would be taken for the sum."""
    line = b"Time,01-01-1970 00:00:01.000,Watts,30.0,Watts,10.0,Watts,20.0,Mark,x"
    assert sample_of(line) == (1_000_000_000, 30.0)
