"""Metrics of a run, each with its path in run.json, its quantity, and which direction is better.

Tables, comparisons, the list of runs and the exporters use these definitions; a new metric is a
single line in `_ALL`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Protocol

from edgebench.host.result.keys import attributes_of
from edgebench.host.result.latency import PERCENTILES, LatencySummary
from edgebench.host.result.marks import ResultMarks
from edgebench.host.result.measured import Metrics
from edgebench.host.result.verdict import NumberKind
from edgebench.protocol.spec import RunSpec

GROSS_ENERGY = "energy.gross_j_per_inference"
INSTRUCTIONS = "instructions_per_inference"
LATENCY_SPANS = ("latency_ns", "end_to_end_ns")
"""Keys of the latency summaries of a run."""


class Measured(Protocol):
    """The attributes of a `Run` that metrics are computed from."""

    @property
    def spec(self) -> RunSpec:
        """Configuration of the run."""
        ...

    @property
    def metrics(self) -> Metrics:
        """Computed numbers of the run."""
        ...


class Better(Enum):
    """Which direction of a metric is better."""

    LOWER = "lower"
    HIGHER = "higher"


class Quantity(Enum):
    """Physical quantity of a number; the enumerator's value is the suffix of its unit."""

    DURATION_NS = "ns"
    DURATION_S = "s"
    SIZE_BYTES = "bytes"
    RATIO = "ratio"
    COUNT = "count"
    INSTRUCTIONS = "instructions"
    RATE = "per_s"
    ENERGY_J = "j"
    POWER_W = "w"
    ENERGY_DELAY_JS = "js"
    EFFICIENCY = "per_j"
    PLAIN = ""
    """Quantity without a fixed unit, such as a number in the unit of the model's outputs."""


class Budget(Enum):
    """Energies from which a metric can take its relative uncertainty; values are key prefixes."""

    GROSS = ""
    NET = "net_"


@dataclass(frozen=True, slots=True)
class Metric:
    """A number under `metrics` of run.json."""

    path: str
    """Keys joined by dots, such as `latency_ns.p50`."""
    quantity: Quantity
    better: Better
    budget: Budget | None = None
    """Energy from which the metric takes its relative uncertainty; None if the metric needs no
    meter."""
    short: str | None = None
    """Short name for the command line."""
    column: str | None = None
    """Key of the metric in the list of runs; None if the list does not have the metric."""
    is_exact: bool = False
    """Whether the metric is a count or a size that does not vary between runs, so that one run per
    side is enough for a comparison."""

    def value(self, run: Measured) -> float | int | None:
        """The metric's value in a run; None if it was not measured or is an emulator's time."""
        is_counted = run.metrics.instructions_per_inference is not None
        if is_counted and self.path.startswith("windows."):
            return None
        value = value_at(run.metrics, self.path)
        return value if isinstance(value, (int, float)) else None

    def bounded_value(self, run: Measured) -> float | int | None:
        """Like `value`, but None for a tail percentile without an interval."""
        return None if self.is_tail and self.interval(run) is None else self.value(run)

    @property
    def is_tail(self) -> bool:
        """Whether the metric is a latency percentile above the median."""
        span, _, name = self.path.partition(".")
        return span in LATENCY_SPANS and name in PERCENTILES and name != "p50"

    def interval(self, run: Measured) -> tuple[float, float] | None:
        """95 % confidence interval of the metric; None if it has no interval."""
        place, _, name = self.path.rpartition(".")
        owner = value_at(run.metrics, place) if place else run.metrics
        bounds = getattr(owner, "ci95" if name == "value" else f"{name}_ci95", None)
        return None if bounds is None else (float(bounds[0]), float(bounds[1]))

    def expanded_interval(self, run: Measured) -> tuple[float, float] | None:
        """95 % interval within a run; for an energy, the expanded uncertainty (k = 2).

        A metric computed from an energy has the relative uncertainty of that energy: see `METRICS`.
        """
        energy, value = run.metrics.energy, self.value(run)
        if self.budget is None or energy is None or value is None:
            return self.interval(run)
        whole_j, u95_j = energy.gross_j_per_inference, energy.u95_absolute_j
        if self.budget is Budget.NET:
            whole_j, u95_j = energy.net_j_per_inference, energy.net_u95_absolute_j
        if u95_j is None or not whole_j:
            return None
        half_width = abs(value * u95_j / whole_j)
        return value - half_width, value + half_width

    @property
    def kind(self) -> NumberKind:
        """Kind of number of the metric; a failed rule harms only certain kinds."""
        name = self.path.rpartition(".")[2]
        if self.budget is not None:
            return NumberKind.ENERGY
        if self.group in _KINDS:
            return _KINDS[self.group]
        if name in ("mean", "throughput_per_s", "samples_per_s"):
            return NumberKind.MEAN
        is_tail = name.startswith(("p9", "early_stopping_p9")) or name == "max"
        return NumberKind.TAIL if is_tail else NumberKind.MEDIAN

    def relevant(self, marks: ResultMarks) -> ResultMarks:
        """Marks of this metric.

        The state is that of the metric's kind of number; `synthetic power` is kept only for powers
        and energies.
        """
        own = marks.of_kind(self.kind)
        return own if self.budget is not None else replace(own, power=())

    @property
    def group(self) -> str:
        """First part of the path, such as `latency_ns` or `energy`."""
        return self.path.partition(".")[0]

    @property
    def label(self) -> str:
        """Last part of the path without the unit, such as p50 or throughput."""
        return self.path.rpartition(".")[2].removesuffix(f"_{self.quantity.value}")


