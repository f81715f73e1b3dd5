"""Responses of SCPI instruments: numbers, blocks, and what is missing in them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.scpi import Faults, Floats, block, elog_block, is_kept

from edgebench.meters.base import Capability, Flag, Header, LossReport, MeterInfo, Packet
from edgebench.meters.scpi.decoder import BlockDecoder, make_decoder
from edgebench.meters.scpi.instrument import FETCH_COUNT
from edgebench.meters.scpi.responses import content_of, flags_of, numbers_of
from edgebench.meters.scpi.setup import ResponseKind, ScpiSettings
from edgebench.protocol.errors import EdgebenchError, TargetError
from edgebench.protocol.plain import to_plain

RATE_HZ = 1000.0
ELOG = ScpiSettings(kind=ResponseKind.ELOG)
currents_a = st.lists(
    st.floats(1e-9, 3.0).map(lambda value: value * (-1 if value < 1e-8 else 1)),
    min_size=1,
    max_size=300,
)
places = st.lists(st.integers(0, 299), max_size=5).map(tuple)


def decode(
    data: list[bytes], settings: ScpiSettings = ELOG
) -> tuple[dict[str, Floats], LossReport]:
    """Decode these responses."""
    decoder = BlockDecoder(settings, RATE_HZ)
    blocks = [found for one in data for found in decoder.feed(Packet(0, 0, one))]
    columns = {
        name: np.concatenate([getattr(one, name) for one in blocks]) if blocks else np.zeros(0)
        for name in ("current_a", "power_w", "flags", "time_ns")
    }
    return columns, decoder.loss()


@given(currents_a, st.floats(0.1, 20.0), places, places, st.integers(1, 300))
def test_decoded_is_what_was_measured(
    values: list[float],
    voltage_v: float,
    overload_at: tuple[int, ...],
    no_value_at: tuple[int, ...],
    per_answer: int,
) -> None:
    """Otherwise a record would be read shifted by a column, or a missing value be received."""
    current_a = np.array(values)
    faults = Faults(overload_at=overload_at, no_value_at=no_value_at)
    answers = [
        elog_block(part, np.full(len(part), voltage_v), first, faults)
        for first in range(0, len(values), per_answer)
        if len(part := current_a[first : first + per_answer])
    ]
    found, loss = decode(answers)
    spoilt = {place for place in (*overload_at, *no_value_at) if place < len(values)}
    is_good = np.array([place not in spoilt for place in range(len(values))])
    # The quantisation of float32: 24 bits.
    assert found["current_a"][is_good] == pytest.approx(current_a[is_good], rel=2**-23)
    assert found["power_w"][is_good] == pytest.approx(current_a[is_good] * voltage_v, rel=2**-22)
    assert np.isnan(found["power_w"][~is_good]).all()
    assert loss.received_count + loss.lost_count == len(values)
    assert loss.lost_count == len(spoilt)
    beyond = {place for place in overload_at if place < len(values)} - set(no_value_at)
    assert loss.saturated_count == len(beyond)


@given(st.binary(max_size=60))
def test_no_bytes_make_a_number_up(data: bytes) -> None:
    """Otherwise a damaged recording would end the whole analysis, or give power."""
    found, loss = decode([data])
    assert len(found["power_w"]) == 0 or data.startswith(b"#")
    assert loss.desync_count <= 1


@given(st.integers(1000, 3500), st.integers(1, 40))
def test_records_that_were_overwritten_show_in_the_rate(begin: int, lost: int) -> None:
    """Otherwise a buffer overrun of the instrument would shorten the trace unnoticed."""
    faults = Faults(lost_at=((begin, lost * 10),))
    decoder = BlockDecoder(ELOG, RATE_HZ)
    for first in range(0, 5000, 100):
        data = elog_block(np.ones(100), np.ones(100), first, faults)
        decoder.feed(Packet(0, (first + 100) * 1_000_000, data))
    kept = int(is_kept(0, 5000, faults).sum())
    loss = decoder.loss()
    assert loss.received_count == kept == 5000 - lost * 10
    assert loss.rate_error_ppm is not None
    assert loss.rate_error_ppm < -1000


def test_longest_answer_is_below_the_limit_of_a_block() -> None:
    """Otherwise a full response of the instrument would be refused for its length."""
    full = elog_block(np.ones(FETCH_COUNT), np.ones(FETCH_COUNT), 0, Faults())
    assert len(content_of(full)) == FETCH_COUNT * 8


def test_values_of_text_have_the_voltage_that_was_said() -> None:
    """Otherwise a multimeter's amperes would be printed as watts."""
    settings = ScpiSettings(kind=ResponseKind.MULTIMETER_MEMORY, supply_v=3.3)
    found, loss = decode(
        [block(b"+1.0E-01,+9.90000000E+37,-9.9E+37,nonsense"), block(b"")], settings
    )
    assert found["power_w"][0] == pytest.approx(0.33)
    assert list(found["flags"]) == [
        Flag.NONE,
        Flag.SATURATED | Flag.MISSING,
        Flag.CLIPPED | Flag.MISSING,
        Flag.MISSING,
    ]
    assert (loss.received_count, loss.lost_count) == (1, 3)
    assert list(found["time_ns"]) == [0, 1_000_000, 2_000_000, 3_000_000]


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        (b"9.9E37", Flag.SATURATED | Flag.MISSING),
        (b"-9.9E37", Flag.CLIPPED | Flag.MISSING),
        (b"9.91E37", Flag.MISSING),
        (b"NAN", Flag.MISSING),
        (b"INF", Flag.SATURATED | Flag.MISSING),
        (b"-INF", Flag.CLIPPED | Flag.MISSING),
        (b"", Flag.MISSING),
        (b"1,5", Flag.NONE),
        (b"-1.25E-03", Flag.NONE),
    ],
)
def test_words_for_no_value_are_none(word: bytes, flag: Flag) -> None:
    """Otherwise a code would be an ampere."""
    assert flags_of(numbers_of(word))[0] == flag
    as_float32 = numbers_of(word).astype(">f4").astype(np.float64)
    assert flags_of(as_float32)[0] == flag, "the same in a block"


@pytest.mark.parametrize("data", [b"", b"#", b"#0", b"#x1", b"1.5E+00", b"#2ab", b"#19abc", b"#41"])
def test_what_is_no_block_is_refused(data: bytes) -> None:
    """Otherwise a text would be read as samples."""
    with pytest.raises(TargetError):
        content_of(data)


def test_block_beyond_any_instrument_is_refused() -> None:
    """Otherwise a wrong length would fill the memory."""
    with pytest.raises(TargetError, match="invalid length of a block"):
        content_of(b"#9999999999")


def test_header_that_is_damaged_is_refused() -> None:
    """Otherwise a multimeter's recording without its voltage would have a power."""
    capability = Capability(
        driver="scpi", channels=(), rate_hz=1.0, is_averaging=False, clock_domain="x"
    )
    header = Header(driver="scpi", info=MeterInfo(vendor="", model=""), capability=capability)
    with pytest.raises(EdgebenchError):
        make_decoder(header)
    facts = to_plain(ScpiSettings(kind=ResponseKind.MULTIMETER))
    with pytest.raises((EdgebenchError, ValueError)):
        make_decoder(replace(header, facts=facts))
    assert math.isnan(numbers_of(b"x")[0])
