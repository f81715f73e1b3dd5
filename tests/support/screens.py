"""Dialogues on a pseudo-terminal, with stored runs that have names of real models.

`devtools/write_screens.py` writes what the commands print into tests/cli/screens; a test compares.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.result.document import to_document
from edgebench.host.result.latency import LatencySummary
from edgebench.host.result.measured import Metrics
from edgebench.host.result.run import Run
from edgebench.host.store.layout import QUERIES_FILE, RUN_FILE
from support.reported import BASELINE, CANDIDATE, PLAIN, RUNS, runs_of_set, stored_run

SIZES = ((80, 24), (120, 40))
"""Columns and lines of the terminals."""
SCREENS = Path(__file__).parents[1] / "cli" / "screens"
BUSY = "20261123-031112-2510a256"
"""A run of the fixtures that other programs disturbed."""
SUITE = {
    "set-5f10a001": ("mobilenet_v1_0.25_224_float.tflite", 25.0),
    "set-8a10a002": ("mobilenet_v1_0.25_224_ptq_int8.tflite", 15.0),
    "set-c310a003": ("mobilenet_v1_0.25_224_qat_uint8.tflite", 29.0),
    "set-e710a004": ("mobilenet_v1_0.25_224_qdq_int8.tflite", 26.0),
}
"""Model and factor of the latency of the sets on a busy machine."""
TINY = {
    "set-1b20b001": ("vww_96_float.tflite", 4.6),
    "set-2d20b002": ("vww_96_int8.tflite", 2.8),
}
"""Valid sets."""
DIALOGUES: Mapping[str, Sequence[str]] = {
    "help": ("help",),
    "help_of_bench": ("bench", "--help"),
    "option_of_llama_bench": ("bench", "vww_96_int8.tflite", "-t", "4"),
    "command_of_docker": ("run", "vww_96_int8.tflite"),
    "model_that_is_missing": ("bench", "mobilenet_v1_0.25_224_ptq_int8.tflite"),
    "runs": ("runs",),
    "newest_sets": ("runs", "--limit", "2"),
    "four_sets_on_a_busy_machine": ("show", *SUITE),
    "two_valid_sets": ("show", *TINY),
    "set": ("show", "set-2d20"),
    "run": ("show", PLAIN),
    "comparison": ("compare", BASELINE, "--against", CANDIDATE),
    "store_that_is_missing": ("runs", "--store", "/nowhere/results"),
}
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC")


def fill_store(root: Path, now: datetime) -> None:
    """Store the runs of the dialogues.

    Args:
        root: The store.
        now: The present time, from which the ages of the sets are counted.
    """

    def store(base: str, run: Run, days: int) -> None:
        created = (now - timedelta(days=days, hours=1)).isoformat()
        _put(root, base, replace(run, created_utc=created))

    # In the order of their ids.
    store(PLAIN, stored_run(PLAIN), 6)
    for sets, base, days in ((TINY, PLAIN, 5), (SUITE, BUSY, 1)):
        for set_id, (model, scale) in sets.items():
            for run in _members(base, set_id, model, scale):
                store(base, run, days)
    for name in (BASELINE, CANDIDATE):
        store(name, stored_run(name), 3)


def _members(base: str, set_id: str, model: str, scale: float) -> list[Run]:
    """Five runs of a set with the findings of the run that they are made from, if it is busy."""
    plain = stored_run(base)
    # So few inferences drift by themselves.
    plain = replace(plain, metrics=replace(plain.metrics, warmup=None, stability=None))
    runs = runs_of_set(replace(plain, model=replace(plain.model, name=model)), set_id, scale=scale)
    runs = [replace(run, metrics=_consistent(run, plain)) for run in runs]
    return [replace(run, verdict=plain.verdict) for run in runs] if base == BUSY else runs


def _factor(run: Run, base: Run) -> float:
    """How many times longer the latencies of a run are than those of another."""
    medians = [one.metrics.latency_ns.p50 for one in (run, base) if one.metrics.latency_ns]
    assert all(medians)
    return float(medians[0] or 0) / float(medians[1] or 1)


def _consistent(run: Run, base: Run) -> Metrics:
    """The metrics of a run with all its latencies longer by the factor of the median."""
    by = _factor(run, base)
    [latency, end_to_end] = [base.metrics.latency_ns, base.metrics.end_to_end_ns]
    assert latency is not None
    assert end_to_end is not None
    assert run.metrics.latency_ns is not None
    rate = base.metrics.throughput_per_s
    return replace(
        run.metrics,
        latency_ns=replace(_times(latency, by), p50_ci95=run.metrics.latency_ns.p50_ci95),
        end_to_end_ns=_times(end_to_end, by),
        throughput_per_s=None if rate is None else rate / by,
    )


def _times(latency: LatencySummary, by: float) -> LatencySummary:
    """A summary of longer latencies; counts stay."""
    longer: dict[str, Any] = {}
    for name in ("min", "mean", "p50", "p90", "p99", "p99_9", "max"):
        value, interval = getattr(latency, name), getattr(latency, f"{name}_ci95", None)
        longer[name] = None if value is None else round(value * by)
        if interval is not None:
            longer[f"{name}_ci95"] = tuple(round(bound * by) for bound in interval)
    return replace(latency, **longer)


def _put(root: Path, base: str, run: Run) -> None:
    directory = root / "runs" / run.run_id
    shutil.copytree(RUNS / base, directory)
    if (by := _factor(run, stored_run(base))) != 1:
        _lengthen(directory / QUERIES_FILE, by)
    (directory / RUN_FILE).write_text(json.dumps(to_document(run)))


def _lengthen(queries: Path, by: float) -> None:
    """Make the queries of a file longer by a factor, from the begin of the first."""
    table = pq.read_table(queries)
    begin_ns = table["scheduled_ns"][0].as_py()
    for name in table.column_names:
        if name.endswith("_ns"):
            times = [begin_ns + round((time - begin_ns) * by) for time in table[name].to_pylist()]
            place = table.column_names.index(name)
            table = table.set_column(place, name, pa.array(times, table.schema.field(name).type))
    pq.write_table(table, queries)


def screen(words: Sequence[str], environment: Mapping[str, str], columns: int, lines: int) -> str:
    """What a command prints on a terminal, without colours and blanks at the ends of lines."""
    variables = {**environment, "TERM": "xterm", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    return final_text(on_terminal(words, variables, columns, lines).printed)


class TerminalCommand(NamedTuple):
    """What a command with a terminal as its output has printed."""

    printed: str
    errors: str
    """What is on standard error, if that is a pipe."""
    exit_code: int


def on_terminal(
    words: Sequence[str],
    environment: Mapping[str, str],
    columns: int,
    lines: int,
    *,
    pipes_errors: bool = False,
) -> TerminalCommand:
    """Run a command on a pseudo-terminal of this size.

    Args:
        words: Words behind `edgebench`.
        environment: Variables beside those of this process, without `COLUMNS` and `LINES`.
        columns: Columns of the terminal.
        lines: Lines of the terminal.
        pipes_errors: Whether standard input is that of this process and standard error a pipe.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    variables = os.environ | environment
    for name in ("COLUMNS", "LINES"):
        variables.pop(name, None)
    printed = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, subprocess.Popen(
        [sys.executable, "-m", "edgebench.host.cli", *words],
        stdin=None if pipes_errors else theirs,
        stdout=theirs,
        stderr=subprocess.PIPE if pipes_errors else theirs,
        env=variables,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            while part := terminal.read(4096):
                printed += part
        except OSError:  # the command has closed the terminal
            pass
        errors = process.communicate(timeout=60)[1] or b""
    return TerminalCommand(printed.decode(), errors.decode(), process.returncode)


def final_text(printed: str) -> str:
    """What is left on a terminal without an end, without colours and trailing blanks.

    Args:
        printed: Text with the sequences that the commands print: colours, the cursor up or to the
            begin of a line, and the erasing of a line.
    """
    lines, row, column = [""], 0, 0
    for token in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", printed):
        if token == "\n":
            row += 1
            lines += [""] * (row == len(lines))
            column = 0
        elif token == "\r":
            column = 0
        elif token.endswith("A"):
            row = max(row - int(token[2:-1] or 1), 0)
        elif token.endswith("K"):
            lines[row] = ""
        elif not token.startswith("\x1b"):
            lines[row] = (
                f"{lines[row][:column]:<{column}}{token}{lines[row][column + len(token) :]}"
            )
            column += len(token)
    return "\n".join(line.rstrip() for line in lines)


def dialogues(folder: Path, columns: int, lines: int) -> dict[str, str]:
    """The screens of all dialogues, by name.

    Args:
        folder: Empty directory for configuration and store.
        columns: Columns of the terminal.
        lines: Lines of the terminal.
    """
    environment = {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
    }
    store = folder / "data" / "edgebench"
    fill_store(store, datetime.now(timezone.utc))
    made: dict[str, str] = {}
    for name, words in DIALOGUES.items():
        text = screen(words, environment, columns, lines)
        text = _TIME.sub("LOCAL TIME", text.replace(str(folder), "FOLDER"))
        made[name] = f"$ edgebench {' '.join(words)}\n{text}"
    return made
