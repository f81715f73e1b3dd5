"""Time until the first line of a command is on the screen, relative to an interpreter that prints.

    python benchmarks/first_line.py [--rounds 31] [--short] [--patience 0] [--program edgebench]

A round starts each command on a pseudo-terminal, as a shell does, and takes the time until its
first line has arrived there. A command that measures is killed then, before it has done anything.
`show last` reads a run from the store of whoever calls this; without one it says so.
"""

from __future__ import annotations

import argparse
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
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
"""A command that takes longer seems not to have heard."""
COMMANDS = (
    ("--help",),
    ("bench", "--help"),
    ("bench", "digits_int8.tflite"),
    ("bench", "no-such-file.tflite"),
    ("bnech",),
    ("bench", "--durtion", "5s"),
    ("show", "last"),
    ("runs",),
)


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    script = str(Path(sys.executable).with_name("edgebench"))
    parser.add_argument("--program", default=script, help="edgebench of another environment")
    add_patience(parser)
    options = parse(parser, rounds=11)
    began = machine()
    python = str(Path(options.program).with_name("python"))
    sides = {BASE: partial(first_line_s, python, "-c", "print(1)")}
    for words in COMMANDS:
        sides[f"edgebench {' '.join(words)}"] = partial(first_line_s, options.program, *words)
    seconds = interleave(sides, options.rounds, patience_s=options.patience)
    rows = []
    for name, values in seconds.items():
        found = spread(values)
        bar = () if name == BASE else (f"≤ {BAR_S * 1e3:.0f}", found.median <= BAR_S)
        rows.append(claim(f"`{name}`, ms", found.text(0, scale=1e3), *bar))
        if name != BASE:
            rows.append(claim(f"`{name}` / `{BASE}`", paired_ratios(values, seconds[BASE]).text(1)))
    report("First line on the screen", [claims_table(rows)], began)


def first_line_s(*command: str) -> float:
    """Seconds from the start of a process until a line of it has come to a terminal."""
    ours, theirs = pty.openpty()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, cwd=folder
        )
        os.close(theirs)
        try:
            os.read(ours, 1)
            return time.perf_counter() - begin
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
            os.close(ours)


if __name__ == "__main__":
    main()
