"""A KM003C: its messages against the known answers and another library, itself on a bus."""

from __future__ import annotations

import errno
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.agents import wait_until
from support.km003c import Faults, Km003cEmulator, put_data, queue, reading, sawtooth
from support.recordings import Decoded, decoded
from support.tools import need_shared
from support.usb_bus import UsbBus

from edgebench.meters.base import AbsentMeter, Flag, Header, Packet
from edgebench.meters.km003c.decoder import Km003cSettings, QueueDecoder
from edgebench.meters.km003c.device import Km003c, Km003cSetup, connect
from edgebench.meters.km003c.messages import (
    ADC,
    ADC_QUEUE,
    CONNECT,
    GET_DATA,
    START_GRAPH,
    STOP_GRAPH,
    request,
    samples_of,
    values_of,
)
from edgebench.meters.registry import find_meter
from edgebench.protocol.errors import UsageError

# Wheels of it exist for some machines only.
km003c = pytest.importorskip("km003c", reason="what it reads is held against this library")
QUEUE = Km003cSetup(rate_hz=1000, is_queue=True)
MICROVOLT = st.integers(-(2**31), 2**31 - 1)


def make(emulator: Km003cEmulator, setup: Km003cSetup | None = None) -> Km003c:
    """The driver on this tester's bus."""
    return Km003c(lambda: connect(backend=UsbBus(emulator)), setup, response_s=0.1)


def opened(meter: Km003c) -> Header:
    """Header of a meter that must open."""
    header = meter.open()
    assert isinstance(header, Header), header
    return header


def reason(emulator: Km003cEmulator, setup: Km003cSetup | None = None) -> str:
    """Why it does not open, as it must not."""
    missing = make(emulator, setup).open()
    assert isinstance(missing, AbsentMeter)
    return missing.reason


def record(
    emulator: Km003cEmulator,
    path: Path,
    setup: Km003cSetup | None = None,
    *,
    questions: float = 0,
    samples: float = 0,
) -> tuple[Decoded, str | None]:
    """A recording of so many requests and queued samples, decoded; and what ended it."""
    meter = make(emulator, setup)
    opened(meter)
    with meter.session(path) as session:
        wait_until(
            lambda: (
                (len(emulator.asked) > questions and emulator.emitted >= samples) or session.trouble
            ),
            "recording is over",
        )
    meter.close()
    return decoded(path), session.recording().trouble


def decode(*messages: bytes, rate_hz: float = 1000) -> Decoded:
    """Decode these responses of the queue."""
    decoder = QueueDecoder(Km003cSettings(is_queue=True), rate_hz)
    blocks = [block for message in messages for block in decoder.feed(Packet(0, 0, message))]
    return Decoded(blocks + decoder.finish(), decoder.loss())


def theirs(message: bytes) -> Any:
    """The message as read by the other library."""
    return km003c.parse_packet_with_graph_rate(message, km003c.RATE_1000_SPS)


def test_queue_of_the_known_answers() -> None:
    """R: two lost samples are seen where the sequence wraps, and the sign is kept."""
    vector = json.loads(need_shared("known_answers/energy.json").read_text())["R_km003c_adcqueue"]
    message = bytes.fromhex(vector["definition"]["hex"])
    expected = vector["expected"]
    queued = samples_of(message)
    assert len(queued.sequence) == expected["n"]
    assert queued.voltage_v == pytest.approx(expected["volts"])
    assert queued.current_a == pytest.approx(expected["amps"])
    found = decode(message)
    assert found.loss.lost_count == expected["missing_samples_from_sequence"]
    assert found.time_ns.tolist() == [0, 1_000_000, 2_000_000, 5_000_000]
    assert len(theirs(message)["DataResponse"]["payloads"][0].samples) == 4


@given(st.integers(0, 255), MICROVOLT, MICROVOLT)
def test_reading_is_what_another_library_reads(number: int, volt: int, ampere: int) -> None:
    """Otherwise the made-up tester and our decoder could have the same mistake."""
    message = reading(number, volt / 1e6, ampere / 1e6)
    [payload] = km003c.parse_packet(message)["DataResponse"]["payloads"]
    assert values_of(message) == pytest.approx((volt / 1e6, ampere / 1e6))
    assert values_of(message) == pytest.approx((payload.vbus_v, payload.ibus_a))