_KINDS = {
    "cold_start_ns": NumberKind.COLD_START,
    "upload_s": NumberKind.COLD_START,
    "memory_bytes": NumberKind.MEMORY,
    "target_memory_bytes": NumberKind.MEMORY,
    "accuracy": NumberKind.OUTPUTS,
    "agreement": NumberKind.OUTPUTS,
}
"""Maps each group of metrics to its kind of number, if all metrics in it have the same kind."""


class NoSuchPath(LookupError):
    """The path names a key that does not exist."""


def value_at(owner: Any, path: str) -> object:
    """Value at a path of keys in a part of a run; None if an object on the path is None.

    Raises:
        NoSuchPath: the path names a key that does not exist.
    """
    for name in path.split("."):
        if owner is None:
            return None
        attributes = attributes_of(owner.__class__)
        if attributes is not None:
            if not name or name not in attributes:
                raise NoSuchPath(path)
            owner = getattr(owner, attributes[name])
        elif isinstance(owner, Mapping) and name in owner:
            owner = owner[name]
        else:
            raise NoSuchPath(path)
    return owner


def headline_latency(run: Measured) -> LatencySummary | None:
    """Latencies of the scenario's headline; None for a profile, which measures operators."""
    summary = value_at(run.metrics, run.spec.scenario.traits.headline)
    return summary if isinstance(summary, LatencySummary) else run.metrics.latency_ns


def headline(run: Measured) -> Metric:
    """The main metric of a run; the median latency if the tail percentile has no interval.

    A target that times whole windows has no latency of a single inference, so its headline is the
    throughput. If only the energy of a target was measured, the energy is its headline.
    """
    energy = run.metrics.energy
    if energy is not None and energy.edge_windows and energy.is_measured:
        return METRICS[GROSS_ENERGY]
    if run.metrics.instructions_per_inference is not None:
        return METRICS[INSTRUCTIONS]
    if run.metrics.windows is not None and run.metrics.latency_ns is None:
        return METRICS["throughput_per_s"]
    traits = run.spec.scenario.traits
    metric = METRICS[traits.compared]
    is_unbounded = metric.path.endswith(".p99") and metric.interval(run) is None
    if is_unbounded or metric.value(run) is None:
        metric = METRICS[f"{traits.headline}.p50"]
    return metric if metric.value(run) is not None else METRICS["latency_ns.p50"]


def _latencies() -> list[Metric]:
    listed = ("p50", "p90", "p99")
    return [
        Metric(
            f"{span}.{name}",
            Quantity.DURATION_NS,
            Better.LOWER,
            column=f"{span}_{name}" if name in listed else None,
        )
        for span in LATENCY_SPANS
        for name in ("min", "mean", *PERCENTILES, "max")
    ]


def _lower(quantity: Quantity, group: str, *names: str) -> list[Metric]:
    return [Metric(f"{group}.{name}", quantity, Better.LOWER) for name in names]


