"""An FNIRSI tester: its reports against the known answers, and itself on a pseudo-terminal."""

from __future__ import annotations

import json
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.agents import wait_until
from support.fnirsi import CALCULATOR, Faults, FnirsiEmulator, report_of, sealed
from support.recordings import Decoded, decoded
from support.tools import need_shared

from edgebench.meters import transport
from edgebench.meters.base import AbsentMeter, Flag, Header, Packet
from edgebench.meters.fnirsi.decoder import FnirsiDecoder, FnirsiSettings
from edgebench.meters.fnirsi.device import Fnirsi
from edgebench.meters.fnirsi.reports import checksum, command, samples_of
from edgebench.meters.hid import HidDevice
from edgebench.meters.registry import find_decoder, find_meter
from edgebench.protocol.errors import UsageError

SETTINGS = FnirsiSettings(is_reversed=False, limit_v=28.0, limit_a=7.0)
GARBAGE = report_of([(9.0, 9.0)] * 4)


def decode(data: bytes, *cuts: int, settings: FnirsiSettings = SETTINGS) -> Decoded:
    """Decode the bytes, read in these pieces."""
    decoder = FnirsiDecoder(settings, 100.0)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    blocks = [b for piece in pieces for b in decoder.feed(Packet(0, 0, piece))]
    return Decoded(blocks + decoder.finish(), decoder.loss())


def record(emulator: FnirsiEmulator, path: Path, seconds: float, options: str = "") -> Decoded:
    """A recording, decoded."""
    meter = find_meter(f"fnirsi:{emulator.path}{options}")
    header = meter.open()
    assert isinstance(header, Header), header
    with meter.session(path) as session:
        threading.Event().wait(seconds)
    meter.close()
    assert session.recording().trouble is None
    return decoded(path)


def reason(emulator: FnirsiEmulator, options: str = "") -> str:
    """Why it does not open, as it must not."""
    missing = find_meter(f"fnirsi:{emulator.path}{options}").open()
    assert isinstance(missing, AbsentMeter)
    return missing.reason


def sawtooth(time_s: float) -> tuple[float, float]:
    """A different current for each sample."""
    return 5.0, 0.001 * (1 + round(time_s * 100) % 1000)


def test_packet_of_the_known_answers() -> None:
    """S: voltage and current are in place and in scale; a whole report is accepted."""
    vector = json.loads(need_shared("known_answers/energy.json").read_text())["S_fnirsi_packet"]
    packet = bytes.fromhex(vector["definition"]["packet_hex"])
    expected = vector["expected"]
    voltage_v, current_a = samples_of(packet)
    assert voltage_v == pytest.approx(expected["volts"])
    assert current_a == pytest.approx(expected["amps"])
    found = decode(GARBAGE + packet)
    np.testing.assert_allclose(
        found.power_w, np.multiply(expected["volts"], expected["amps"]), rtol=1e-9
    )
    assert np.diff(found.time_ns) == pytest.approx(expected["dt_s"] * 1e9)
    for number, crc in vector["definition"]["command_crcs"].items():
        assert command(int(number, 16))[-1] == int(crc, 16), "published by others"


@given(st.binary(min_size=64, max_size=64))
def test_checksum_is_that_of_a_library(report: bytes) -> None:
    """Otherwise a table with one wrong entry would refuse an occasional report."""
    assert checksum(report) == CALCULATOR.checksum(report[1:63])