@given(
    st.integers(0, 255),
    st.lists(st.tuples(st.integers(0, 65535), MICROVOLT, MICROVOLT), max_size=48),
)
def test_queue_is_what_another_library_reads(
    number: int, samples: list[tuple[int, int, int]]
) -> None:
    """The same for the queue, sample by sample."""
    message = queue(number, [(seq, volt / 1e6, ampere / 1e6) for seq, volt, ampere in samples])
    found = samples_of(message)
    payloads = theirs(message)["DataResponse"]["payloads"]
    said = payloads[0].samples if payloads else []
    assert found.sequence.tolist() == [one.sequence for one in said] == [s for s, _, _ in samples]
    np.testing.assert_allclose(found.voltage_v, [one.vbus_v for one in said], atol=1e-9)
    np.testing.assert_allclose(found.current_a, [one.ibus_a for one in said], atol=1e-9)


@pytest.mark.parametrize(
    ("ours", "kind", "data"),
    [
        (request(GET_DATA, 7, ADC), km003c.CMD_GET_DATA, km003c.ATT_ADC),
        (request(GET_DATA, 7, ADC_QUEUE), km003c.CMD_GET_DATA, km003c.ATT_ADC_QUEUE),
        (request(START_GRAPH, 7, 3), km003c.CMD_START_GRAPH, km003c.RATE_1000_SPS),
        (request(STOP_GRAPH, 7), km003c.CMD_STOP_GRAPH, 0),
        (request(CONNECT, 7), km003c.CMD_CONNECT, 0),
    ],
)
def test_questions_are_what_another_library_asks(ours: bytes, kind: int, data: int) -> None:
    """Otherwise an attribute could be where the tester does not look for it."""
    assert ours == km003c.create_packet(kind, 7, data)


@given(
    st.integers(0, 65535),
    st.lists(st.integers(0, 60), min_size=1, max_size=60),
    st.lists(st.integers(1, 20), min_size=60, max_size=60),
)
def test_losses_balance(first: int, losses: list[int], counts: list[int]) -> None:
    """Otherwise samples lost according to the sequence would be overlooked, or found twice."""
    sequence, emitted, received = first, 0, 0
    messages: list[bytes] = []
    for lost, count in zip(losses, counts, strict=False):
        lost = lost if messages else 0  # before the first, unknown
        sequence, emitted = sequence + lost, emitted + lost + count
        messages.append(
            queue(1, [(sequence + k, 5.0, 1e-6 * (sequence + k)) for k in range(count)])
        )
        sequence, received = sequence + count, received + count
    found = decode(*messages)
    assert found.loss.received_count == received
    assert found.loss.received_count + found.loss.lost_count == emitted
    assert found.current_a == pytest.approx(1e-6 * (first + found.time_ns / 1e6))
    assert sum(gap.count for gap in found.loss.gaps) == found.loss.lost_count


@given(st.integers(0, 65535), st.integers(0, 29), st.integers(0, 15))
def test_wrong_bit_in_a_sequence_is_damage(first: int, place: int, bit: int) -> None:
    """Otherwise two samples would have one time.

    Or the rest would be a minute late without any loss.
    """
    sequences = [(first + k) % 65536 for k in range(30)]
    sequences[place] ^= 1 << bit
    answers = [queue(1, [(s, 5.0, 0.1) for s in sequences[k : k + 10]]) for k in (0, 10, 20)]
    later = [
        queue(1, [(first + k + j, 5.0, 0.1) for j in range(40)]) for k in range(30, 10_030, 40)
    ]
    found = decode(*answers, *later)
    assert np.all(np.diff(found.time_ns) > 0)
    assert found.loss.received_count == len(found.time_ns)
    # The content of the first response is unknown.
    unknown = 10 + (1 << bit if place == 0 else 0) if place < 10 else 0
    emitted = found.loss.received_count + found.loss.lost_count
    assert abs(emitted - 10_030) <= unknown
    assert bool(found.loss.desync_count) is found.loss.is_ambiguous


