"""Bencher Metric Format: benchmark → measure → value with lower_value and upper_value.

The format has no field for a verdict. So the name of a suspect benchmark includes its label, which
makes it a separate benchmark to Bencher; an invalid one is left out.

Source: https://bencher.dev/docs/reference/bencher-metric-format
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import BinaryIO

from edgebench.host.export.exported import (
    ExportedNumber,
    ExportedRun,
    benchmark_names,
    set_numbers,
    sets_of,
)

_BUILT_IN = {"latency_ns.p50": "latency", "throughput_per_s": "throughput"}
"""Names of Bencher's default measures, in nanoseconds and per second."""


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write a benchmark for each set."""
    sets = sets_of(runs)
    benchmarks = {
        name: {
            _BUILT_IN.get(number.metric.path, number.metric.path): _metric(number)
            for number in set_numbers(one)
        }
        for name, one in zip(benchmark_names(sets), sets, strict=True)
        if not one.verdict.is_refused
    }
    out.write((json.dumps(benchmarks, indent=1, ensure_ascii=False) + "\n").encode())


def _metric(number: ExportedNumber) -> dict[str, float]:
    if number.interval is None:
        return {"value": number.value}
    lower, upper = number.interval
    return {"value": number.value, "lower_value": lower, "upper_value": upper}
