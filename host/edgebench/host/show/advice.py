"""Advice for rules that failed or could not be checked.

The sentence of a finding states the problem (`sentences`); the advice tells how to improve the next
run. It starts with a verb, and contains a command if one helps. What a command changes follows from
the finding and from what the run asked for: more is more than that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edgebench.host.analysis.median import MIN_RUNS
from edgebench.host.options.bench import OPTIONS
from edgebench.host.options.command import Asked, NextStep, command
from edgebench.host.result.verdict import Finding, RuleOutcome


class Advice(NamedTuple):
    """What improves the next run."""

    steps: tuple[NextStep, ...]
    joint: str = "or"
    """Word between the steps."""

    def __str__(self) -> str:
        """The advice in one line."""
        return f"; {self.joint} ".join(map(str, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What was measured, and what can be changed about it."""

    asked: Asked = field(default_factory=Asked)
    """What the runs asked for."""
    free_cpus: tuple[int, ...] = ()
    """CPUs for the model that leave others to the rest; empty if there are none."""
    has_governors: bool = True
    """Whether the kernel shows governors of the CPU's frequency."""
    can_be_longer: bool = True
    """Whether a run takes longer if it is asked to: it may end by its number of queries."""
    warmup_query_count: int = 0
    """Queries of a warm-up that is long enough."""


Make = Callable[[Finding, Situation], Advice]
"""Advice by a finding and the situation."""


def _do(text: str, *values: object) -> Make:
    """A step that depends on nothing."""
    return lambda *_: Advice((NextStep(text, *values),))


def _measure(text: str, *words: str, without: tuple[str, ...] = (), **changes: Any) -> Make:
    """Measure again, with other settings."""
    return lambda _, to: Advice(
        (NextStep(text, to.asked.bench(*words, without=without, **changes)),)
    )


def _more(text: str, field_name: str, least: float, needs: str | None = None) -> Make:
    """Measure again, with more of something than was asked for.

    Args:
        text: The step.
        field_name: What there is more of.
        least: The least that is advised.
        needs: Field of an option that this needs; it is named where the run has none.
    """

    def make(_: Finding, to: Situation) -> Advice:
        more: dict[str, Any] = {field_name: to.asked.more(field_name, least)}
        row = next((row for row in OPTIONS if row.field == needs), None)
        is_given = row is None or to.asked.value(row.field) is not None
        words = [] if row is None or is_given else [row.flag, str(row.metavar)]
        return Advice((NextStep(text, to.asked.bench(*words, **more)),))

    return make


def _longer(least_s: float) -> Make:
    def make(finding: Finding, to: Situation) -> Advice:
        if not to.can_be_longer:
            return _alone(finding, to)
        return _more("measure for longer: {}", "duration_s", least_s)(finding, to)

    return make


def _alone(_: Finding, to: Situation) -> Advice:
    if not to.free_cpus:
        return Advice((NextStep("end other programs on the device: top lists them"),))
    text = (
        "end other programs on the device (top lists them), or give the model CPUs of its own: {}"
    )
    return Advice((NextStep(text, to.asked.bench(cpus=to.free_cpus)),))


def _alone_or_longer(finding: Finding, to: Situation) -> Advice:
    alone, longer = _alone(finding, to), _longer(300.0)(finding, to)
    return Advice(tuple(dict.fromkeys((*alone.steps, *longer.steps))))


def _alone_and_more_runs(finding: Finding, to: Situation) -> Advice:
    cpus: dict[str, Any] = {"cpus": to.free_cpus} if to.free_cpus else {}
    runs = to.asked.bench(**cpus, runs=int(to.asked.more("runs", 15)))
    return Advice((*_alone(finding, to).steps, NextStep("make more runs: {}", runs)), joint="and")


def _one_level(finding: Finding, to: Situation) -> Advice:
    """What keeps the latency on one level: CPUs of one kind, and one frequency."""
    if not to.has_governors:
        return _one_kind(finding, to) if to.free_cpus else _do(_SHARED)(finding, to)
    if not to.free_cpus:
        return _governor(finding, to)
    text = "bind the model to CPUs of one kind, and fix their frequency: {}"
    fixed = to.asked.bench(cpus=to.free_cpus, governor="performance")
    return Advice((NextStep(text, fixed),))


def _one_kind(_: Finding, to: Situation) -> Advice:
    if not to.free_cpus:
        text = "measure when nothing else uses the memory of the device: {}"
        return Advice((NextStep(text, to.asked.bench()),))
    bound = to.asked.bench(cpus=to.free_cpus)
    return Advice((NextStep("bind the model to CPUs of one kind: {}", bound),))


