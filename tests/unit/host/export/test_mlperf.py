"""LoadGen's logs are copied unchanged, and refused where there are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.exports import PLAIN, Stored, judged

from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.files import export_runs
from edgebench.host.export.mlperf import VERDICT_FILE
from edgebench.host.export.registry import named_format
from edgebench.host.result.latency import LoadgenResult
from edgebench.host.result.verdict import State
from edgebench.protocol.errors import NoLoadgenLog, RunDamaged
from edgebench.protocol.traces import LOADGEN_FILES

RESULT = LoadgenResult(True, None, 100, 1, 2, 3, 4, 5, None, 0)
LOG = b"SUT name : PySUT\r\n\xff"


@pytest.fixture
def of_loadgen(stored: Stored, tmp_path: Path) -> ExportedRun:
    """A suspect run with two logs."""
    [one] = stored(PLAIN)
    (tmp_path / "run" / "raw").mkdir(parents=True)
    for name in LOADGEN_FILES:
        (tmp_path / "run" / "raw" / name).write_bytes(LOG + name.encode())
    run = replace(one.run, metrics=replace(one.run.metrics, loadgen=RESULT))
    return ExportedRun(run, tmp_path / "run")


def test_logs_are_copied_byte_by_byte_with_the_verdict_beside_them(
    of_loadgen: ExportedRun, tmp_path: Path
) -> None:
    """Otherwise a log for a submission would differ from what LoadGen wrote."""
    export_runs([of_loadgen], named_format("mlperf"), tmp_path / "logs")
    folder = tmp_path / "logs" / of_loadgen.run.run_id
    for name in LOADGEN_FILES:
        assert (folder / name).read_bytes() == LOG + name.encode()
    verdict = json.loads((folder / VERDICT_FILE).read_text())
    assert verdict["label"].startswith("suspect")
    assert verdict["reasons"]


def without_loadgen(exported_run: ExportedRun) -> ExportedRun:
    """The run as if the timed loop had issued its queries."""
    return replace(
        exported_run,
        run=replace(exported_run.run, metrics=replace(exported_run.run.metrics, loadgen=None)),
    )


def invalid(exported_run: ExportedRun) -> ExportedRun:
    """The run, refused."""
    return judged(exported_run, State.INVALID)


@pytest.mark.parametrize(
    ("change", "told"),
    [(without_loadgen, "LoadGen did not issue the queries"), (invalid, "log not exported: run")],
)
def test_run_without_a_log_that_counts_is_refused_before_anything_is_copied(
    change: Callable[[ExportedRun], ExportedRun],
    told: str,
    of_loadgen: ExportedRun,
    tmp_path: Path,
) -> None:
    """Otherwise a number that LoadGen never saw, or an untrustworthy number, would be submitted."""
    with pytest.raises(NoLoadgenLog, match=told):
        export_runs([of_loadgen, change(of_loadgen)], named_format("mlperf"), tmp_path / "logs")
    assert not (tmp_path / "logs").exists()


def test_missing_log_is_reported(of_loadgen: ExportedRun, tmp_path: Path) -> None:
    """Otherwise half of the logs would be passed on."""
    (of_loadgen.directory / "raw" / LOADGEN_FILES[1]).unlink()
    with pytest.raises(RunDamaged, match="log of LoadGen is missing"):
        export_runs([of_loadgen], named_format("mlperf"), tmp_path / "logs")
