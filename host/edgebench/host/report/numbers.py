"""Numbers of a set of runs as text, each with its unit and its interval.

An invalid set has no numbers. A number without an interval is marked as such.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.host.result.latency import PERCENTILES
from edgebench.host.result.metrics import (
    GROSS_ENERGY,
    INSTRUCTIONS,
    LATENCY_SPANS,
    Metric,
    Quantity,
)
from edgebench.host.result.numbers import Number, numbers_of
from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import (
    format_accuracy,
    format_metric,
    format_ns,
    format_plain,
    format_rate,
    half_width_of,
)
from edgebench.host.show.accuracy import accuracy_in, loss_words

Interval = tuple[float, float]
NET_ENERGY = "energy.net_j_per_inference"
ACCURACY = "accuracy.value"
WINDOW_TIME = "windows.duration_ns_per_inference"
_LABELS = {
    "throughput_per_s": "throughput",
    INSTRUCTIONS: "instructions per inference",
    WINDOW_TIME: "time per inference, median of windows",
    GROSS_ENERGY: "energy per inference, gross",
    NET_ENERGY: "energy per inference, net of idle",
    "energy.power_w_mean": "mean power",
    "memory_bytes.peak_rss": "peak memory",
    ACCURACY: "accuracy",
    "target_memory_bytes.flash": "flash of the model",
    "target_memory_bytes.ram": "RAM of the model",
    "target_memory_bytes.flash_total": "flash of model and firmware",
    "target_memory_bytes.ram_total": "RAM of model, firmware and stack",
    "target_memory_bytes.stack_peak": "largest stack",
}
_SPANS = {
    "latency_ns": "latency",
    "end_to_end_ns": "query latency",
    "harness_ns": "time of the loop itself",
    "harness_ns.binding": "time of the Python binding",
}
"""Labels of groups of numbers; other groups are labelled by their names."""
_CARDS = (
    "{span}.p50",
    "{span}.p90",
    "{span}.p99",
    "throughput_per_s",
    INSTRUCTIONS,
    WINDOW_TIME,
    GROSS_ENERGY,
    NET_ENERGY,
    "energy.power_w_mean",
    ACCURACY,
    "memory_bytes.peak_rss",
    "target_memory_bytes.flash",
    "target_memory_bytes.ram",
    "target_memory_bytes.flash_total",
    "target_memory_bytes.ram_total",
    "target_memory_bytes.stack_peak",
)
"""Metrics at the top of a page after the headline, if the runs have them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportNumber:
    """A number of a page, as data and as text."""

    path: str
    label: str
    value: float
    interval: Interval | None
    shown: str
    bounds: str
    """Interval as text, or the reason why there is none."""
    range: str
    """Lowest and highest value among the runs; empty for a single run."""
    run_count: int
    state: str
    """State of the number's kind; the headline may have a different state."""


def headline_numbers(run_set: RunSet) -> list[ReportNumber]:
    """Numbers at the top of a page, the headline first; none for an invalid set."""
    span = run_set.first.spec.scenario.traits.headline
    if f"{span}.p50" not in run_set.metrics:
        span = "latency_ns"
    paths = dict.fromkeys([run_set.headline, *(path.format(span=span) for path in _CARDS)])
    return [_report_number(run_set, number) for number in numbers_of(run_set, paths)]


def all_numbers(run_set: RunSet) -> list[ReportNumber]:
    """All numbers of a set; none for an invalid set."""
    return [_report_number(run_set, number) for number in numbers_of(run_set, run_set.metrics)]


def number_of(run_set: RunSet, path: str) -> ReportNumber:
    """The value of a metric, which the set must have."""
    [number] = numbers_of(run_set, [path])
    return _report_number(run_set, number)


def _report_number(run_set: RunSet, number: Number) -> ReportNumber:
    metric, summary = number.metric, run_set.metrics[number.metric.path]
    half_width = half_width_of(number.interval, number.value)
    accuracy = accuracy_in(run_set) if metric.path == ACCURACY else None

    def shown(value: float) -> str:
        if accuracy is None:
            return shown_number(metric, value, half_width)
        return format_accuracy(accuracy.metric, value, half_width)

    return ReportNumber(
        path=metric.path,
        label=label_of(run_set, metric),
        value=number.value,
        interval=number.interval,
        shown=shown(number.value),
        bounds=_bounds(run_set, metric, number.interval)
        if accuracy is None or accuracy.ci95 is None
        else _accuracy_bounds(accuracy, accuracy.ci95),
        range=f"{shown(summary.min)} to {shown(summary.max)}" if summary.count > 1 else "",
        run_count=summary.count,
        state=number.marks.state,
    )


