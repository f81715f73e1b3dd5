"""The options of `edgebench bench`, each defined in one row of a table.

An option has the same name everywhere: `--cooldown 10m` on the command line, `cooldown = "10m"` in
a campaign file and `EDGEBENCH_COOLDOWN=10m` in the environment. The same function parses all three
forms. In Python, values are numbers without a unit; the keyword, which is the row's `field`,
ends with the unit: `cooldown_timeout_s=600.0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from edgebench.host.options.values import (
    capacity,
    celsius,
    hertz,
    input_shape,
    latency,
    numbers,
    percent,
    real,
    seconds,
    size_bytes,
    volts,
    whole,
)
from edgebench.protocol.errors import UsageError

GENERAL = ""
RUNTIME = "runtime and process"
COMPARISON = "comparison of two models"


class ValueKind(NamedTuple):
    """How an option's values are parsed, and formatted so that they can be parsed again."""

    read: Callable[[str], Any]
    text: Callable[[Any], str] = str
    metavar: str | None = None
    """Placeholder for the value in the help, unless the option defines one."""


def _seconds_text(value_s: float) -> str:
    """Format a duration for `seconds`; 10 minutes or more as whole hours or minutes, if possible.

    >>> _seconds_text(90.0), _seconds_text(1200.0), _seconds_text(86400.0)
    ('90s', '20m', '24h')
    """
    for unit, unit_s in (("h", 3600), ("m", 60)):
        if value_s >= 2 * unit_s and value_s % unit_s == 0 and value_s >= 600:
            return f"{value_s / unit_s:g}{unit}"
    return f"{value_s:g}s"


TEXT = ValueKind(str, lambda value: str(value.value if isinstance(value, Enum) else value))
FLAG = ValueKind(bool)
WHOLE = ValueKind(whole, str, "N")
REAL = ValueKind(real, "{:g}".format, "N")
SECONDS = ValueKind(seconds, _seconds_text)
LATENCY = ValueKind(latency, lambda value_s: f"{value_s * 1e3:g}ms", "50ms")
HERTZ = ValueKind(hertz, "{:g}".format, "HZ")
CELSIUS = ValueKind(celsius, "{:g}".format, "22")
VOLTS = ValueKind(volts, "{:g}V".format, "1.8V")
CAPACITY = ValueKind(capacity, "{:g}J".format, "CAPACITY")
SIZE = ValueKind(size_bytes, str, "2GiB")
PERCENT = ValueKind(percent, lambda ratio: f"{ratio * 100:g}%", "3%")
NUMBERS = ValueKind(numbers, lambda values: ",".join(map(str, values)), "2,3")
SHAPE = ValueKind(
    input_shape, lambda named: f"{named[0]}={'x'.join(map(str, named[1]))}", "NAME=1x128"
)


