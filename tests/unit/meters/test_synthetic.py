"""The synthetic meter: its energy is known before it is recorded."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recordings import Decoded, decoded

from edgebench.meters.base import Floats, Header, Packet
from edgebench.meters.options import Options
from edgebench.meters.registry import find_meter
from edgebench.meters.spool import SpoolWriter
from edgebench.meters.stream import StreamSession
from edgebench.meters.synthetic import follow
from edgebench.meters.synthetic.decoder import SyntheticDecoder
from edgebench.meters.synthetic.device import Generator, Synthetic, make_meter
from edgebench.meters.synthetic.follow import Follower, WorkerTime
from edgebench.meters.synthetic.waveform import Waveform, settings_of
from edgebench.protocol.errors import UsageError

SECOND_NS = 1_000_000_000


def meter_of(text: str) -> Synthetic:
    """The meter for this text."""
    return make_meter(Options.parse("synthetic", text))


def generator_of(text: str, now_ns: int = 0) -> Generator:
    """A generator started at 0, with this as the current time."""
    times = iter([0])
    made = Generator(settings_of(Options.parse("synthetic", text)), lambda: next(times, now_ns))
    made.start()
    return made


def record(path: Path, text: str, seconds: float) -> Decoded:
    """A recording of this duration, without waiting for it."""
    generator = generator_of(text, round(seconds * SECOND_NS))
    with SpoolWriter(path, meter_of(text).open()) as writer:
        while data := generator.read(0.0):
            writer.append(Packet(0, 0, data))
    return decoded(path)


def energy_j(found: Decoded) -> float:
    """Sum of the rectangles."""
    return float(np.dot(found.power_w, found.time_ns - found.begin_ns) / 1e9)


@pytest.mark.parametrize(
    ("text", "known_j"),
    [
        ("constant,power=0.5", 1.5),
        ("square,low=0.2,high=1.0,period=0.1,duty=0.25", 3 * (0.2 + 0.25 * 0.8)),
        ("square,low=0.2,high=1.0,period=0.0331,duty=0.37,rate=777", None),
        ("ramp,low=1,high=3,period=0.5", 6.0),
        ("ramp,low=0,high=3,period=6", 2.25),
    ],
)
def test_energy_is_the_known_one(tmp_path: Path, text: str, known_j: float | None) -> None:
    """Otherwise a gate would be tested against a number that is itself wrong by a sample."""
    found = record(tmp_path / "recording", text, 3.0)
    waveform = settings_of(Options.parse("synthetic", text)).waveform
    assert found.time_ns[-1] == 3 * SECOND_NS
    assert energy_j(found) == pytest.approx(float(waveform.energy_j(np.array(3.0))), rel=1e-9)
    if known_j is not None:
        assert energy_j(found) == pytest.approx(known_j, rel=1e-9)


@given(
    st.sampled_from(["square", "ramp"]),
    st.floats(1e-3, 10),
    st.floats(0, 1),
    st.floats(0, 100),
)
def test_integral_is_the_area_under_the_waveform(
    shape: Literal["square", "ramp"], period_s: float, duty: float, end_s: float
) -> None:
    """Otherwise a wrong formula in the middle of a period would go unnoticed by the tests."""
    waveform = Waveform(
        shape=shape,
        low_w=0.5,
        high_w=2.0,
        period_s=period_s,
        duty_ratio=duty,
    )
    whole, part = divmod(end_s, period_s)
    is_ramp = shape == "ramp"
    mean = 0.5 if is_ramp else duty
    inside = part**2 / 2 / period_s if is_ramp else min(part, duty * period_s)
    expected = 0.5 * end_s + 1.5 * (whole * mean * period_s + inside)
    assert float(waveform.energy_j(np.array(end_s))) == pytest.approx(expected, abs=1e-9)


def test_noise_is_repeatable_however_it_is_read() -> None:
    """Otherwise a demonstration would show another number each time.

    Or the size of a read would change the values.
    """
    text = "constant,power=1,noise=0.1,seed=7"
    whole = generator_of(text).samples(1000)
    other = generator_of(text)
    parts = np.concatenate([other.samples(count) for count in (1, 9, 490, 500)])
    assert np.array_equal(whole, parts)
    assert whole.std() == pytest.approx(0.1, rel=0.1)
    assert not np.array_equal(whole, generator_of(text + "1").samples(1000))


def test_split_sample_is_put_together() -> None:
    """Otherwise a read that ends in a value would turn every later value into noise."""
    decoder = SyntheticDecoder(meter_of("ramp").open())
    data = np.arange(5.0).tobytes()
    blocks = [b for at in range(0, 40, 7) for b in decoder.feed(Packet(0, 0, data[at : at + 7]))]
    assert list(np.concatenate([block.power_w for block in blocks])) == [0, 1, 2, 3, 4]
    assert [block.index0 for block in blocks] == [0, 1, 2, 3, 4]


def test_wrong_clock_is_seen() -> None:
    """Otherwise no meter could make the rate check fail."""
    text = "constant,rate=1000,error=5000"
    decoder = SyntheticDecoder(meter_of(text).open())
    for second in range(11):
        count = round(1005 * (second > 0))
        decoder.feed(Packet(0, second * SECOND_NS, bytes(8 * count)))
    assert decoder.loss().rate_error_ppm == pytest.approx(5000, abs=50)
    made = generator_of(text, 2 * SECOND_NS).read(0.0)
    assert abs(len(made) / 8 - 2010) <= 1


@pytest.mark.parametrize("early", [range(3), (0.9, 1.5, 2.1)])
def test_rate_of_three_seconds_is_known(early: tuple[float, ...]) -> None:
    """Otherwise the default self-test would have no rate: the first arrivals are 1.2 s apart."""
    decoder = SyntheticDecoder(meter_of("constant,rate=100").open())
    for tick in range(301):
        late_ns = 0 if tick / 100 in early else 1_000_000
        decoder.feed(Packet(0, tick * 10_000_000 + late_ns, bytes(8 * (tick > 0))))
    loss = decoder.loss()
    assert loss.rate_error_ppm == pytest.approx(0, abs=500)
    assert loss.rate_span_s == pytest.approx(2.75, abs=0.26)


def test_nobody_takes_it_for_a_meter() -> None:
    """Otherwise a demonstration's numbers could be published as a measurement."""
    header = find_meter("synthetic").open()
    assert isinstance(header, Header)
    assert "nothing is measured" in header.info.model
    assert [channel.boundary for channel in header.capability.channels] == ["synthetic"]
    assert all("nothing is measured" in term.reference for term in header.uncertainty)
    assert header.capability.clock_domain == "meter:synthetic"


