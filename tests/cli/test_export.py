"""`edgebench export`, `bench --export` and `Lab.export`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from support.agents import Host
from support.commands import QUICK, Measured, Run

from edgebench.host.export.registry import FORMATS
from edgebench.host.lab import Lab

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "runs" / "v7"
PLAIN = str(FIXTURES / "20261123-031046-26335d6d")
INVALID = str(FIXTURES / "20261123-031049-420b03bc")


def test_text_format_goes_to_standard_output(edgebench: Run) -> None:
    """Otherwise a table could not be piped into another program."""
    result = edgebench("export", PLAIN, INVALID, PLAIN, "--format", "csv")
    assert (result.code, result.err) == (0, "")
    header, *rows = result.out.splitlines()
    assert header.startswith("run_id,created_utc,")
    assert len(rows) == 2, "a run that is named twice is one row"


def test_end_of_the_file_name_is_the_format(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise the user would have to name the format twice."""
    path = tmp_path / "runs.parquet"
    result = edgebench("export", PLAIN, "-o", str(path))
    assert (result.code, result.out) == (0, "")
    assert result.err == f"1 run as parquet: {path}\n"
    assert pd.read_parquet(path)["model"].tolist() == ["digits_int8.tflite"]
    result = edgebench("export", PLAIN, "-o", str(tmp_path / "a"), "--format", "bmf", "--json")
    assert json.loads(result.out) == {
        "format": "bmf",
        "file": str(tmp_path / "a"),
        "run_ids": [Path(PLAIN).name],
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no format"),
        (("--format", "excel"), "unknown format 'excel'"),
        (("-o", "runs.json"), "several formats are JSON"),
        (("--format", "csv", "--json"), "needs -o FILE"),
        (("--format", "mlperf"), "needs -o DIRECTORY"),
        (("--format", "mlperf", "-o", "logs"), "LoadGen did not issue the queries of the run"),
    ],
)
def test_what_makes_no_sense_is_refused(
    edgebench: Run, words: tuple[str, ...], message: str
) -> None:
    """Otherwise a mistake would end in a traceback or an unwanted file."""
    result = edgebench("export", PLAIN, *words)
    assert result.code == 2
    assert message in result.err


def test_file_that_cannot_be_written_is_an_error_of_one_line(edgebench: Run) -> None:
    """Otherwise the user would have to guess the file and the reason."""
    result = edgebench("export", PLAIN, "-o", "/nowhere/runs.csv")
    assert result.code == 1
    assert "file not writable: No such file or directory: /nowhere/runs.csv" in result.err
    assert f"edgebench export {PLAIN} -o FILE" in result.err


def test_bench_writes_its_runs_and_loses_none_to_a_file(measured: Measured, tmp_path: Path) -> None:
    """Otherwise a full disk would lose a measurement, or the export would differ from it."""
    table, lost = tmp_path / "runs.csv", tmp_path / "runs.xml"
    lost.mkdir()
    store = tmp_path / "store"  # the store of the other tests has one run
    words = ("bench", "digits_int8.tflite", "--runtime", "litert", *QUICK, "--json")
    exports = ("--export", str(table), "--export", str(lost))
    result = measured.host.run(*words, *exports, "--store", str(store))
    [document] = json.loads(result.stdout)["runs"]
    assert result.returncode == (3 if document["verdict"]["state"] == "invalid" else 1)
    assert "error: not exported: file not writable" in result.stderr
    assert f"exported: {table}" in result.stderr
    [row] = pd.read_csv(table).to_dict("records")
    assert row["run_id"] == document["run_id"]
    assert row["verdict"] == document["verdict"]["state"]
    again = tmp_path / "again.csv"
    Lab(store).export(document["run_id"], file=again)
    assert again.read_bytes() == table.read_bytes()


def test_bench_refuses_an_unknown_end_before_it_measures(edgebench: Run, host: Host) -> None:
    """Otherwise a wrong file name would be reported only after an hour of measuring."""
    for name, said in (
        ("runs.json", "several formats are JSON"),
        ("nowhere/runs.csv", "no such directory to export to: nowhere"),
    ):
        result = edgebench("bench", "--quick", "--export", name)
        assert result.code == 2
        assert said in result.err
    assert not host.lab.store.runs.exists()


def test_help_names_every_format(edgebench: Run) -> None:
    """Otherwise users would not find a supported format."""
    words = re.findall(r"[\w-]+", edgebench("export", "--help").out)
    assert {one.name for one in FORMATS} <= set(words)
