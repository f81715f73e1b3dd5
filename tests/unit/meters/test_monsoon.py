"""A Monsoon HVPM on a bus: its packets, its calibration, itself, and Monsoon's own client."""

from __future__ import annotations

import errno
import importlib
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.agents import wait_until
from support.monsoon import (
    COARSE,
    FINE,
    MEASUREMENT,
    RATE_HZ,
    REFERENCE,
    ZERO,
    Adc,
    Faults,
    MonsoonEmulator,
    numbered,
    observation,
    packet,
    ramp,
)
from support.recordings import Decoded, decoded
from support.usb_bus import UsbBus

from edgebench.meters.base import AbsentMeter, Flag, Header, Packet
from edgebench.meters.monsoon.calibration import Converter
from edgebench.meters.monsoon.decoder import MonsoonDecoder
from edgebench.meters.monsoon.device import Monsoon, MonsoonSetup, connect
from edgebench.meters.monsoon.packets import PacketReader, kinds_of, record_of
from edgebench.meters.registry import find_meter
from edgebench.protocol.errors import MeasurementError, UsageError, WrongMeterOption

FINE_STEP_A = FINE.scale * 1e-6 / (FINE.reference - FINE.zero - FINE.offset)
COARSE_STEP_A = COARSE.scale * 1e-3 / (COARSE.reference - COARSE.zero - COARSE.offset)
MAIN_VOLTAGE, VOLTAGE_CHANNEL = 0x41, 0x23


def make(emulator: MonsoonEmulator, setup: MonsoonSetup | None = None) -> Monsoon:
    """The driver on this unit's bus."""
    return Monsoon(lambda: connect(backend=UsbBus(emulator)), setup)


def opened(meter: Monsoon) -> Header:
    """Header of a meter that must open."""
    header = meter.open()
    assert isinstance(header, Header), header
    return header


def reason(emulator: MonsoonEmulator, setup: MonsoonSetup | None = None) -> str:
    """Why it does not open, as it must not."""
    missing = make(emulator, setup).open()
    assert isinstance(missing, AbsentMeter)
    return missing.reason


def record(
    emulator: MonsoonEmulator, path: Path, seconds: float, setup: MonsoonSetup | None = None
) -> tuple[Decoded, str | None]:
    """A recording, decoded, and what ended it."""
    meter = make(emulator, setup)
    opened(meter)
    with meter.session(path) as session:
        threading.Event().wait(seconds)
        if emulator.faults.gone_at is not None:
            wait_until(lambda: session.trouble is not None, "the recording ends", 10.0)
    meter.close()
    return decoded(path), session.recording().trouble


def decode(emulator: MonsoonEmulator, counts: list[int], **options: Any) -> Decoded:
    """Samples of a unit that delivers so many packets with each read."""
    decoder = MonsoonDecoder(opened(make(emulator, MonsoonSetup(**options))))
    blocks, came = [], 0
    for count in counts:
        data = b"".join(map(record_of, emulator.packets(count)))
        came += count
        rx_ns = round(came * 3e9 / RATE_HZ)
        blocks += decoder.feed(Packet(rx_ns, rx_ns, data))
    return Decoded(blocks + decoder.finish(), decoder.loss())


def is_interpolated(found: Decoded) -> NDArray[np.bool_]:
    """Which of the samples were taken up by the calibration."""
    is_marked: NDArray[np.bool_] = (found.flags & int(Flag.INTERPOLATED)) != 0
    return is_marked


def check_ramp(found: Decoded) -> None:
    """Check that each current is that of the ramp to half a step of its converter."""
    ranges = np.concatenate([block.ranges for block in found.blocks if block.ranges is not None])
    error_a = np.abs(found.current_a - ramp(found.time_ns / 1e9)[1])
    step_a = np.where(ranges == 1, COARSE_STEP_A, FINE_STEP_A)
    assert set(ranges.tolist()) == {0, 1}
    assert np.all(error_a <= np.where(is_interpolated(found), 6e-3, 0.51 * step_a))