def _governor(finding: Finding, to: Situation) -> Advice:
    if not to.has_governors:
        return _do(_SHARED)(finding, to)
    text = "fix the CPU's frequency during the run: {}"
    return _measure(text, governor="performance")(finding, to)


def _schedule(_: Finding, to: Situation) -> Advice:
    if not to.free_cpus:
        return Advice(
            (NextStep("start the agent as root for --priority realtime: {}", to.asked.bench()),)
        )
    text = "choose CPUs that the agent may use, or start it as root for --priority realtime: {}"
    return Advice((NextStep(text, to.asked.bench(cpus=to.free_cpus)),))


def _sample_less(_: Finding, to: Situation) -> Advice:
    rate_hz = min(2.0, (to.asked.value("telemetry_rate_hz") or 4.0) / 2)
    slower = to.asked.bench(telemetry_rate_hz=rate_hz)
    if not to.free_cpus:
        return Advice((NextStep("sample less often: {}", slower),))
    text = "sample less often, or leave a CPU free for it: {}, or --cpus {}"
    return Advice((NextStep(text, slower, ",".join(map(str, to.free_cpus))),))


def _fewer_or_more_time(finding: Finding, to: Situation) -> Advice:
    longer = to.asked.bench(max_duration_s=to.asked.more("max_duration_s", 3600.0))
    done = int((finding.value or 0) * (to.asked.value("runs") or 1))
    text = "allow more time, or ask for fewer queries: {}, or --min-queries {}"
    return Advice((NextStep(text, longer, max(1, done)),))


def _fewer_arrivals(finding: Finding, to: Situation) -> Advice:
    return Advice((NextStep("send fewer queries: {}", to.asked.bench(target_qps=_qps(finding))),))


def _qps(finding: Finding) -> float:
    """Arrivals per second that leave the device time: at most half of what were too many."""
    qps, per_s = _number(finding, "qps"), _number(finding, "per_s")
    if finding.value and finding.unit == "ratio":
        per_s = qps / finding.value  # the share of the time that the queries of a second take
    return float(f"{min(qps / 2, 0.8 * per_s if per_s > 0 else qps / 2):.2g}")


def _fewer_or_later(finding: Finding, to: Situation) -> Advice:
    fewer = to.asked.bench(target_qps=_qps(finding))
    target_s, p99_s = _number(finding, "target_s"), _number(finding, "p99_ns") / 1e9
    later_ms = math.ceil(1e3 * max(2 * target_s, 1.1 * p99_s))
    text = "send fewer queries, or allow a longer latency: {}, or --target-latency {}ms"
    return Advice((NextStep(text, fewer, later_ms),))


def _enough_queries(finding: Finding, to: Situation) -> Advice:
    needed = _number(finding, "needed") * (to.asked.value("runs") or 1)
    count = math.ceil(max(needed, to.asked.more("min_query_count", 10_000)))
    return Advice((NextStep("measure more queries: {}", to.asked.bench(min_query_count=count)),))


def _enough_runs(_: Finding, to: Situation) -> Advice:
    text = "make more runs (in a campaign's file, repeats = 5; with --against B, --pairs 10): {}"
    runs = max(MIN_RUNS, to.asked.value("runs") or 0)
    return Advice((NextStep(text, to.asked.bench(runs=runs)),))


def _as_many_threads_as_cpus(finding: Finding, to: Situation) -> Advice:
    threads = max(1, int(_number(finding, "cpu_count")))
    return Advice((NextStep("use no more threads than CPUs: {}", to.asked.bench(threads=threads)),))


def _warm_up(_: Finding, to: Situation) -> Advice:
    longer = to.asked.bench(warmup_query_count=to.warmup_query_count)
    return Advice((NextStep("warm up for as long as it took: {}", longer),))


def _quantise_again(_: Finding, to: Situation) -> Advice:
    words = [] if to.asked.value("accuracy") else ["--accuracy", "DATASET"]
    text = "quantise the model again, with calibration data like its inputs; then {}"
    return Advice((NextStep(text, to.asked.bench(*words)),))


def _pull_the_cable(_: Finding, to: Situation) -> Advice:
    return Advice(
        (
            NextStep("pull the cable (the run waits there for {})", to.asked.collect()),
            NextStep(
                "where the phone heeds it: adb shell setprop power.battery_input.suspended true, "
                "and false after"
            ),
        )
    )


