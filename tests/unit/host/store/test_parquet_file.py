"""Parquet files of a stored run: their footers are checked before a column is read."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.bombs import BOMBS, GROUP_ROWS, write_bomb
from support.energy import recorded

from edgebench.host.bench.verify import verify
from edgebench.host.cli.main import main
from edgebench.host.series.run_series import read_series
from edgebench.host.store import parquet_file
from edgebench.host.store.address import find_runs
from edgebench.host.store.bundle import write_bundle
from edgebench.host.store.files import check_traces, read_clock, read_queries
from edgebench.host.store.layout import (
    CLOCK_FILE,
    POWER_FILE,
    QUERIES_FILE,
    TELEMETRY_FILE,
    Store,
)
from edgebench.host.store.merge import merge_store
from edgebench.protocol.errors import OutOfMemory, RunDamaged

METERED = "20261123-031057-10023550"
"""A metered run whose numbers are shown."""
FIXTURE = Path(__file__).parents[3] / "fixtures" / "runs" / "v7" / METERED
ROWS = 8 * GROUP_ROWS


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one metered run."""
    made = Store(tmp_path / "store")
    shutil.copytree(FIXTURE, made.directory(METERED))
    return made


@pytest.mark.parametrize("name", BOMBS)
def test_file_with_more_rows_than_it_may_have_is_refused(store: Store, name: str) -> None:
    """Otherwise a file of a few kilobytes would take all memory."""
    directory = store.directory(METERED)
    write_bomb(directory, name, ROWS)
    assert (directory / name).stat().st_size < 200_000
    with pytest.raises(RunDamaged, match=f"{ROWS} rows, at most "):
        check_traces(directory)
    with pytest.raises(RunDamaged, match=f"{ROWS} rows, at most "):
        verify(store, METERED)
    run = store.run(METERED)
    with pytest.raises(RunDamaged, match=f"{ROWS} rows, at most "):
        read_clock(directory) if name == CLOCK_FILE else read_series(directory, run)


def test_recording_of_a_value_that_never_changes_is_read(tmp_path: Path) -> None:
    """Otherwise the file of a dead meter of 100 kS/s would count as damaged after 12 s."""
    count = 1 << 21
    time_ns = 10_000 * np.arange(count, dtype=np.int64)
    power = recorded(tmp_path, time_ns, np.zeros(count))
    assert power.span_ns("supply") == (0, 10_000 * (count - 1))


