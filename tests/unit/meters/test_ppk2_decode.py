"""The decoder of the PPK2: known answers, another client's arithmetic, every kind of loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from ppk2_api.ppk2_api import PPK2_API
from support.ppk2 import CALIBRATION, Faults, damaged, words_for
from support.tools import need_shared

from edgebench.meters.base import Flag, LossReport, Packet, SampleBlock
from edgebench.meters.ppk2.decoder import SWITCH_SAMPLES, Ppk2Decoder, Ppk2Settings
from edgebench.meters.ppk2.metadata import Calibration
from edgebench.meters.ppk2.words import RATE_HZ, calibration_table

Floats = NDArray[np.float64]
Words = NDArray[np.uint32]
NO_INPUT = np.zeros(0, np.uint8)


def known() -> Any:
    """The vector for the decoder."""
    return json.loads(need_shared("known_answers/energy.json").read_text())["K_ppk2_decode"]


def decoder(calibration: Calibration = CALIBRATION, **fields: Any) -> Ppk2Decoder:
    """A new decoder."""
    return Ppk2Decoder(
        Ppk2Settings(calibration=calibration, supply_v=3.3, is_source=True, **fields)
    )


def decode(
    data: bytes, cuts: Sequence[int] = (), made: Ppk2Decoder | None = None
) -> tuple[list[SampleBlock], LossReport]:
    """Decode the bytes, cut at these places."""
    made = made or decoder()
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    parts = [data[a:b] for a, b in pairwise(edges)]
    blocks = [block for part in parts for block in made.feed(Packet(0, 0, part))]
    return blocks + made.finish(), made.loss()


def column(blocks: list[SampleBlock], name: str) -> NDArray[Any]:
    """One column of all blocks."""
    return np.concatenate([getattr(block, name) for block in blocks])


def indexes(blocks: list[SampleBlock]) -> NDArray[np.int64]:
    """Place of each sample on the meter's timeline."""
    found: NDArray[np.int64] = column(blocks, "time_ns") * RATE_HZ // 10**9
    return found


def random_words(count: int, run_length: float, seed: int) -> Words:
    """Words with random values, and ranges of this mean length."""
    draw = np.random.default_rng(seed)
    begins = np.where(draw.random(count) < 1 / run_length, np.arange(count), 0)
    ranges = draw.integers(0, 5, count)[np.maximum.accumulate(begins)]
    counter = np.arange(count) % 64
    words: Words = (
        draw.integers(100, 16000, count)
        | ranges << 14
        | counter << 18
        | draw.integers(0, 256, count) << 24
    ).astype("<u4")
    return words


