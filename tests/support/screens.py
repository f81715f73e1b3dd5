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

from edgebench.host.result.document import to_document
from edgebench.host.result.run import Run
from edgebench.host.store.layout import RUN_FILE
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
    for sets, base, days in ((TINY, PLAIN, 3), (SUITE, BUSY, 1)):
        for set_id, (model, scale) in sets.items():
            created = (now - timedelta(days=days, hours=1)).isoformat()
            for run in _members(base, set_id, model, scale):
                _put(root, base, replace(run, created_utc=created))
    created = (now - timedelta(days=6, hours=1)).isoformat()
    for name in (PLAIN, BASELINE, CANDIDATE):
        _put(root, name, replace(stored_run(name), created_utc=created))


def _members(base: str, set_id: str, model: str, scale: float) -> list[Run]:
    """Five runs of a set with the findings of the run that they are made from, if it is busy."""
    plain = stored_run(base)
    # So few inferences drift by themselves.
    plain = replace(plain, metrics=replace(plain.metrics, warmup=None, stability=None))
    runs = runs_of_set(replace(plain, model=replace(plain.model, name=model)), set_id, scale=scale)
    return [replace(run, verdict=plain.verdict) for run in runs] if base == BUSY else runs


def _put(root: Path, base: str, run: Run) -> None:
    directory = root / "runs" / run.run_id
    shutil.copytree(RUNS / base, directory)
    (directory / RUN_FILE).write_text(json.dumps(to_document(run)))


def screen(words: Sequence[str], environment: Mapping[str, str], columns: int, lines: int) -> str:
    """What a command prints on a terminal, without colours and blanks at the ends of lines."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    variables = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    variables |= {**environment, "TERM": "xterm", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    printed = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, subprocess.Popen(
        [sys.executable, "-m", "edgebench.host.cli", *words],
        stdin=theirs, stdout=theirs, stderr=theirs, env=variables,
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            while part := terminal.read(4096):
                printed += part
        except OSError:  # the command has closed the terminal
            pass
        process.wait(timeout=60)
    return final_text(printed.decode())


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