def test_answer_that_is_repeated_is_damage() -> None:
    """Otherwise its samples would be counted twice, a minute apart."""
    one, two = (queue(1, [(k + j, 5.0, 0.1) for j in range(10)]) for k in (0, 10))
    found = decode(one, one, two)
    assert (found.loss.received_count, found.loss.lost_count) == (20, 0)
    assert (found.loss.desync_count, found.loss.is_ambiguous) == (1, True)
    assert found.time_ns.tolist() == [k * 1_000_000 for k in range(20)]


@pytest.mark.parametrize(("rate_hz", "step"), [(2, 500), (10, 100), (50, 20)])
def test_slow_queues_count_in_milliseconds(rate_hz: int, step: int) -> None:
    """Otherwise each sample of a slow queue would look as if 499 were lost."""
    samples = [(65_000 + k * step, 5.0, 0.1) for k in range(5) if k != 3]
    found = decode(queue(1, samples), rate_hz=rate_hz)
    assert found.loss.lost_count == 1
    assert found.time_ns.tolist() == [k * step * 1_000_000 for k in (0, 1, 2, 4)]
    assert found.blocks[0].index0 == 0


def test_damage_up_to_the_end_is_a_loss() -> None:
    """Otherwise half a recording would pass for all of it: no later sequence shows the loss."""
    decoder = QueueDecoder(Km003cSettings(is_queue=True), 1000)
    good = queue(1, [(k, 5.0, 0.1) for k in range(10)])
    decoder.feed(Packet(0, 10_000_000, good))
    for k in range(2, 60):
        decoder.feed(Packet(0, k * 10_000_000, good[:-7]))
    decoder.finish()
    decoder.finish()
    loss = decoder.loss()
    assert (loss.received_count, loss.lost_count, loss.is_ambiguous) == (10, 580, True)


def test_damaged_first_answers_are_no_reason_not_to_open() -> None:
    """Otherwise there would be a traceback where the queue is tried."""
    faults = Faults(damaged=tuple(range(5, 9)))
    assert opened(make(Km003cEmulator(faults=faults), QUEUE)).capability.is_uniform


def test_damaged_answers_are_losses() -> None:
    """Otherwise a response that was cut off would end the recording, or be ignored."""
    one = queue(1, [(k, 5.0, 0.1) for k in range(10)])
    cut = queue(2, [(10 + k, 5.0, 0.1) for k in range(10)])[:-7]
    two = queue(3, [(20 + k, 5.0, 0.1) for k in range(10)])
    found = decode(one, cut, two)
    assert (found.loss.received_count, found.loss.lost_count) == (20, 10)
    assert found.loss.desync_count == 1


@pytest.mark.parametrize(
    "message", [b"", b"\x41", b"\x05\x01\0\0", put_data(1, 16, 0, 12, bytes(12))]
)
def test_other_messages_are_no_readings(message: bytes) -> None:
    """Otherwise an acknowledgement would be a voltage."""
    with pytest.raises(ValueError, match="no "):
        values_of(message)


def test_reading_behind_another_part_is_found() -> None:
    """Otherwise a tester that sends more than was requested would be refused."""
    adc = reading(1, 5.0, 0.5)
    other = (16 | 1 << 15 | 12 << 22).to_bytes(4, "little") + bytes(12)
    assert values_of(adc[:4] + other + adc[4:]) == (5.0, 0.5)


def test_readings_are_recorded_with_their_times(tmp_path: Path) -> None:
    """Otherwise values would be swapped, or the kernel's driver not be restored."""
    emulator = Km003cEmulator(waveform=lambda _: (5.0, 0.25), kernel_drivers={0})
    found, trouble = record(emulator, tmp_path / "recording", questions=25)
    assert trouble is None
    assert found.power_w == pytest.approx(1.25)
    assert len(found.time_ns) > 10
    assert not found.flags.any()
    assert (emulator.claimed, emulator.kernel_drivers) == (set(), {0})


def test_tester_says_what_it_is(tmp_path: Path) -> None:
    """Otherwise two testers would have one clock domain."""
    header = opened(make(Km003cEmulator(), QUEUE))
    assert (header.info.model, header.info.serial) == ("POWER-Z KM003C", "007965")
    assert header.capability.clock_domain == "meter:km003c:007965"
    assert header.capability.loss_detection == "counter"
    assert opened(make(Km003cEmulator())).capability.clock_domain == "host:monotonic"