@pytest.mark.parametrize("is_filtered", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_known_words_give_the_known_currents(is_filtered: bool, size: int) -> None:
    """Otherwise a constant of the conversion, or a rule of the filter, would be wrong."""
    vector = known()
    given_ = vector["definition"]["calibration"]
    calibration = Calibration(**{key.lower(): tuple(value) for key, value in given_.items()})
    data = bytes.fromhex(vector["definition"]["words_hex_le"])
    made = decoder(calibration, is_filtered=is_filtered)
    blocks, loss = decode(data, range(0, len(data), size), made)
    expected = vector["expected"]
    key = "current_A_spike_filter" if is_filtered else "current_A_no_filter"
    assert column(blocks, "current_a") == pytest.approx(expected[key], rel=1e-12)
    assert list(column(blocks, "digital")) == expected["logic"]
    [[place, count]] = expected["lost_by_counter"]
    assert loss.lost_count == count
    assert list(indexes(blocks)) == [*range(place), place + count]


def other_client(words: Words) -> Floats:
    """The same words, decoded by another client, in amperes."""
    api: Any = PPK2_API.__new__(PPK2_API)
    api.ser = None
    keys = {"R": "r", "GS": "gs", "GI": "gi", "O": "o", "S": "s", "I": "i", "UG": "ug"}
    api.modifiers = {
        key: {str(r): value for r, value in enumerate(getattr(CALIBRATION, name))}
        for key, name in keys.items()
    }
    api.current_vdd, api.adc_mult = 3300, 1.8 / 163840
    api.MEAS_ADC, api.MEAS_RANGE = api._generate_mask(14, 0), api._generate_mask(3, 14)
    api.MEAS_LOGIC = api._generate_mask(8, 24)
    api.rolling_avg = api.rolling_avg4 = api.prev_range = None
    api.consecutive_range_samples = api.after_spike = 0
    api.spike_filter_alpha, api.spike_filter_alpha5 = 0.18, 0.06
    api.spike_filter_samples = 3
    api.remainder = {"sequence": b"", "len": 0}
    samples, _ = api.get_samples(words.tobytes())
    return np.array(samples) * 1e-6


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("run_length", [1.2, 3, 30, 1000])
def test_every_sample_is_that_of_another_client(run_length: float) -> None:
    """Otherwise the vectorised filter would only be close to that of the application."""
    words = random_words(5000, run_length, seed=int(run_length * 10))
    cuts = np.random.default_rng(1).integers(0, 20000, 40).tolist()
    blocks, loss = decode(words.tobytes(), cuts)
    assert column(blocks, "current_a") == pytest.approx(other_client(words), rel=1e-12)
    assert replace(loss, saturated_count=0, bounded_count=0) == LossReport(received_count=5000)


def test_current_above_the_highest_that_nordic_allows_is_saturated() -> None:
    """Otherwise a unit at the end of its range would be trusted up to the end of its converter."""
    _, loss = decode(words_for(np.repeat([0.9, 1.1], 500), np.zeros(1000, np.uint8)).tobytes())
    assert loss.saturated_count == pytest.approx(500, abs=SWITCH_SAMPLES)


currents = st.lists(st.floats(1e-6, 0.5), min_size=1, max_size=300).map(np.array)
cut_lists = st.lists(st.integers(0, 2000), max_size=8)


@given(currents, cut_lists)
def test_current_comes_back_within_half_a_step(current_a: Floats, cuts: list[int]) -> None:
    """Otherwise the measured current would not be the current that flowed."""
    digital = (np.arange(len(current_a)) % 256).astype(np.uint8)
    words = words_for(current_a, digital)
    made = decoder(is_filtered=False)
    blocks, loss = decode(words.tobytes(), cuts, made)
    table = calibration_table(CALIBRATION, 3.3)
    ranges = column(blocks, "ranges").astype(int)
    adc = (words & 0x3FFF).astype(int)
    step = table[(ranges << 14) + np.minimum(adc + 1, 0x3FFF)] - table[(ranges << 14) + adc]
    error = np.abs(column(blocks, "current_a") - current_a)
    assert (error <= 0.51 * np.maximum(step, 1e-12)).all()
    assert list(column(blocks, "digital")) == list(digital)
    assert column(blocks, "power_w") == pytest.approx(column(blocks, "current_a") * 3.3)
    assert loss.received_count == len(current_a)


losses = st.lists(st.tuples(st.integers(1, 2900), st.integers(1, 63)), max_size=4)


@settings(deadline=None)
@given(losses, cut_lists)
def test_every_visible_loss_is_accounted_for(lost: list[tuple[int, int]], cuts: list[int]) -> None:
    """Otherwise samples would disappear, and the time axis shrink with them."""
    words = words_for(np.full(3000, 1e-3), np.zeros(3000, np.uint8))
    kept = np.ones(3000, np.bool_)
    for first, count in lost:
        kept[first : first + count] = False
    holes = np.diff(np.flatnonzero(kept)) - 1
    if (holes >= 64).any() or not kept[-1]:
        return  # two holes that merged: declared invisible; or nothing after it
    faults = Faults(lost_words=tuple(lost))
    blocks, loss = decode(damaged(words, faults), cuts)
    assert loss.received_count + loss.lost_count == 3000
    assert list(indexes(blocks)) == list(np.flatnonzero(kept))
    assert loss.is_ambiguous == (not kept.all())
    assert sum(gap.count for gap in loss.gaps) == loss.lost_count


@settings(deadline=None)
@given(st.integers(1, 2500), st.integers(1, 3), cut_lists)
def test_framing_is_found_again(word: int, count: int, cuts: list[int]) -> None:
    """Otherwise one lost byte would turn the rest of the session into noise."""
    draw = np.random.default_rng(word)
    current_a = draw.uniform(1e-4, 2e-2, 4000)
    words = words_for(current_a, np.zeros(4000, np.uint8))
    blocks, loss = decode(damaged(words, Faults(lost_bytes=((word, count),))), cuts)
    plain, _ = decode(words.tobytes())
    assert loss.desync_count == 1
    found, place = column(blocks, "current_a"), indexes(blocks)
    assert place[-1] == 3999, "the timeline is whole again"
    behind = place > word + 600
    assert behind.sum() > 700
    expected_a = column(plain, "current_a")[place[behind]]
    np.testing.assert_allclose(found[behind], expected_a, rtol=1e-9, atol=1e-12)
    assert loss.received_count + loss.lost_count == 4000


def test_loss_of_sixty_four_is_seen_by_the_clock_alone() -> None:
    """Otherwise every second would be 640 µs too short, while the counter shows no loss."""
    words = words_for(np.full(RATE_HZ * 5, 1e-3), np.zeros(RATE_HZ * 5, np.uint8))
    lost = tuple((second * RATE_HZ + 5000, 64) for second in range(5))
    kept = np.frombuffer(damaged(words, Faults(lost_words=lost)), "<u4")
    made, sent = decoder(), 0
    for second in range(5):
        for part in range(10):
            due = (second * 10 + part + 1) * RATE_HZ // 10 - 64 * (second + 1)
            made.feed(Packet(0, (second * 10 + part + 1) * 10**8, kept[sent:due].tobytes()))
            sent = due
    loss = made.loss()
    assert loss.lost_count == 0
    assert loss.rate_error_ppm == pytest.approx(-640, abs=200)
    assert loss.rate_span_s == pytest.approx(4, abs=1)


@pytest.mark.parametrize("count", [37, 101])
def test_loss_that_the_counter_cannot_tell_apart_is_called_so(count: int) -> None:
    """Otherwise 101 lost samples would be 37, with no hint that it may be more."""
    words = words_for(np.full(1000, 1e-3), np.zeros(1000, np.uint8))
    _, loss = decode(damaged(words, Faults(lost_words=((400, count),))))
    assert (loss.lost_count, loss.is_ambiguous) == (37, True)


def test_empty_reads_make_no_samples() -> None:
    """Otherwise 4000 empty reads among 1000 samples would give a sixth of the mean."""
    words = words_for(np.full(1000, 41e-6), np.zeros(1000, np.uint8))
    made = decoder()
    blocks: list[SampleBlock] = []
    for word in words:
        blocks += made.feed(Packet(0, 0, word.tobytes()))
        for _ in range(4):
            blocks += made.feed(Packet(0, 0, b""))
    assert made.loss().received_count == 1000
    assert column(blocks, "current_a").mean() == pytest.approx(41e-6, rel=0.01)


def test_saturation_is_flagged() -> None:
    """Otherwise a peak that was cut off would count as measured."""
    words = words_for(np.array([1e-3, 0.5, 1.0]), np.zeros(3, np.uint8))
    words[2] |= 0x3FFF
    blocks, loss = decode(words.tobytes())
    assert [bool(flag & Flag.SATURATED) for flag in column(blocks, "flags")] == [False, False, True]
    assert loss.saturated_count == 1


@pytest.mark.parametrize("packet_bytes", [4, 8, 12, 4000])
@pytest.mark.parametrize(
    ("at", "bounded_count"),
    [(50, 0), (97, 0), (98, 1), (99, 1), (150, 0), (199, 0)],
)
def test_saturation_right_before_a_higher_range_is_bounded(
    packet_bytes: int, at: int, bounded_count: int
) -> None:
    """Otherwise one sample in 300,000 would end a recording.

    The next sample shows how high it was.
    """
    words = words_for(np.repeat([1e-3, 0.2], 100), np.zeros(200, np.uint8))
    words[at] |= 0x3FFF
    made, data = decoder(), words.tobytes()
    for first in range(0, len(data), packet_bytes):
        made.feed(Packet(0, 0, data[first : first + packet_bytes]))
    made.finish()
    assert (made.loss().saturated_count, made.loss().bounded_count) == (1, bounded_count)


def test_range_that_does_not_exist_is_no_number() -> None:
    """Otherwise a damaged word would be a current, and stay in the filter's average for ever."""
    words = words_for(np.full(100, 1e-3), np.zeros(100, np.uint8))
    words[50] |= 7 << 14
    blocks, _ = decode(words.tobytes())
    current_a, flags = column(blocks, "current_a"), column(blocks, "flags")
    assert flags[50] & Flag.MISSING
    assert np.isnan(current_a).sum() == 1
    assert current_a[53:] == pytest.approx(1e-3, rel=0.01)


def test_calibration_that_is_not_the_units_is_flagged() -> None:
    """Otherwise a constant that the unit lacks would be taken from a table unnoticed."""
    words = words_for(np.full(10, 1e-3), np.zeros(10, np.uint8))
    blocks, _ = decode(words.tobytes(), made=decoder(defaulted=("S3",)))
    assert all(flag & Flag.UNCALIBRATED for flag in column(blocks, "flags"))


def test_reads_that_give_nothing_make_no_samples() -> None:
    """Otherwise each empty read would be a sample of minus 1.26 µA, and a mean of 41 µA be 7."""
    vector = json.loads(need_shared("known_answers/energy.json").read_text())["F_phantom_samples"]
    mean_ua = vector["expected"]["correct_mean_uA"]
    words = words_for(np.full(1000, mean_ua * 1e-6), np.zeros(1000, np.uint8))
    made, blocks = decoder(), []
    for word in words:
        blocks += made.feed(Packet(0, 0, word.tobytes()))
        for _ in range(4):
            blocks += made.feed(Packet(0, 0, b""))
    current_a = column(blocks + made.finish(), "current_a")
    assert len(current_a) == 1000
    assert current_a.mean() * 1e6 == pytest.approx(mean_ua, rel=1e-3)
    assert made.loss().lost_count == 0
