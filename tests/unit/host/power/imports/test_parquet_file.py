"""Parquet: plain tables, and our own power.parquet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgebench.host.power.imports import parquet_file
from edgebench.host.power.imports.importer import import_file
from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.power import write_blocks
from edgebench.host.store.recording import write_power
from edgebench.meters.base import Header, LossReport, Packet, Recording, SampleBlock
from edgebench.meters.registry import find_meter
from edgebench.meters.spool import SpoolWriter
from edgebench.protocol.errors import FileRefused

EPOCH_NS = 1_700_000_000_000_000_001


def table_of(path: Path, **columns: Any) -> Path:
    """A plain table."""
    pq.write_table(pa.table(columns), path)
    return path


def own(folder: Path, trouble: str | None = None) -> Path:
    """A session of our own: three seconds of a ramp from 0 to 3 W."""
    folder.mkdir()
    header = find_meter("synthetic:ramp,high=3,period=3").open()
    assert isinstance(header, Header)
    path = folder / "meter.spool"
    with SpoolWriter(path, header) as writer:
        values = (np.arange(3000) + 0.5) * 1e-3
        writer.append(Packet(0, 1, values.astype("<f8").tobytes()))
    write_power(folder, Recording(path, header, trouble))
    return folder / "power.parquet"


def test_plain_table_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a batch would be left out, or a time since 1970 be rounded as a float."""
    monkeypatch.setattr(parquet_file, "BATCH_ROWS", 100)
    time_ns = EPOCH_NS + np.arange(1001) * 1000
    path = table_of(tmp_path / "a.parquet", time_ns=time_ns, power_mW=np.full(1001, 500.0))
    session = import_file(path, tmp_path / "session")
    [channel] = session.channels()
    assert channel.energy_j == pytest.approx(0.5e-3, rel=1e-12)
    table = pq.read_table(tmp_path / "session/power.parquet")
    assert table["time_ns"].to_pylist() == list(time_ns)


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"t_s": [0.0, None], "power_W": [1.0, 1.0]}, r"row 2, column 't_s': not a time"),
        ({"t_s": [0.0, 1.0], "power_W": [1.0, None]}, r"row 2, column 'power_W': not a number"),
        ({"t_s": [0, 0], "power_W": [1.0, 1.0]}, r"row 2, column 't_s': the time is not later"),
        ({"t_s": ["0", "1"], "power_W": [1.0, 1.0]}, r"column 't_s' holds string"),
        ({"t_s": [0, 1], "power": [1.0, 1.0]}, r"column 'power' has no unit"),
        ({"t_s": [], "power_W": []}, r"holds null, not numbers"),
    ],
)
def test_wrong_table_is_refused(tmp_path: Path, columns: dict[str, Any], reason: str) -> None:
    """Otherwise a hole in a table would become a number."""
    path = table_of(tmp_path / "a.parquet", **columns)
    with pytest.raises(FileRefused, match=reason):
        import_file(path, tmp_path / "session")


@pytest.mark.parametrize("is_dictionary", [True, False])
def test_several_channels_in_one_table_are_refused(tmp_path: Path, is_dictionary: bool) -> None:
    """Otherwise rails that were read in turn would become one power between them."""
    names = pa.array(["cpu", "gpu"] * 50)
    path = table_of(
        tmp_path / "a.parquet",
        t_s=np.arange(100) * 0.1,
        power_W=np.arange(100) % 2.0,
        channel=names.dictionary_encode() if is_dictionary else names,
    )
    with pytest.raises(FileRefused, match=r"row 2, column 'channel': channel differs from .*'cpu'"):
        import_file(path, tmp_path / "session")


def test_our_own_recording_stays_what_it_is(tmp_path: Path) -> None:
    """Otherwise another host's recording would lose its meter, boundary or part of its energy."""
    session = import_file(own(tmp_path / "first"), tmp_path / "second")
    [channel] = session.channels()
    assert (channel.boundary, channel.duration_s) == ("synthetic", 3.0)
    assert channel.energy_j == pytest.approx(4.5, rel=1e-12)
    header = session.facts.header
    assert header.driver == "import"
    assert header.facts["recorded_by"] == "synthetic"
    assert header.uncertainty
    assert header.capability.clock_domain.startswith("file:")


