"""Streams of a PowerShield: values, times and losses, whatever happened to the bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.lpm01a import END, OVERCURRENT, Faults, encode_stamp, stream_bytes
from support.tools import need_shared

from edgebench.meters.base import Flag, LossReport, Packet, SampleBlock, blocks_of
from edgebench.meters.lpm01a.ascii import AsciiReader
from edgebench.meters.lpm01a.binary import BinaryReader, value_table
from edgebench.meters.lpm01a.decoder import Lpm01aDecoder
from edgebench.meters.lpm01a.items import Item, Overcurrent, Stamp, Values
from edgebench.meters.lpm01a.settings import EventEdge, Lpm01aSettings, Lpm01aSetup

Floats = NDArray[np.float64]
BINARY = Lpm01aSettings(setup=Lpm01aSetup(rate_hz=1000), supply_v=3.0)
ASCII = Lpm01aSettings(setup=Lpm01aSetup(rate_hz=1000, is_ascii=True), supply_v=3.0)
FORMATS = pytest.mark.parametrize("chosen", [BINARY, ASCII], ids=["binary", "ascii"])
ACK = b"\r\nPowerShield > ack start\r\n\r\n"
values_a = st.floats(1e-7, 0.049)


def decode(chosen: Lpm01aSettings, *pieces: bytes) -> tuple[list[SampleBlock], LossReport]:
    """Decode a stream that came in these pieces."""
    decoder = Lpm01aDecoder(chosen)
    packets = (Packet(place, place, piece) for place, piece in enumerate(pieces))
    return list(blocks_of(decoder, packets)), decoder.loss()


def emulate(chosen: Lpm01aSettings, values: Floats, faults: Faults | None = None) -> bytes:
    """Bytes that the unit sends for these values."""
    setup = chosen.setup
    return ACK + stream_bytes(values, rate_hz=setup.rate_hz, is_ascii=setup.is_ascii, faults=faults)


def seconds(count: int, chosen: Lpm01aSettings = BINARY) -> Floats:
    """A current that rises all the time, over so many seconds."""
    return np.linspace(1e-3, 40e-3, count * chosen.setup.rate_hz)


def joined(blocks: list[SampleBlock], name: str) -> Any:
    """A column of all blocks."""
    return np.concatenate([getattr(block, name) for block in blocks])


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """Cut at these places."""
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[one:other] for one, other in pairwise(places)]


def known(name: str) -> Any:
    """A known answer."""
    return json.loads(need_shared("known_answers/energy.json").read_text())[name]


def falls(digital: Any) -> list[int]:
    """Places where the input is low after being high, which is a mark."""
    return [int(place) + 1 for place in np.flatnonzero(np.diff(digital.astype(int)) == -1)]


def test_binary_stream_gives_the_known_answer() -> None:
    """Otherwise a value, its power of sixteen, or a record between values would be misread."""
    case = known("J2_lpm01a_binary")
    items = BinaryReader().feed(bytes.fromhex(case["definition"]["hex"]))
    found: list[dict[str, Any]] = [plain for item in items for plain in _plain(item)]
    assert found == case["expected"]["records"]


def _plain(item: Item) -> list[dict[str, Any]]:
    if isinstance(item, Values):
        return [{"A": value} for value in item.values.tolist()]
    if isinstance(item, Stamp):
        return [{"timestamp_ms": item.time_ms, "buffer_pct": round(item.buffer_ratio * 100)}]
    return [{"overcurrent": True} if isinstance(item, Overcurrent) else {"end": True}]


def test_text_stream_gives_the_known_answer() -> None:
    """Otherwise a value would be misread, or an event be put to the wrong sample."""
    case = known("J_lpm01a_ascii")
    text = "\r\n".join([*case["definition"]["lines"], ""]).encode()
    setup = Lpm01aSetup(rate_hz=1000, is_ascii=True, is_energy=True, events=EventEdge.RISING)
    blocks, loss = decode(Lpm01aSettings(setup=setup, supply_v=3.3), text)
    energy_j = joined(blocks, "power_w") * 1e-3
    np.testing.assert_allclose(energy_j, case["expected"]["values"], rtol=1e-15)
    assert energy_j.sum() == pytest.approx(case["expected"]["sum"], rel=1e-15)
    assert falls(joined(blocks, "digital")) == [case["expected"]["event_before_sample_index"]]
    assert (loss.received_count, loss.lost_count) == (4, 996)


@pytest.mark.parametrize("text", ["0001-09", "9999-08", "6409-07", "0012+01", "1234-12", "0000+00"])
def test_text_value_is_the_double_that_it_says(text: str) -> None:
    """Otherwise a value would be off in its last bit, or a sign of the exponent be dropped."""
    items = AsciiReader().feed(f"{text}\r\n".encode())
    assert isinstance(items[0], Values)
    assert items[0].values.tolist() == [float(f"{text[:4]}e{text[4:]}")]


def test_binary_values_are_exact() -> None:
    """Otherwise the table of all words could have a wrong entry."""
    words = range(0xF000)
    assert value_table()[:0xF000].tolist() == [(w & 0xFFF) / 16 ** (w >> 12) for w in words]


@FORMATS
@given(st.lists(values_a, min_size=1, max_size=40), st.lists(st.integers(0, 10**6), max_size=12))
@settings(max_examples=60)
def test_any_trace_in_any_pieces_is_decoded(
    chosen: Lpm01aSettings, values: list[float], cuts: list[int]
) -> None:
    """Otherwise a sample, a record or a line cut by a read would be lost or made up."""
    trace = np.array(values)
    blocks, loss = decode(chosen, *split(emulate(chosen, trace), cuts))
    current_a = joined(blocks, "current_a")
    half_step_a = 0.5 * (10.0 if chosen is ASCII else 16.0) ** -joined(blocks, "ranges")
    assert (np.abs(current_a - trace) <= half_step_a * 1.001).all()
    assert joined(blocks, "time_ns").tolist() == [index * 1_000_000 for index in range(len(trace))]
    assert (joined(blocks, "power_w") == current_a * 3.0).all()
    assert (loss.received_count, loss.lost_count, loss.desync_count) == (len(trace), 0, 0)


@FORMATS
def test_every_byte_may_come_alone(chosen: Lpm01aSettings) -> None:
    """Otherwise the state could be lost at one of the boundaries between bytes."""
    chosen = replace(chosen, setup=replace(chosen.setup, rate_hz=10))
    faults = Faults(records=((13, OVERCURRENT),) if chosen.setup.is_ascii is False else ())
    data = emulate(chosen, seconds(3, chosen), faults)
    whole, loss = decode(chosen, data)
    for size in (1, 2, 3):
        pieces = [data[place : place + size] for place in range(0, len(data), size)]
        blocks, other = decode(chosen, *pieces)
        assert joined(blocks, "current_a").tolist() == joined(whole, "current_a").tolist()
        assert joined(blocks, "flags").tolist() == joined(whole, "flags").tolist()
        assert replace(other, rate_error_ppm=None) == replace(loss, rate_error_ppm=None)


losses = st.lists(st.tuples(st.integers(0, 3999), st.integers(1, 700)), max_size=3)


@FORMATS
@given(losses, st.lists(st.integers(0, 3999), max_size=3), st.lists(st.integers(0, 10**6)))
@settings(max_examples=60, deadline=None)
def test_every_visible_loss_is_counted(
    chosen: Lpm01aSettings, lost: list[tuple[int, int]], damaged: list[int], cuts: list[int]
) -> None:
    """Otherwise energy would be computed over missing samples without notice."""
    faults = Faults(lost_samples=tuple(lost), lost_bytes=tuple(damaged))
    data = emulate(chosen, seconds(5), faults) + encode_stamp(5000, 7, chosen.setup.is_ascii)
    blocks, loss = decode(chosen, *split(data, cuts))
    assert loss.received_count + loss.lost_count == 5000
    assert sum(gap.count for gap in loss.gaps) == loss.lost_count
    assert loss.received_count == sum(len(block.time_ns) for block in blocks)
    time_ns = joined(blocks, "time_ns") if blocks else np.zeros(0)
    assert (np.diff(time_ns) > 0).all()
    assert all(gap.begin_ns < gap.end_ns for gap in loss.gaps)


def test_second_in_which_a_byte_is_lost_is_dropped_whole() -> None:
    """Otherwise samples made of two halves would be taken for amperes."""
    data = emulate(BINARY, seconds(4), Faults(lost_bytes=(1500,)))
    blocks, loss = decode(BINARY, data)
    time_ms = joined(blocks, "time_ns") // 1_000_000
    assert time_ms.tolist() == [*range(1000), *range(2000, 4000)]
    np.testing.assert_allclose(
        joined(blocks, "current_a"), seconds(4)[time_ms], atol=16.0**-4, rtol=0
    )
    assert [(gap.count, gap.cause) for gap in loss.gaps] == [(1000, "framing lost")]


def test_line_that_lost_a_byte_costs_two_samples_at_most() -> None:
    """Otherwise a damaged line of text would take its whole second along."""
    data = emulate(ASCII, seconds(4), Faults(lost_bytes=(1500,)))
    blocks, loss = decode(ASCII, data)
    time_ms = (joined(blocks, "time_ns") // 1_000_000).tolist()
    assert sorted(set(range(4000)) - set(time_ms)) == [1500, 1501]
    assert [(gap.begin_ns, gap.count) for gap in loss.gaps] == [(1499_000_000, 2)]


@FORMATS
def test_samples_behind_a_loss_have_their_own_times(chosen: Lpm01aSettings) -> None:
    """Otherwise samples after a loss would be early by it.

    Energy would belong to the wrong inference.
    """
    data = emulate(chosen, seconds(4), Faults(lost_samples=((1200, 300),)))
    blocks, loss = decode(chosen, data)
    time_ms = joined(blocks, "time_ns") // 1_000_000
    behind = time_ms >= 2000
    np.testing.assert_allclose(
        joined(blocks, "current_a")[behind], seconds(4)[time_ms[behind]], atol=16.0**-4, rtol=0
    )
    assert [(gap.begin_ns, gap.end_ns, gap.count) for gap in loss.gaps] == [
        (999_000_000, 2_000_000_000, 300)
    ]


@FORMATS
def test_stamp_that_does_not_come_costs_nothing(chosen: Lpm01aSettings) -> None:
    """Otherwise a second without a stamp would be confused with a second without samples."""
    _, loss = decode(chosen, emulate(chosen, seconds(4), Faults(lost_stamps=(2,))))
    assert (loss.received_count, loss.lost_count, loss.is_ambiguous) == (4000, 0, False)


@FORMATS
def test_loss_of_the_beginning_is_seen(chosen: Lpm01aSettings) -> None:
    """Otherwise a recording that lost its first second would begin a second early."""
    data = stream_bytes(
        seconds(2), rate_hz=1000, is_ascii=chosen.setup.is_ascii, first=1000, faults=Faults()
    )
    blocks, loss = decode(chosen, ACK + data)
    assert joined(blocks, "time_ns")[0] == 1_000_000_000
    assert loss.lost_count == 1000


@pytest.mark.parametrize("cut", range(9))
def test_damaged_stamp_makes_no_sample(cut: int) -> None:
    """Otherwise the rest of a damaged stamp would be read as hundreds of amperes."""
    stamp = encode_stamp(2000, 7, is_ascii=False)
    data = emulate(BINARY, seconds(4))
    data = data.replace(stamp, stamp[:cut] + stamp[cut + 1 :])
    blocks, loss = decode(BINARY, data)
    assert joined(blocks, "current_a").max() < 0.041
    assert loss.received_count + loss.lost_count == 4000
    assert loss.desync_count >= 1


def test_stamp_that_leaps_is_not_believed() -> None:
    """Otherwise a damaged stamp would make a gap of days."""
    data = emulate(BINARY, seconds(4)).replace(
        encode_stamp(2000, 7, is_ascii=False), encode_stamp(2000 + (1 << 29), 7, is_ascii=False)
    )
    _, loss = decode(BINARY, data)
    assert (loss.received_count, loss.lost_count) == (4000, 0)
    assert (loss.desync_count, loss.is_ambiguous) == (1, True)


def test_more_samples_than_time_make_the_recording_ambiguous() -> None:
    """Otherwise samples that are counted twice would hide as many lost samples."""
    data = emulate(BINARY, seconds(4), Faults(records=((1500, b"\x42\x00" * 5),)))
    _, loss = decode(BINARY, data)
    assert (loss.received_count, loss.lost_count) == (4005, 0)
    assert (loss.desync_count, loss.is_ambiguous) == (1, True)


@pytest.mark.parametrize(("percent", "is_overflow"), [(7, True), (100, False)])
def test_overflow_is_told(percent: int, is_overflow: bool) -> None:
    """Otherwise the meter's own report of lost samples would be ignored."""
    data = emulate(BINARY, seconds(4), Faults(lost_samples=((1200, 300),)))
    says = encode_stamp(2000, percent, False, is_overflow)
    _, loss = decode(BINARY, data.replace(encode_stamp(2000, 7, False), says))
    assert [(gap.count, gap.cause) for gap in loss.gaps] == [(300, "the meter's buffer overflowed")]
    assert loss.is_ambiguous


