"""Unchanged logs of MLPerf's LoadGen, for runs made with `--engine loadgen`.

DIRECTORY/<run-id>/mlperf_log_summary.txt, mlperf_log_detail.txt    LoadGen's logs
DIRECTORY/<run-id>/edgebench_verdict.json                           edgebench's verdict on the run
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from edgebench.host.export.exported import ExportedRun, reasons
from edgebench.host.store.layout import RAW_DIRECTORY
from edgebench.protocol.errors import NoLoadgenLog, RunDamaged
from edgebench.protocol.traces import LOADGEN_FILES

VERDICT_FILE = "edgebench_verdict.json"


def copy(runs: Sequence[ExportedRun], directory: Path) -> None:
    """Copy the logs of each run into a separate directory; copy none if any run is refused.

    Raises:
        NoLoadgenLog: LoadGen did not issue the queries of a run, or the run is invalid.
        RunDamaged: a log is missing.
    """
    for run in runs:
        _check(run)
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".edgebench-export-", dir=directory) as part:
        for run in runs:
            folder = Path(part) / run.run.run_id
            folder.mkdir()
            for name in LOADGEN_FILES:
                shutil.copyfile(run.directory / RAW_DIRECTORY / name, folder / name)
            verdict = {
                "run_id": run.run.run_id,
                "verdict": run.run.headline_state.value,
                "label": run.run.marks.label,
                "reasons": reasons(run.run.verdict),
            }
            (folder / VERDICT_FILE).write_text(json.dumps(verdict, indent=1) + "\n")
        for run in runs:
            folder = directory / run.run.run_id
            folder.mkdir(exist_ok=True)
            for path in (Path(part) / run.run.run_id).iterdir():
                path.replace(folder / path.name)


def _check(exported_run: ExportedRun) -> None:
    """Check that the logs of a run can be exported.

    Raises:
        NoLoadgenLog: LoadGen did not issue the queries of the run, or the run is invalid.
        RunDamaged: a log is missing.
    """
    run_id, raw = exported_run.run.run_id, exported_run.directory / RAW_DIRECTORY
    if exported_run.run.metrics.loadgen is None:
        raise NoLoadgenLog(
            f"run {run_id} has no LoadGen log: LoadGen did not issue the queries of the run"
        )
    if exported_run.run.verdict.is_refused:
        why = "; ".join(reasons(exported_run.run.verdict))
        raise NoLoadgenLog(f"log not exported: run {run_id} is invalid: {why}")
    for name in LOADGEN_FILES:
        if not (raw / name).exists():
            raise RunDamaged(f"log of LoadGen is missing: {raw / name}")
