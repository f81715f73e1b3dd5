"""The guarantees of every meter: one suite over all drivers."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.meters import BENCHES, Wait

from edgebench.meters.base import Flag, Header, Meter, SampleBlock, blocks_of
from edgebench.meters.registry import DRIVERS, find_decoder
from edgebench.meters.spool import read_header, read_packets
from edgebench.meters.uncertainty import Unit
from edgebench.protocol.errors import MeasurementError, StoreError

MEASURED_S = 0.3
pytestmark = pytest.mark.slow


def wait() -> None:
    """Wait while the meter measures: samples take wall time."""
    threading.Event().wait(MEASURED_S)


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Meter, Wait]]:
    """Each meter, with the setup that lets it measure."""
    with BENCHES[request.param](tmp_path / "root", wait) as found:
        yield found
        found[0].close()


def opened(meter: Meter) -> Header:
    """The meter, opened."""
    header = meter.open()
    assert isinstance(header, Header), header
    return header


def test_suite_looks_at_every_driver() -> None:
    """Otherwise a new meter would be in no contract."""
    assert {name.split()[0] for name in BENCHES} == set(DRIVERS)


def test_meter_says_what_it_is(bench: tuple[Meter, Wait]) -> None:
    """Otherwise a result could have a clock without a name, or an uncertainty without a source."""
    meter, _ = bench
    header = opened(meter)
    capability = header.capability
    assert header.driver == capability.driver == meter.name
    assert header.info.model
    assert capability.channels
    assert len({channel.name for channel in capability.channels}) == len(capability.channels)
    assert all(channel.boundary for channel in capability.channels)
    assert 0 < capability.rate_hz < math.inf
    assert re.fullmatch(r"(host|meter|device):.+", capability.clock_domain)
    assert capability.min_window_s > 0
    assert header.uncertainty
    for term in header.uncertainty:
        assert term.reference, f"{term.kind.value} says nothing of where it stands"
        assert 0 <= term.value < math.inf


def test_session_needs_an_open_meter(bench: tuple[Meter, Wait], tmp_path: Path) -> None:
    """Otherwise a closed meter would record the last device that had its port."""
    meter, _ = bench
    opened(meter)
    meter.close()
    meter.close()
    if meter.name != "synthetic":  # which holds nothing
        with pytest.raises(MeasurementError, match="not open"):
            meter.session(tmp_path / "recording")


def test_recording_is_read_without_the_meter(bench: tuple[Meter, Wait], tmp_path: Path) -> None:
    """Otherwise a recording could be decoded only on that machine, or with the meter connected."""
    meter, measure = bench
    header = opened(meter)
    with meter.session(tmp_path / "recording") as session:
        measure()
        assert session.trouble is None
    meter.close()
    assert session.recording().header == header == read_header(tmp_path / "recording")
    decoder = find_decoder(read_header(tmp_path / "recording"))
    blocks = list(blocks_of(decoder, read_packets(tmp_path / "recording")))
    loss = decoder.loss()
    counted = sum(len(block.time_ns) for block in blocks)
    missing = sum(int(np.count_nonzero(block.flags & int(Flag.MISSING))) for block in blocks)
    assert loss.received_count == counted - missing
    for place in range(len(header.capability.channels)):
        check([block for block in blocks if block.channel == place], header)
    if any(term.unit is Unit.AMPERE for term in header.uncertainty):
        # Else an error of the current is an error of unknown power, and the energy is not a number.
        is_measured = all(block.voltage_v is not None for block in blocks)
        assert is_measured or header.facts.get("supply_v")


def check(blocks: list[SampleBlock], header: Header) -> None:
    """The columns of one channel match the interface."""
    last_ns, next_index = None, 0
    for block in blocks:
        count = len(block.time_ns)
        columns = (block.begin_ns, block.current_a, block.voltage_v, block.digital, block.ranges)
        for column in (block.power_w, block.flags, *columns):
            assert column is None or column.shape == (count,)
        assert (block.begin_ns is not None) == header.capability.is_averaging
        is_missing = (block.flags & int(Flag.MISSING)) != 0
        assert (np.isnan(block.power_w) == is_missing).all(), "no number without a flag, and back"
        before_ns = block.time_ns[0] - 1 if last_ns is None else last_ns
        assert (np.diff(block.time_ns, prepend=before_ns) > 0).all()
        assert block.index0 >= next_index, "lost samples have their places"
        last_ns, next_index = block.time_ns[-1], block.index0 + count


def test_second_session_is_as_good_as_the_first(bench: tuple[Meter, Wait], tmp_path: Path) -> None:
    """Otherwise idle before a run would be recorded, but not the run itself."""
    meter, measure = bench
    opened(meter)
    for name in ("first", "second"):
        with meter.session(tmp_path / name) as session:
            measure()
        assert session.recording().trouble is None
        assert any(read_packets(tmp_path / name))


def test_limits_of_current_are_of_what_is_there(bench: tuple[Meter, Wait]) -> None:
    """Otherwise limits would be reported that no sample has, or for a channel without current."""
    header = opened(bench[0])
    limits = header.capability.current_limits
    channels = {channel.name for channel in header.capability.channels}
    ranges = {term.range for term in header.uncertainty}
    for limit in limits:
        assert limit.limit_a > 0
        assert limit.channel is None or limit.channel in channels
        assert limit.range is None or limit.range in ranges
    if limits and limits[0].channel is None:
        assert [one.limit_a for one in limits] == sorted(one.limit_a for one in limits)
    known = ("ppk2", "lpm01a", "joulescope", "hwmon", "fnirsi", "km003c", "um25c")
    assert limits or header.driver not in known


def test_recording_that_is_there_is_not_written_over(
    bench: tuple[Meter, Wait], tmp_path: Path
) -> None:
    """Otherwise a second run with the same name would replace the measurement."""
    meter, _ = bench
    opened(meter)
    path = tmp_path / "recording"
    path.write_bytes(b"measured")
    with pytest.raises(StoreError, match="File exists"), meter.session(path):
        pass
    assert path.read_bytes() == b"measured"