@pytest.mark.parametrize("line", [b"1234567", b"1234 07", b"123-407", b"6409-0", b"6409-071234-06"])
def test_remains_of_lines_are_no_samples(line: bytes) -> None:
    """Otherwise the remains of two lines would be taken for a value."""
    data = emulate(ASCII, seconds(1)[:10]) + line + b"\r\n"
    blocks, loss = decode(ASCII, data)
    assert len(joined(blocks, "current_a")) == loss.received_count == 10


def test_overcurrent_marks_the_samples_beside_it() -> None:
    """Otherwise current beyond the range would be taken at its reading."""
    blocks, loss = decode(
        BINARY, emulate(BINARY, seconds(2), Faults(records=((500, OVERCURRENT),)))
    )
    assert np.flatnonzero(joined(blocks, "flags") & Flag.SATURATED).tolist() == [499, 500]
    assert (loss.saturated_count, loss.lost_count, loss.trouble) == (2, 0, None)


def test_overcurrent_at_the_end_of_a_second_marks_the_sample_of_the_next() -> None:
    """Otherwise the mark would be forgotten when a second is given out."""
    data = emulate(BINARY, seconds(1)) + OVERCURRENT + _second(BINARY, 1)
    blocks, _ = decode(BINARY, data)
    assert np.flatnonzero(joined(blocks, "flags")).tolist() == [999, 1000]