def test_session_goes_by_wall_time(tmp_path: Path) -> None:
    """Otherwise a second of recording would hold more or fewer samples than a second has."""
    with meter_of("square,rate=2000").session(tmp_path / "recording") as session:
        assert isinstance(session, StreamSession)
        session._is_over.wait(0.3)
    found = decoded(tmp_path / "recording")
    assert session.trouble is None
    assert 400 <= len(found.power_w) <= 20_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("sine", "no shape 'sine'; available: follow, constant, square, ramp"),
        ("constant,duty=0.5", "no option 'duty'"),
        ("square,duty=1.5", "duty must be 0 to 1, got 1.5"),
        ("square,period=0", "period must be"),
        ("constant,rate=0", "rate must be 1 to 200000, got 0"),
        ("constant,rate=nan", "rate must be a number"),
        ("constant,noise=-1", "noise must be"),
    ],
)
def test_wrong_waveform_is_refused(text: str, reason: str) -> None:
    """Otherwise an option without effect would be trusted to have an effect."""
    with pytest.raises(UsageError, match=reason):
        meter_of(text)


BUSY = """
import time
time.sleep(1.0)  # in which it is found
end = time.process_time() + 0.4
while time.process_time() < end:
    pass
print(time.process_time(), flush=True)
time.sleep(60)
"""
"""A process that keeps a CPU busy in the middle of its life."""
NAME = b"edgebench.made.up.worker"
"""Module that no other test runs at the same time."""