PLACES = st.sets(st.integers(5, 300), max_size=8)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=4), PLACES, PLACES)
def test_trace_is_decoded_to_the_step_wherever_it_is_cut(
    counts: list[int], dropped: set[int], short: set[int]
) -> None:
    """Otherwise a calibration, byte order or converter could be wrong, or losses be hidden."""
    faults = Faults(dropped=tuple(dropped), short=tuple(short - dropped))
    emulator = MonsoonEmulator(waveform=ramp, faults=faults, calibration_s=0.006)
    found = decode(emulator, [120, *counts])
    check_ramp(found)
    came = [number for number in range(emulator.packet_number) if number not in dropped]
    known = found.loss.received_count + found.loss.lost_count
    # Two observations, a zero and a reference, may follow the last measurement.
    assert known in range(3 * (came[-1] + 1) - 2, 3 * (came[-1] + 1) + 1)
    assert found.loss.received_count == len(found.time_ns)
    assert found.loss.desync_count == len([number for number in came if number in faults.short])
    assert found.loss.is_ambiguous is bool(found.loss.lost_count)


def test_currents_are_those_of_monsoons_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the made-up unit and our decoder could have the same mistake."""
    clients = pytest.importorskip("Monsoon.sampleEngine", reason="it reads the made-up unit")
    libusb1 = importlib.import_module("usb.backend.libusb1")
    emulator = MonsoonEmulator(waveform=numbered)
    monkeypatch.setattr(libusb1, "get_backend", lambda *_, **__: UsbBus(emulator))
    client = clients.HVPM.Monsoon()
    client.setup_usb()
    engine = clients.SampleEngine(client)
    engine.ConsoleOutput(False)
    engine.startSampling(900)
    _, main_ma, _, _, main_v, _ = engine.getSamples()
    client.closeDevice()
    assert not emulator.is_sampling

    decoder = MonsoonDecoder(opened(make(emulator)))
    packet = Packet(0, 0, b"".join(map(record_of, emulator.sent)))
    found = Decoded(decoder.feed(packet) + decoder.finish(), decoder.loss())
    [block] = found.blocks
    assert block.voltage_v is not None
    by_voltage = dict(zip(np.rint(block.voltage_v / 250e-6).tolist(), found.current_a, strict=True))
    assert len(by_voltage) == len(found.current_a) > len(main_ma) > 800
    ours_a = [by_voltage[number] for number in np.rint(np.array(main_v) / 250e-6).tolist()]
    assert 1e-3 * np.array(main_ma) == pytest.approx(np.array(ours_a), rel=1e-12)


def test_calibration_is_the_mean_of_the_last_five_readings() -> None:
    """Otherwise a noisy reading would be in all later samples, or an old reading stay for ever."""
    rows: list[tuple[int, int]] = []
    for number in range(8):
        zero = 1000 + 10 * number
        readings = (0, 0) if number == 6 else (zero, zero + 10_000)
        rows += [(ZERO, readings[0]), (REFERENCE, readings[1]), (MEASUREMENT, 2000)]
    contents = [observation(kind, raw, raw, 3.7) for kind, raw in rows]
    transfers = [packet(0, contents[at : at + 3]) for at in range(0, len(contents), 3)]
    run = PacketReader().read(b"".join(map(record_of, transfers)))
    kinds = kinds_of(run.observations)
    converter = Converter("main_fine", 1e-2, 50.0)
    assert converter.count(run.observations, kinds) == 7, "a reading of 0 is none"
    converter.begin(run.observations, kinds)
    current_a = converter.current_a(run.observations, kinds)[kinds == MEASUREMENT]
    zeros = [1020, 1020, 1020, 1020, 1020, 1030, 1030, 1042]
    assert current_a == pytest.approx([(2000 - zero - 50) * 1e-2 / 9950 for zero in zeros])


def test_recording_is_what_the_unit_measured(tmp_path: Path) -> None:
    """Otherwise a unit would go on sampling, be configured, or not be released."""
    emulator = MonsoonEmulator(kernel_drivers={0})
    found, trouble = record(emulator, tmp_path / "recording", 0.15)
    assert trouble is None
    assert found.current_a == pytest.approx(0.02, abs=FINE_STEP_A)
    assert found.power_w == pytest.approx(3.7 * 0.02, rel=1e-3)
    assert len(found.time_ns) > 100
    assert (found.loss.lost_count, found.loss.is_ambiguous) == (0, False), "65535 is no loss"
    assert is_interpolated(found).any()
    assert (emulator.started, emulator.told, emulator.is_sampling) == ([1250], [], False)
    assert (emulator.claimed, emulator.kernel_drivers) == (set(), {0})


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        (Faults(gone_at=20), "the Monsoon 2ab9:0001 is gone"),
        (Faults(stall_at=20), None),
        (Faults(dropped=(20, 21), short=(30,)), None),
    ],
    ids=["gone", "stall", "dropped"],
)
def test_faults_end_a_recording_or_are_losses(
    tmp_path: Path, faults: Faults, why: str | None
) -> None:
    """Otherwise a recording would go on without a unit.

    Or a stall would be a loss, or a loss none.
    """
    found, trouble = record(MonsoonEmulator(faults=faults), tmp_path / "recording", 0.25)
    assert trouble == why
    assert found.loss.lost_count == 3 * len(faults.dropped + faults.short)
    assert found.loss.desync_count == len(faults.short)
    assert found.power_w == pytest.approx(3.7 * 0.02, rel=1e-3)


def test_pause_is_a_loss_and_a_calibration_is_none() -> None:
    """Otherwise half a second without a measurement would be made up."""
    emulator = MonsoonEmulator(waveform=ramp, faults=Faults(invalid=range(900, 950)))
    found = decode(emulator, [100] * 6)
    check_ramp(found)
    assert found.loss.lost_count == 50
    assert np.diff(found.time_ns).max() == 51 * 200_000
    assert np.count_nonzero(is_interpolated(found)) == 2 * 17, "of each calibration, two samples"


def test_pause_without_an_end_is_a_loss() -> None:
    """Otherwise it would be kept in memory until the end."""
    emulator = MonsoonEmulator(faults=Faults(invalid=range(900, 10_000)))
    found = decode(emulator, [200] * 5)
    assert (found.loss.received_count, found.loss.lost_count) == (900, 2100)


def test_end_of_the_coarse_converter_is_saturation() -> None:
    """Otherwise a peak would be cut off unnoticed."""
    emulator = MonsoonEmulator(
        waveform=lambda t: (np.full(len(t), 3.7), np.where(t > 0.1, 20, 1)),
        faults=Faults(invalid=range(20, 23)),
    )
    found = decode(emulator, [400])
    is_high = found.time_ns > 100_000_000
    is_flagged = (found.flags & int(Flag.SATURATED)) != 0
    assert np.array_equal(is_flagged, is_high & ~is_interpolated(found))
    assert found.loss.saturated_count == np.count_nonzero(is_flagged)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"faults": Faults(is_not_calibrated=True)}, "not calibrated yet: record for longer"),
        (
            {"coarse": Adc(scale=6400, offset=0, zero=3000, reference=2000)},
            "main_coarse reads 2000 at its reference, and 3000 at zero",
        ),
    ],
)
def test_recording_without_a_calibration_is_none(changes: dict[str, Any], why: str) -> None:
    """Otherwise raw values would be divided by an arbitrary number."""
    with pytest.raises(MeasurementError, match=why):
        decode(MonsoonEmulator(**changes), [300])


def test_few_readings_calibrate_a_short_recording() -> None:
    """Otherwise a recording of some seconds would be empty, or be calibrated differently."""
    found = decode(MonsoonEmulator(calibration_s=0.1), [300])
    assert found.current_a == pytest.approx(0.02, abs=FINE_STEP_A)


@pytest.mark.parametrize("fast_ppm", [0.0, 5_000.0])
def test_rate_is_that_of_the_arrivals_although_samples_are_held_back(fast_ppm: float) -> None:
    """Otherwise samples that wait for a calibration would look late, and the rate wrong."""
    emulator = MonsoonEmulator(calibration_s=0.2)
    decoder = MonsoonDecoder(opened(make(emulator)))
    came = 0
    for count in (800, *[160] * 31):  # 3.5 s, of which 0.8 s are held back; the first came late
        came += count
        rx_ns = round(came * 3e9 / RATE_HZ / (1 + fast_ppm * 1e-6))
        decoder.feed(Packet(rx_ns, rx_ns, b"".join(map(record_of, emulator.packets(count)))))
    error_ppm = decoder.loss().rate_error_ppm
    assert error_ppm == pytest.approx(fast_ppm, rel=0.01, abs=150)


def test_means_have_their_intervals() -> None:
    """Otherwise a mean would be taken for an instant, or cover the gap before it."""
    found = decode(MonsoonEmulator(faults=Faults(dropped=(30,))), [60] * 3, is_averaging=True)
    assert np.all(found.time_ns - found.begin_ns == 200_000)
    assert np.diff(found.begin_ns).max() == 4 * 200_000


@pytest.mark.parametrize(
    ("registers", "setup", "told"),
    [
        ({}, MonsoonSetup(supply_v=3.7), []),
        ({VOLTAGE_CHANNEL: 1}, MonsoonSetup(), [(VOLTAGE_CHANNEL, 0), (VOLTAGE_CHANNEL, 1)]),
        (
            {},
            MonsoonSetup(supply_v=12.0),
            [(MAIN_VOLTAGE, 12 << 20), (MAIN_VOLTAGE, round(3.7 * 2**20))],
        ),
        (
            {MAIN_VOLTAGE: 0},
            MonsoonSetup(supply_v=5.0, is_power_on=True),
            [(MAIN_VOLTAGE, 5 << 20), (MAIN_VOLTAGE, 0)],
        ),
    ],
    ids=["as it is", "voltages", "supply", "power"],
)
def test_unit_is_as_it_was_after_a_recording(
    tmp_path: Path, registers: dict[int, int], setup: MonsoonSetup, told: list[tuple[int, int]]
) -> None:
    """Otherwise a device would lose its supply, or have another voltage from then on."""
    emulator = MonsoonEmulator(registers=registers)
    meter = make(emulator, setup)
    opened(meter)
    assert emulator.told == []
    with meter.session(tmp_path / "recording"):
        assert emulator.told == told[: len(told) // 2]
    assert emulator.told == told
    meter.close()


@pytest.mark.parametrize(
    ("registers", "setup", "why"),
    [
        ({0x45: 1}, None, "not an HVPM but LVPM"),
        ({0x45: 77}, None, "not an HVPM but model 77"),
        ({0x1A: 0}, None, "is invalid: scales of 0 and 6400"),
        ({MAIN_VOLTAGE: 0}, None, "main output of this HVPM is off"),
        ({MAIN_VOLTAGE: 0}, MonsoonSetup(supply_v=5.0), "main output of this HVPM is off"),
        ({}, MonsoonSetup(is_power_on=True), "power requires a supply voltage"),
        ({0x88: 0xD000}, MonsoonSetup(supply_v=5.0), "output voltage .*DAC_LOW is 0xd000"),
        ({0x45: 0xFFFFFFFE}, None, "does not report its model"),
    ],
)
def test_unit_that_makes_no_sense_is_refused_in_one_line(
    registers: dict[int, int], setup: MonsoonSetup | None, why: str
) -> None:
    """Otherwise numbers would be made of an invalid calibration, or of an output that is off."""
    emulator = MonsoonEmulator(registers=registers)
    said = reason(emulator, setup)
    assert re.search(why, said)
    assert "\n" not in said
    assert emulator.told == []
    assert emulator.claimed == set()


def test_stream_that_somebody_left_is_ended() -> None:
    """Otherwise a unit that still samples would not respond."""
    emulator = MonsoonEmulator()
    emulator.tell(0x02, 1250, 0, b"")
    assert opened(make(emulator)).info.serial == "23171"
    assert not emulator.is_sampling


def test_refusals_name_the_meter() -> None:
    """Otherwise a supply would be called a tester, or millivolts be volts."""
    assert reason(MonsoonEmulator(refusal=errno.EACCES)) == (
        "no permission to use the Monsoon at 2ab9:0001"
    )
    with pytest.raises(UsageError, match="no Monsoon with serial number 7 is connected"):
        connect("7", UsbBus(MonsoonEmulator()))
    with pytest.raises(UsageError, match="2 such Monsoons are connected"):
        connect("", UsbBus(MonsoonEmulator(), MonsoonEmulator()))
    with pytest.raises(WrongMeterOption, match=r"write volts, not mV: supply=3\.7"):
        find_meter("monsoon:,supply=3700")
