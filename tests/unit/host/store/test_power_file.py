"""A stored recording, read by windows."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.energy import SECOND_NS, header, recorded
from support.ppk2 import CALIBRATION, words_for

from edgebench.host.analysis.energy.integrate import PowerLine
from edgebench.host.store import power
from edgebench.host.store.power import missing_ns, write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.host.store.recording import write_power
from edgebench.meters.base import (
    Capability,
    Channel,
    Flag,
    Gap,
    Header,
    LossReport,
    MeterInfo,
    Packet,
    Recording,
    SampleBlock,
)
from edgebench.meters.ppk2.decoder import Ppk2Settings
from edgebench.meters.spool import SpoolWriter
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.plain import to_plain

RATE_HZ = 100_000
SUPPLY_V = 3.3


def ppk2(directory: Path, current_a: NDArray[np.float64], *, is_filtered: bool = True) -> PowerFile:
    """The recording of this current by a PPK2."""
    made = Ppk2Settings(
        calibration=CALIBRATION, supply_v=SUPPLY_V, is_source=False, is_filtered=is_filtered
    )
    head = Header(
        driver="ppk2",
        info=MeterInfo(vendor="a", model="b"),
        capability=Capability(
            driver="ppk2",
            channels=(Channel("current", "x"),),
            rate_hz=RATE_HZ,
            is_averaging=False,
            is_uniform=True,
            clock_domain="meter:x",
        ),
        facts=to_plain(made),
    )
    directory.mkdir()
    words = words_for(current_a, np.zeros(len(current_a), np.uint8))
    path = directory / "spool"
    with SpoolWriter(path, head) as writer:
        for first in range(0, len(words), 20_000):
            rx_ns = 7 * SECOND_NS + (first + 20_000) * 10_000
            writer.append(Packet(rx_ns - 1, rx_ns, words[first : first + 20_000].tobytes()))
    write_power(directory, Recording(path, head))
    return PowerFile.open(directory)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many row groups in a short recording."""
    monkeypatch.setattr(power, "GROUP_ROWS", 1000)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 9_999_000_000), min_size=2, max_size=20), st.integers(0, 99))
def test_cumulative_energy_is_that_of_the_whole_line(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], seed: int
) -> None:
    """Otherwise energy would jump at the end of a row group, or between two samples."""
    chance = np.random.default_rng(seed)
    time_ns = np.arange(10_000) * 1_000_000
    power_w = chance.uniform(0.5, 2.0, len(time_ns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(power, "GROUP_ROWS", 1000)
        file = recorded(tmp_path_factory.mktemp("power"), time_ns, power_w)
    assert len(file.facts.groups) == 1  # One block is one group, however large.
    asked = np.array(times)
    found = file.cumulative_j("supply", asked)
    fine = np.unique(np.concatenate([time_ns, asked]))
    steps = np.diff(fine) / 1e9
    values = np.interp(fine, time_ns, power_w)
    whole = np.concatenate([[0.0], np.cumsum(steps * (values[1:] + values[:-1]) / 2)])
    assert found == pytest.approx(whole[np.searchsorted(fine, asked)], rel=1e-9, abs=1e-9)


@pytest.mark.usefixtures("small_groups")
def test_window_over_many_row_groups_is_one(tmp_path: Path) -> None:
    """Otherwise ranges, samples or energy of the groups at its ends would be counted whole."""
    current_a = np.where(np.arange(100_000) % 10_000 < 5_000, 2e-3, 20e-3)
    file = ppk2(tmp_path / "a", current_a)
    window = file.window("current", 100_000_000, 500_000_000)
    assert window.duration_s == pytest.approx(0.4)
    assert window.energy_j == pytest.approx(0.4 * SUPPLY_V * 11e-3, rel=5e-3)
    assert window.sample_count == pytest.approx(40_001, abs=2)
    assert window.ranges.keys() == {2, 3}
    for number, level_a in ((2, 2e-3), (3, 20e-3)):
        part = window.ranges[number]
        assert part.duration_s == pytest.approx(0.2, rel=1e-3)
        assert part.energy_j == pytest.approx(0.2 * SUPPLY_V * level_a, rel=0.01)
    assert window.supply_v == SUPPLY_V
    assert file.peak_w("current", 110_000_000, 140_000_000) == pytest.approx(2e-3 * 3.3, rel=0.01)


def in_parts(
    directory: Path,
    *parts: tuple[NDArray[np.int64], NDArray[np.float64]],
    begin_ns: int | None = None,
) -> PowerFile:
    """A recording with a row group for each part; of means over this interval, if given."""
    blocks = [
        SampleBlock(
            channel=0,
            index0=0,
            time_ns=time_ns,
            begin_ns=None if begin_ns is None else time_ns - begin_ns,
            power_w=power_w,
            flags=np.where(np.isnan(power_w), int(Flag.MISSING), 0).astype(np.uint8),
        )
        for time_ns, power_w in parts
    ]
    meter = header()
    if begin_ns is not None:
        meter = replace(meter, capability=replace(meter.capability, is_averaging=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(power, "GROUP_ROWS", 1)
        write_blocks(directory, meter, blocks, lambda: LossReport(received_count=1))
    return PowerFile.open(directory)


class _Counted(np.ndarray[tuple[int], np.dtype[np.int64]]):
    """Times that count the requests for their length."""

    asked = 0

    def __len__(self) -> int:
        _Counted.asked += 1
        return super().__len__()


def test_samples_that_come_one_by_one_are_counted_once(tmp_path: Path) -> None:
    """Otherwise the cost of each small block would grow with the number that wait to be written."""
    count = 1000
    blocks = [
        SampleBlock(
            channel=0,
            index0=k,
            time_ns=np.array([k * 1_000_000]).view(_Counted),
            power_w=np.ones(1),
            flags=np.zeros(1, np.uint8),
        )
        for k in range(count)
    ]
    write_blocks(tmp_path, header(), blocks, lambda: LossReport(received_count=count))
    assert 0 < _Counted.asked <= 10 * count
    assert PowerFile.open(tmp_path).window("supply", 0, 999_000_000).energy_j == pytest.approx(
        0.999
    )


MS_NS = 1_000_000


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 999 * MS_NS), min_size=1, max_size=20), st.integers(0, 99))
def test_many_row_groups_are_one_line_whatever_the_order_of_the_times(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], seed: int
) -> None:
    """Otherwise a query would get the energy of another, or of the wrong row group."""
    power_w = np.random.default_rng(seed).uniform(0.5, 2.0, 1000)
    time_ns = np.arange(1000) * MS_NS
    parts = [(time_ns[n : n + 100], power_w[n : n + 100]) for n in range(0, 1000, 100)]
    file = in_parts(tmp_path_factory.mktemp("power"), *parts)
    assert len(file.facts.groups) == 10
    asked = np.array(times)
    whole = PowerLine(time_ns, power_w).cumulative_j(asked)
    assert file.cumulative_j("supply", asked) == pytest.approx(whole, rel=1e-9, abs=1e-12)


