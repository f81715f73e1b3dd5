"""JSON of github-action-benchmark: a list of name, unit, value, range and extra.

All metrics in a file for the action have the same direction: either lower or higher values are
better. Therefore there are two formats. The name of a suspect set ends with `suspect`; `extra` has
the verdict. An invalid set is left out.

Source: github.com/benchmark-action/github-action-benchmark, src/extract.ts (BenchmarkResult)
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
    reasons,
    sets_of,
)
from edgebench.host.result.metrics import Better


def write_smaller(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write the metrics for which lower values are better, as in `tool: customSmallerIsBetter`."""
    _write(runs, out, Better.LOWER)


def write_bigger(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write the metrics for which higher values are better, as in `tool: customBiggerIsBetter`."""
    _write(runs, out, Better.HIGHER)


def _write(runs: Sequence[ExportedRun], out: BinaryIO, better: Better) -> None:
    sets = sets_of(runs)
    entries: list[dict[str, str | float]] = []
    for name, run_set in zip(benchmark_names(sets), sets, strict=True):
        lines = [f"verdict: {run_set.marks.label}", *reasons(run_set.verdict)]
        lines.append(f"runs: {', '.join(run_set.run_ids)}")
        for number in exported_numbers(run_set, CHIEF):
            metric, interval = number.metric, number.interval
            if metric.better is not better:
                continue
            bounds = "no interval"
            if interval is not None:
                bounds = f"95 %: {interval[0]:.6g} to {interval[1]:.6g}"
            entry = {
                "name": f"{name}: {metric.path}{number_mark(number, run_set)}",
                "unit": metric.quantity.value or "1",
                "value": number.value,
                "range": bounds,
                "extra": "\n".join(lines),
            }
            entries.append(entry)
    out.write((json.dumps(entries, indent=1, ensure_ascii=False) + "\n").encode())