def label_of(run_set: RunSet, metric: Metric) -> str:
    """Label of a metric for a set."""
    if metric.path == ACCURACY and run_set.first.metrics.accuracy is not None:
        return run_set.first.metrics.accuracy.metric
    label = metric_label(metric)
    is_virtual = run_set.first.emulated and metric.path == WINDOW_TIME
    return f"virtual {label}" if is_virtual else label


def metric_label(metric: Metric) -> str:
    """Label of a metric, independent of the runs."""
    if metric.path in _LABELS:
        return _LABELS[metric.path]
    span, _, name = metric.path.rpartition(".")
    # In a percentile such as `p99_9`, the underscore is a decimal point.
    name = name.replace("_", "." if name in PERCENTILES else " ").removesuffix(" ns")
    return f"{_SPANS.get(span, span.removesuffix('_ns').replace('_', ' '))} {name}".strip()


def labels_of(run_set: RunSet) -> tuple[str, ...]:
    """Labels for every number of a set: simulated or emulated device, synthetic power."""
    return (*(f"{name} device" for name in run_set.marks.device), *run_set.marks.power)


def shown_number(metric: Metric, value: float, half_width: float = 0.0) -> str:
    """A number in the unit of its metric."""
    if metric.quantity is Quantity.DURATION_S:
        return format_ns(value * 1e9, half_width * 1e9)
    if metric.quantity in (Quantity.PLAIN, Quantity.RATIO):
        return format_plain(value, half_width)
    if metric.quantity is Quantity.RATE:
        return f"{format_rate(value, half_width)}/s"
    return format_metric(metric, value, half_width)


def _bounds(run_set: RunSet, metric: Metric, interval: Interval | None) -> str:
    if interval is None:
        if metric.is_exact:
            if metric.quantity is Quantity.SIZE_BYTES:
                return "a size, which does not vary"
            return "a count, exact within the counter's resolution"
        if run_set.set_id is not None and len(run_set.counted) > 1:
            having = [run for run in run_set.counted if metric.bounded_value(run) is not None]
            if len(having) == 1:
                return f"no interval: only run {having[0].run_id} has a value"
            return "no interval: too few runs"
        span, _, name = metric.path.rpartition(".")
        has_interval = span in LATENCY_SPANS and (name in PERCENTILES or name == "mean")
        return f"no interval: {'too few independent queries' if has_interval else 'measured once'}"
    shown = shown_interval(metric, interval, run_set.metrics[metric.path].median)
    if run_set.set_id is not None:
        kind = f"95 % CI between {len(run_set.counted)} runs"
    else:
        kind = "95 % CI within the run" if metric.budget is None else "95 %, k = 2, absolute"
    return f"{shown} ({kind})"


def _accuracy_bounds(accuracy: Accuracy, interval: Interval) -> str:
    """Interval of an accuracy over the samples, and the difference from the reference accuracy."""
    half_width = half_width_of(interval, accuracy.value)
    low, high = (format_accuracy(accuracy.metric, end, half_width) for end in interval)
    bounds = f"{low} to {high} (95 % CI over {accuracy.sample_count} samples)"
    return "; ".join(filter(None, (bounds, loss_words(accuracy))))


def shown_interval(metric: Metric, interval: Interval, value: float) -> str:
    """Both ends of an interval; if they look equal, the half-width, as in the tables of `show`.

    >>> from edgebench.host.result.metrics import METRICS
    >>> shown_interval(METRICS["latency_ns.p50"], (100_000, 100_100), 100_080)
    '±0.05 %'
    """
    half_width = half_width_of(interval, value)
    low, high = (shown_number(metric, end, half_width) for end in interval)
    if low != high or not value:
        return f"{low} to {high}"
    ratio = half_width_of(interval) / abs(value)
    return f"±{100 * ratio:.2f} %" if ratio >= 1e-4 else "within ±0.01 %"
