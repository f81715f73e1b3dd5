"""Start-up time of the command line, relative to an interpreter that does nothing.

    python benchmarks/startup.py [--rounds 31] [--short] [--patience 0]

A round runs `python -c pass` and each command below with the same interpreter; each process has
ended before the next is started. The output goes to a pipe and is discarded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
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
    seconds_of,
    spread,
)

BASE = "python -c pass"
BAR = 5.0
COMMANDS = (("--help",), ("devices", "--help"))


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    add_patience(parser)
    options = parse(parser, smoke={"rounds": 1}, rounds=15)
    began = machine()
    script = str(Path(sys.executable).with_name("edgebench"))
    sides = {BASE: partial(started, sys.executable, "-c", "pass")}
    for words in COMMANDS:
        sides[f"edgebench {' '.join(words)}"] = partial(started, script, *words)
    seconds = interleave(sides, options.rounds, patience_s=options.patience)
    rows = []
    for name, values in seconds.items():
        rows.append(claim(f"`{name}`, ms", spread(values).text(1, scale=1e3)))
        if name != BASE:
            ratio = paired_ratios(values, seconds[BASE])
            is_met = ratio.median <= BAR
            rows.append(claim(f"`{name}` / `{BASE}`", ratio.text(), f"≤ {BAR:.0f}", is_met))
    report("Start of the command line", [claims_table(rows)], began)


def started(*command: str) -> float:
    """Seconds from the start of a process to its end."""
    return seconds_of(lambda: subprocess.run(command, stdout=subprocess.PIPE, check=True))


if __name__ == "__main__":
    main()