_UNDER_LIMIT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
from edgebench.host.cli.main import main
codes = [int(main([*line.split(), *sys.argv[2:]])) for line in sys.argv[1].splitlines()]
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(codes, peak.split()[1])
"""


def test_every_command_refuses_a_bundle_of_bombs_in_one_line(store: Store, tmp_path: Path) -> None:
    """Otherwise a received bundle, or an artifact of CI, would exhaust the machine."""
    directory = store.directory(METERED)
    for name in BOMBS:
        write_bomb(directory, name, ROWS)
    bundle = tmp_path / "sent.zip"
    write_bundle(bundle, find_runs(store, METERED))
    lines = [
        f"show {bundle}",
        f"verify {bundle}",
        f"export {bundle} --format perfetto -o {tmp_path}/r.pftrace",
        f"store merge {bundle}",
        f"report {bundle} -o {tmp_path}/r.html",
    ]
    other = ["--store", str(tmp_path / "other")]
    command = [sys.executable, "-c", _UNDER_LIMIT, "\n".join(lines), *other]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    codes, peak_kb = ended.stdout.splitlines()[-1].rsplit(" ", 1)
    assert codes == "[1, 1, 1, 1, 1]", ended.stderr
    assert f"traces left out: trace is damaged: {ROWS} rows" in (tmp_path / "r.html").read_text()
    assert int(peak_kb) < 500_000
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == len(lines)
    assert all(f"{ROWS} rows, at most " in line for line in errors)
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "other" / "runs" / METERED).exists()


def test_merge_leaves_a_damaged_run_where_it_is(store: Store, tmp_path: Path) -> None:
    """Otherwise one damaged run would stop the copy of the others, or be copied too."""
    second = "20261123-050608-000000002"
    shutil.copytree(FIXTURE, store.directory(second))
    write_bomb(store.directory(METERED), QUERIES_FILE, ROWS)
    here = Store(tmp_path / "here")
    report = merge_store(here, store)
    assert (list(report.damaged), report.added) == ([METERED], (second,))
    assert here.run_ids() == [second]


def test_texts_are_read_once_and_not_for_each_row(store: Store) -> None:
    """Otherwise a long text that all rows share would be as long as all rows together."""
    directory = store.directory(METERED)
    table = pq.read_table(directory / TELEMETRY_FILE)
    zeros = pa.array([0] * len(table), pa.int32())
    names = pa.DictionaryArray.from_arrays(zeros, pa.array(["x" * 4_000_000]))
    table = table.set_column(1, "sensor", names)
    pq.write_table(table, directory / TELEMETRY_FILE)
    with pytest.raises(RunDamaged, match=r"a row group of .* rows has .* bytes"):
        check_traces(directory)


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.string(), pa.float64()]
)
def test_column_of_another_type_is_refused(store: Store, kind: object) -> None:
    """Otherwise a nested column, or a column of texts, would be read as numbers."""
    directory = store.directory(METERED)
    table = pa.table({"t0": pa.nulls(3, kind)})
    pq.write_table(table, directory / CLOCK_FILE)
    with pytest.raises(RunDamaged, match=r"column 't0' has type .*, must have type int64"):
        read_clock(directory)


@pytest.mark.parametrize("kind", [pa.int32(), pa.uint64(), pa.timestamp("ns"), pa.bool_()])
def test_column_that_cannot_hold_its_values_is_refused(store: Store, kind: object) -> None:
    """Otherwise times would overflow in a subtraction, or not be numbers."""
    directory = store.directory(METERED)
    pq.write_table(pa.table({"t0": pa.nulls(3, kind)}), directory / CLOCK_FILE)
    with pytest.raises(RunDamaged, match=r"column 't0' has type .*, must have type int64"):
        read_clock(directory)


def test_wider_numbers_of_other_tools_are_read(store: Store) -> None:
    """Otherwise a run whose traces were rewritten by another tool would have no traces."""
    directory = store.directory(METERED)
    run = store.run(METERED)
    before, series = read_queries(directory), read_series(directory, run)
    wider = {pa.int32(): pa.int64(), pa.uint8(): pa.int32(), pa.float32(): pa.float64()}
    for name in (QUERIES_FILE, TELEMETRY_FILE, CLOCK_FILE, POWER_FILE):
        table = pq.read_table(directory / name)
        fields = [field.with_type(wider.get(field.type, field.type)) for field in table.schema]
        footer = pq.read_metadata(directory / name)
        wide = table.cast(pa.schema(fields, metadata=footer.metadata))
        pq.write_table(wide, directory / name, row_group_size=footer.row_group(0).num_rows)
    after = read_queries(directory)
    assert (after.start_ns == before.start_ns).all()
    assert (after.sample == before.sample).all()
    assert len(read_series(directory, run).power) == len(series.power)
    check_traces(directory)


def test_footer_that_is_too_long_is_not_read(store: Store) -> None:
    """Otherwise the metadata alone would take all memory."""
    path = store.directory(METERED) / QUERIES_FILE
    with path.open("r+b") as file:
        file.seek(-8, 2)
        file.write(struct.pack("<I4s", 2**31, b"PAR1"))
    with pytest.raises(RunDamaged, match="its footer is 2147483648 bytes, at most 67108864"):
        read_queries(path.parent)


def test_what_does_not_fit_into_memory_is_one_line(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a machine with little memory would print a traceback."""

    def fail(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 8000000000 failed")

    monkeypatch.setattr(parquet_file, "_fault_of_columns", fail)
    with pytest.raises(OutOfMemory, match="trace does not fit into memory: malloc of size 8"):
        read_queries(store.directory(METERED))
    monkeypatch.setattr(Store, "run", fail)
    assert main(["show", METERED, "--store", str(store.root)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: not enough memory: malloc of size 8000000000 failed"
    assert lines[1].startswith("hint: close other programs")
