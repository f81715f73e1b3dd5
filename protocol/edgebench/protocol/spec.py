"""The specification of a run, and the presets on which it is based."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, TypedDict

from edgebench.protocol.errors import UsageError, unknown_name
from edgebench.protocol.sizes import format_distinct_sizes

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Scenario(Enum):
    """How queries are issued; the scenarios have MLPerf's names.

    Source: mlcommons/inference, loadgen/test_settings.h, `TestScenario`.
    """

    SINGLE_STREAM = "single_stream"
    """One sample per query; a query is issued when the previous query is complete."""
    MULTI_STREAM = "multi_stream"
    """Several samples per query; a query is issued when the previous query is complete."""
    SERVER = "server"
    """One sample per query; queries arrive by a Poisson process, and latency counts from the
    arrival."""
    OFFLINE = "offline"
    """All samples are issued at once; the result is the number of samples completed per second."""

    @property
    def traits(self) -> ScenarioTraits:
        """Properties of this scenario."""
        return SCENARIOS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioTraits:
    """Properties of a scenario; all code that depends on the scenario reads them here."""

    headline: str
    """Key, under `metrics` in run.json, of the main latencies of a run."""
    compared: str
    """Metric by which two runs are compared, unless the user names another metric."""
    loadgen_name: str
    """Name of the scenario in LoadGen's settings."""
    counted: str = "queries"
    """Plural of the unit that `min_query_count` counts: queries or samples."""
    is_single: bool = False
    """Whether each query is a single inference and starts only after the previous inference has
    ended, so that the energy and the operators of single inferences can be distinguished."""
    is_grouped: bool = False
    """Whether a query has `samples_per_query` inferences."""
    is_scheduled: bool = False
    """Whether queries arrive by a schedule, even if the previous query is not complete."""
    settings: tuple[str, ...] = ()
    """Names of numeric fields of `RunSpec` that apply only to this scenario and change the results.
    `show` prints these fields, and runs that differ in them are not compared."""
    is_one_query: bool = False
    """Whether all samples form a single query, so that the result has a throughput, but no latency
    of queries."""


SCENARIOS: dict[Scenario, ScenarioTraits] = {
    Scenario.SINGLE_STREAM: ScenarioTraits(
        headline="latency_ns",
        compared="latency_ns.p50",
        loadgen_name="SingleStream",
        is_single=True,
    ),
    Scenario.MULTI_STREAM: ScenarioTraits(
        headline="end_to_end_ns",
        compared="end_to_end_ns.p50",
        loadgen_name="MultiStream",
        is_grouped=True,
        settings=("samples_per_query",),
    ),
    Scenario.SERVER: ScenarioTraits(
        headline="end_to_end_ns",
        compared="end_to_end_ns.p99",
        loadgen_name="Server",
        is_scheduled=True,
        settings=("target_qps",),
    ),
    Scenario.OFFLINE: ScenarioTraits(
        headline="end_to_end_ns",
        compared="throughput_per_s",
        loadgen_name="Offline",
        counted="samples",
        is_one_query=True,
    ),
}
"""Maps every scenario to its properties.

Source of `compared`: mlcommons/inference, loadgen/README.md, table of scenarios.
"""


class Engine(Enum):
    """Program that issues the queries."""

    NATIVE = "native"
    """The timed loop of edgebench itself."""
    LOADGEN = "loadgen"
    """MLPerf's LoadGen, which also writes its own logs."""
    TARGET = "target"
    """The device itself, such as a microcontroller, which times series of inferences."""


class Priority(Enum):
    """Priority with which the kernel schedules the worker."""

    NORMAL = "normal"
    REALTIME = "realtime"
    """SCHED_FIFO: no task of normal priority preempts the worker. The agent needs a permission for
    this."""


