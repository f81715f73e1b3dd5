"""Time, memory and size of the report of a one-hour run that is metered at 100 kS/s.

    python benchmarks/report_speed.py [--hours 1] [--rounds 5] [--folder DIR] [--short]

A short metered run is made on this machine. The queries and the power of the run are then replaced
by an hour of synthetic data: an inference each millisecond, and a recording of 100,000 samples per
second with steps, noise and drift. The store's own writer writes the data. `edgebench report` makes
the page in a separate process, whose peak memory is reported. The folder needs 4 GB per hour.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import claim, claims_table, machine, parse, report, spread
from numpy.typing import NDArray

from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.store.files import read_queries, write_queries
from edgebench.host.store.layout import QUERIES_FILE, RAW_DIRECTORY, Store
from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Header, LossReport, SampleBlock
from edgebench.protocol.traces import RECORD_FILE

MODEL = "digits_int8.tflite"
RATE_HZ, QUERY_HZ = 100_000, 1000
TIME_BAR_S, MEMORY_BAR_MB, SIZE_BAR_MB = 10.0, 500, 3.0
WARMUP_COUNT = 10


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    options = parse(parser, smoke={"hours": 0.005, "rounds": 1}, hours=0.1, rounds=3)
    if options.make:
        lengthen(Store(options.folder), round(options.hours * 3600))
        return
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-report-", dir=options.folder) as name:
        bench = ["bench", MODEL, "--quick", "--runs", "1", "--meter", "synthetic:follow"]
        run([*bench, "--duration", "2s", "--cooldown", "0", "--store", name], codes=(0, 3))
        hours = ["--hours", str(options.hours)]
        subprocess.run([sys.executable, __file__, "--make", "--folder", name, *hours], check=True)
        page = Path(name) / "page.html"
        rounds = [timed_report(name, page) for _ in range(options.rounds)]
        size_mb = page.stat().st_size / 1e6
    time_s, peak_mb = (spread(values) for values in zip(*rounds, strict=True))
    claims = [
        claim(
            "time, s (the bar is for the maximum)",
            time_s.text(2),
            f"≤ {TIME_BAR_S:g}",
            time_s.extremes[1] <= TIME_BAR_S,
        ),
        claim(
            "peak memory, MB (the bar is for the maximum)",
            peak_mb.text(0),
            f"≤ {MEMORY_BAR_MB}",
            peak_mb.extremes[1] <= MEMORY_BAR_MB,
        ),
        claim("page, MB", f"{size_mb:.2f}", f"≤ {SIZE_BAR_MB:g}", size_mb <= SIZE_BAR_MB),
    ]
    samples, queries = (round(options.hours * 3600 * rate) for rate in (RATE_HZ, QUERY_HZ))
    title = f"Report of {options.hours:g} h: {samples:,} samples, {queries:,} inferences"
    report(title, [claims_table(claims)], began)


def run(words: list[str], codes: tuple[int, ...] = (0,)) -> None:
    """Run an edgebench command in a new process, and check its exit code."""
    command = [sys.executable, "-m", "edgebench.host.cli", *words]
    code = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    assert code in codes, f"{words}: exit code {code}"


def timed_report(store: str, page: Path) -> tuple[float, float]:
    """Time and peak memory of the report of the only run, s and MB."""
    page.unlink(missing_ok=True)
    words = ["report", "last", "--store", store, "-o", str(page)]
    begin_s = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "edgebench.host.cli", *words])
    _, status, usage = os.wait4(process.pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    return time.perf_counter() - begin_s, usage.ru_maxrss / 1000


def lengthen(store: Store, seconds: int) -> None:
    """Replace the queries and the power of the only run by `seconds` seconds of synthetic data."""
    [run_id] = store.run_ids()
    directory = store.directory(run_id)
    queries = read_queries(directory)
    first_ns = int(queries.start_ns[0])
    write_queries(directory / QUERIES_FILE, long_queries(first_ns, seconds * QUERY_HZ), batch=1)
    path = directory / RAW_DIRECTORY / RECORD_FILE
    record = json.loads(path.read_bytes())
    record["worker"]["query_count"] = seconds * QUERY_HZ  # a trace with more rows is refused
    path.write_text(json.dumps(record))
    file = PowerFile.open(directory)
    channel = file.header.capability.channels[0].name
    begin_ns = file.span_ns(channel)[0]
    capability = replace(file.header.capability, rate_hz=float(RATE_HZ), is_averaging=False)
    header = replace(file.header, capability=capability)
    loss = LossReport(received_count=seconds * RATE_HZ)
    write_blocks(directory, header, long_power(header, begin_ns, seconds), lambda: loss)


def long_queries(first_ns: int, count: int) -> Queries:
    """Inferences of 0.9 ms at an interval of 1 ms; every thousandth inference takes 0.98 ms."""
    start_ns = first_ns + np.arange(count, dtype=np.int64) * (1_000_000_000 // QUERY_HZ)
    draw = np.random.default_rng(1)
    latency_ns = (9e5 * (1 + 0.01 * draw.standard_normal(count))).astype(np.int64)
    latency_ns[::1000] = 980_000
    return Queries(
        start_ns,
        start_ns,
        start_ns + 1000,
        start_ns + 1000 + latency_ns,
        start_ns + 2000 + latency_ns,
        np.zeros(count, np.int64),
        WARMUP_COUNT,
    )


def long_power(header: Header, begin_ns: int, seconds: int) -> Iterator[SampleBlock]:
    """A second of samples at a time: steps of 10 s between 1 and 2 W, noise and a slow drift."""
    draw = np.random.default_rng(2)
    sample_ns = np.arange(RATE_HZ, dtype=np.int64) * (1_000_000_000 // RATE_HZ)
    flags = np.zeros(RATE_HZ, np.uint8)
    noise_w: NDArray[np.float64] = 0.05 * draw.standard_normal(RATE_HZ)
    for second in range(seconds):
        level_w = 1.0 + (second // 10) % 2 + 0.1 * second / seconds
        yield SampleBlock(
            channel=0,
            index0=second * RATE_HZ,
            time_ns=begin_ns + second * 1_000_000_000 + sample_ns,
            power_w=level_w + np.roll(noise_w, int(draw.integers(RATE_HZ))),
            flags=flags,
        )


if __name__ == "__main__":
    main()
