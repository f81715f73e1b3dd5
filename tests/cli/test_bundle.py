"""The command bundle, and the commands that accept a bundle for runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.agents import Host
from support.commands import Run
from support.disks import read_only
from support.tools import need_root

from edgebench.host.lab import Lab
from edgebench.host.store.layout import Store

RUNS = Path(__file__).parents[1] / "fixtures" / "runs" / "v7"
METERED = "20261123-031049-420b03bc"


@pytest.fixture
def stored(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of this host with runs of every kind; the working directory is empty."""
    store = Store(host.folder / "data" / "edgebench")
    shutil.copytree(RUNS, store.runs)
    monkeypatch.chdir(tmp_path)
    return store


def test_bundle_opens_where_a_run_is_named(edgebench: Run, stored: Store, tmp_path: Path) -> None:
    """Otherwise a colleague would receive a file that no command opens."""
    made = edgebench("bundle", METERED)
    assert made.code == 0
    assert made.out.startswith("bundled: 1 run, ")
    note, following = made.err.splitlines()
    assert "device names, tags and notes, but no models" in note
    assert following == f"next: edgebench runs {METERED}.zip"
    elsewhere = ("--store", str(tmp_path / "elsewhere"))
    path = f"{METERED}.zip"
    shown = edgebench("show", path, *elsewhere)
    assert (shown.code, shown.err) == (0, "")
    assert f"{path}#{METERED}" in shown.out.replace("\n", "")
    document = json.loads(edgebench("show", path, "--json", *elsewhere).out)
    assert document == stored.document(METERED)
    [row] = json.loads(edgebench("runs", path, "--json", *elsewhere).out)["runs"]
    assert row["run_id"] == METERED
    verified = edgebench("verify", path, *elsewhere)
    assert (verified.code, verified.out) == (
        0,
        f"verified: {METERED}: every number follows from the raw files\n",
    )
    merged = edgebench("store", "merge", path, *elsewhere)
    assert merged.out.startswith("merged: 1 run added, 0 already here")


def test_bundle_of_several_runs_is_listed_and_verified(
    edgebench: Run, stored: Store, tmp_path: Path
) -> None:
    """Otherwise one of ten runs would stand for all."""
    made = edgebench("bundle", *stored.run_ids(), "-o", "all.zip", "--json")
    document = json.loads(made.out)
    assert document["runs"] == stored.run_ids()
    assert document["size_bytes"] == (tmp_path / "all.zip").stat().st_size
    listed = json.loads(edgebench("runs", "all.zip", "--last", "2", "--json").out)["runs"]
    assert [row["run_id"] for row in listed] == stored.run_ids()[-2:]
    shown = edgebench("show", "all.zip")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.count("digits_int8.tflite") >= 3, "a table"
    compared = edgebench("compare", "all.zip#031112", "--against", "all.zip#031114")
    assert (compared.code, compared.err) == (5, "")
    verified = edgebench("verify", "all.zip", "--json")
    document = json.loads(verified.out)
    assert (verified.code, document["bundle"], document["planned_count"]) == (0, "all.zip", 10)
    assert [one["differences"] for one in document["runs"]] == [[]] * 10


def test_damaged_run_of_a_bundle_is_named_and_the_others_are_verified(
    edgebench: Run, stored: Store, tmp_path: Path
) -> None:
    """Otherwise one flipped bit would make a whole bundle useless, or go unnoticed."""
    del stored
    edgebench("bundle", METERED, "20261123-031046", "-o", "two.zip")
    data = (tmp_path / "two.zip").read_bytes()
    place = data.index(b"meter.spool") + 2000
    changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
    (tmp_path / "two.zip").write_bytes(changed)
    completed = edgebench("verify", "two.zip")
    assert completed.code == 1
    assert f"error: bundle is damaged: runs/{METERED}" in completed.err
    assert "hint: get the file again" in completed.err
    assert completed.out == ""
    assert edgebench("verify", "two.zip#20261123-031046").code == 0


@pytest.mark.parametrize("command", [("show",), ("verify",), ("runs",), ("store", "merge")])
def test_file_that_is_no_bundle_is_one_line(
    edgebench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """A truncated download is reported in one line, without a traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 and then the line was cut")
    completed = edgebench(*command, "a.zip")
    assert completed.code == 2
    assert completed.err.startswith("error: not an edgebench bundle, or truncated: ")
    assert "hint: get the file again" in completed.err


def test_file_that_is_there_is_not_overwritten(edgebench: Run, stored: Store) -> None:
    """Otherwise a bundle of other runs would silently replace the first."""
    del stored
    Path("a.zip").write_text("mine")
    completed = edgebench("bundle", METERED, "-o", "a.zip")
    assert (completed.code, Path("a.zip").read_text()) == (2, "mine")
    completed = edgebench("bundle", METERED, "-o", "no/such/a.zip")
    assert completed.code == 1
    assert "bundle not written: No such file or directory: no/such/" in completed.err


def test_nothing_stays_behind_in_the_directory_of_temporary_files(
    host: Host, stored: Store, tmp_path: Path, edgebench: Run
) -> None:
    """Otherwise opening a large bundle would fill the disk a little more each time."""
    del stored
    edgebench("bundle", METERED, "-o", "a.zip")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, **host.environment, "TMPDIR": str(temporary)}
    words = [sys.executable, "-m", "edgebench.host.cli", "show", "a.zip"]
    subprocess.run(words, env=environment, check=True, capture_output=True, cwd=tmp_path)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("place", ["bundle", "store", "directory"])
def test_runs_of_others_open_where_nothing_can_be_written(
    edgebench: Run, stored: Store, tmp_path: Path, place: str
) -> None:
    """Otherwise a file on a colleague's share would have to be copied before it opens."""
    need_root()
    share, mine = tmp_path / "share", tmp_path / "mine"
    share.mkdir()
    mine.mkdir()
    shutil.copytree(stored.runs, share / "theirs" / "runs")
    edgebench("bundle", *stored.run_ids(), "-o", str(share / "all.zip"))
    name, where = {
        "bundle": (f"{share}/all.zip#{METERED}", ()),
        "store": (METERED, ("--store", str(share / "theirs"))),
        "directory": (str(share / "theirs" / "runs" / METERED), ()),
    }[place]
    with read_only(share):
        for words in (
            ("show", name),
            ("verify", name),
            ("report", name, "-o", str(mine / "run.html")),
            ("export", name, "-o", str(mine / "run.parquet")),
            ("export", name, "-o", str(mine / "run.pftrace")),
            ("bundle", name, "-o", str(mine / "again.zip")),
        ):
            completed = edgebench(*words, *where)
            assert completed.code == 0, (words, completed.err)
        assert METERED in (mine / "run.html").read_text()
        completed = edgebench("bundle", name, "-o", str(share / "again.zip"), *where)
        assert (completed.code, completed.out) == (1, "")
        assert "bundle not written: Read-only file system" in completed.err


def test_lab_and_compare_read_a_bundle_where_nothing_can_be_written(
    edgebench: Run, stored: Store, tmp_path: Path
) -> None:
    """Otherwise only the commands for a single run would open a shared bundle."""
    need_root()
    share = tmp_path / "share"
    share.mkdir()
    edgebench("bundle", *stored.run_ids(), "-o", str(share / "all.zip"))
    with read_only(share):
        words = ("compare", f"{share}/all.zip#031112", "--against", f"{share}/all.zip#031114")
        assert edgebench(*words).code == 5
        lab = Lab(share / "all.zip")
        assert lab.run(METERED).result == stored.run(METERED)
        assert set(lab.runs()["run_id"]) == set(stored.run_ids())
