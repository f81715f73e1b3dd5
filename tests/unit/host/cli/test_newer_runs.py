"""Runs of a schema of a later edgebench: every command reports this, and shows no number."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.records import RUN_ID, store_run

from edgebench.host.cli.main import main
from edgebench.host.lab import Lab
from edgebench.host.result.run import SCHEMA_VERSION
from edgebench.host.store import index
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.protocol.errors import RunNewer

NEWER = "20260103-000000-ffffffff"
LINE = f"run has schema version 99, this edgebench supports {SCHEMA_VERSION}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a current run and a later one."""
    made = Store(tmp_path / "store")
    for run_id in (RUN_ID, NEWER):
        store_run(made, run_id)
    path = made.directory(NEWER) / RUN_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    return made


@pytest.mark.parametrize(
    "line",
    [
        "show {run}",
        "show {run} --json",
        f"show {RUN_ID} {{run}}",
        "verify {run}",
        "report {run} -o {out}/r.html",
        "export {run} --format csv -o {out}/r.csv",
        "compare {run} --against " + RUN_ID,
        "bundle {run} -o {out}/r.zip",
    ],
)
def test_command_says_so_and_shows_nothing(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    """Otherwise a key that was renamed or rescaled later would be shown wrongly, with a verdict."""
    words = line.format(run=NEWER, out=tmp_path).split()
    assert main([*words, "--store", str(store.root)]) == 1
    told = capsys.readouterr()
    assert told.err.startswith(f"error: {LINE}: ")
    assert "pip install --upgrade edgebench" in told.err
    assert "ms" not in told.out
    assert not list(tmp_path.glob("r.*"))


def test_list_has_it_without_numbers(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise it would be reported as damaged, or be missing."""
    assert main(["runs", "--json", "--store", str(store.root)]) == 0
    rows = {row["run_id"]: row for row in json.loads(capsys.readouterr().out)["runs"]}
    assert rows[NEWER]["verdict"] == "newer"
    assert rows[NEWER]["latency_ns_p50"] is None
    assert rows[RUN_ID]["latency_ns_p50"] is not None
    assert main(["runs", "--store", str(store.root)]) == 0
    assert "newer" in capsys.readouterr().out


def test_index_is_read_again_by_the_edgebench_that_knows_the_schema(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the run would stay without numbers after the upgrade."""
    index.list_runs(store)
    before = index._version()
    monkeypatch.setattr(index, "SCHEMA_VERSION", 99)
    assert index._version() != before


def test_history_leaves_it_out_and_says_so(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise its newest points would be missing silently."""
    assert main(["history", "--store", str(store.root)]) == 0
    assert "warning: 1 run is left out: made by a newer edgebench" in capsys.readouterr().err
    path = store.directory(RUN_ID) / RUN_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    assert main(["history", "--store", str(store.root)]) == 1
    assert "error: 2 runs are left out: made by a newer edgebench" in capsys.readouterr().err


def test_python_gets_the_same_error(store: Store) -> None:
    """Otherwise a notebook would compute with numbers that mean something else."""
    with pytest.raises(RunNewer, match=LINE):
        _ = Lab(store.root).run(NEWER).result