def test_late_and_damaged_answers_are_missing(tmp_path: Path) -> None:
    """Otherwise a late response would be taken for that of the next request."""
    faults = Faults(late=(10, 20), damaged=(30,), stale=(reading(1, 9.0, 9.0),))
    emulator = Km003cEmulator(waveform=lambda _: (5.0, 0.25), faults=faults)
    found, trouble = record(emulator, tmp_path / "recording", questions=40)
    assert trouble is None
    is_missing = (found.flags & int(Flag.MISSING)) != 0
    assert np.count_nonzero(is_missing) == 3
    assert found.power_w[~is_missing] == pytest.approx(1.25)


@pytest.mark.parametrize("setup", [Km003cSetup(), QUEUE], ids=["readings", "queue"])
@pytest.mark.parametrize(
    ("faults", "why"),
    [
        (Faults(gone_after=30), "the USB tester 5fc9:0063 is gone"),
        (Faults(mute_after=30), "did not respond 5 times"),
    ],
    ids=["gone", "mute"],
)
def test_tester_that_goes_away_ends_the_recording(
    tmp_path: Path, setup: Km003cSetup, faults: Faults, why: str
) -> None:
    """Otherwise a recording would go on without a tester, or end with a traceback."""
    emulator = Km003cEmulator(faults=faults)
    _, trouble = record(emulator, tmp_path / "recording", setup, questions=math.inf)
    assert trouble is not None
    assert why in trouble


def test_queue_is_recorded_on_the_testers_clock(tmp_path: Path) -> None:
    """Otherwise a full queue would lose samples silently, or its sequence's wrap be a loss."""
    faults = Faults(lost=((200, 7),))
    emulator = Km003cEmulator(waveform=sawtooth, faults=faults)
    found, trouble = record(emulator, tmp_path / "recording", QUEUE, samples=1100)
    assert trouble is None
    assert len(found.time_ns) > 900, "so the sequence wrapped around"
    assert found.loss.lost_count == 7
    steps = np.diff(found.current_a) % 0.1
    assert np.count_nonzero(np.abs(steps - 1e-4) > 1e-7) == 1, "the gap"
    assert np.diff(found.time_ns).max() == 8_000_000


@pytest.mark.parametrize("fast_ppm", [0.0, 10_000.0, -300.0])
def test_rate_of_a_queue_is_that_of_its_arrivals(fast_ppm: float) -> None:
    """Otherwise a clock that is off by a hundredth would make a hundredth less energy."""
    decoder = QueueDecoder(Km003cSettings(is_queue=True), 1000)
    for number in range(350):  # 3.5 s
        rx_ns = round((number + 1) * 10e6 / (1 + fast_ppm * 1e-6))
        answer = queue(1, [(10 * number + k, 5.0, 0.1) for k in range(10)])
        decoder.feed(Packet(rx_ns, rx_ns, answer))
    assert decoder.loss().rate_error_ppm == pytest.approx(fast_ppm, rel=0.01, abs=5)


@pytest.mark.slow
def test_queue_tells_its_rate(tmp_path: Path) -> None:
    """Otherwise a clock that is off by four hundredths would make as much less energy."""
    emulator = Km003cEmulator(waveform=sawtooth, faults=Faults(rate_error_ppm=40_000))
    found, _ = record(emulator, tmp_path / "recording", QUEUE, samples=3600)
    assert found.loss.rate_error_ppm == pytest.approx(40_000, abs=12_000)


def test_queue_that_is_locked_is_told_in_one_line() -> None:
    """Otherwise there would be a recording without a sample, and without a reason."""
    emulator = Km003cEmulator(faults=Faults(is_locked=True))
    assert "provides its sample queue only to its maker's programs" in reason(emulator, QUEUE)
    assert emulator.asked[-1][0] == STOP_GRAPH, "it is left as it was"
    assert not emulator.claimed


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EACCES, "no permission to use the USB tester at 5fc9:0063"),
        (errno.EBUSY, "the USB tester 5fc9:0063 is in use by another program"),
        (errno.EIO, "USB tester 5fc9:0063: "),
    ],
)
def test_tester_that_cannot_be_opened_says_why(number: int, why: str) -> None:
    """Otherwise the user would see a traceback of libusb."""
    assert reason(Km003cEmulator(refusal=number)).startswith(why)