def follower_of(text: str, busy_s: Callable[[float], float]) -> Callable[[float], Floats]:
    """Reads samples up to a time, for workers with this function as their CPU time."""
    now_s = 0.0
    made = Follower(
        settings_of(Options.parse("synthetic", text)),
        lambda: round(now_s * SECOND_NS),
        lambda: round(busy_s(now_s) * SECOND_NS),
    )
    made.start()

    def read(until_s: float) -> Floats:
        nonlocal now_s
        now_s = until_s
        return np.frombuffer(made.read(0.0), np.float64)

    return read


def test_power_follows_the_workers() -> None:
    """Otherwise the energy of a simulated run would not be that of the work it shows."""
    read = follower_of(
        "follow,low=2,high=5,rate=100,noise=0", lambda now_s: max(0.0, now_s - 1) * 0.5
    )
    power_w = np.concatenate([read((at + 0.3 * (at % 3)) / 100) for at in range(1, 302)])
    assert len(power_w) == 301
    assert power_w[:99] == pytest.approx(2.0)
    assert power_w[101:] == pytest.approx(3.5)
    assert power_w[:300].sum() / 100 == pytest.approx(2 * 3 + 3 * 1.0, abs=0.02)


def test_workers_that_do_nothing_leave_a_noise() -> None:
    """Otherwise idle phases beside a noisy loop would be taken for a meter that stands still."""
    idle_w = follower_of("follow", lambda now_s: 0.0)(5.0)
    assert len(idle_w) == 1000
    assert np.all(np.diff(idle_w) != 0)
    assert idle_w.std() == pytest.approx(0.01, rel=0.1)


def test_late_read_keeps_the_energy() -> None:
    """Otherwise a host that sleeps for a while would lose the work of the workers."""
    read = follower_of("low=0,high=1,rate=100,noise=0", lambda now_s: now_s)
    power_w = np.concatenate([read(at) for at in (0.011, 0.501, 0.505, 2.001)])
    assert len(power_w) == 200
    assert power_w == pytest.approx(1.0)


def test_host_that_slept_makes_no_huge_packet() -> None:
    """Otherwise an hour of sleep would be a packet of 29 MB, or parts of unequal power."""
    read = follower_of("low=0,high=1,rate=1000,noise=0", lambda now_s: min(now_s, 3600.0) / 2)
    parts = [read(3600.0) for _ in range(220)]
    assert max(len(part) for part in parts) == 1 << 14
    power_w = np.concatenate(parts)
    assert len(power_w) == 3_600_000
    assert np.allclose(power_w, 0.5, rtol=1e-6, atol=0.0)
    assert read(3601.0) == pytest.approx(0.0)


def test_worker_is_found_by_the_module_that_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise any busy process would be taken for the model, or the worker be overlooked."""
    monkeypatch.setattr(follow, "WORKER", NAME)
    others = [sys.executable, "-c", BUSY]
    with (
        subprocess.Popen([*others, NAME.decode()], stdout=subprocess.PIPE, text=True) as worker,
        subprocess.Popen(others, stdout=subprocess.PIPE) as other,
    ):
        try:
            meter = meter_of("follow,low=1,high=2")
            with meter.session(tmp_path / "r") as session:
                assert worker.stdout is not None
                busy_s = float(worker.stdout.readline())
                threading.Event().wait(0.1)
        finally:
            worker.kill()
            other.kill()
    found = decoded(tmp_path / "r")
    assert session.trouble is None
    duration_s = (found.time_ns[-1] - found.begin_ns[0]) / 1e9
    assert energy_j(found) - duration_s == pytest.approx(busy_s, abs=0.1), "since it was found"
    assert energy_j(found) - duration_s > 0.3
    assert found.power_w.min() == pytest.approx(1.0, abs=0.05)


def test_system_without_proc_has_no_workers(tmp_path: Path) -> None:
    """Otherwise the meter would fail on a Mac."""
    assert WorkerTime(tmp_path / "none")() == 0
    (tmp_path / "1234567").mkdir()
    assert WorkerTime(tmp_path)() == 0


def test_shape_is_that_of_the_options() -> None:
    """Otherwise a script that names a constant power would get another shape than before."""
    shapes = [
        settings_of(Options.parse("synthetic", text)).waveform.shape
        for text in ("", "follow", "low=1,high=2", "power=3", "constant")
    ]
    assert shapes == ["follow", "follow", "follow", "constant", "constant"]
