"""OpenMetrics text: gauges in base units, with the verdict among the labels.

All families are gauges, so that the textfile collector of Prometheus' node exporter also accepts
the file. The collector parses the older text format, in which `# UNIT` and `# EOF` are comments.
The bounds of the 95 % interval are separate families. An invalid set has only its verdict.

Source: OpenMetrics 1.0, https://prometheus.io/docs/specs/om/open_metrics_spec/
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

from edgebench.host.export.exported import (
    ExportedRun,
    benchmark_names,
    exported_numbers,
    reasons,
    sets_of,
)
from edgebench.host.result.metrics import METRICS, Metric, Quantity
from edgebench.protocol.text import printable

_UNITS: dict[Quantity, tuple[str, float]] = {
    Quantity.DURATION_NS: ("seconds", 1e-9),
    Quantity.DURATION_S: ("seconds", 1.0),
    Quantity.SIZE_BYTES: ("bytes", 1.0),
    Quantity.RATIO: ("ratio", 1.0),
    Quantity.INSTRUCTIONS: ("instructions", 1.0),
    Quantity.RATE: ("per_second", 1.0),
    Quantity.ENERGY_J: ("joules", 1.0),
    Quantity.POWER_W: ("watts", 1.0),
    Quantity.ENERGY_DELAY_JS: ("joule_seconds", 1.0),
    Quantity.EFFICIENCY: ("per_joule", 1.0),
}
"""Base unit of each quantity, and the factor that converts to it; other quantities have no unit."""
_BOUNDS = ("lower_95", "upper_95")
Sample = tuple[str, float]
"""Labels and value of a sample."""


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write a family for each metric, with a sample for each set that has the metric."""
    sets = sets_of(runs)
    verdicts: list[Sample] = []
    families: dict[tuple[str, str], list[Sample]] = {}
    for name, run_set in zip(benchmark_names(sets), sets, strict=True):
        labels = {
            "benchmark": name,
            "model": run_set.model,
            "device": run_set.device,
            "runtime": run_set.runtime,
            "scenario": run_set.first.spec.scenario.value,
            "run": run_set.set_id or run_set.first.run_id,
            "verdict": run_set.verdict.state.value,
        }
        why = {"label": run_set.marks.label, "reasons": "; ".join(reasons(run_set.verdict))}
        verdicts.append((_joined({**labels, **why}), 1.0))
        for number in exported_numbers(run_set):
            values = {"": number.value}
            if number.interval is not None:
                values |= zip(_BOUNDS, number.interval, strict=True)
            for bound, value in values.items():
                samples = families.setdefault((number.metric.path, bound), [])
                own = {**labels, "verdict": number.marks.state}
                samples.append((_joined(own), value))
    lines = _family(
        "edgebench_verdict", "", "Verdict of each run or set, with the reasons for it", verdicts
    )
    for (path, bound), samples in sorted(families.items()):
        metric = METRICS[path]
        unit, factor = _UNITS.get(metric.quantity, ("", 1.0))
        scaled = [(labels, value * factor) for labels, value in samples]
        about = f"{path} in run.json" + (f", {bound} % bound of its interval" if bound else "")
        lines += _family(family_name(metric, bound), unit, about, scaled)
    out.write("\n".join([*lines, "# EOF", ""]).encode())


def family_name(metric: Metric, bound: str = "") -> str:
    """Name of a metric's family: the path without its unit suffix, then the unit's full name.

    >>> family_name(METRICS["latency_ns.p50"]), family_name(METRICS["throughput_per_s"])
    ('edgebench_latency_p50_seconds', 'edgebench_throughput_per_second')
    """
    unit, _ = _UNITS.get(metric.quantity, ("", 1.0))
    name = metric.path.replace(".", "_")
    if unit:
        name = re.sub(rf"_{metric.quantity.value}(?=_|$)", "", name, count=1)
    return "_".join(filter(None, ("edgebench", name, bound, unit)))


def _joined(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(text: str) -> str:
    """Value of a label, escaped according to the grammar."""
    return (
        printable(text, keep_lines=True)
        .replace("\\", "\\\\")
        .replace("\n", "\\n")
        .replace('"', '\\"')
    )


def _family(name: str, unit: str, about: str, samples: Sequence[Sample]) -> list[str]:
    described = [f"# TYPE {name} gauge", *([f"# UNIT {name} {unit}"] if unit else [])]
    described.append(f"# HELP {name} {_escaped(about)}")
    return [*described, *(f"{name}{{{labels}}} {value!r}" for labels, value in samples)]
