"""Files of Nordic's app."""

from __future__ import annotations

import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.ppk2_files import write_ppk2

from edgebench.host.power.imports.importer import import_file
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import EdgebenchError, FileRefused, UsageError

SUPPLY_V = 3.3


def test_energy_and_inputs_are_those_of_the_file(tmp_path: Path) -> None:
    """Otherwise the unit would be wrong by a million, or the supply be forgotten.

    Or inputs would be read as pairs.
    """
    path = write_ppk2(tmp_path / "a.ppk2", [5000.0] * 100_001, high=(0, 7))
    session = import_file(path, tmp_path / "session", ImportOptions(supply_v=SUPPLY_V))
    [channel] = session.channels()
    assert channel.duration_s == pytest.approx(1.0)
    assert channel.energy_j == pytest.approx(5e-3 * SUPPLY_V, rel=1e-9)
    table = pq.read_table(tmp_path / "session/power.parquet")
    assert set(table["digital"].to_pylist()) == {0b1000_0001}
    assert table["time_ns"].to_numpy()[-1] == 1_000_000_000


def test_averages_are_not_taken_for_instants(tmp_path: Path) -> None:
    """Otherwise half of the first and of the last sample would be lost at 10 samples a second."""
    path = write_ppk2(tmp_path / "a.ppk2", [1000.0, 3000.0], rate=10)
    [channel] = import_file(path, tmp_path / "session", ImportOptions(supply_v=1.0)).channels()
    assert channel.duration_s == pytest.approx(0.2)
    assert channel.energy_j == pytest.approx(0.1e-3 + 0.3e-3)


def test_value_that_is_none_is_missing(tmp_path: Path) -> None:
    """Otherwise NaN would become zero, or one sample make the whole energy NaN."""
    values = [1000.0] * 10_000
    values[5] = float("nan")
    session = import_file(
        write_ppk2(tmp_path / "a.ppk2", values), tmp_path / "s", ImportOptions(supply_v=1.0)
    )
    assert session.facts.loss.lost_count == 1
    [channel] = session.channels()
    assert channel.power_w_mean == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"leave_out": "session.raw"}, r"session\.raw is missing"),
        ({"leave_out": "metadata.json"}, r"metadata\.json is missing"),
        ({"version": 1}, "of version 1"),
        ({"rate": 0}, "rate of 0 Hz"),
        ({"rate": "many"}, "rate of 'many' Hz"),
        ({"rate": float("nan")}, "rate of nan Hz"),
        ({"tail": b"abc"}, "middle of a sample"),
    ],
)
def test_file_that_is_not_whole_is_refused(
    tmp_path: Path, arguments: dict[str, Any], reason: str
) -> None:
    """Otherwise a recording of another program or version would be read as numbers."""
    path = write_ppk2(tmp_path / "a.ppk2", [1.0] * 10, **arguments)
    with pytest.raises(FileRefused, match=reason):
        import_file(path, tmp_path / "session", ImportOptions(supply_v=SUPPLY_V))
    assert not (tmp_path / "session/power.parquet").exists()


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_samples_have_no_energy(tmp_path: Path, count: int) -> None:
    """Otherwise one sample would be an energy of zero, which it is not in a CSV."""
    path = write_ppk2(tmp_path / "a.ppk2", [1000.0] * count)
    with pytest.raises(FileRefused, match="fewer than two samples: energy needs at least two"):
        import_file(path, tmp_path / "session", ImportOptions(supply_v=SUPPLY_V))


def test_cut_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    """Otherwise a broken download would be a traceback, or a short recording that looks whole."""
    noise = np.random.default_rng(1).uniform(0, 1e4, 2000)
    whole = write_ppk2(tmp_path / "a.ppk2", noise).read_bytes()
    path = tmp_path / "cut.ppk2"
    for length in range(0, len(whole), 501):
        path.write_bytes(whole[:length])
        with pytest.raises(FileRefused):
            import_file(path, tmp_path / "session", ImportOptions(supply_v=SUPPLY_V))


def test_flipped_bit_is_refused_or_harmless(tmp_path: Path) -> None:
    """Otherwise a damaged disk would change the energy, as the zip's checksum is unchecked."""
    noise = np.random.default_rng(2).uniform(0, 1e4, 500)
    path = write_ppk2(tmp_path / "a.ppk2", noise)
    whole = path.read_bytes()
    [good] = import_file(path, tmp_path / "good", ImportOptions(supply_v=SUPPLY_V)).channels()
    for place in range(0, len(whole), 37):
        changed = bytearray(whole)
        changed[place] ^= 0x10
        path.write_bytes(changed)
        try:
            session = import_file(path, tmp_path / f"s{place}", ImportOptions(supply_v=SUPPLY_V))
        except EdgebenchError:
            continue
        assert session.channels()[0].energy_j == good.energy_j, place


def test_declared_size_is_not_believed(tmp_path: Path) -> None:
    """Otherwise a file of a kilobyte could fill the disk, or require a terabyte of memory."""
    path = write_ppk2(tmp_path / "a.ppk2", [1.0] * 100)
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")  # the directory's entry of session.raw
    struct.pack_into("<I", data, entry + 24, 0xFFFF_FFF0)
    path.write_bytes(data)
    with pytest.raises(FileRefused, match="declares 4294967280 bytes"):
        import_file(path, tmp_path / "session", ImportOptions(supply_v=SUPPLY_V))


def test_memory_is_that_of_a_block(tmp_path: Path) -> None:
    """Otherwise an hour of recording, two gigabytes, would be loaded whole."""
    path = tmp_path / "long.ppk2"
    sample = struct.pack("<fH", 1000.0, 0x5555)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "metadata.json", '{"metadata":{"samplesPerSecond":100000},"formatVersion":2}'
        )
        with archive.open("session.raw", "w", force_zip64=True) as file:
            for _ in range(30):
                file.write(sample * 100_000)
    tracemalloc.start()
    try:
        session = import_file(path, tmp_path / "session", ImportOptions(supply_v=1.0))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert session.facts.loss.received_count == 3_000_000
    # numpy reports its arrays to tracemalloc; one block and one row group are below 25 MB.
    assert peak_bytes < 40e6


@pytest.mark.parametrize("supply_v", [0.0, -1.0, float("nan"), float("inf")])
def test_wrong_supply_is_refused(tmp_path: Path, supply_v: float) -> None:
    """Otherwise every energy would be zero, or negative."""
    path = write_ppk2(tmp_path / "a.ppk2", [1.0] * 10)
    with pytest.raises(UsageError, match="--supply must be"):
        import_file(path, tmp_path / "session", ImportOptions(supply_v=supply_v))


def test_supply_is_asked_for(tmp_path: Path) -> None:
    """Otherwise a voltage would be made up."""
    path = write_ppk2(tmp_path / "a.ppk2", [1.0] * 10)
    with pytest.raises(FileRefused, match="has no voltage"):
        import_file(path, tmp_path / "session")