def _number(finding: Finding, name: str) -> float:
    value = finding.facts.get(name)
    return float(value) if isinstance(value, (int, float)) else 0.0


_SHARED = (
    "measure where nobody else uses the CPUs: those of a virtual machine or container are shared"
)
_COOL = _more(
    "improve the cooling, or wait for longer before each run: {}", "cooldown_timeout_s", 1200.0
)
_QUOTA = _measure(
    "raise or remove the CPU quota of the agent's container, pod or unit (docker run --cpus N, "
    "limits.cpu, CPUQuota=); then {}"
)
_ROOM = _do("end programs that take memory there, or measure a smaller model")
_SENSORS = _do(
    "measure on the device itself, not in a virtual machine or container that hides its sensors"
)
_HARNESS = _do(
    "use the number to compare models as small as this one, not as the model's own time: the loop "
    "adds the same to each"
)
_NO_OVERRIDE = _do("let it report again: adb shell cmd thermalservice reset")
_METER = _do(
    "see which check failed in docs/meters.md, and check the meter: {}",
    command("meters", "selftest", "METER"),
)
_UNSEEN = _measure(
    "see whether the meter is wired to this device; then give the meter's clock a load to align "
    "with: {}",
    sync="coded_load",
)
_OTHER_RUNTIME = _measure("try another runtime or no delegate: {}", runtime="all")
_ON_DEVICE = ("--on", "DEVICE")
_AWAKE = "adb shell svc power stayon true"
_CLOCK = _do("let nothing set the device's clock during a run: timedatectl set-ntp false")
_LONGER = _longer(120.0)