MAX_BRIGHTNESS = 255
"""Maximum brightness of the screen. Source:
`android.provider.Settings.System.SCREEN_BRIGHTNESS`."""
MAX_LENGTH_S = 7 * 86400.0
"""Maximum of every duration, timeout and waiting time: seven days. A longer time is probably a
mistake in the unit."""
MIN_MEMORY_BYTES = 128 * 2**20
"""Smallest memory limit that a user may set; with less memory, Python and a runtime may fail at any
place, with misleading errors."""
MAX_MEMORY_BYTES = 2**44


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on a worker, so that a hostile or broken model cannot make the device unusable."""

    memory_bytes: int | None = None
    """Limit on the private memory of the worker; None: a limit derived from the size of the model
    file."""
    load_timeout_s: float = 60.0
    """Time limit of import, load and first inference together."""
    measure_timeout_s: float | None = None
    """Time limit of warm-up and timed loop; None: a limit derived from the first inference and the
    duration."""

    def __post_init__(self) -> None:
        memory_bytes = self.memory_bytes
        if memory_bytes is not None and not MIN_MEMORY_BYTES <= memory_bytes <= MAX_MEMORY_BYTES:
            limits = (MIN_MEMORY_BYTES, MAX_MEMORY_BYTES)
            least, most, got = format_distinct_sizes(*limits, memory_bytes)
            raise UsageError(
                f"memory limit must be {least} to {most}, got {got}; a runtime alone needs about "
                "100 MiB"
            )
        _require_length("timeout", self.load_timeout_s)
        if self.measure_timeout_s is not None:
            _require_length("measure timeout", self.measure_timeout_s)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Specification of a run: model loading, measurement, duration and limits."""

    runtime: str
    """Name of the runtime driver on the device, such as tflite, litert or onnx; empty until the
    device has reported its runtimes."""
    scenario: Scenario = Scenario.SINGLE_STREAM
    preset: str = "default"
    """Name of the preset that the settings are based on; for information only."""
    engine: Engine = Engine.NATIVE
    duration_s: float = 60.0
    """Minimum duration of the timed loop; the loop also issues at least `min_query_count`
    queries."""
    min_query_count: int = 1024
    """Minimum number of queries of the timed loop; in the offline scenario, minimum number of
    samples."""
    max_query_count: int = 1_000_000
    """Maximum number of inferences of the timed loop; each takes 48 bytes of memory on the
    device."""
    max_duration_s: float | None = None
    """Maximum duration of the timed loop; None: no limit. The loop ends with the first query that
    is complete after this time, even if fewer than `min_query_count` queries were issued. An agent
    of an earlier version ignores this field."""
    warmup_query_count: int = 10
    """Minimum number of inferences before the timed loop; the warm-up ends when both this number
    and `warmup_duration_s` are reached."""
    warmup_duration_s: float = 1.0
    samples_per_query: int = 8
    """Number of samples in a query; only for the multi-stream scenario."""
    target_qps: float | None = None
    """Arrivals of queries per second; only for the server scenario."""
    target_latency_s: float | None = None
    """Limit on the latency at `target_percentile`; only for the server scenario."""
    target_percentile: float = 0.99
    """Percentile of the latency that must not exceed `target_latency_s`, as a ratio in (0, 1)."""
    sample_count: int = 16
    """Number of different inputs that are prepared before the timed loop and issued in random
    order."""
    threads: int = 1
    delegate: str | None = None
    """Requested delegate or execution provider; None: the runtime's own default."""
    signature: str | None = None
    """Signature of the graph that is measured in a .tflite file; None: the file's first graph. An
    agent of an earlier version always measures the first graph."""
    seed: int = 0
    """Seed of the generated inputs, of their order, and of the arrival times of queries."""
    cpus: tuple[int, ...] = ()
    """Numbers of the CPUs that the worker is bound to; empty: the kernel chooses the CPUs."""
    priority: Priority = Priority.NORMAL
    governor: str | None = None
    """CPU frequency governor during the run; the earlier governor is restored afterwards. None: do
    not change the governor."""
    is_airplane_mode: bool = False
    """Whether to enable airplane mode on a phone during the run; the earlier mode is restored
    afterwards."""
    screen_brightness: int | None = None
    """Brightness of a phone's screen during the run, 0 to 255 on Android's scale, with adaptive
    brightness off; both settings are restored afterwards. None: do not change the brightness. An
    agent of an earlier version ignores this field and `is_airplane_mode`."""
    is_profiled: bool = False
    """Whether the run times every operator, which changes the latencies of the model."""
    is_checked: bool = True
    """Whether to compare the outputs of the model with the outputs of reference kernels."""
    input_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Maps the name of an input with open dimensions to its shape; by default, an open dimension
    has the size 1."""
    inputs_sha256: str | None = None
    """SHA-256 of a file on the device; None: no file. The file maps names of inputs to arrays. The
    first axis of each array is the sample. Inputs that are not in the file are generated from the
    seed."""
    dataset_sha256: str | None = None
    """SHA-256 of a file on the device; None: no data set. The file contains a labelled data set,
    for which the accuracy is measured."""
    dataset_sample_count: int | None = None
    """Number of samples of the data set to run, drawn with the seed; None: all samples. An agent of
    an earlier version runs all samples."""
    dataset_limit_s: float = 3600.0
    """Time limit for the data set on a device that times itself. A data set with a longer estimated
    time is rejected before the measurement."""
    telemetry_rate_hz: float = 10.0
    """Sampling rate of the device's sensors during the run; 0: no sampling. Even at 0, the
    temperature guard reads temperatures if the device's profile has a temperature limit."""
    is_sustained: bool = False
    """Whether the run measures sustained performance; such a run has a duration instead of a number
    of queries."""
    cooldown_timeout_s: float | None = None
    """Maximum time to wait until the device is cool; None: the time in the device's profile; 0: do
    not wait."""
    meter: str | None = None
    """The agent's energy meter that records during the run; None: no meter of the agent records."""
    idle_duration_s: float = 0.0
    """Idle time before the worker loads the model, and after the worker has ended."""
    load_code_chip_s: float | None = None
    """Duration of a chip, the shortest interval of the load code; None: no load code. The load code
    is a sequence of active and idle intervals before the warm-up and after the timed loop. The load
    code aligns a meter's trace with the device's clock."""
    jitter_s: float | None = None
    """Longest random gap between two queries of the timed loop; None or 0: no gaps. Without gaps, a
    meter with instantaneous samples may sample in step with the queries. An agent of an earlier
    version makes no gaps."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        self._check_lengths()
        self._check_metering()
        self._check_samples()
        self._check_arrivals()
        _require(
            1 <= self.threads <= MAX_THREADS,
            f"threads must be 1..{MAX_THREADS}, got {self.threads}",
        )
        _require(all(0 <= cpu < MAX_CPUS for cpu in self.cpus), f"CPUs must be 0..{MAX_CPUS - 1}")
        _require(
            not self.is_profiled or self.scenario.traits.is_single,
            "a profile requires the single_stream scenario",
        )
        _require(
            self.engine is not Engine.TARGET or self.scenario.traits.is_single,
            "a device that times itself supports the single_stream scenario only, "
            f"got {self.scenario.value}",
        )
        _require(
            self.engine is not Engine.TARGET or self.threads == 1,
            f"a device that times itself runs one thread, got {self.threads}",
        )
        _require(
            self.engine is not Engine.TARGET or self.signature is None,
            "a device that times itself runs the first graph of a file, "
            f"got signature {(self.signature or '')[:MAX_NAME_CHARS]!r}",
        )
        _require(
            self.signature is None or 1 <= len(self.signature) <= MAX_SIGNATURE_CHARS,
            f"a signature must have 1 to {MAX_SIGNATURE_CHARS} characters",
        )
        _require(
            self.telemetry_rate_hz == 0
            or MIN_TELEMETRY_HZ <= self.telemetry_rate_hz <= MAX_TELEMETRY_HZ,
            f"telemetry rate must be 0, or {MIN_TELEMETRY_HZ:g} to {MAX_TELEMETRY_HZ:g} Hz, "
            f"got {self.telemetry_rate_hz:g}",
        )
        _require(
            self.cooldown_timeout_s is None or 0 <= self.cooldown_timeout_s <= MAX_LENGTH_S,
            f"cooldown timeout must be 0 to {MAX_LENGTH_S:g} s (7 days), "
            f"got {self.cooldown_timeout_s} s",
        )
        _require(
            self.governor is None or bool(re.fullmatch(r"[a-z_]{1,32}", self.governor)),
            f"governor must be a name such as performance, got {self.governor!r}",
        )
        _require(
            self.screen_brightness is None or 0 <= self.screen_brightness <= MAX_BRIGHTNESS,
            f"screen brightness must be 0..{MAX_BRIGHTNESS}, got {self.screen_brightness}",
        )
        _require(0 <= self.seed < MAX_SEED, f"seed must be 0..2^63-1, got {self.seed}")

    def _check_lengths(self) -> None:
        _require_length("duration", self.duration_s)
        _require(
            1 <= self.max_query_count <= MAX_QUERIES,
            f"max queries must be 1..{MAX_QUERIES}, got {self.max_query_count}",
        )
        _require(
            1 <= self.min_query_count <= self.max_query_count,
            f"min queries must be 1..{self.max_query_count}, got {self.min_query_count}",
        )
        if self.max_duration_s is not None:
            _require(
                self.duration_s <= self.max_duration_s,
                f"max duration must be at least the duration, {self.duration_s:g} s, "
                f"got {self.max_duration_s:g} s",
            )
            _require_length("max duration", self.max_duration_s)
        _require(
            0 <= self.warmup_query_count <= MAX_WARMUP_QUERIES,
            f"warm-up queries must be 0..{MAX_WARMUP_QUERIES}, got {self.warmup_query_count}",
        )
        _require(
            math.isfinite(self.warmup_duration_s) and self.warmup_duration_s >= 0,
            "warm-up duration must be >= 0 s",
        )

    def _check_metering(self) -> None:
        _require(
            0 <= self.idle_duration_s <= MAX_IDLE_S,
            f"idle duration must be 0 to {MAX_IDLE_S:g} s, got {self.idle_duration_s:g}",
        )
        chip_s = self.load_code_chip_s
        _require(
            chip_s is None or MIN_CHIP_S <= chip_s <= MAX_CHIP_S,
            f"chips of the load code must last {MIN_CHIP_S:g} to {MAX_CHIP_S:g} s, got {chip_s}",
        )
        jitter_s = self.jitter_s
        _require(
            jitter_s is None or 0 <= jitter_s <= MAX_JITTER_S,
            f"gaps between queries must be 0 to {MAX_JITTER_S:g} s, got {jitter_s}",
        )
        _require(
            not jitter_s or has_gaps(self.scenario, self.engine),
            "gaps between queries require the single_stream scenario and the native engine, got "
            f"{self.scenario.value} and {self.engine.value}: leave out --jitter",
        )

    def _check_samples(self) -> None:
        _require(
            1 <= self.samples_per_query <= MAX_SAMPLES,
            f"samples per query must be 1..{MAX_SAMPLES}, got {self.samples_per_query}",
        )
        _require(
            1 <= self.sample_count <= MAX_SAMPLES,
            f"sample count must be 1..{MAX_SAMPLES}, got {self.sample_count}",
        )
        _require(
            self.dataset_sample_count is None or self.dataset_sample_count >= 1,
            f"samples of the data set must be >= 1, got {self.dataset_sample_count}",
        )
        _require_length("time for the data set", self.dataset_limit_s)
        _require(
            len(self.input_shapes) <= MAX_INPUTS,
            f"shapes must be given for at most {MAX_INPUTS} inputs, got {len(self.input_shapes)}",
        )
        for name, shape in self.input_shapes.items():
            _require(
                len(shape) <= MAX_RANK and all(1 <= size < MAX_SIZE for size in shape),
                f"a shape must have at most {MAX_RANK} sizes of 1 to {MAX_SIZE - 1}, "
                f"got {name[:MAX_NAME_CHARS]}={shape_text(shape)[:MAX_NAME_CHARS]}",
            )

    def _check_arrivals(self) -> None:
        _require(
            self.target_qps is None or MIN_QPS <= self.target_qps <= MAX_QPS,
            f"arrivals must be {MIN_QPS:g} to {MAX_QPS:g} per second, got {self.target_qps}",
        )
        _require(
            self.target_latency_s is None or _positive(self.target_latency_s),
            f"target latency must be > 0 s, got {self.target_latency_s}",
        )
        _require(
            0 < self.target_percentile < 1,
            f"target percentile must be a ratio between 0 and 1, got {self.target_percentile}",
        )
        if self.scenario.traits.is_scheduled:
            self._check_server()
        else:
            _require(
                self.target_qps is None and self.target_latency_s is None,
                "arrivals and a target latency require the server scenario, got "
                f"{self.scenario.value}",
            )

    def _check_server(self) -> None:
        _require(
            self.target_qps is not None,
            "the server scenario needs the arrivals per second: --qps 100",
        )
        arrival_count = max(self.min_query_count, (self.target_qps or 0.0) * self.duration_s)
        arrival_limit = min(self.max_query_count, MAX_ARRIVALS)
        _require(
            arrival_count <= arrival_limit,
            f"{arrival_count:g} arrivals exceed the limit of {arrival_limit}: choose a shorter "
            "duration",
        )
        _require(
            self.engine is Engine.NATIVE or self.target_latency_s is not None,
            "the server scenario of LoadGen needs a target latency: --target-latency 50ms",
        )


MAX_WARMUP_QUERIES = 2**40
MAX_SEED = 2**63
"""Exclusive upper limit on a seed: every seed is smaller."""
MAX_THREADS = 256
"""Maximum number of threads; on any supported device, a larger number is a typing mistake."""

MAX_QUERIES = 2**40
MAX_INPUTS, MAX_RANK, MAX_SIZE = 64, 16, 2**31
"""Limits on the number of inputs, on the number of dimensions of an input, and on the size of a
dimension. Only the limit on the size is exclusive. Sizes have 32 bits in TensorFlow Lite."""
MAX_SIGNATURE_CHARS = 200
MAX_NAME_CHARS = 80
"""Maximum number of characters of a user's text that an error quotes."""
MAX_SAMPLES = 65536
MIN_QPS, MAX_QPS = 1e-3, 1e6
MAX_ARRIVALS = 1_000_000
"""Maximum number of query arrivals in a schedule; the number is limited because the schedule is
kept in memory. At 1000 arrivals per second, the longest schedule lasts a quarter of an hour."""
MAX_CPUS = 4096
MAX_SUSTAINED_QUERIES = 10_000_000
"""Maximum number of queries of a sustained run. This number of queries takes 480 MB of memory on
the device. A model that takes 120 µs per query reaches this number after 20 minutes."""
MAX_IDLE_S = 600.0
MIN_CHIP_S, MAX_CHIP_S = 1e-3, 10.0
"""Shortest and longest chip (interval of a load code). A sleep of less than a millisecond does not
end on time."""
MAX_JITTER_S = 0.1
"""Longest gap between queries; during a longer gap, the device would cool down and reduce its
clock."""
MIN_TELEMETRY_HZ = 0.1
"""Lowest sampling rate; a sampler without a reading for 30 s is considered lost."""
MAX_TELEMETRY_HZ = 100.0
"""Highest sampling rate; at higher rates, the sampling would affect the measurement."""

