"""What watching a device costs the run that is watched.

    python benchmarks/observer_effect.py [--pairs 20] [--duration 2] [--sampler-seconds 30]

Pairs of runs of one built-in model through `Lab.bench`, one process each: with telemetry at 10 Hz,
and with none, in an order that is drawn anew for each pair. What is compared is the median latency,
by the same paired test that `edgebench compare` uses.

Then one sampler alone, at 10 Hz, with the sources of this machine and 30 sensors more: the files
of a board that are kept in a directory, read as those under /sys would be. Its CPU time is its own
account, which every run stores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import Spread, add_patience, interleave, machine, report, spread, table

from edgebench.agent.telemetry.job import FACTS_FILE, JOB_FILE
from edgebench.host.analysis.compare.comparison import Comparison, compare
from edgebench.host.lab import Lab

MODEL, RUNTIME = "digits_fp32.tflite", "litert"
RATE_HZ = 10.0
SENSORS = 30
LATENCY_BAR_PERCENT, SAMPLER_BAR_PERCENT = 1.0, 1.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--duration", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--sampler-seconds", type=float, default=30.0, metavar="SECONDS")
    add_patience(parser)
    options = parser.parse_args()
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name:
        found = paired(Path(name), options.pairs, options.duration, options.patience)
        rows = [latency_row(found), *sampler_rows(Path(name), options.sampler_seconds)]
    notes = (
        f"\n{options.pairs} pairs of {options.duration:g} s, {MODEL} on {RUNTIME}; "
        f"median {found.baseline_median / 1e3:.2f} µs without telemetry, "
        f"{found.candidate_median / 1e3:.2f} µs with it."
    )
    report("The observer effect", [table(["", "value", "bar", ""], rows), notes], began)


def paired(folder: Path, pairs: int, duration_s: float, patience_s: float) -> Comparison:
    """The median latency with telemetry against that without."""
    lab = Lab(folder / "store")

    def measure(rate_hz: float) -> float:
        (run,) = lab.bench(
            MODEL,
            runtime=RUNTIME,
            duration_s=duration_s,
            min_query_count=64,
            is_checked=False,
            telemetry_rate_hz=rate_hz,
        )
        return float(run.metrics["latency_ns"]["p50"])

    measure(RATE_HZ)  # starts the agent, warms files and caches
    sides = {"without": lambda: measure(0.0), "with": lambda: measure(RATE_HZ)}
    found = interleave(sides, pairs, patience_s=patience_s)
    return compare(np.array(found["without"]), np.array(found["with"]))


def latency_row(found: Comparison) -> list[str]:
    """How much slower the watched run is."""
    low, high = found.ratio_interval or (float("nan"), float("nan"))
    percent = [100 * (value - 1) for value in (found.ratio, low, high)]
    is_met = percent[2] < LATENCY_BAR_PERCENT
    return [
        "median latency with telemetry over without",
        f"{percent[0]:+.2f} % ({percent[1]:+.2f}..{percent[2]:+.2f}, 95 %)",
        f"< {LATENCY_BAR_PERCENT:g} %",
        "met" if is_met else "missed",
    ]


def sampler_rows(folder: Path, seconds: float) -> list[list[str]]:
    """CPU time of samplers, in percent of one core."""
    root = folder / "root"
    for number in range(SENSORS):
        zone = root / f"sys/class/thermal/thermal_zone{number}"
        zone.mkdir(parents=True)
        (zone / "type").write_text(f"zone{number}\n")
        (zone / "temp").write_text("54000\n")
    (root / "proc").symlink_to("/proc")
    rows = []
    for what, where in (
        (f"{SENSORS} zones and this machine's /proc", root),
        ("this machine", Path("/")),
    ):
        parts = [sampler(folder, where, seconds / 3) for _ in range(3)]
        found: Spread = spread([percent for percent, _ in parts])
        rows.append(
            [
                f"sampler, {parts[0][1]} sensors at {RATE_HZ:g} Hz ({what}), of one core",
                f"{found.text()} %",
                f"< {SAMPLER_BAR_PERCENT:g} %",
                "met" if found.extremes[1] < SAMPLER_BAR_PERCENT else "missed",
            ]
        )
    return rows


def sampler(folder: Path, root: Path, seconds: float) -> tuple[float, int]:
    """Percent of a core that a sampler takes, and how many sensors it reads."""
    job = {"worker_pid": os.getpid(), "root": str(root), "rate_hz": RATE_HZ}
    (folder / JOB_FILE).write_text(json.dumps(job))
    command = [sys.executable, "-m", "edgebench.agent.telemetry.sampler", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        time.sleep(seconds)
        process.communicate()
    facts = json.loads((folder / FACTS_FILE).read_text())
    return 100 * facts["cpu_s"] / facts["wall_s"], len(facts["sensors"])


if __name__ == "__main__":
    main()