def test_current_beyond_the_range_is_marked() -> None:
    """Otherwise a reading for which no accuracy is given would count as good."""
    blocks, loss = decode(BINARY, emulate(BINARY, np.array([0.049, 0.055, 0.01])))
    assert joined(blocks, "flags").tolist() == [0, Flag.SATURATED, 0]
    assert loss.saturated_count == 1


@pytest.mark.parametrize(
    ("chosen", "record", "says"),
    [
        (
            BINARY,
            b"\xf0\xf1Overcurrent >59mA\xff\xff" + END,
            "error reported by the meter: Overcurrent >59mA",
        ),
        (
            ASCII,
            b"error: Overcurrent >59mA\r\nend\r\n",
            "error reported by the meter: Overcurrent >59mA",
        ),
        (BINARY, END, "the meter ended the recording on its own"),
        (
            ASCII,
            b"summary beg\r\n1234-04\r\nsummary end\r\nend\r\n",
            "the meter ended the recordin",
        ),
        (BINARY, b"\xf0\xf6\xff\xff", "the meter switched the device's supply off"),
    ],
)
def test_end_by_the_meter_is_trouble(chosen: Lpm01aSettings, record: bytes, says: str) -> None:
    """Otherwise a recording cut short by the meter would look like a stopped recording."""
    blocks, loss = decode(chosen, emulate(chosen, seconds(1)) + record)
    assert loss.trouble is not None
    assert loss.trouble.startswith(says)
    assert len(joined(blocks, "time_ns")) == loss.received_count == 1000