def _shapes(named: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    names = [name for name, _ in named]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--shape sets two shapes for input {name!r}")
    return dict(named)


class BenchOption(NamedTuple):
    """An option of `edgebench bench`."""

    name: str
    """Name in campaign files, such as `max_duration` for `--max-duration` and
    EDGEBENCH_MAX_DURATION."""
    field: str
    """Keyword of `Lab.bench`; for an option of a comparison, keyword of `Lab.bench_against`."""
    kind: ValueKind
    help: str
    metavar: str | None = None
    default: str = ""
    """The default in words, unless `help` states it."""
    constant: object = None
    """Value that a flag sets."""
    join: Callable[[Sequence[Any]], Any] | None = None
    """Combines the values of a repeatable option into the field's value."""
    is_given_once: bool = False
    """Whether giving the option twice is an error; if not, the last value counts."""
    excludes: tuple[str, ...] = ()
    """Options to remove from a command when this option is added."""
    completions: tuple[str, ...] = ()
    is_of_machine: bool = False
    """Whether an environment variable can set the default on this machine."""
    is_basic: bool = False
    """Whether `bench --help` lists the option; `bench --help-all` lists every option."""

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """Environment variable that sets the machine's default."""
        return f"EDGEBENCH_{self.name.upper()}"

    @property
    def help_text(self) -> str:
        """Help text of the option, followed by its default."""
        return f"{self.help} (default: {self.default})" if self.default else self.help

    def words(self, value: Any) -> list[list[str]]:
        """Arguments that set this value; empty if the option is a flag for a different value."""
        if self.constant is not None:
            return [[self.flag]] if value == self.constant else []
        if self.join is None:
            return [[self.flag, self.kind.text(value)]]
        items: Iterable[Any] = sorted(value.items()) if isinstance(value, Mapping) else value
        return [[self.flag, self.kind.text(item)] for item in items]


# fmt: off
SECTIONS: Mapping[str, tuple[BenchOption, ...]] = {
    GENERAL: (
        BenchOption("on", "on", TEXT,
            "paired devices, separated by commas (repeatable); all for every paired device; or "
            "conditions that must all hold, such as label:pi,arch:aarch64 (keys: label, arch, "
            "name); several devices are measured at the same time", metavar="DEVICE",
            join=tuple, is_of_machine=True, default="local", is_basic=True),
        BenchOption("wait", "wait_s", SECONDS,
            "if another command is measuring on the device, wait up to this long", metavar="10m",
            is_of_machine=True, default="0s"),
    ),
    RUNTIME: (
        BenchOption("runtime", "runtime", TEXT,
            "runtime, such as onnx, or all", metavar="R", is_given_once=True,
            default="by the model", completions=("litert", "onnx", "tflite", "all"), is_basic=True),
        BenchOption("threads", "threads", WHOLE, "threads of the runtime", default="1",
            is_basic=True),
        BenchOption("delegate", "delegate", TEXT,
            "delegate or execution provider", metavar="D", is_given_once=True,
            completions=("xnnpack", "none"), is_basic=True),
        BenchOption("signature", "signature", TEXT,
            "signature to measure, for a .tflite file with several signatures", metavar="NAME",
            is_given_once=True, default="its first graph"),
        BenchOption("cpus", "cpus", NUMBERS,
            "bind the model's process to these CPUs", is_of_machine=True, is_basic=True),
        BenchOption("priority", "priority", TEXT,
            "normal (default), or realtime: SCHED_FIFO", metavar="P", is_of_machine=True,
            completions=("normal", "realtime")),
        BenchOption("governor", "governor", TEXT,
            "CPU governor for the run, restored after it (needs root)", metavar="G",
            is_of_machine=True, completions=("performance", "powersave", "schedutil", "ondemand")),
        BenchOption("airplane_mode", "is_airplane_mode", FLAG,
            "phones: airplane mode for the run, restored after it (Android 11 and later)",
            constant=True),
        BenchOption("brightness", "screen_brightness", WHOLE,
            "phones: screen brightness for the run, 0 to 255, restored after it"),
        BenchOption("timeout", "load_timeout_s", SECONDS,
            "time limit for loading and the first inference", metavar="60s", is_of_machine=True),
        BenchOption("memory_limit", "memory_limit_bytes", SIZE,
            "memory limit of the model's process", is_of_machine=True),
    ),
    "inputs": (
        BenchOption("shape", "input_shapes", SHAPE,
            "shape of an input with open dimensions (default: 1 for each open dimension); "
            "repeatable",
            join=_shapes, is_basic=True),
        BenchOption("inputs", "inputs", TEXT,
            "run on the inputs in this .npz file: an array for each input name, samples along "
            "its first axis",
            metavar="FILE", is_given_once=True),
        BenchOption("seed", "seed", WHOLE,
            "seed of the random inputs, of the order of the inputs and of the arrival times"),
    ),
    "length of the run": (
        BenchOption("duration", "duration_s", SECONDS,
            "measure for at least this long in total; with --against, in each run", metavar="60s",
            excludes=("--sustained", "--max-duration"), is_basic=True),
        BenchOption("max_duration", "max_duration_s", SECONDS,
            "stop after this long in total, even with fewer queries than requested", metavar="20m",
            default="30 times the duration, at least 30m; with --quick 6 times, at least 1m; with "
            "--preset mlperf no limit"),
        BenchOption("sustained", "sustained_s", SECONDS,
            "measure sustained performance over this duration; report it at the start, at the "
            "onset of throttling and at the end",
            metavar="20m", excludes=("--duration", "--max-duration", "--runs"), is_basic=True),
        BenchOption("min_queries", "min_query_count", WHOLE,
            "measure at least this many queries in total"),
        BenchOption("warmup", "warmup_query_count", WHOLE,
            "warm up for at least this many queries before the timed queries", default="10"),
        BenchOption("warmup_duration", "warmup_duration_s", SECONDS,
            "warm up for at least this long", metavar="1s", default="1s; with --quick 0.5s"),
        BenchOption("runs", "runs", WHOLE,
            "runs of each model, each in a new process; the duration and the queries are divided "
            "among them",
            default="5; 8 with --quick; 1 if a single run is judged, as with --sustained",
            excludes=("--profile", "--sustained"), is_basic=True),
        BenchOption("extra_runs", "extra_runs", WHOLE,
            "maximum number of extra runs of each model; an extra run replaces a run in which the "
            "machine was disturbed; 0: none", default="3"),
        BenchOption("quick", "preset", FLAG,
            "short for --preset quick", constant="quick", excludes=("--preset",), is_basic=True),
        BenchOption("preset", "preset", TEXT,
            "default, quick or mlperf", metavar="P", completions=("default", "quick", "mlperf")),
    ),
    "scenario": (
        BenchOption("scenario", "scenario", TEXT,
            "MLPerf scenario: single_stream (default), multi_stream, server or offline",
            metavar="S", completions=("single_stream", "multi_stream", "server", "offline"),
            excludes=("--profile",), is_basic=True),
        BenchOption("samples_per_query", "samples_per_query", WHOLE,
            "multi_stream: samples per query", default="8"),
        BenchOption("qps", "target_qps", REAL,
            "server: mean arrivals per second of a Poisson process"),
        BenchOption("target_latency", "target_latency_s", LATENCY,
            "server: limit on the p99 latency"),
        BenchOption("engine", "engine", TEXT,
            "load generator: native (default), or loadgen, which is MLPerf's LoadGen", metavar="E",
            completions=("native", "loadgen")),
    ),
    "outputs, operators and temperature": (
        BenchOption("accuracy", "accuracy", TEXT,
            "also run a labelled data set: a .npz file, or the built-in set digits",
            metavar="DATASET", is_basic=True),
        BenchOption("accuracy_samples", "dataset_sample_count", WHOLE,
            "run N samples of the data set, drawn at random by the seed", default="all"),
        BenchOption("accuracy_limit", "dataset_limit_s", SECONDS,
            "microcontrollers: refuse a data set that would take longer than this", metavar="1h",
            default="1h"),
        BenchOption("reference", "reference", TEXT,
            "unquantised model to compare the accuracy with; this model is also measured",
            metavar="MODEL"),
        BenchOption("no_check", "is_checked", FLAG,
            "do not compare the outputs with those of the reference kernels", constant=False),
        BenchOption("profile", "is_profiled", FLAG,
            "time every operator, in a separate run", constant=True,
            excludes=("--runs", "--sustained", "--engine", "--scenario", "--samples-per-query",
                      "--qps", "--target-latency"), is_basic=True),
        BenchOption("ambient", "ambient_c", CELSIUS,
            "ambient temperature, °C; stored with the run", is_of_machine=True),
        BenchOption("cooldown", "cooldown_timeout_s", SECONDS,
            "longest wait for a cool device (default: from its profile); 0s: do not wait",
            metavar="10m", is_of_machine=True),
        BenchOption("telemetry_rate", "telemetry_rate_hz", HERTZ,
            "telemetry samples per second (default: 10); 0: only the temperature, on devices "
            "whose profile has a temperature limit", is_of_machine=True),
    ),
    "energy": (
        BenchOption("meter", "meter", TEXT,
            "energy meter, such as ppk2:/dev/ttyACM0,supply=3.3; agent:METER for a meter served "
            "by the device's agent; or farm for the device's meter in farm.toml; edgebench meters "
            "lists the meters, edgebench meters --help their options", metavar="METER",
            is_of_machine=True, is_basic=True),
        BenchOption("supply", "supply_v", VOLTS,
            "supply the device with this voltage during the run; for the meters lpm01a, monsoon, "
            "and ppk2 with its option source", default="as the meter's options state"),
        BenchOption("sync", "sync", TEXT,
            "how to align the meter's clock with the device's: auto (the best available "
            "method; default), edge, coded_load, loop, probes, arrival or shared_clock; without a "
            "meter, coded_load plays the load code for an instrument that records to a file; "
            "edgebench energy reads this file",
            metavar="METHOD"),
        BenchOption("trace_rate", "trace_rate_hz", HERTZ,
            "with --sync coded_load and no meter: samples per second of the instrument (default: "
            "1000); the load code is longer for a lower rate"),
        BenchOption("idle", "idle_duration_s", SECONDS,
            "idle time before and after each run", metavar="2s", default="as the meter needs it"),
        BenchOption("jitter", "jitter_s", LATENCY,
            "single_stream: leave random gaps of up to this length between queries, so that the "
            "loop is not in step with a meter's instantaneous samples; 0ms: no gaps", metavar="1ms",
            default="the meter's sample interval, if the meter takes fewer than 20,000 "
            "instantaneous samples per second; else no gaps"),
        BenchOption("battery", "battery_capacity_j", CAPACITY,
            "capacity of a battery, such as 18.5Wh or 5000mAh@3.85V, to estimate its life"),
    ),
    COMPARISON: (
        BenchOption("against", "candidate", TEXT,
            "compare MODEL (the baseline) with B (the candidate) in pairs of runs in random "
            "order; MODEL and B may also be stored runs or sets, whose model files are found by "
            "hash and measured again",
            metavar="B", is_given_once=True, is_basic=True),
        BenchOption("pairs", "pairs", WHOLE,
            "pairs of runs",
            default="10; at least 6 pairs are needed to compare a time, and more pairs for several "
            "comparisons",
            excludes=("--runs",)),
        BenchOption("metric", "metrics", TEXT,
            "metric to compare, such as latency_ns.p50 or energy_j; repeatable", metavar="M",
            join=tuple, default="the main metric of the scenario"),
        BenchOption("fail_on", "margin_ratio", PERCENT,
            "smallest change that matters", default="1%%", is_basic=True),  # as argparse formats it
        BenchOption("allow", "allowed", TEXT,
            "allow the sides to differ in this key, such as runtime_version; repeatable",
            metavar="KEY", join=tuple),
    ),
}
# fmt: on
"""Options of a measurement by section of the help; generated commands keep this order."""
OPTIONS = tuple(chain(*SECTIONS.values()))
BASIC = tuple(option.name for option in OPTIONS if option.is_basic)
"""Names of the options that `bench --help` lists; `bench --help-all` lists all of them."""
FIELDS = frozenset(option.field for option in OPTIONS)
SETTINGS = tuple(option for option in OPTIONS if option not in SECTIONS[COMPARISON])
"""Options with a field of `BenchOptions`."""
JUDGEMENT = tuple(option for option in OPTIONS if option.name in ("metric", "fail_on", "allow"))
"""Options that are common to all commands that compare runs."""


class HostOptions(TypedDict, total=False):
    """Values of options that are not in a run's specification; None selects the default."""

    on: str | Sequence[str]
    """Name of a device, "all", or conditions like "label:pi,arch:aarch64"; or a list of these."""
    wait_s: float | None
    """Longest wait for a device on which another command is measuring; 0 means no wait."""
    runtime: str | None
    """Name of a runtime, "all", or None for the preferred runtime of each format."""
    load_timeout_s: float | None
    memory_limit_bytes: int | None
    """Limits on the worker's loading time and memory; they take precedence over `limits`."""
    inputs: str | Path | None
    """A .npz file with an array for each input; the first axis of each array counts the samples.
    None: random inputs drawn by the seed."""
    sustained_s: float | None
    """Duration of a run that measures sustained performance."""
    runs: int | None
    """Number of runs of each model; the duration and the queries are divided among the runs. The
    combined result of these runs is a `StoredSet`. None: 5; 8 with the preset `quick`; 1 if the
    request is about a single run."""
    extra_runs: int | None
    """Maximum number of extra runs of each model; extra runs replace disturbed runs. None selects
    3."""
    preset: str | None
    """Preset that the settings modify."""
    accuracy: str | None
    """A labelled data set for the accuracy of every model: a .npz file, or "digits"."""
    reference: str | Path | None
    """The unquantised model to compare the accuracy with."""
    ambient_c: float | None
    meter: str | None
    """Energy meter of this machine, or `agent:NAME` for a meter served by the device's agent."""
    supply_v: float | None
    """Voltage to which the meter sets the device's supply; None selects the voltage in `meter`."""
    sync: str | None
    """Method that aligns the meter's clock with the device's; None selects the best available."""
    trace_rate_hz: float | None
    """Samples per second of an instrument that edgebench does not drive."""
    idle_duration_s: float | None
    """Idle time before and after each run; if None, the meter determines it."""
    battery_capacity_j: float | None


def words_of(options: Mapping[str, object]) -> list[list[str]]:
    """Arguments of `edgebench bench` for these settings, in the order of `OPTIONS`.

    Args:
        options: Maps fields to values; a field with the value None is left out.

    >>> words_of({"preset": "quick", "cooldown_timeout_s": 600.0, "is_checked": True})
    [['--quick'], ['--cooldown', '10m']]
    """
    left = {field: value for field, value in options.items() if value is not None}
    groups: list[list[str]] = []
    for option in OPTIONS:
        if option.field in left and (words := option.words(left[option.field])):
            groups += words
            del left[option.field]  # only the first option of a field: --quick, not --preset
    return groups