def test_what_the_meters_filter_took_stays_among_the_errors(tmp_path: Path) -> None:
    """Otherwise an import would make the energy of a PPK2 recording look more certain."""
    header = find_meter("synthetic:constant").open()
    assert isinstance(header, Header)
    spike_w = np.where(np.arange(1000) % 100 == 0, 0.5, 0.0)
    block = SampleBlock(
        channel=0,
        index0=0,
        time_ns=np.arange(1, 1001) * 1_000_000,
        begin_ns=np.arange(1000) * 1_000_000,
        power_w=np.ones(1000),
        flags=np.zeros(1000, np.uint8),
        spike_w=spike_w,
    )
    (tmp_path / "first").mkdir()
    loss = LossReport(received_count=1000)
    first = write_blocks(tmp_path / "first", header, [block], lambda: loss)
    second = import_file(tmp_path / "first" / POWER_FILE, tmp_path / "second").facts
    assert first.groups[0].spike_j == pytest.approx(5e-3, rel=0.01)
    assert second.groups[0].spike_j == first.groups[0].spike_j


def rewritten(folder: Path, name: str, table: pa.Table) -> Path:
    """Other rows with the metadata of our recording, as in a file that was cut to size."""
    facts = pq.read_metadata(folder / "first" / POWER_FILE).metadata[b"edgebench"]
    path = folder / name
    with pq.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"edgebench": facts})
    return path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: table.drop_columns(["channel"]), "damaged: no column 'channel'"),
        (lambda table: table.drop_columns(["digital"]), "damaged: no column 'digital'"),
        (
            lambda table: table.set_column(3, "watts_w", pa.array(["x"] * 3000)),
            "damaged: .*column 'watts_w' has type string, must have type double",
        ),
        (
            lambda table: table.set_column(3, "watts_w", pa.array([np.inf] * 3000)),
            "the power of a sample is not a number",
        ),
        (lambda table: pa.concat_tables([table[:900], table[2100:]]), "1800 of 3000 samples"),
        (lambda table: table[:0], "0 of 3000 samples"),
    ],
)
def test_rows_that_its_account_is_not_of_are_refused(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], reason: str
) -> None:
    """Otherwise a recording that was cut to size would end in a traceback.

    Or a second would be bridged and trusted.
    """
    table = pq.read_table(own(tmp_path / "first"))
    path = rewritten(tmp_path, "cut.parquet", change(table))
    with pytest.raises(FileRefused, match=reason):
        import_file(path, tmp_path / "session")
    assert not (tmp_path / "session").exists()


def test_recording_of_an_older_version_is_imported(tmp_path: Path) -> None:
    """Otherwise a column that came later would keep old recordings out."""
    table = pq.read_table(own(tmp_path / "first"))
    path = rewritten(tmp_path, "old.parquet", table.drop_columns(["spike_w"]))
    [channel] = import_file(path, tmp_path / "session").channels()
    assert channel.energy_j == pytest.approx(4.5, rel=1e-12)


def test_refused_recording_is_not_trusted_for_being_imported(tmp_path: Path) -> None:
    """Otherwise an import would launder a recording that failed its checks."""
    session = import_file(own(tmp_path / "first", "the meter is gone"), tmp_path / "second")
    assert not session.is_trusted
    assert session.facts.loss.trouble == "the meter is gone"


def test_damaged_file_is_refused_wherever_it_is_cut(tmp_path: Path) -> None:
    """Otherwise a broken download would become a traceback."""
    whole = own(tmp_path / "first").read_bytes()
    path = tmp_path / "cut.parquet"
    for length in [*range(0, len(whole), 997), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(FileRefused):
            import_file(path, tmp_path / "session")


def test_file_with_a_false_name_is_refused(tmp_path: Path) -> None:
    """Otherwise a library would refuse a CSV that is named .parquet, in its own words."""
    path = tmp_path / "a.parquet"
    path.write_text("t_s,power_W\n0,1\n")
    with pytest.raises(FileRefused, match=r"not a \.parquet file: starts with b't_s,'"):
        import_file(path, tmp_path / "session")


def test_facts_that_do_not_fit_the_rows_are_refused(tmp_path: Path) -> None:
    """Otherwise a forged file of ours would reach the integration, and break it there."""
    path = own(tmp_path / "first")
    table = pq.read_table(path).replace_schema_metadata(pq.read_metadata(path).metadata)
    forged = {
        "begin": table.set_column(1, "begin_ns", pa.nulls(3000, pa.int64())),
        "channel": table.set_column(2, "channel", pa.array(["other"] * 3000)),
        "time": table.set_column(0, "time_ns", pa.array(np.arange(3000)[::-1])),
    }
    for name, one in forged.items():
        pq.write_table(one, tmp_path / name)
        with pytest.raises(FileRefused, match="channel"):
            import_file(tmp_path / name, tmp_path / "session")
