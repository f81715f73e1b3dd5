"""Time until a command prints its first output on a terminal.

    python benchmarks/first_line.py [--rounds 21] [--short] [--patience 0] [--program FILE]

A round starts each command below on its own pseudo-terminal, and measures the time from the start
of the process to its first bytes on this terminal. The command is then interrupted. The first
output of `bench` and `report` is a line about their first step; other commands print their result
or an error. The bar is for an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from common import (
    add_patience,
    claim,
    claims_table,
    interleave,
    machine,
    paired_ratios,
    parse,
    report,
    spread,
)

BASE = "python -c print(1)"
BAR_S = 0.3
MODEL = "digits_int8.onnx"
COMMANDS = (
    ("bench", MODEL, "--quick"),
    ("report", "last", "-o", "report.html"),
    ("bundle", "last", "-o", "bundle.zip"),
    ("completion", "bash"),
    ("show", "last"),
    ("runs",),
    ("bench", "missing.tflite"),
    ("bnech", MODEL),
)
LIMIT_S = 20.0


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=21)
    own = str(Path(sys.executable).with_name("edgebench"))
    parser.add_argument("--program", default=own, help="edgebench of another environment")
    add_patience(parser)
    options = parse(parser, smoke={"rounds": 1}, rounds=9)
    began = machine()
    script = str(Path(options.program).absolute())
    python = str(Path(script).with_name("python"))
    with tempfile.TemporaryDirectory(prefix="edgebench-first-") as name:
        environment = {
            **os.environ,
            "TERM": "xterm",
            "EDGEBENCH_STORE": f"{name}/store",
            **dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"), f"{name}/home"),
        }
        stored = [script, "bench", MODEL, "--quick", "--runs", "1", "--duration", "0.5s"]
        subprocess.run(stored, env=environment, capture_output=True, check=False)
        os.chdir(name)  # bundles and reports are written there
        sides = {BASE: partial(first_bytes_s, (python, "-c", "print(1)"), environment)}
        for words in COMMANDS:
            side = partial(first_bytes_s, (script, *words), environment)
            sides[f"edgebench {' '.join(words)}"] = side
        seconds = interleave(sides, options.rounds, patience_s=options.patience)
    rows = []
    for side_name, values in seconds.items():
        took = spread(values)
        bar = (f"≤ {BAR_S * 1e3:.0f}", took.median <= BAR_S) if side_name != BASE else ()
        rows.append(claim(f"`{side_name}`, ms", took.text(0, scale=1e3), *bar))
        if side_name != BASE:
            ratio = paired_ratios(values, seconds[BASE])
            rows.append(claim(f"`{side_name}` / `{BASE}`", ratio.text()))
    report("First line on the screen", [claims_table(rows)], began)


def first_bytes_s(command: tuple[str, ...], environment: Mapping[str, str]) -> float:
    """Seconds from the start of a process to its first bytes on its terminal."""
    for made in ("report.html", "bundle.zip"):  # an existing bundle is not replaced
        Path(made).unlink(missing_ok=True)
    ours, theirs = pty.openpty()
    try:
        begin_s = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        if not select.select([ours], [], [], LIMIT_S)[0]:
            process.kill()
            raise SystemExit(f"error: nothing within {LIMIT_S} s: {' '.join(command)}")
        took_s = time.perf_counter() - begin_s
        process.send_signal(signal.SIGINT)
        _drain(ours)
        process.wait(LIMIT_S)
        return took_s
    finally:
        os.close(ours)


def _drain(terminal: int) -> None:
    """Read the output until the process has ended, so that the process never blocks on a write."""
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:  # EIO: no process has the other end open any more
        return


if __name__ == "__main__":
    main()