@pytest.mark.parametrize(
    ("millivolts", "flag"), [(3010, Flag.NONE), (2900, Flag.CLIPPED), (3100, Flag.SATURATED)]
)
def test_supply_that_is_not_what_was_set_is_marked(millivolts: int, flag: Flag) -> None:
    """Otherwise power would be computed with a voltage that the device does not have."""
    record = b"\xf0\xf7" + millivolts.to_bytes(2, "big") + b"\xff\xff"
    blocks, _ = decode(BINARY, emulate(BINARY, seconds(1), Faults(records=((600, record),))))
    flags = joined(blocks, "flags")
    assert set(flags[:600].tolist()) == {0}
    assert set(flags[600:].tolist()) == {int(flag)}


def test_energy_is_the_mean_of_the_interval_before() -> None:
    """Otherwise joules would be taken for amperes, or for those of the next interval."""
    chosen = Lpm01aSettings(setup=Lpm01aSetup(rate_hz=1000, is_energy=True), supply_v=3.0)
    blocks, _ = decode(chosen, emulate(chosen, np.full(3, 2**-16)))
    assert joined(blocks, "power_w").tolist() == [1000 / 2**16] * 3
    assert joined(blocks, "begin_ns").tolist() == [0, 1_000_000, 2_000_000]
    assert joined(blocks, "time_ns").tolist() == [1_000_000, 2_000_000, 3_000_000]
    assert blocks[0].current_a is None