def test_kernel_gets_its_interface_back_whatever_happens() -> None:
    """Otherwise a failed look would take a tester away from the kernel for good."""
    emulator = Km003cEmulator(kernel_drivers={0}, is_claimed_elsewhere=True)
    assert "is in use by another program" in reason(emulator)
    assert emulator.kernel_drivers == {0}


def test_tester_that_may_not_be_asked_for_its_name_says_why() -> None:
    """Otherwise a named tester without a udev rule would be reported as not connected."""
    bus = UsbBus(Km003cEmulator(refusal=errno.EACCES))
    missing = Km003c(lambda: connect("007965", bus)).open()
    assert isinstance(missing, AbsentMeter)
    assert missing.reason.startswith("no permission to use the USB tester at 5fc9:0063")


def test_none_several_or_another_are_told() -> None:
    """Otherwise chance would decide between two testers, or another device be taken."""
    assert "no KM003C found: nothing" in reason(Km003cEmulator(faults=Faults(is_mute=True)))
    with pytest.raises(UsageError, match="no USB tester is connected; looked for 5fc9:0061"):
        connect(backend=UsbBus(Km003cEmulator(vendor=0x046D)))
    two = UsbBus(Km003cEmulator(serial="1"), Km003cEmulator(serial="2"))
    with pytest.raises(UsageError, match="2 such testers"):
        connect(backend=two)
    assert connect("2", two).texts() == ("POWER-Z KM003C", "2")
    with pytest.raises(UsageError, match="with serial number 3"):
        connect("3", two)


def test_cable_the_wrong_way_round_is_refused(tmp_path: Path) -> None:
    """Otherwise energies would be negative, as when the device is at the tester's plug."""
    emulator = Km003cEmulator(waveform=lambda _: (5.0, -0.5))
    assert "power flows backwards through the tester (-2.5 W)" in reason(emulator)
    found, _ = record(emulator, tmp_path / "readings", Km003cSetup(is_reversed=True), questions=10)
    assert found.power_w == pytest.approx(2.5)
    setup = Km003cSetup(rate_hz=1000, is_queue=True, is_reversed=True)
    found, _ = record(emulator, tmp_path / "queue", setup, samples=300)
    assert found.power_w == pytest.approx(2.5)


def test_end_of_the_range_is_saturated(tmp_path: Path) -> None:
    """Otherwise current beyond six amperes would be less energy."""
    emulator = Km003cEmulator(waveform=lambda _: (5.0, 6.1))
    found, _ = record(emulator, tmp_path / "recording", questions=10)
    assert found.loss.saturated_count == len(found.time_ns)


@pytest.mark.parametrize("options", ["rate=0", "rate=501", "rate=100,queue", "rate=x", "fast"])
def test_options_that_cannot_be_are_refused(options: str) -> None:
    """Otherwise a rate would be accepted that no tester has."""
    with pytest.raises(UsageError):
        find_meter(f"km003c:,{options}")


def test_options_are_taken() -> None:
    """Otherwise an option would be read, and forgotten."""
    expected = {
        "rate=100": Km003cSetup(rate_hz=100),
        "queue": QUEUE,
        "rate=50,queue,reversed": Km003cSetup(rate_hz=50, is_queue=True, is_reversed=True),
    }
    for options, setup in expected.items():
        meter = find_meter(f"km003c:,{options}")
        assert isinstance(meter, Km003c)
        assert meter.setup == setup


def test_queue_of_a_tester_that_falls_silent_is_stopped() -> None:
    """Otherwise it would be silent, yet keep filling a queue that is never emptied."""
    emulator = Km003cEmulator(faults=Faults(mute_after=4))
    meter = Km003c(lambda: connect(backend=UsbBus(emulator)), QUEUE, response_s=0.3)
    assert isinstance(meter.open(), AbsentMeter)
    kinds = [data[0] for data in emulator.asked]
    assert START_GRAPH in kinds
    assert kinds[-1] == STOP_GRAPH