DEFAULT_PRESET = "default"
MLPERF_PRESET = "mlperf"
CHANGED = ", changed"
"""Suffix of the name of a preset if some of its values were changed."""

PRESETS: dict[str, dict[str, Any]] = {
    # MLPerf Mobile's single-stream minimum: 1024 queries and 60 s.
    # Source: mlcommons/mobile_open, submission rules 3.0.
    "default": {"duration_s": 60.0, "min_query_count": 1024},
    # For a first look: long enough for a p90 with an interval, short enough to wait for.
    "quick": {
        "duration_s": 10.0,
        "min_query_count": 128,
        "warmup_duration_s": 0.5,
        "cooldown_timeout_s": 30.0,
    },
    # Source: mlcommons/inference, loadgen/mlperf.conf: 600 s in every scenario.
    MLPERF_PRESET: {
        "duration_s": 600.0,
        "min_query_count": 100,
        "max_query_count": 4_000_000,
        "sample_count": 1024,
        "max_duration_s": None,  # MLPerf's rules require the count, without a time limit
    },
}
"""Maps the name of each preset to the values of the `RunSpec` fields that it sets."""

DEFAULT_RUN_COUNT = 5
"""Default number of runs of a model. It is the smallest number for which a confidence interval over
the runs is computed."""
RUN_COUNTS = {"quick": 8}
"""Maps each preset that does not use the default number of runs to its number of runs. A single
disturbed run among eight short runs has little effect, because the confidence interval of the
median hardly extends to the highest and the lowest run."""


