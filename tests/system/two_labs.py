"""Two hosts of one lab and one device, which both request at the same moment: run by hand.

    python tests/system/two_labs.py [--tries 50] [--seed 1]

Prints how long the device was in use, and ends with 1 if two runs overlapped or one is missing.
tests/loopback/test_labs.py is the short form.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.agents import AgentProcess
from support.labs import contend, lab_of_two, overlaps


def main() -> int:
    """Measure; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Two hosts of one lab and one device.")
    parser.add_argument("--tries", type=int, default=50, metavar="N", help="runs of each host")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="labs") as folder:
        agent = AgentProcess(Path(folder) / "agent", options=["--name", "board"]).start()
        try:
            hosts = lab_of_two(agent, Path(folder))
            windows = contend(hosts, Path(folder) / "runs", options.tries, options.seed)
        finally:
            agent.kill()
    both = overlaps(windows)
    in_use_s = sum(end_ns - begin_ns for begin_ns, end_ns, _ in windows) / 1e9
    print(f"{len(windows)} of {2 * options.tries} runs, {in_use_s:.1f} s in use, overlaps: {both}")
    return int(bool(both) or len(windows) != 2 * options.tries)


if __name__ == "__main__":
    sys.exit(main())
