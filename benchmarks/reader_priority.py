"""Real-time priority of the thread that reads a meter: effect on lost samples and on the model.

    python benchmarks/reader_priority.py [--rounds 10] [--seconds 5] [--busy 4] [--short]
                                         [--patience 0]

Another process emulates a PPK2: it writes the words of the unit to a pseudo-terminal in real time.
Like a real unit, the process has a buffer for a tenth of a second of words; if they are not read
within this time, words are lost. If permitted, the emulating process has the highest priority,
because the load of a host does not delay a real unit either. A session of the benchmark reads the
words: on one side with an ordinary thread, as edgebench always does, on the other side with a
thread of real-time priority (`SCHED_FIFO`), which needs a permission.

    saved   samples that are lost while busy processes run, and the delay of the other samples
    cost    latency of a built-in model while the reader runs, on an otherwise idle machine
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from common import add_patience, claim, claims_table, interleave, machine, parse, report, spread
from meter_streams import WORD_BYTES, decode, feed, header
from numpy.typing import NDArray

from edgebench.host.analysis.compare.comparison import compare
from edgebench.host.lab import Lab
from edgebench.meters.ppk2.words import RATE_HZ
from edgebench.meters.spool import read_packets
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import SerialTransport

MODEL, RUNTIME = "digits_fp32.tflite", "litert"
BUSY = [sys.executable, "-c", "while True: pass"]
SIDES = {"ordinary": False, "real-time": True}
LOST_BAR_PERCENT = 0.1
"""edgebench computes no energy if more than this share of the samples is lost."""
PATIENCE_MS = 100.0
"""Length of the buffer of a unit; samples that are read later than this are lost."""


Floats = NDArray[np.float64]
FIGURES: Mapping[str, Callable[[Floats], float]] = {
    "p50": lambda times_ns: float(np.percentile(times_ns, 50)),
    "p99": lambda times_ns: float(np.percentile(times_ns, 99)),
    "mean": lambda times_ns: float(times_ns.mean()),
}


class Recorded(NamedTuple):
    """Share of lost samples in a recording, and delays of the other samples."""

    lost_percent: float
    latest_ms: float
    """Difference between the largest and the smallest delay of an arrival."""
    rate_error_ppm: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--busy", type=int, default=4, metavar="N")
    parser.add_argument("--unit", type=int, help=argparse.SUPPRESS)
    add_patience(parser)
    options = parse(parser, smoke={"rounds": 1, "seconds": 0.5, "busy": 1}, rounds=6, seconds=2)
    if options.unit is not None:
        sys.stdin.readline()
        feed([options.unit], options.seconds)
        return
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name:
        folder = Path(name)
        recordings = {
            side: partial(record, folder, is_first, options) for side, is_first in SIDES.items()
        }
        recorded = interleave(recordings, options.rounds)
        lab = Lab(folder / "store")
        latencies_ns(lab, options.seconds / 2)  # starts the agent, warms files and caches
        sides = {
            side: partial(beside, folder, lab, is_first, options)
            for side, is_first in SIDES.items()
        }
        latencies = interleave(sides, options.rounds, patience_s=options.patience)
    claims = [*saved(recorded, options.busy), *costs(latencies)]
    report("Real-time priority of a meter's reader", [claims_table(claims)], began)


def saved(recorded: Mapping[str, Sequence[Recorded]], busy_count: int) -> list[list[str]]:
    """Claims about the samples that each kind of reader loses while busy processes run."""
    claims: list[list[str]] = []
    for side, recordings in recorded.items():
        lost = spread([recording.lost_percent for recording in recordings])
        late = spread([recording.latest_ms for recording in recordings])
        rate = spread([abs(recording.rate_error_ppm) for recording in recordings])
        where = f"beside {busy_count} busy processes, {side}"
        is_enough = lost.extremes[1] < LOST_BAR_PERCENT
        bar = f"< {LOST_BAR_PERCENT:g} %"
        claims += [
            claim(f"samples lost {where}", f"{lost.text()} %", bar, is_enough),
            claim(
                f"latest arrival {where}",
                f"{late.text()} ms",
                f"< {PATIENCE_MS:g} ms",
                late.extremes[1] < PATIENCE_MS,
            ),
            claim(f"error of the rate {where}", f"{rate.text()} ppm"),
        ]
    return claims


def costs(latencies: Mapping[str, Sequence[Floats]]) -> list[list[str]]:
    """Claims about a model's latency with a real-time reader, relative to an ordinary reader."""
    claims: list[list[str]] = []
    for name, figure in FIGURES.items():
        baseline, candidate = (np.array([figure(one) for one in latencies[side]]) for side in SIDES)
        result = compare(baseline, candidate)
        low, high = result.ratio_interval or (float("nan"), float("nan"))
        percent = [100 * (value - 1) for value in (result.ratio, low, high)]
        claims.append(
            claim(
                f"{name} of the model, real-time over ordinary reader",
                f"{percent[0]:+.2f} % (95 % CI {percent[1]:+.2f}..{percent[2]:+.2f})",
            )
        )
    return claims


