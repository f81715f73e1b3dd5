"""Effect of telemetry on a run, and the CPU time of the sampler.

    python benchmarks/observer_effect.py [--pairs 20] [--duration 2] [--sampler-seconds 30]
                                         [--short] [--patience 0]

A built-in model is run in pairs through `Lab.bench`: a run with telemetry at 10 Hz and a run
without telemetry, in random order. The median latencies are compared with the paired test of
`edgebench compare`.

After the pairs, a sampler runs alone at 10 Hz: with the sources of this machine, and with 30
thermal zones in a directory that replaces /sys. The CPU time of the sampler is the figure that it
reports in every run.
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
from common import (
    add_patience,
    claim,
    claims_table,
    interleave,
    machine,
    parse,
    report,
    spread,
)

from edgebench.agent.telemetry.job import FACTS_FILE, JOB_FILE
from edgebench.host.analysis.compare.comparison import Comparison, compare
from edgebench.host.lab import Lab
from edgebench.host.result.metrics import METRICS

MODEL, RUNTIME = "digits_fp32.tflite", "litert"
RATE_HZ = 10.0
SENSORS = 30
LATENCY_BAR_PERCENT, SAMPLER_BAR_PERCENT = 1.0, 1.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--duration", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--sampler-seconds", type=float, default=30.0, metavar="S")
    add_patience(parser)
    options = parse(
        parser,
        smoke={"pairs": 1, "duration": 0.1, "sampler_seconds": 1},
        pairs=6,
        duration=0.5,
        sampler_seconds=9,
    )
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name:
        found = paired(Path(name), options.pairs, options.duration, options.patience)
        claims = [latency_claim(found), *sampler_claims(Path(name), options.sampler_seconds)]
    notes = (
        f"\n{options.pairs} pairs of {options.duration:g} s, {MODEL} on {RUNTIME}; "
        f"median {found.baseline_median / 1e3:.2f} µs without telemetry, "
        f"{found.candidate_median / 1e3:.2f} µs with it."
    )
    report("The observer effect", [claims_table(claims), notes], began)


def paired(folder: Path, pairs: int, duration_s: float, patience_s: float) -> Comparison:
    """Compare the median latencies with telemetry (candidate) and without (baseline)."""
    lab = Lab(folder / "store")

    def measure(rate_hz: float) -> float:
        (run,) = lab.bench(
            MODEL,
            runs=1,
            runtime=RUNTIME,
            duration_s=duration_s,
            min_query_count=64,
            is_checked=False,
            telemetry_rate_hz=rate_hz,
        )
        return float(METRICS["latency_ns.p50"].value(run.result) or 0)

    measure(RATE_HZ)  # starts the agent, warms files and caches
    sides = {"without": lambda: measure(0.0), "with": lambda: measure(RATE_HZ)}
    found = interleave(sides, pairs, patience_s=patience_s)
    return compare(np.array(found["without"]), np.array(found["with"]))


def latency_claim(found: Comparison) -> list[str]:
    """Claim that telemetry slows the model down by less than the bar, at 95 % confidence."""
    low, high = found.ratio_interval or (float("nan"), float("nan"))
    percent = [100 * (value - 1) for value in (found.ratio, low, high)]
    return claim(
        "change of the median latency by telemetry",
        f"{percent[0]:+.2f} % (95 % CI {percent[1]:+.2f}..{percent[2]:+.2f})",
        f"< {LATENCY_BAR_PERCENT:g} %",
        percent[2] < LATENCY_BAR_PERCENT,
    )


def sampler_claims(folder: Path, seconds: float) -> list[list[str]]:
    """Claims about the CPU time of samplers, in percent of a core."""
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
        found = spread([percent for percent, _ in parts])
        text = f"sampler, {parts[0][1]} sensors at {RATE_HZ:g} Hz ({what}), CPU time"
        is_met = found.extremes[1] < SAMPLER_BAR_PERCENT
        rows.append(claim(text, f"{found.text()} %", f"< {SAMPLER_BAR_PERCENT:g} %", is_met))
    return rows


def sampler(folder: Path, root: Path, seconds: float) -> tuple[float, int]:
    """CPU time of a sampler, percent of one core, and the number of its sensors."""
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
