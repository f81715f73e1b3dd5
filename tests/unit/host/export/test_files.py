"""Files are whole or absent, on real file systems."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from support.disks import small_disk
from support.exports import PLAIN, Stored
from support.tools import need_root

from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.files import export_runs
from edgebench.host.export.registry import FORMATS, ExportKind, named_format
from edgebench.host.result.latency import LoadgenResult
from edgebench.host.store.layout import RAW_DIRECTORY
from edgebench.protocol.errors import FileNotWritten
from edgebench.protocol.traces import LOADGEN_FILES
from edgebench.system import whole_files

WRITTEN = [one.name for one in FORMATS if one.kind is not ExportKind.DIRECTORY]


@pytest.mark.parametrize("name", WRITTEN)
def test_full_disk_leaves_what_was_there(name: str, stored: Stored, tmp_path: Path) -> None:
    """Otherwise half a table would look whole, and the last good table would be gone."""
    need_root()
    with small_disk(tmp_path / "disk", 4096) as disk:  # one page
        path = disk / "runs"
        path.write_bytes(b"before")
        with pytest.raises(FileNotWritten, match=f"No space left on device: {path}"):
            export_runs(stored(PLAIN), named_format(name), path)
        assert path.read_bytes() == b"before"
        assert list(disk.iterdir()) == [path]


def test_full_disk_leaves_no_half_of_the_logs(stored: Stored, tmp_path: Path) -> None:
    """Otherwise LoadGen's summary would be there without its details and the verdict."""
    need_root()
    [one] = stored(PLAIN)
    run, (first, second) = tmp_path / "run", LOADGEN_FILES
    (run / RAW_DIRECTORY).mkdir(parents=True)
    (run / RAW_DIRECTORY / first).write_bytes(b"x" * 100)
    (run / RAW_DIRECTORY / second).write_bytes(b"x" * 20_000)
    loadgen = LoadgenResult(True, None, 100, 1, 2, 3, 4, 5, None, 0)
    metrics = replace(one.run.metrics, loadgen=loadgen)
    with small_disk(tmp_path / "disk", 8192) as disk:
        made = ExportedRun(replace(one.run, metrics=metrics), run)
        with pytest.raises(FileNotWritten, match="No space left on device"):
            export_runs([made], named_format("mlperf"), disk / "logs")
        assert list((disk / "logs").iterdir()) == []


def test_name_of_a_file_may_be_as_long_as_any(stored: Stored, tmp_path: Path) -> None:
    """Otherwise the unfinished file's name would be too long, and the error name the other file."""
    path = tmp_path / f"{'x' * 251}.csv"
    export_runs(stored(PLAIN), named_format("csv"), path)
    assert list(tmp_path.iterdir()) == [path]


def test_link_in_the_place_of_the_unfinished_file_is_not_followed(
    stored: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise another user of the machine could make an export overwrite our file."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for number in range(3):
        (tmp_path / f".edgebench-{os.getpid()}-{number}.part").symlink_to(mine)
    monkeypatch.setattr(whole_files, "_numbers", count())
    export_runs(stored(PLAIN), named_format("csv"), tmp_path / "runs.csv")
    assert mine.read_text() == "mine"
    assert PLAIN in (tmp_path / "runs.csv").read_text()