def usual_run_count(preset: str) -> int:
    """Number of runs of a model under a preset, unless the user requests another number.

    >>> usual_run_count("quick"), usual_run_count("default")
    (8, 5)
    """
    return RUN_COUNTS.get(base_preset(preset), DEFAULT_RUN_COUNT)


LEAST_MAX_DURATION_S = {"default": 1800.0, "quick": 60.0}
"""Maps each preset to a lower limit on the maximum duration of a run. `MAX_DURATION_RATIO` may give
a longer maximum duration. A model that takes up to 1.75 s per inference completes the 1024 queries
of the default preset within half an hour. A model that takes up to 0.46 s per inference completes
the 128 queries of the quick preset within a minute. Users are willing to wait for a minute."""
MAX_DURATION_RATIO = {"default": 30.0, "quick": 6.0}
"""Maps each preset to the ratio of a run's `max_duration_s` to its `duration_s`."""

SCENARIO_PRESETS: dict[tuple[str, Scenario], dict[str, Any]] = {
    # For multi-stream, the smallest count that MLPerf's rule for a p99 allows; for offline,
    # MLPerf's count.
    # Source: mlcommons/inference, loadgen/mlperf.conf.
    (MLPERF_PRESET, Scenario.MULTI_STREAM): {"min_query_count": 662},
    (MLPERF_PRESET, Scenario.OFFLINE): {"min_query_count": 24576},
}
"""Maps a preset and a scenario to the field values that the preset has only in this scenario."""


