"""How long the command line takes to say its help, against an interpreter that does nothing.

    python benchmarks/startup.py [--rounds 31] [--patience 0]

One round starts, in an order drawn anew, `python -c pass` and each command of the list below,
with the same interpreter, and waits for its end. The output goes to a pipe and is thrown away.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from functools import partial
from pathlib import Path

from common import (
    add_patience,
    interleave,
    machine,
    paired_ratios,
    report,
    seconds_of,
    spread,
    table,
)

BASE = "python -c pass"
BAR = 5.0
COMMANDS = (("--help",), ("devices", "--help"))


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    add_patience(parser)
    options = parser.parse_args()
    began = machine()
    script = str(Path(sys.executable).with_name("edgebench"))
    sides = {BASE: partial(started, sys.executable, "-c", "pass")}
    for words in COMMANDS:
        sides[f"edgebench {' '.join(words)}"] = partial(started, script, *words)
    seconds = interleave(sides, options.rounds, patience_s=options.patience)
    report("Start of the command line", lines(seconds), began)


def started(*command: str) -> float:
    """Seconds from the start of a process to its end."""
    return seconds_of(lambda: subprocess.run(command, stdout=subprocess.PIPE, check=True))


def lines(seconds: dict[str, list[float]]) -> list[str]:
    """The table of times and ratios."""
    rows = []
    for name, values in seconds.items():
        cells = [f"`{name}`", spread(values).text(1, scale=1e3)]
        if name == BASE:
            rows.append([*cells, "", "", ""])
            continue
        ratio = paired_ratios(values, seconds[BASE])
        verdict = "met" if ratio.median <= BAR else "missed"
        rows.append([*cells, ratio.text(), f"≤ {BAR:.0f}", verdict])
    head = ["command", "ms", "this / python", "bar", ""]
    return [table(head, rows), f"\n{len(seconds[BASE])} rounds; median (quartiles; extremes)."]


if __name__ == "__main__":
    main()