def test_file_is_opened_once_for_all_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each row group would read all metadata: minutes for an hour of a fast meter."""
    parts = [((n * 100 + np.arange(100)) * MS_NS, np.ones(100)) for n in range(50)]
    file = in_parts(tmp_path, *parts)
    known: list[object] = []
    parquet_file = pq.ParquetFile

    def opened(path: Path, *, metadata: object) -> object:
        known.append(metadata)
        return parquet_file(path, metadata=metadata)

    monkeypatch.setattr(pq, "ParquetFile", opened)
    file.cumulative_j("supply", np.arange(0, 4999 * MS_NS, 7 * MS_NS))
    assert known == [file._metadata]
    file.window("supply", 50 * MS_NS, 4950 * MS_NS)
    assert len(known) == 3


def test_window_between_two_row_groups_has_no_sample(tmp_path: Path) -> None:
    """Otherwise a silence of the meter would end in a traceback."""
    times = np.arange(100) * MS_NS
    file = in_parts(tmp_path, (times, np.ones(100)), (times + SECOND_NS, np.ones(100)))
    assert file.energy_j("supply", 200 * MS_NS, 300 * MS_NS) == pytest.approx(0.1)
    for ask in (file.window, file.peak_w):
        with pytest.raises(MeasurementError, match="no sample in the window"):
            ask("supply", 200 * MS_NS, 300 * MS_NS)


def test_rows_that_are_no_numbers_are_missing(tmp_path: Path) -> None:
    """Otherwise energy over samples that the meter did not have would look certain."""
    power_w = np.ones(1000)
    power_w[150:160] = np.nan
    power_w[300:400] = np.nan  # All of a row group.
    times = np.arange(1000) * MS_NS
    parts = [(times[n : n + 100], power_w[n : n + 100]) for n in range(0, 1000, 100)]
    file = in_parts(tmp_path, *parts)
    for (begin, end), missing_s in {
        (0, 999): 0.110,
        (155, 250): 0.005,
        (110, 350): 0.061,
        (400, 999): 0.0,
    }.items():
        window = file.window("supply", begin * MS_NS, end * MS_NS)
        assert window.missing_s == pytest.approx(missing_s), (begin, end)


def test_counter_that_was_not_read_once_misses_nothing(tmp_path: Path) -> None:
    """Otherwise the next reading, which covers both intervals, would be reported as missing."""
    times, power_w = np.arange(1, 11) * 100 * MS_NS, np.ones(10)
    power_w[[4, 9]] = np.nan
    blocks = in_parts(tmp_path, (times, power_w), begin_ns=100 * MS_NS)
    assert blocks.facts.groups[0].missing_count == 2
    begin_ns = times - 100 * MS_NS
    begin_ns[5] = begin_ns[4]
    table = pa.table({"time_ns": times, "begin_ns": begin_ns, "watts_w": power_w})
    assert missing_ns(table, is_averaging=True).tolist() == [times[9]]


def test_what_the_filter_took_away_is_told(tmp_path: Path) -> None:
    """Otherwise the range-switch filter would change the energy by an unknown amount."""
    current_a = np.where(np.arange(100_000) % 50 < 2, 20e-3, 2e-3)
    filtered = ppk2(tmp_path / "a", current_a)
    raw = ppk2(tmp_path / "b", current_a, is_filtered=False)
    times = 100_000_000, 900_000_000
    window = filtered.window("current", *times)
    gone_j = raw.energy_j("current", *times) - window.energy_j
    assert abs(gone_j) > 1e-3 * window.energy_j
    assert window.spike_j == pytest.approx(gone_j, rel=0.01)
    assert raw.window("current", *times).spike_j == 0.0


def test_arrivals_are_kept(tmp_path: Path) -> None:
    """Otherwise the only link between the meter's clock and the host's would be discarded."""
    file = ppk2(tmp_path / "a", np.full(400_000, 2e-3))
    assert file.arrival is not None
    assert file.arrival.offset_ns == pytest.approx(7 * SECOND_NS, abs=20_000)
    assert file.arrival.slope == pytest.approx(0.0, abs=1e-7)


def test_gaps_inside_a_window_are_missing(tmp_path: Path) -> None:
    """Otherwise energy over a gap would look certain."""
    time_ns = np.concatenate([np.arange(1000), np.arange(1500, 3000)]) * 1_000_000
    gap = Gap(999_000_000, 1_500_000_000, 500, "lost")
    loss = LossReport(received_count=2500, lost_count=500, gaps=(gap,))
    file = recorded(tmp_path, time_ns, np.ones(2500), loss=loss)
    assert file.window("supply", 1_200_000_000, 2_000_000_000).missing_s == pytest.approx(0.3)
    assert file.window("supply", 1_600_000_000, 2_000_000_000).missing_s == 0.0


def test_falling_edges_are_found_across_row_groups(tmp_path: Path, small_groups: None) -> None:
    """Otherwise a pulse at the end of a row group would be lost."""
    digital = np.full(5000, 0b11, np.uint8)
    digital[2000:2010] = 0b01
    digital[1000:1100] &= 0b10
    file = recorded(tmp_path, np.arange(5000) * 1_000_000, np.ones(5000), digital=digital)
    edges = {bit: times.tolist() for bit, times in file.falling_edges().items()}
    assert edges == {0: [999_500_000], 1: [1_999_500_000]}


def test_meter_without_inputs_has_no_edges(tmp_path: Path) -> None:
    """Otherwise a missing column would end in a traceback."""
    assert recorded(tmp_path, np.arange(10), np.ones(10)).falling_edges() == {}


def test_window_beyond_the_recording_is_refused(tmp_path: Path) -> None:
    """Otherwise the last sample would be extrapolated without limit."""
    file = recorded(tmp_path, np.arange(1000) * 1_000_000, np.ones(1000), of=header())
    with pytest.raises(MeasurementError, match="beyond the meter's recording"):
        file.window("supply", 0, 2 * SECOND_NS)
    with pytest.raises(MeasurementError, match="nothing of this channel"):
        file.window("other", 0, 1000)
    assert math.isfinite(file.window("supply", 0, 999_000_000).energy_j)


def test_stretches_without_a_sample_are_known(tmp_path: Path, small_groups: None) -> None:
    """Otherwise a line through a gap would look like a measurement."""
    time_ns = np.concatenate([np.arange(1000), np.arange(1500, 3000)]) * 1_000_000
    power_w = np.ones(2500)
    power_w[100:110] = power_w[2400] = np.nan
    gap = Gap(999_000_000, 1_500_000_000, 500, "lost")
    loss = LossReport(received_count=2500, lost_count=500, gaps=(gap,))
    file = recorded(tmp_path, time_ns, power_w, loss=loss)
    spans_ms = (file.gaps_ns("supply") / 1e6).tolist()
    assert spans_ms == [[99, 110], [999, 1500], [2899, 2901]]


def test_stretch_without_an_interval_is_as_long_as_the_interval(tmp_path: Path) -> None:
    """Otherwise the gap of an averaging meter would be too short or too long by one sample."""
    times, power_w = np.arange(1, 11) * 100 * MS_NS, np.ones(10)
    power_w[4:6] = np.nan
    file = in_parts(tmp_path, (times, power_w), begin_ns=100 * MS_NS)
    assert (file.gaps_ns("supply") / MS_NS).tolist() == [[400, 600]]