@given(
    st.lists(st.tuples(st.floats(-30, 30), st.floats(-8, 8)), min_size=4, max_size=40).map(
        lambda samples: samples[: len(samples) // 4 * 4]
    ),
    st.lists(st.integers(0, 10_000), max_size=8),
    st.data(),
)
def test_decoded_is_what_was_sent(
    samples: list[tuple[float, float]], cuts: list[int], data: st.DataObject
) -> None:
    """Otherwise a report read in pieces would be lost, or a damaged report shift the others."""
    reports = [report_of(samples[i : i + 4]) for i in range(0, len(samples), 4)]
    damaged = data.draw(st.sets(st.integers(0, len(reports) - 1)))
    sent = bytearray(GARBAGE + b"".join(reports))
    for number in damaged:
        sent[64 * (number + 1) + 7] ^= 1 << data.draw(st.integers(0, 7))
    found = decode(bytes(sent), *cuts)
    assert found.loss.received_count == 4 * (len(reports) - len(damaged))
    assert found.loss.received_count + found.loss.lost_count == 4 * len(reports)
    assert found.loss.desync_count == len(found.loss.gaps)
    if not found.blocks:
        return
    index = found.time_ns // 10_000_000
    sent_v, sent_a = np.array(samples)[index].T
    voltage_v = np.concatenate([b.voltage_v for b in found.blocks if b.voltage_v is not None])
    np.testing.assert_allclose(voltage_v, sent_v, atol=0.51e-5)
    np.testing.assert_allclose(found.current_a, sent_a, atol=0.51e-5)
    is_beyond = (np.abs(voltage_v) >= 28) | (np.abs(found.current_a) >= 7)
    assert ((found.flags & int(Flag.SATURATED)) != 0).tolist() == is_beyond.tolist()
    assert found.loss.saturated_count == np.count_nonzero(is_beyond)


def test_damage_before_another_kind_of_report_is_a_loss() -> None:
    """Otherwise a report without samples would hide the damage, and the rest be 40 ms early."""
    good, other = report_of([(5.0, 0.1)] * 4), sealed(b"\xaa\x03")
    damaged = good[:20] + b"\xff" + good[21:]
    found = decode(GARBAGE + good + damaged + other + good)
    assert [gap.count for gap in found.loss.gaps] == [4]
    assert found.time_ns[4] == 80_000_000


def test_framing_is_found_again() -> None:
    """Otherwise a lost byte would turn everything after it into damage."""
    reports = [report_of([(5.0, 0.1 * k)] * 4) for k in range(5)]
    sent = GARBAGE + b"".join(reports)
    found = decode(sent[:100] + sent[101:])
    assert [gap.count for gap in found.loss.gaps] == [4]
    assert found.loss.is_ambiguous
    assert found.current_a[::4] == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert found.time_ns[0] == 40_000_000


@pytest.mark.slow
def test_recording_is_what_the_tester_measured(tmp_path: Path) -> None:
    """Otherwise initial garbage would be a sample, or the tester stop after a second."""
    with FnirsiEmulator(waveform=sawtooth, faults=Faults(is_split=True)) as emulator:
        found = record(emulator, tmp_path / "recording", 2.5)
    assert len(found.time_ns) > 200
    index = np.arange(len(found.time_ns))
    assert found.time_ns.tolist() == (index * 10_000_000).tolist()
    np.testing.assert_allclose(found.current_a, 0.001 * (1 + index), atol=1e-5)
    assert found.loss.lost_count == found.loss.desync_count == 0


@pytest.mark.slow
def test_second_recording_begins_anew(tmp_path: Path) -> None:
    """Otherwise late bytes of the first recording would begin the second."""
    with FnirsiEmulator(waveform=sawtooth) as emulator:
        for name in ("first", "second"):
            found = record(emulator, tmp_path / name, 0.3)
            assert found.current_a[0] == pytest.approx(0.001)


@pytest.mark.slow
def test_damage_on_the_way_is_counted(tmp_path: Path) -> None:
    """Otherwise four samples would be left out, and all that follow be early."""
    faults = Faults(damaged_reports=(5,))
    with FnirsiEmulator(waveform=sawtooth, faults=faults) as emulator:
        found = record(emulator, tmp_path / "recording", 0.6)
    assert [gap.count for gap in found.loss.gaps] == [4]
    np.testing.assert_allclose(found.current_a, 0.001 * (1 + found.time_ns / 1e7), atol=1e-5)


@pytest.mark.parametrize(
    ("lost", "fast_ppm", "expected_ppm"),
    # 120 ms are lost in the 2.76 s from the first arrival to the first of the last second.
    [((), 0.0, 0.0), ((), 20_000.0, 20_000.0), ((30, 31, 32), 0.0, -0.12e6 / 2.76)],
    ids=["good", "fast", "lost"],
)
def test_rate_is_that_of_the_arrivals(
    lost: tuple[int, ...], fast_ppm: float, expected_ppm: float
) -> None:
    """The rate is that of the samples that arrived, over the time in which they did."""
    decoder = FnirsiDecoder(SETTINGS, 100.0)
    step_ns = 40e6 / (1 + fast_ppm * 1e-6)
    for number in range(88):  # 3.5 s
        if number not in lost:
            rx_ns = round(number * step_ns)
            decoder.feed(Packet(rx_ns, rx_ns, report_of([(5.0, 0.1)] * 4)))
    decoder.finish()
    assert decoder.loss().rate_error_ppm == pytest.approx(expected_ppm, rel=0.01, abs=50)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "lost_s", "fast_ppm"),
    [
        (Faults(lost_reports=(30, 31, 32)), 0.12, 0),
        (Faults(rate_error_ppm=20_000), 0, 20_000),
        (Faults(stall_at_s=1.0), 0, 0),
    ],
    ids=["lost", "fast", "late"],
)
def test_rate_shows_what_no_counter_does(
    tmp_path: Path, faults: Faults, lost_s: float, fast_ppm: float
) -> None:
    """Otherwise three lost reports or a wrong clock would pass as less energy.

    Late reports would count as lost.
    """
    with FnirsiEmulator(waveform=sawtooth, faults=faults) as emulator:
        found = record(emulator, tmp_path / "recording", 3.5)
    assert found.loss.lost_count == 0, "nothing numbers the reports"
    span_s = found.loss.rate_span_s
    assert span_s is not None
    assert 2.0 <= span_s <= 4.0, "a late tester shortens it"
    assert found.loss.rate_error_ppm == pytest.approx(fast_ppm - 1e6 * lost_s / span_s, abs=12_000)