def with_duration(spec: RunSpec, duration_s: float) -> RunSpec:
    """Copy of the specification with this duration; the maximum duration is scaled in proportion.

    >>> with_duration(RunSpec("litert", duration_s=10.0, max_duration_s=60.0), 2.0).max_duration_s
    12.0
    """
    longest_s = spec.max_duration_s
    if longest_s is not None:
        longest_s = max(duration_s, longest_s * duration_s / spec.duration_s)
    return replace(spec, duration_s=duration_s, max_duration_s=longest_s)


def is_divided(spec: RunSpec) -> bool:
    """Whether the requested duration and number of queries are divided among several runs.

    Under MLPerf's preset, they are not divided, because each run must have the length that MLPerf's
    rules require.
    """
    return not spec.preset.startswith(MLPERF_PRESET)


def with_all_runs(spec: RunSpec, run_count: int) -> RunSpec:
    """Specification of a single run that is as long as `run_count` runs together."""
    if run_count == 1 or not is_divided(spec):
        return spec
    return replace(
        with_duration(spec, spec.duration_s * run_count),
        min_query_count=spec.min_query_count * run_count,
    )


def check_cpus(device: str, cpus: Iterable[int], usable: Iterable[int]) -> None:
    """Check that models on a device may be bound to these CPUs.

    Args:
        device: Name of the device, for the error.
        cpus: Requested CPUs.
        usable: CPUs on which models may run on the device.

    Raises:
        UsageError: a requested CPU is not usable.
    """
    if unusable := set(cpus) - set(usable):
        wrong, there = (",".join(map(str, sorted(some))) for some in (unusable, usable))
        error = UsageError(
            f"CPU {wrong} is not available to models on {device}; available: {there}"
        )
        error.meant = f"--cpus {there}"
        raise error


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape in the notation of the command line.

    >>> shape_text((1, 128)), shape_text(())
    ('1x128', 'a single number')
    """
    return "x".join(map(str, shape)) or "a single number"


def has_gaps(scenario: Scenario, engine: Engine) -> bool:
    """Whether a run may have gaps between queries; in all other runs, gaps would change results."""
    return scenario.traits.is_single and engine is Engine.NATIVE


def samples_per_query(spec: RunSpec) -> int:
    """Number of inferences in a query of this specification."""
    return spec.samples_per_query if spec.scenario.traits.is_grouped else 1


class SpecChanges(TypedDict, total=False):
    """Fields of `RunSpec` to change in a preset; a field that is None keeps the preset's value.

    Fields that a meter determines, such as `idle_duration_s`, are not included.
    """

    scenario: Scenario | str | None
    engine: Engine | str | None
    duration_s: float | None
    min_query_count: int | None
    max_query_count: int | None
    max_duration_s: float | None
    warmup_query_count: int | None
    warmup_duration_s: float | None
    samples_per_query: int | None
    target_qps: float | None
    target_latency_s: float | None
    target_percentile: float | None
    sample_count: int | None
    threads: int | None
    delegate: str | None
    signature: str | None
    seed: int | None
    cpus: tuple[int, ...] | None
    priority: Priority | str | None
    governor: str | None
    is_airplane_mode: bool | None
    screen_brightness: int | None
    is_profiled: bool | None
    is_checked: bool | None
    input_shapes: dict[str, tuple[int, ...]] | None
    inputs_sha256: str | None
    dataset_sha256: str | None
    dataset_sample_count: int | None
    dataset_limit_s: float | None
    telemetry_rate_hz: float | None
    is_sustained: bool | None
    cooldown_timeout_s: float | None
    jitter_s: float | None
    limits: Limits | None


def base_preset(name: str) -> str:
    """Name of a preset without the suffix `CHANGED`.

    >>> base_preset(f"{MLPERF_PRESET}{CHANGED}")
    'mlperf'
    """
    return name.removesuffix(CHANGED)


def from_preset(preset: str, *, runtime: str = "", **changes: Unpack[SpecChanges]) -> RunSpec:
    """The run specification of a preset, with the given fields changed.

    Raises:
        UsageError: unknown preset, or a value out of bounds.
    """
    if preset not in PRESETS:
        raise unknown_name("preset", preset, sorted(PRESETS))
    given: dict[str, Any] = {name: value for name, value in changes.items() if value is not None}
    unknown = given.keys() - SpecChanges.__annotations__.keys()
    if unknown:
        raise unknown_name("setting", min(unknown), SpecChanges.__annotations__)
    given |= {name: _member(kind, name, given[name]) for name, kind in _ENUMS if name in given}
    scenario = given.get("scenario", Scenario.SINGLE_STREAM)
    special = SCENARIO_PRESETS.get((preset, scenario), {})
    fixed = PRESETS[preset] | special
    # A run with changed values of MLPerf's preset no longer follows MLPerf's rules.
    is_changed = any(given.get(name, value) != value for name, value in fixed.items())
    name = f"{preset}{CHANGED}" if is_changed and preset == MLPERF_PRESET else preset
    if preset in LEAST_MAX_DURATION_S:
        longest_s = MAX_DURATION_RATIO[preset] * given.get("duration_s", fixed["duration_s"])
        fixed["max_duration_s"] = min(max(LEAST_MAX_DURATION_S[preset], longest_s), MAX_LENGTH_S)
    return RunSpec(runtime=runtime, preset=name, **(fixed | given))


_ENUMS: tuple[tuple[str, type[Enum]], ...] = (
    ("scenario", Scenario),
    ("engine", Engine),
    ("priority", Priority),
)


def _member(kind: type[Enum], name: str, value: Any) -> Enum:
    """Convert a value to the enum member with this value; return an enum member unchanged."""
    try:
        return kind(value)
    except ValueError:
        names = [member.value for member in kind]
        raise unknown_name(name, str(value), names) from None


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _require_length(name: str, value_s: float) -> None:
    _require(
        0 < value_s <= MAX_LENGTH_S,
        f"{name} must be > 0 s and at most {MAX_LENGTH_S:g} s (7 days), got {value_s:.10g} s",
    )


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise UsageError(text)