@pytest.mark.parametrize("edge", EventEdge)
@pytest.mark.parametrize("place", [499, 500, 999, 1000, 1001, 1999, 2000, 2200])
def test_event_is_at_the_same_place_for_either_edge(edge: EventEdge, place: int) -> None:
    """Otherwise the mark of a rising edge, and the inference it times, would be a period late."""
    chosen = Lpm01aSettings(setup=replace(ASCII.setup, events=edge), supply_v=3.0)
    event = f"event 00 {edge.value}\r\n".encode()
    values = seconds(3)[:2300]
    blocks, loss = decode(chosen, emulate(chosen, values, Faults(records=((place, event),))))
    assert falls(joined(blocks, "digital")) == [place]
    assert joined(blocks, "time_ns").tolist() == [index * 1_000_000 for index in range(2300)]
    assert [block.index0 for block in blocks] == [
        int(block.time_ns[0]) // 1_000_000 for block in blocks
    ]
    assert loss.received_count == 2300


@pytest.mark.parametrize(("edge", "levels"), [("ris", [0, 1, 0, 0]), ("fal", [1, 1, 0, 1])])
def test_event_is_an_edge_at_the_sample_behind(edge: str, levels: list[int]) -> None:
    """Otherwise the falling edge of an inference would be a sample off, or a rising edge."""
    chosen = Lpm01aSettings(setup=replace(ASCII.setup, events=EventEdge(edge)), supply_v=3.0)
    event = f"event 00 {edge}\r\n".encode()
    blocks, _ = decode(chosen, emulate(chosen, seconds(1)[:4], Faults(records=((2, event),))))
    assert joined(blocks, "digital").tolist() == levels


@pytest.mark.parametrize(
    ("numbers", "trouble"),
    [
        ((4, 5, 6), None),
        ((98, 99, 0), None),
        ((98, 99, 100), None),
        ((998, 999, 0, 1), None),
        ((4, 0), "edge 0 of input D7 came after edge 4: at least one edge was lost"),
        ((8, 9, 0), "edge 0 of input D7 came after edge 9: at least one edge was lost"),
        ((0, 1, 3), "edge 3 of input D7 came after edge 1: at least one edge was lost"),
    ],
)
def test_edge_that_was_lost_is_missed(numbers: tuple[int, ...], trouble: str | None) -> None:
    """Otherwise the windows between a board's edges would shift unnoticed."""
    chosen = Lpm01aSettings(setup=replace(ASCII.setup, events=EventEdge.FALLING), supply_v=3.0)
    events = tuple((10 * n, b"event %02d fal\r\n" % number) for n, number in enumerate(numbers, 1))
    _, loss = decode(chosen, emulate(chosen, seconds(1)[:50], Faults(records=events)))
    assert loss.trouble == trouble


@FORMATS
@given(st.lists(st.binary(max_size=400), max_size=8))
@settings(max_examples=80)
def test_noise_is_no_crash(chosen: Lpm01aSettings, pieces: list[bytes]) -> None:
    """Otherwise a damaged recording would end the analysis with a traceback."""
    blocks, loss = decode(chosen, encode_stamp(0, 0, chosen.setup.is_ascii), *pieces)
    assert loss.received_count == sum(len(block.time_ns) for block in blocks)


@FORMATS
def test_bytes_without_a_record_are_not_kept_for_ever(chosen: Lpm01aSettings) -> None:
    """Otherwise a broken stream would fill the memory."""
    decoder = Lpm01aDecoder(chosen)
    decoder.feed(Packet(0, 0, encode_stamp(0, 0, chosen.setup.is_ascii)))
    for place in range(300):
        decoder.feed(Packet(place, place, b"A" * 65536))
    assert len(decoder._reader._rest) < 1 << 23
    assert decoder.loss().desync_count > 0


@FORMATS
def test_rate_is_compared_with_the_hosts_clock(chosen: Lpm01aSettings) -> None:
    """Otherwise a clock that runs away, or a loss that no stamp shows, would go unnoticed."""
    decoder = Lpm01aDecoder(chosen)
    for number in range(30):
        data = _second(chosen, number)
        cuts = [len(data) * part // 10 for part in range(1, 10)]
        for part, piece in enumerate(split(data, cuts)):
            now_ns = round((number + part / 10) * 1e9 * (1 - 200e-6))
            decoder.feed(Packet(now_ns, now_ns, piece))
    assert decoder.loss().rate_error_ppm == pytest.approx(200, abs=5)


def _second(chosen: Lpm01aSettings, number: int) -> bytes:
    return stream_bytes(
        seconds(1), rate_hz=1000, is_ascii=chosen.setup.is_ascii, first=number * 1000
    )
