"""Bencher Metric Format, in which each measure of a benchmark has a value with two bounds.

The format has no field for a verdict. So the name of a suspect benchmark includes the label
`suspect`, which makes it a separate benchmark for Bencher; an invalid benchmark is left out.

Source: https://bencher.dev/docs/reference/bencher-metric-format
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import BinaryIO

from edgebench.host.export.exported import (
    CHIEF,
    ExportedRun,
    benchmark_names,
    exported_numbers,
    number_mark,
    sets_of,
)

_BUILT_IN = {"latency_ns.p50": "latency", "throughput_per_s": "throughput"}
"""Maps metrics to Bencher's default measures: latency in ns, and throughput per second."""


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write a benchmark for each set."""
    sets = sets_of(runs)
    benchmarks: dict[str, dict[str, dict[str, float]]] = {}
    for name, run_set in zip(benchmark_names(sets), sets, strict=True):
        if run_set.verdict.is_refused:
            continue
        measures = benchmarks[name] = {}
        for number in exported_numbers(run_set, CHIEF):
            values = {"value": number.value}
            if number.interval is not None:
                values["lower_value"], values["upper_value"] = number.interval
            measure = _BUILT_IN.get(number.metric.path, number.metric.path)
            measures[measure + number_mark(number, run_set)] = values
    out.write((json.dumps(benchmarks, indent=1, ensure_ascii=False) + "\n").encode())