@pytest.mark.slow
def test_tester_that_is_pulled_out_ends_the_recording(tmp_path: Path) -> None:
    """Otherwise a recording would go on without a tester."""
    with FnirsiEmulator() as emulator:
        meter = find_meter(f"fnirsi:{emulator.path}")
        meter.open()
        with meter.session(tmp_path / "recording") as session:
            threading.Event().wait(0.3)
            emulator.faults = Faults(gone_after_s=0.0)
            wait_until(lambda: session.trouble, "the recording ends")
        meter.close()
    assert "is gone" in (session.recording().trouble or "")


@pytest.mark.slow
def test_what_is_no_tester_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a keyboard or a silent port would be waited for indefinitely, or recorded."""
    monkeypatch.setattr(transport, "_QUIET_S", 1.0)  # as below
    with FnirsiEmulator(faults=Faults(is_mute=True)) as emulator:
        assert "no FNIRSI tester found: 0 bytes" in reason(emulator)
    with FnirsiEmulator(waveform=lambda _: (5.0, -0.5)) as emulator:
        reason(emulator)
    assert not emulator.is_streaming, "it was left to fall silent"
    keyboard = HidDevice(path="/dev/hidraw7", vendor=0x046D, product=0xC31C, name="A Keyboard")
    missing = Fnirsi(lambda: keyboard).open()
    assert isinstance(missing, AbsentMeter)
    assert missing.reason == "/dev/hidraw7 is not an FNIRSI tester but A Keyboard (046d:c31c)"
    missing = find_meter(f"fnirsi:{tmp_path}/hidraw0").open()
    assert isinstance(missing, AbsentMeter)
    assert missing.reason == f"no such device: {tmp_path}/hidraw0"


@pytest.mark.slow
def test_tester_that_never_ends_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a stop would wait for ever."""
    # It sends every 40 ms; a busy machine may delay that for longer than a tester is silent.
    monkeypatch.setattr(transport, "_QUIET_S", 1.0)
    with FnirsiEmulator(faults=Faults(never_ends=True)) as emulator:
        assert "still sends data 2 s after the last request" in reason(emulator)


@pytest.mark.slow
def test_cable_the_wrong_way_round_is_refused(tmp_path: Path) -> None:
    """Otherwise energies would be negative."""
    with FnirsiEmulator(waveform=lambda _: (5.0, -0.5)) as emulator:
        assert "power flows backwards through the tester (-2.5 W)" in reason(emulator)
        found = record(emulator, tmp_path / "recording", 0.3, ",reversed")
    assert found.power_w == pytest.approx(2.5)


@pytest.mark.slow
def test_models_differ_in_how_they_smear(tmp_path: Path) -> None:
    """Otherwise windows would be accepted in which a C1 still shows what was before."""
    with FnirsiEmulator() as emulator:
        for product, model, smoothing_s in ((0x003B, "C1", 0.5), (0x003A, "FNB48", 0.5)):
            device = HidDevice(path=emulator.path, vendor=0x0483, product=product, serial="17")
            # The default binds this round's device; mypy cannot type such a lambda.
            meter = Fnirsi(lambda device=device: device)  # type: ignore[misc]
            header = meter.open()
            meter.close()
            assert isinstance(header, Header)
            assert header.info.model == model
            assert header.capability.smoothing_s == smoothing_s
            assert header.capability.min_window_s == 10 * smoothing_s
            assert header.capability.clock_domain == "meter:fnirsi:17"


@pytest.mark.parametrize("rate", ["1000", "10", "0", "x"])
def test_rate_that_no_tester_has_is_refused(rate: str) -> None:
    """Otherwise a rate that is off by ten would make ten times the energy."""
    with pytest.raises(UsageError, match="rate must be"):
        find_meter(f"fnirsi,rate={rate}")


@pytest.mark.slow
def test_rate_of_a_unit_can_be_said() -> None:
    """Otherwise a unit whose clock is off by a thousandth would always be refused."""
    with FnirsiEmulator() as emulator:
        meter = find_meter(f"fnirsi:{emulator.path},rate=99.9")
        header = meter.open()
        meter.close()
    assert isinstance(header, Header)
    assert header.capability.rate_hz == 99.9
    decoder = find_decoder(header)
    [block] = decoder.feed(Packet(0, 0, GARBAGE + report_of([(5.0, 0.5)] * 4)))
    assert block.time_ns[-1] == round(3e9 / 99.9)