def _target_memory(*names: str, **short: str) -> list[Metric]:
    """Metrics of a microcontroller's memory use, all of which are the same in every run.

    Args:
        names: Metrics without a short name.
        short: Short names of further metrics.
    """
    return [
        Metric(
            f"target_memory_bytes.{name}",
            Quantity.SIZE_BYTES,
            Better.LOWER,
            short=short.get(name),
            is_exact=True,
        )
        for name in (*names, *short)
    ]


_ALL = (
    *_latencies(),
    Metric("throughput_per_s", Quantity.RATE, Better.HIGHER, column="throughput_per_s"),
    Metric(INSTRUCTIONS, Quantity.INSTRUCTIONS, Better.LOWER, column=INSTRUCTIONS, is_exact=True),
    Metric("windows.duration_ns_per_inference", Quantity.DURATION_NS, Better.LOWER),
    *_target_memory("flash", "ram", "arena", "firmware_flash", "firmware_ram"),
    *_target_memory(flash_total="flash_bytes", ram_total="ram_bytes", stack_peak="stack_bytes"),
    Metric("upload_s", Quantity.DURATION_S, Better.LOWER),
    *_lower(Quantity.DURATION_NS, "early_stopping", "p90_ns", "p99_ns"),
    *_lower(Quantity.DURATION_NS, "cold_start_ns", "import", "load", "first_inference"),
    Metric("memory_bytes.peak_rss", Quantity.SIZE_BYTES, Better.LOWER, column="peak_rss_bytes"),
    *_lower(Quantity.SIZE_BYTES, "memory_bytes", "steady_rss", "steady_pss", "model", "arena"),
    *_lower(Quantity.DURATION_NS, "harness_ns", "p50", "per_query", "end_to_end_p50"),
    *_lower(Quantity.DURATION_NS, "harness_ns.binding", "p50", "c_p50", "added"),
    *_lower(Quantity.DURATION_NS, "loadgen", "p50_ns", "p90_ns", "p99_ns"),
    *_lower(Quantity.DURATION_NS, "loadgen", "early_stopping_p90_ns", "early_stopping_p99_ns"),
    Metric("loadgen.samples_per_s", Quantity.RATE, Better.HIGHER),
    Metric("accuracy.value", Quantity.PLAIN, Better.HIGHER),
    Metric("accuracy.drop_vs_reference", Quantity.PLAIN, Better.LOWER),
    Metric("agreement.fraction_equal", Quantity.RATIO, Better.HIGHER),
    Metric("agreement.top1_equal_ratio", Quantity.RATIO, Better.HIGHER),
    *_lower(Quantity.PLAIN, "agreement", "max_abs_diff", "relative_rms", "relative_rms_best"),
    # Except for the net energy, each is the gross energy or its inverse, times a factor that does
    # not come from the meter: a number of inferences, times on the device's clock, a capacity.
    Metric(
        GROSS_ENERGY,
        Quantity.ENERGY_J,
        Better.LOWER,
        Budget.GROSS,
        short="energy_j",
        column="energy_j_per_inference",
    ),
    Metric(
        "energy.net_j_per_inference",
        Quantity.ENERGY_J,
        Better.LOWER,
        Budget.NET,
        short="net_energy_j",
    ),
    Metric("energy.energy_delay_js", Quantity.ENERGY_DELAY_JS, Better.LOWER, Budget.GROSS),
    Metric("energy.power_w_mean", Quantity.POWER_W, Better.LOWER, Budget.GROSS),
    Metric("energy.inferences_per_j", Quantity.EFFICIENCY, Better.HIGHER, Budget.GROSS),
    Metric("energy.inferences_per_s_per_w", Quantity.EFFICIENCY, Better.HIGHER, Budget.GROSS),
    Metric("energy.battery.inference_count", Quantity.COUNT, Better.HIGHER, Budget.GROSS),
    Metric("energy.battery.duration_s", Quantity.DURATION_S, Better.HIGHER, Budget.GROSS),
)

METRICS: Mapping[str, Metric] = {metric.path: metric for metric in _ALL}
"""All metrics by which runs can be compared, keyed by path."""
BY_SHORT_NAME: Mapping[str, Metric] = {metric.short: metric for metric in _ALL if metric.short}
"""All metrics that have a short name, keyed by the short name."""
