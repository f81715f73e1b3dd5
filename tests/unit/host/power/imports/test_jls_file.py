"""Recordings of Joulescopes, written by the vendor's own library."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pyjoulescope_driver
import pytest
from support.jls_files import Parts, write_jls
from support.joulescope import FakeDriver

from edgebench.host.power.imports.importer import import_file
from edgebench.host.result.facts import ImportOptions
from edgebench.host.store.layout import POWER_FILE
from edgebench.meters.base import Flag
from edgebench.protocol.errors import EdgebenchError, FileRefused

RATE_HZ = 10_000
SECOND = np.full(RATE_HZ, 0.1)


def column(folder: Path, name: str) -> Any:
    """A column of the stored recording."""
    return pq.read_table(folder / POWER_FILE)[name].to_numpy(zero_copy_only=False)


def power(*parts: tuple[int, Any]) -> Parts:
    """An instrument of which only the power was recorded."""
    return {"power": [(place, np.asarray(samples)) for place, samples in parts]}


def test_energy_is_that_of_the_file(tmp_path: Path) -> None:
    """Otherwise the recording would begin an hour late.

    Its samples are numbered from the middle of a stream.
    """
    path = write_jls(tmp_path / "a.jls", power((0, np.linspace(0, 1, 30_001))))
    session = import_file(path, tmp_path / "s")
    [channel] = session.channels()
    assert channel.name == "JS220-001 (1)"
    assert channel.duration_s == pytest.approx(3.0)
    assert channel.energy_j == pytest.approx(1.5, rel=1e-6)
    assert column(tmp_path / "s", "time_ns")[[0, 1, -1]].tolist() == [0, 100_000, 3_000_000_000]


def test_gap_is_missing(tmp_path: Path) -> None:
    """Otherwise lost samples would be zero watts, or be cut out and the trace be shorter."""
    parts = {
        "power": [(0, SECOND), (15_000, SECOND)],
        "current": [(0, SECOND), (15_000, SECOND)],
    }
    session = import_file(write_jls(tmp_path / "a.jls", parts), tmp_path / "s")
    assert session.facts.loss.lost_count == 5000
    assert session.facts.loss.received_count == 20_000
    assert not session.is_trusted
    watts_w = column(tmp_path / "s", "watts_w")
    assert np.isnan(watts_w[10_000:15_000]).all()
    assert (column(tmp_path / "s", "flags")[10_000:15_000] == 1).all()
    assert column(tmp_path / "s", "time_ns")[15_000] == 1_500_000_000


def test_power_is_the_product_where_there_is_none(tmp_path: Path) -> None:
    """Otherwise a current would be multiplied with the voltage of another moment."""
    volts = np.linspace(3, 4, 12_000)
    parts = {"current": [(0, SECOND)], "voltage": [(-1000, volts)]}
    session = import_file(write_jls(tmp_path / "a.jls", parts), tmp_path / "s")
    assert session.facts.loss.received_count == RATE_HZ
    expected = 0.1 * volts[1000:11_000]
    assert column(tmp_path / "s", "watts_w") == pytest.approx(expected, rel=1e-6)
    assert column(tmp_path / "s", "volts_v") == pytest.approx(volts[1000:11_000], rel=1e-6)


def test_end_of_the_range_is_that_of_the_driver(tmp_path: Path) -> None:
    """Otherwise an instrument at full scale would be refused live, and trusted from a file."""
    amps = np.where(np.arange(RATE_HZ) % 2, 10.0, 0.1)
    parts = {"current": [(0, amps)], "voltage": [(0, np.full(RATE_HZ, 5.0))]}
    session = import_file(write_jls(tmp_path / "a.jls", parts), tmp_path / "s")
    assert session.facts.loss.saturated_count == RATE_HZ // 2
    assert not session.is_trusted


def test_current_alone_needs_a_voltage(tmp_path: Path) -> None:
    """Otherwise a voltage would be made up, or would override a measured voltage."""
    path = write_jls(tmp_path / "a.jls", {"current": [(0, SECOND)]})
    with pytest.raises(FileRefused, match="current but no voltage"):
        import_file(path, tmp_path / "s")
    [channel] = import_file(path, tmp_path / "s", ImportOptions(supply_v=5.0)).channels()
    assert channel.power_w_mean == pytest.approx(0.5, rel=1e-6)
    whole = write_jls(tmp_path / "b.jls", power((0, SECOND)))
    with pytest.raises(FileRefused, match="--supply does not apply"):
        import_file(whole, tmp_path / "t", ImportOptions(supply_v=5.0))


@pytest.mark.parametrize("ratio", [1, 20])
def test_inputs_have_the_times_of_the_samples(tmp_path: Path, ratio: int) -> None:
    """Otherwise an edge would be read at another moment, by the ratio of the rates."""
    bits = np.zeros(RATE_HZ * ratio, np.uint8)
    bits[2000 * ratio : 7000 * ratio] = 1
    parts: Parts = {"power": [(0, SECOND)], "gpi[2]": [(0, bits)]}
    path = write_jls(tmp_path / "a.jls", parts, input_ratio=ratio)
    import_file(path, tmp_path / "s")
    digital = column(tmp_path / "s", "digital")
    assert set(digital[2000:7000]) == {4}
    assert set(digital[:2000]) == set(digital[7000:]) == {0}


def test_input_that_ends_early_makes_no_edge(tmp_path: Path) -> None:
    """Otherwise an input would fall where its recording ends: an edge that never was."""
    parts: Parts = {"power": [(0, SECOND)], "gpi[0]": [(100, np.ones(8000, np.uint8))]}
    import_file(write_jls(tmp_path / "a.jls", parts), tmp_path / "s")
    assert set(column(tmp_path / "s", "digital")) == {1}
    is_carried = column(tmp_path / "s", "flags") == Flag.INTERPOLATED
    assert np.flatnonzero(~is_carried)[[0, -1]].tolist() == [100, 8099]


def test_time_of_day_and_the_rate_are_kept(tmp_path: Path) -> None:
    """Otherwise a clock that is 300 ppm fast would stretch every window, unseen by any check."""
    began_s = 1_790_000_000.25
    utc = ((0, began_s), (30_000, began_s + 3.0 * (1 - 300e-6)))
    path = write_jls(tmp_path / "a.jls", power((0, np.ones(30_001))), utc=utc)
    session = import_file(path, tmp_path / "s")
    # 1790000000 is 2026-09-21T14:13:20 UTC.
    assert session.facts.header.facts["utc_first"].startswith("2026-09-21T14:13:20.25")
    assert session.facts.loss.rate_error_ppm == pytest.approx(300, abs=1)
    assert [check.is_passed for check in session.checks if check.id == "rate"] == [True]
    assert session.facts.loss.rate_span_s == pytest.approx(3.0, abs=0.01)


def test_file_without_times_has_none(tmp_path: Path) -> None:
    """Otherwise a time of day would be made up."""
    session = import_file(write_jls(tmp_path / "a.jls", power((0, SECOND))), tmp_path / "s")
    assert session.facts.header.facts["utc_first"] is None
    assert session.facts.loss.rate_error_ppm is None


def test_two_instruments_are_two_channels(tmp_path: Path) -> None:
    """Otherwise one of them would be left out, or both be merged."""
    path = write_jls(tmp_path / "a.jls", power((0, SECOND)), power((0, 3 * SECOND)))
    found = import_file(path, tmp_path / "s").channels()
    assert [(one.name, round(one.power_w_mean, 6)) for one in found] == [
        ("JS220-001 (1)", 0.1),
        ("JS220-002 (2)", 0.3),
    ]


@pytest.mark.parametrize("late_s", [(0.0, 0.1), (0.1, 0.0)])
def test_rate_of_every_instrument_is_looked_at(tmp_path: Path, late_s: tuple[float, ...]) -> None:
    """Otherwise the second instrument could lose samples, visible only in the time it took."""
    utc = ((0, 1_790_000_000.0), (30_000, 1_790_000_003.0))
    one = power((0, np.ones(30_001)))
    path = write_jls(tmp_path / "a.jls", one, one, utc=utc, late_s=late_s)
    session = import_file(path, tmp_path / "s")
    assert session.facts.loss.rate_error_ppm == pytest.approx(-1e6 * 0.1 / 3.1, rel=1e-3)
    assert session.is_trusted is False


def test_recording_of_the_vendors_recorder_is_read(tmp_path: Path) -> None:
    """Otherwise the files that we write with pyjls could differ from those of its users."""
    driver = FakeDriver(published={"u/js220/002557/h/fs": 100_000})
    recorder = pyjoulescope_driver.Record(driver, "u/js220/002557", signals="current,voltage,power")
    recorder.open(str(tmp_path / "a.jls"))
    driver.push(100)
    recorder.close()
    [channel] = import_file(tmp_path / "a.jls", tmp_path / "s").channels()
    assert channel.name == "JS220-002557 (1)"
    assert channel.power_w_mean == pytest.approx(0.33, rel=1e-6)
    assert channel.duration_s == pytest.approx(0.8, rel=1e-4)


def test_file_that_was_not_closed_is_left_as_it_is(tmp_path: Path) -> None:
    """Otherwise the library would repair it in place, and so change what was measured."""
    whole = write_jls(tmp_path / "a.jls", power((0, SECOND))).read_bytes()
    path = tmp_path / "cut.jls"
    for length in [*range(0, len(whole), 4001), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(FileRefused, match=r"was not closed|bytes|not a \.jls"):
            import_file(path, tmp_path / "s")
        assert path.read_bytes() == whole[:length]
    assert not (tmp_path / "s" / POWER_FILE).exists()


def test_flipped_bit_is_refused_or_harmless(tmp_path: Path) -> None:
    """Otherwise a damaged disk could change the energy."""
    noise = np.random.default_rng(2).uniform(0, 1, 3000)
    path = write_jls(tmp_path / "a.jls", power((0, noise)))
    whole = path.read_bytes()
    [good] = import_file(path, tmp_path / "good").channels()
    for place in range(0, len(whole), len(whole) // 60):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        try:
            session = import_file(path, tmp_path / f"s{place}")
        except EdgebenchError:
            continue
        assert session.channels()[0].energy_j == good.energy_j, place


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"voltage": [(0, SECOND)]}, "neither power nor current"),
        ({"power": [(0, SECOND[:1])]}, "fewer than two samples"),
        ({}, "no signal of a fixed rate"),
        ({"current": [(0, SECOND)], "voltage": [(20_000, SECOND)]}, "fewer than two samples"),
    ],
)
def test_file_that_says_too_little_is_refused(tmp_path: Path, parts: Parts, reason: str) -> None:
    """Otherwise a recording of the voltage alone would be a session of no power."""
    with pytest.raises(FileRefused, match=reason):
        import_file(write_jls(tmp_path / "a.jls", parts), tmp_path / "s")


def test_other_file_of_that_name_is_refused(tmp_path: Path) -> None:
    """Otherwise a file of the first version, or a text, would be read as a table."""
    path = tmp_path / "a.jls"
    path.write_bytes(b"\xd3tagfmt \r\n \n  \x1a" + bytes(40))
    with pytest.raises(FileRefused, match=r"not a \.jls file: starts with"):
        import_file(path, tmp_path / "s")


def test_missing_package_is_one_line_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the user would see a traceback instead of what to install."""
    path = write_jls(tmp_path / "a.jls", power((0, SECOND)))
    monkeypatch.setitem(sys.modules, "pyjls", None)
    with pytest.raises(FileRefused, match=r"pyjls is not installed.*edgebench\[jls\]"):
        import_file(path, tmp_path / "s")


def test_memory_is_that_of_a_block(tmp_path: Path) -> None:
    """Otherwise an hour at full rate would be loaded whole."""
    part = np.ones(1_000_000)
    path = write_jls(
        tmp_path / "a.jls", power(*((n * len(part), part) for n in range(4))), rate_hz=1_000_000
    )
    tracemalloc.start()
    try:
        session = import_file(path, tmp_path / "s")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert session.facts.loss.received_count == 4_000_000
    # numpy reports its arrays to tracemalloc; one block and one row group are below 25 MB.
    assert peak_bytes < 40e6