class FirstReader(SerialTransport):
    """A port whose reading thread gets real-time priority.

    Source: sched(7).
    """

    def read(self, timeout_s: float) -> bytes:
        """Read the bytes that have arrived; the first call sets the priority of its thread."""
        if os.sched_getscheduler(0) != os.SCHED_FIFO:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        return super().read(timeout_s)


@contextmanager
def unit(
    folder: Path, is_first: bool, seconds: float
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """Start a unit, and a session that reads it; yields its process and the recording's path."""
    master, slave = os.openpty()
    tty.setraw(slave)
    command = [sys.executable, __file__, "--unit", str(master), "--seconds", str(seconds)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[master])
    with suppress(PermissionError):
        os.sched_setscheduler(process.pid, os.SCHED_FIFO, os.sched_param(2))
    path = folder / "recording"
    path.unlink(missing_ok=True)
    transport = (FirstReader if is_first else SerialTransport)(os.ttyname(slave), 115_200)
    try:
        with StreamSession(transport, header(), path, start=_nothing, stop=_nothing):
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            yield process, path
    finally:
        process.kill()
        process.communicate()
        transport.close()
        os.close(master)
        os.close(slave)


def _nothing() -> None:
    """Send nothing, because the unit streams by itself."""


def record(folder: Path, is_first: bool, options: argparse.Namespace) -> Recorded:
    """Make a recording while busy processes run."""
    busy = [subprocess.Popen(BUSY) for _ in range(options.busy)]
    try:
        with unit(folder, is_first, options.seconds) as (process, path):
            process.wait()
            time.sleep(0.5)  # for bytes in flight
    finally:
        for one in busy:
            one.kill()
            one.wait()
    loss = decode(path)
    packets = list(read_packets(path))
    arrived_s = np.array([packet.last_rx_ns for packet in packets]) / 1e9
    taken_s = np.cumsum([len(packet.data) for packet in packets]) / WORD_BYTES / RATE_HZ
    late_s = (arrived_s - taken_s)[taken_s < options.seconds - PATIENCE_MS / 1e3]
    return Recorded(100 * loss.lost_ratio, 1e3 * float(np.ptp(late_s)), loss.rate_error_ppm or 0.0)


def latencies_ns(lab: Lab, duration_s: float) -> Floats:
    """Latencies of a run, without its warm-up."""
    (run,) = lab.bench(
        MODEL, runs=1, runtime=RUNTIME, duration_s=duration_s, min_query_count=64, is_checked=False
    )
    queries = run.queries
    steady = queries[~queries["warmup"]]
    times_ns: Floats = (steady["invoke_end_ns"] - steady["invoke_start_ns"]).to_numpy(float)
    return times_ns


def beside(folder: Path, lab: Lab, is_first: bool, options: argparse.Namespace) -> Floats:
    """Latencies of a run while this machine reads a unit."""
    with unit(folder, is_first, 10 * options.seconds):
        return latencies_ns(lab, options.seconds / 2)


if __name__ == "__main__":
    main()