ADVICE: Mapping[str, Mapping[str, Make]] = {
    "complete": {"": _measure("let it end: {}")},
    "real_time": {"": _measure("measure on a real CPU: {}", *_ON_DEVICE)},
    "real_device": {"": _measure("measure on a real device: {}", *_ON_DEVICE)},
    "enough_queries": {"": _LONGER, "max_duration": _fewer_or_more_time},
    "enough_time": {
        "": _LONGER,
        "no_time": _measure(
            "wire the meter to the board's pin, see docs/bring-your-own-board.md; then {}",
            "--meter",
            "METER",
        ),
        "heard": _measure("time it by a meter: {}", "--meter", "METER"),
    },
    "enough_windows": {"": _LONGER},
    "keeps_up": {"": _fewer_arrivals},
    "latency_target": {"": _fewer_or_later, "too_few": _enough_queries},
    "loadgen": {
        "": _more(
            "read why in the run's raw/ directory; most often it is too short: {}",
            "duration_s",
            600.0,
        )
    },
    "finite_outputs": {
        "": _measure("give the model inputs that make sense: {}", inputs="FILE.npz")
    },
    "dataset_complete": {
        "": _more("allow the data set more time: {}", "dataset_limit_s", 86400.0, "accuracy")
    },
    "accuracy_floor": {"": _quantise_again},
    "accuracy": {"": _quantise_again},
    "agreement": {
        "": _OTHER_RUNTIME,
        "saturated": _measure(
            "quantise the weights to 7 bits, or use another runtime: {}", runtime="all"
        ),
        "constant": _measure(
            "give the model inputs that change its outputs: {}", inputs="FILE.npz"
        ),
    },
    "agreement_of_all": {"": _OTHER_RUNTIME},
    "delegation": {
        "": lambda _, to: Advice(
            (
                NextStep("see which delegates the device has: {}", command("devices")),
                NextStep("measure without one: {}", to.asked.bench(without=("delegate",))),
            )
        )
    },
    "delegated_share": {"": _measure("see which operators stay on the CPU: {}", is_profiled=True)},
    "profile": {"": _measure("profile on another runtime: {}", is_profiled=True, runtime="onnx")},
    "harness_dominates": {"": _HARNESS},
    "harness_share": {"": _HARNESS},
    "binding_share": {
        "": _do(
            "use the number to compare, not as the model's own time; a larger model hides the "
            "binding"
        )
    },
    "steady_state": {
        "": _longer(300.0),
        "levels": _one_level,
        "switching": _one_level,
        "slower": _more("see whether heat is the cause: {}", "sustained_s", 1200.0),
        "too_few": _LONGER,
    },
    "steady_share": {"": _warm_up},
    "precision_floor": {"": _LONGER},
    "precision": {"": _LONGER},
    "spread": {"": _alone},
    "block_stability": {"": _alone_or_longer},
    "clock": {"": _CLOCK},
    "clock_drift": {"": _CLOCK},
    "frequency": {"": _governor, "not_told": _SENSORS},
    "scheduling": {"": _schedule},
    "cpu_quota": {"": _QUOTA},
    "background_load": {"": _alone, "not_told": _SENSORS, "too_short": _LONGER},
    "cpu_pressure": {
        "": _alone,
        "not_told": _SENSORS,
        "quota": _QUOTA,
        "more_threads": _as_many_threads_as_cpus,
    },
    "cpu_share": {"": _alone, "quota": _QUOTA, "too_short": _LONGER},
    "memory_pressure": {"": _ROOM},
    "memory": {"": _ROOM},
    "swap": {"": _ROOM},
    "suspended": {"": _measure(f"keep the device awake: on a phone, {_AWAKE}; then {{}}")},
    "charging": {
        "": _pull_the_cable,
        "faked": _do("let it report again: adb shell dumpsys battery reset"),
    },
    "screen": {
        "": _do(f"switch the screen on, and keep it on: adb shell input keyevent 224; {_AWAKE}")
    },
    "power_saver": {
        "": _do("switch the power saver off: adb shell settings put global low_power 0")
    },
    "phone_settings": {
        "": _do("leave the phone alone during the run, and measure again"),
        "not_told": lambda _, to: Advice(
            (
                NextStep("let it sample: {}", to.asked.bench(telemetry_rate_hz=10.0)),
                NextStep("upgrade its agent: {}", command("deploy", "adb:SERIAL")),
            )
        ),
    },
    "scheduling_group": {"": _do(f"keep the screen on: {_AWAKE}")},
    "thermal_status_moderate": {"": _COOL, "overridden": _NO_OVERRIDE},
    "thermal_status": {"": _COOL, "overridden": _NO_OVERRIDE},
    "thermal": {
        "": _COOL,
        "not_looked_at": _measure("let it sample: {}", telemetry_rate_hz=10.0),
        "no_sensor": _SENSORS,
    },
    "interference": {"": _alone, "moved": _one_kind},
    "start_temperature": {"": _COOL, "no_limit": _SENSORS, "not_read": _SENSORS},
    "nominal_clock": {"": _governor, "no_clock": _SENSORS},
    "cooldown": {"": _COOL},
    "telemetry": {"": _sample_less},
    "known_model": {"": _measure("measure a model file instead, where the firmware takes one: {}")},
    "inputs_read_back": {
        "": _do("look at the line to the board: {}", command("bridge", "console", "BOARD"))
    },
    "window_range": {"": _LONGER},
    "target_clock": {
        "": _measure(
            "state the rate of the board's counter in its firmware, see docs/firmware.md; then "
            "measure again: {}"
        )
    },
    "meter": {"": _METER},
    "energy_sync": {
        "": _measure("give the meter's clock a load to align with: {}", sync="coded_load"),
        "not_seen": _UNSEEN,
        "blind": _UNSEEN,
    },
    "energy_idle": {
        "": _more(
            "end other programs on the device, and let it rest for longer around each run: {}",
            "idle_duration_s",
            10.0,
            "meter",
        )
    },
    "energy_windows": {"": _more("make the windows longer: {}", "duration_s", 120.0, "meter")},
    "energy": {
        "": _METER,
        "simulated": lambda _, to: Advice(
            (
                NextStep(
                    "measure with a real meter: {}; which there are: {}",
                    to.asked.bench("--meter", "METER"),
                    command("meters"),
                ),
            )
        ),
    },
    "run_count": {"": _enough_runs},
    "between_runs_floor": {"": _alone_and_more_runs},
    "between_runs": {"": _alone_and_more_runs},
}
"""Advice by rule and reason; the empty reason is the default of a rule."""


def advice(finding: Finding, situation: Situation | None = None) -> Advice | None:
    """Advice for a finding; None if the rule passed, or nothing can be done.

    A rule that could not be checked has advice only for a specific reason.
    """
    known = ADVICE.get(finding.id)
    if known is None or finding.outcome not in (RuleOutcome.FAIL, RuleOutcome.UNKNOWN):
        return None
    is_failure = finding.outcome is RuleOutcome.FAIL
    make = known.get(finding.reason or "", known[""] if is_failure else None)
    return None if make is None else make(finding, situation or Situation())


def without_repeats(advices: Iterable[Advice]) -> list[Advice]:
    """The advices in their order, each once, and none whose steps another one has, too."""
    once = list(dict.fromkeys(advices))
    return [
        one
        for one in once
        if not any(other != one and set(one.steps) <= set(other.steps) for other in once)
    ]
