"""A line for every finding of the rules; the data is made in `analysis.verdict`.

Each rule has a sentence, and one more for each reason that its check may give. `{value}`,
`{limit}` and the facts of the finding are filled in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from edgebench.host.result.verdict import Fact, Finding, Verdict
from edgebench.host.show.units import ABSENT, format_joules, format_ns, format_size

_NO_METER = {"no_meter": "no meter was requested"}
_AGREES = (
    "the {which} output differs from {reference} by {value:.2g} of the spread of the outputs "
    "(RMS), limit {limit:g}{top1}"
)
SATURATION = (
    "this CPU has AVX2 but no VNNI: there, onnxruntime adds products of 8-bit activations and int8 "
    "weights in 16 bits, which saturate; quantise with a reduced range (7-bit weights) or with "
    "uint8 weights"
)
_AGREEMENT = {
    "": _AGREES,
    "saturated": f"{_AGREES}; {SATURATION}",
    "constant": "the outputs of {reference} are one constant for all samples, which says nothing "
    "about the kernels",
    "unbounded": "differs from {reference} without bound: one is not a number, or 0",
    "not_asked": "not compared: switched off",
    "not_compared": "not compared: {why}",
}
_ACCURACY = {
    "": "{metric} {accuracy:.4g} on {sample_count} samples, {reference} has "
    "{reference_accuracy:.4g}: {value:.1%}, limit {limit:.0%}",
    "no_reference": "{metric} {accuracy:.4g} on {sample_count} samples; no reference to compare "
    "with",
    "reference_is_zero": "{metric} {accuracy:.4g} on {sample_count} samples; {reference} has 0: "
    "labels and outputs do not belong together",
    "no_dataset": "no data set was given",
    "not_judged": "{why}",
    "not_answered": "no sample of the data set was run",
    "labels_elsewhere": "the labels of the data set are on another host",
}
_HARNESS = {"": "the timed loop itself is {value:.2%} of the median {what}, limit {limit:.0%}"}
_BETWEEN_RUNS = {
    "": "half the 95 % interval of {name} between runs is {value:.2%} of it, limit {limit:.0%}",
    "too_few": "too few runs for an interval between them",
}
_PRECISION = {
    "": "p50 ±{value:.2%} (95 % CI), limit {limit:.0%}",
    "worth": "p50 is worth {value:.0f} independent queries, at least {limit:.0f} needed",
    "no_interval": "too few independent queries for an interval of p50",
    "in_set": "one of several runs: the interval between them counts",
    "profiled": "the run is about the times of the operators",
}
_CLOCK = {
    "": "monotonic and wall clock differ by {value:.3%}, limit {limit:.1%}",
    "stood_still": "the monotonic clock stood still",
}
_STALL = {
    "": "a task waited for {resource} during {value:.1%} of the run, limit {limit:.0%}",
    "not_told": "the kernel has no pressure stall information",
}
_COUNTED = "counts of instructions are reproducible to the resolution of the counter: one is enough"
_NO_PHONE = {
    "no_phone": "the system is no Android",
    "not_told": "the system does not report it",
}
_THERMAL_STATUS = {
    "": "Android's thermal status was {value:.0f} ({name}) at most, limit {limit:.0f}",
    "overridden": "Android's thermal status was overridden (cmd thermalservice override-status)",
    **_NO_PHONE,
}
_TOO_SHORT = "{loop_s:.3f} s is too short to tell"

SENTENCES: Mapping[str, Mapping[str, str]] = {
    "complete": {"": "run {ended}", "why": "run {ended}: {why}"},
    "real_time": {
        "": "the CPU is real",
        "behind": "the CPU is real; the run was made in {layers}",
        "emulated": "the CPU is emulated: times mean nothing",
        "counted": "instructions are counted, and no time is claimed",
    },
    "real_device": {
        "": "the device is real",
        "simulated": "the device is simulated, and so are its times",
        "counted": "the device is emulated: its instructions are counted, and no time is claimed",
    },
    "enough_queries": {
        "": "{value:.0f} {counted}, at least {limit:.0f} needed",
        "max_duration": "{value:.0f} {counted}, at least {limit:.0f} needed: the run ended at its "
        "maximum of {max_duration_s:g} s",
        "counted": _COUNTED,
    },
    "enough_time": {
        "": "{value:.3f} s, at least {limit:g} s needed",
        "full": "{value:.3f} s, at least {limit:g} s or {max_query_count} inferences needed",
        "counted": _COUNTED,
        "no_time": "the device is in energy mode and tells no time, and no meter has edges of its "
        "windows",
        "heard": "the firmware prints no time, and neither an interface board nor a meter timed it",
    },
    "enough_windows": {
        "": "{value:.0f} windows, at least {limit:.0f} needed",
        "counted": _COUNTED,
    },
    "keeps_up": {
        "": "{mean} per query at {qps:g} queries per second: {value:.1%} of the time, "
        "limit {limit:.0%}",
        "no_schedule": "queries are not scheduled",
    },
    "latency_target": {
        "": "{value:.0f} of {count} queries took longer than {target}: {percentile} meets "
        "the target, with 99 % confidence",
        "too_few": "{value:.0f} of {count} queries took longer than {target}: too few "
        "queries to tell whether {percentile} meets the target; {needed} would do",
        "missed": "{value:.0f} of {count} queries took longer than {target}{p99}; "
        "{per_s:.4g} of {qps:g} queries per second were completed",
        "no_target": "no target latency was requested",
        "known_to_loadgen": "only LoadGen knows when a query was due: see its log",
    },
    "loadgen": {
        "": "LoadGen declares the run {loadgen_verdict}",
        "why": "LoadGen declares the run {loadgen_verdict}: {why}",
        "native": "the queries were issued by the timed loop",
        "no_result": "LoadGen wrote no result",
    },
    "finite_outputs": {
        "": "outputs are finite for {value:.0f} different samples",
        "not_finite": "outputs contain NaN or infinity",
    },
    "dataset_complete": {
        "": "{value:.0f} of {limit:.0f} samples of the data set were run",
        "why": "{value:.0f} of {limit:.0f} samples of the data set were run: {why}",
        "no_dataset": "no data set was given",
    },
    "accuracy_floor": _ACCURACY,
    "accuracy": _ACCURACY,
    "agreement": _AGREEMENT,
    "agreement_of_all": _AGREEMENT,
    "delegation": {
        "": "requested {asked}, {ran}",
        "not_asked": "no delegate was requested, {ran}",
        "not_told": "requested {asked}, {ran}; the runtime does not report whether it was used",
    },
    "delegated_share": {
        "": "{count} of {total} operators ran on it, at least {limit:.0%} needed",
        "not_asked": "no delegate was requested",
        "not_told": "the runtime does not report where its operators ran",
    },
    "profile": {
        "": "{value:.0f} operators over {run_count} inferences",
        "none": "{why}",
        "not_asked": "no operator profile was requested",
    },
    "harness_dominates": _HARNESS,
    "harness_share": _HARNESS,
    "binding_share": {
        "": "loop and Python binding add at least {value:.2%} to the median latency, limit "
        "{limit:.0%}",
        "bound": "one addition through the Python binding takes {value:.2%} of the median latency, "
        "limit {limit:.0%}",
        "no_c": "how much of the latency is the Python binding's is not known: {why}",
        "why": "{why}",
        "not_measured": "not measured",
    },
    "steady_state": {
        "flat": "flat: steady after the worker's warm-up of {value:.0f} inferences",
        "warmup": "warmup: steady after a warm-up of {value:.0f} inferences",
        "levels": "switching between {low} for {low_dwell} and {high} for {high_dwell} at a time; "
        "{high_ratio:.0%} of the inferences on the higher level",
        "switching": "switching: the latency of the start came back",
        "slower": "slowdown: the device became slower and stayed slower; the levels of its latency "
        "range over {value:.1%}, limit {limit:.0%}",
        "unsteady": "no steady state: the latency kept changing until the end; its levels range "
        "over {value:.1%}, limit {limit:.0%}",
        "too_few": "{count} queries are too few to tell",
    },
    "steady_share": {
        "": "{value:.1%} of the timed inferences come after the warm-up, at least {limit:.0%} "
        "needed"
    },
    "known_model": {
        "": "the model is a file whose hash is known",
        "in_firmware": "{model} is in the firmware of the device: no file and no hash tell it from "
        "another of that name",
    },
    "inputs_read_back": {
        "": "the inputs on the device are those that were sent",
        "not_told": "the firmware does not tell which input it has got",
        "heard": "the device runs on live audio: no inputs are sent to it",
    },
    "window_range": {
        "": "times of the windows range over {value:.3%} of their median, limit {limit:.0%}",
        "one": "one window is too few to tell",
        "no_time": "nobody timed the windows",
        "heard": "windows are as long as the sound that the device hears",
    },
    "target_clock": {
        "": "the device's counter and the clock of the machine beside it differ by {value:.3%}, "
        "limit {limit:.0%}",
        "emulated": "an emulator's counter follows no clock",
        "no_time": "the device is in energy mode, and tells no time",
        "heard": "the firmware prints no time: there is no counter to check",
    },
    "precision_floor": _PRECISION,
    "precision": _PRECISION,
    "spread": {"": "interquartile range {value:.1%} of the median, limit {limit:.0%}"},
    "block_stability": {
        "": "medians of ten blocks range over {value:.1%} of the median, limit {limit:.0%}",
        "too_few": "{count} inferences are too few to tell",
    },
    "clock": _CLOCK,
    "clock_drift": _CLOCK,
    "frequency": {
        "": "governor {governors}; frequency changed by {value:.1%}, limit {limit:.0%}",
        "between": "governor {governors}; during the run, the clock differed by {value:.1%} from "
        "that at the start, limit {limit:.0%}",
        "governor_changed": "governor changed from {before} to {governors}",
        "not_told": "the kernel reports neither governor nor frequency",
    },
    "scheduling": {
        "": "policy {policy}, nice {nice}, CPU {cpus}",
        "refused": "{why}",
        "bound_elsewhere": "bound to {count} CPUs, {wanted_count} were requested",
    },
    "cpu_quota": {
        "": "the CPU quota of the control group, {cpu_count:g} CPUs, was used up in "
        "{throttled_count} periods of {period}, {value:.1%} of the run, limit {limit:.0%}",
        "no_quota": "no control group has a quota of CPU time",
        "not_told": "the device reports no control groups, so a CPU quota is not known",
    },
    "background_load": {
        "": "other processes took {value:.1%} of the CPU time, limit {limit:.0%}",
        "under_test": "other processes used {share_of_usable} the model's threads can use, limit "
        "{limit:.0%}",
        "not_told": "the kernel does not report the load of other processes",
        "too_short": f"{_TOO_SHORT} what other processes took",
    },
    "cpu_pressure": {
        **_STALL,
        "more_threads": "more threads ({threads}) than CPUs ({cpu_count}): one of them waited "
        "during {value:.1%} of the run, limit {limit:.0%}",
        "of_threads": "a thread of the worker waited for a CPU during {value:.1%} of the run, "
        "limit {limit:.0%}",
        "quota": "a thread of the worker waited during {value:.1%} of the run, limit {limit:.0%}: "
        "its control group has a quota of {quota_cpu_count:g} CPUs",
    },
    "cpu_share": {
        "": "the worker had {value:.1%} of a CPU during the run, at least {limit:.0%} needed",
        "of_threads": "the worker's {threads} threads had {cpu_count:.2f} CPUs during the run: "
        "{value:.1%} of one each, at least {limit:.0%} needed",
        "of_wanted": "the worker's {threads} threads had {cpu_count:.2f} CPUs during the run: "
        "{value:.1%} of what they could have used, at least {limit:.0%} needed",
        "quota": "the worker's threads had {cpu_count:.2f} CPUs during the run, {value:.1%} of "
        "what they could have used, at least {limit:.0%} needed: their control group has a quota "
        "of {quota_cpu_count:g} CPUs",
        "waits_for_arrivals": "the worker waits for arrivals",
        "waits_for_accelerator": "the worker may wait for an accelerator",
        "too_short": f"{_TOO_SHORT} which share of a CPU the worker had",
    },
    "memory_pressure": _STALL,
    "memory": {
        "": "peak memory {used}, available {available}",
        "not_told": "the system does not report how much memory was available",
    },
    "swap": {
        "": "{value:.0f} pages were moved to or from swap during the run",
        "not_told": "the kernel does not report swapping",
    },
    "suspended": {
        "": "the device was suspended for {value:.3g} s during the run, limit {limit:g} s",
        "not_told": "the agent does not report for how long the device was suspended",
    },
    "charging": {
        "": "the battery charged in {value:.0%} of the readings",
        "faked": "the battery's service reports what it was told to (dumpsys battery)",
        **_NO_PHONE,
    },
    "screen": {"": "the screen was off in {value:.0%} of the readings", **_NO_PHONE},
    "power_saver": {"": "the power saver was on in {value:.0%} of the readings", **_NO_PHONE},
    "phone_settings": {
        "": "airplane mode and brightness were as requested",
        "airplane_mode": "airplane mode was off in {value:.0%} of the readings",
        "brightness": "the brightness of the screen was {lowest} to {highest}, requested "
        "{requested}",
        "not_asked": "neither airplane mode nor a brightness was requested",
        "not_told": "airplane mode or brightness was requested, and the agent does not report it",
    },
    "scheduling_group": {
        "": "group {group}, on {cpu_count} of {of_cpu_count} CPUs; it is not that of an app in "
        "front",
        "few_cpus": "group {group} may use {cpu_count} of {of_cpu_count} CPUs",
        "background": "group {group} is for processes that nobody sees: it gets the slow CPUs",
        "clamped": "group {group} is scheduled as if it used at most {highest:.0%} of a CPU",
        **_NO_PHONE,
    },
    "thermal_status_moderate": _THERMAL_STATUS,
    "thermal_status": _THERMAL_STATUS,
    "thermal": {
        "": "{verdict}{from_s}{kept}: {why} ({certainty})",
        "not_throttled": "{why}",
        "not_heat": "not throttled; see interference",
        "unknown": "{why}",
        "not_looked_at": "no telemetry",
        "no_sensor": "the device has no sensor of temperature that can be read",
        "counted": "heat changes no count of instructions",
    },
    "interference": {
        "": "{why}",
        "none": "no slowdown without a known cause",
        "moved": "for {share:.0%} of the run the model was on another type of core, where an "
        "inference took {times:.2g} times as long",
        "unknown": "unknown whether the latency rose, and why",
    },
    "start_temperature": {
        "": "{value:.1f} °C at the start, {max_temp_c:.1f} °C at most; throttles at {limit:.1f} °C",
        "hot": "{value:.1f} °C at the start, {max_temp_c:.1f} °C at most: the baseline was close "
        "to {limit:.1f} °C, where the device throttles",
        "no_limit": "no temperature with a known throttle temperature can be read",
        "not_read": "the temperature was not read during the baseline",
    },
    "nominal_clock": {
        "": "{freq} of {nominal_freq} in the baseline",
        "low": "{freq} of {nominal_freq} in the baseline: a slow governor or a power mode",
        "maybe_turbo": "{freq} of {nominal_freq} in the baseline: a slow governor, "
        "a power mode, or a turbo that was not reached",
        "no_clock": "no trusted clock, or no nominal clock to compare it with",
    },
    "cooldown": {
        "": "{value:.1f} °C after {waited_s:.0f} s of waiting, at most {limit:.1f} °C",
        "no_target": "{value:.1f} °C after {waited_s:.0f} s of waiting",
        "unsettled": "{value:.1f} °C after {waited_s:.0f} s of waiting, not steady below "
        "{limit:.1f} °C for long enough",
        "not_asked": "no wait was requested",
        "no_sensor": "no temperature with a known target can be read",
    },
    "telemetry": {
        "": "{sensor_count} sensors at {rate_hz:g} Hz; the sampler took {ceiling:.2%} of a CPU, "
        "limit {limit:.0%}",
        "guard_only": "{sensor_count} sensors at {rate_hz:g} Hz, only to enforce the temperature "
        "limit; the sampler took {ceiling:.2%} of a CPU, limit {limit:.0%}",
        "lost": "no telemetry: {why}",
        "none": "no telemetry",
        "not_asked": "switched off",
    },
    "meter": {"": "{checks}", "nothing_recorded": "{why}", **_NO_METER},
    "energy_sync": {
        "": "{method}, within {milliseconds:.3g} ms",
        "not_seen": "{method}, within {milliseconds:.3g} ms: the meter does not see the load "
        "code; is it wired to this device?",
        "blind": "{why}; is the meter wired to this device?",
        "no_method": "{why}",
        "not_tried": "not tried: the recording cannot be used",
        **_NO_METER,
    },
    "energy_idle": {
        "": "idle power {before_w:.4g} W before and {after_w:.4g} W after the run; limit on the "
        "difference {limit:.2g} W",
        "no_power": "the recording gives no power",
        "one_side": "{why}",
        **_NO_METER,
    },
    "energy_windows": {
        "": "shortest window {value:.3f} s between its edges, at least {limit:g} s needed",
        "no_edges": "no window has edges that the meter saw",
        **_NO_METER,
    },
    "energy": {
        "": "{joules} ±{u95_ratio:.2%} per inference, gross",
        "not_positive": "{joules} per inference, gross",
        "simulated": "the energy is simulated, not measured: the meter computes its power",
        "refused": "refused: {why}",
        **_NO_METER,
    },
}
"""By rule and reason; the reason of a plain outcome is empty."""
SENTENCES_OF_SETS: Mapping[str, Mapping[str, str]] = {
    "run_count": {
        "": "{value:.0f} of {planned_count} runs count, an interval between runs needs {limit:.0f}"
    },
    "between_runs_floor": _BETWEEN_RUNS,
    "between_runs": _BETWEEN_RUNS,
}
"""As above, of the rules that look at the runs of a set together."""


def sentence(finding: Finding) -> str:
    """A finding in one line: what was found, and the limit.

    It is made of the finding's data. Findings of older documents have none, and those of a newer
    edgebench may have reasons that this one does not know: they keep the line that they were
    stored with, and so does one whose data is damaged.
    """
    failed_count, of_count = finding.facts.get("failed_count"), finding.facts.get("of_count")
    shown = _sentence(finding)
    if failed_count is None:
        return shown
    if failed_count == 1:
        return f"in 1 of {of_count} runs {shown}"
    which = "the worst" if finding.facts.get("is_worst") else "one"
    return f"in {failed_count} of {of_count} runs, in {which} of them {shown}"


def _sentence(finding: Finding) -> str:
    sentences = SENTENCES.get(finding.id) or SENTENCES_OF_SETS.get(finding.id, {})
    template = sentences.get(finding.reason or "")
    if template is None:
        return finding.detail or ABSENT
    words = {**finding.facts, "value": finding.value, "limit": finding.limit}
    try:
        return template.format(**words, **_more_words(finding))
    except (LookupError, TypeError, ValueError, ArithmeticError):  # the document is damaged
        return finding.detail or ABSENT


def described(verdict: Verdict) -> Verdict:
    """A verdict whose findings have their sentences, for those who read the document."""
    rules = tuple(replace(one, detail=sentence(one)) for one in verdict.rules)
    return replace(verdict, rules=rules)


def _more_words(finding: Finding) -> dict[str, Fact]:
    """Words that follow from the data of a finding."""
    facts, value = finding.facts, finding.value
    onset_s, percentile = facts.get("onset_s"), facts.get("target_percentile")
    top1 = facts.get("top1_equal_ratio")
    return {
        "resource": "memory" if finding.id == "memory_pressure" else "a CPU",
        "loadgen_verdict": "VALID" if finding.outcome.value == "pass" else "INVALID",
        "top1": "" if top1 is None else f"; same largest output in {top1:.0%} of the samples",
        "p99": "" if facts.get("p99_ns") is None else f", p99 is {_time(facts, 'p99_ns')}",
        "percentile": "" if percentile is None else f"p{100 * float(percentile):g}",
        "target": _time(facts, "target_s", 1e9),
        "used": format_size(value),
        "available": format_size(finding.limit),
        "joules": format_joules(value),
        "mean": _time(facts, "mean_ns"),
        "period": _time(facts, "period_s", 1e9),
        "low": _time(facts, "low_ns"),
        "high": _time(facts, "high_ns"),
        "low_dwell": _time(facts, "low_dwell_s", 1e9),
        "high_dwell": _time(facts, "high_dwell_s", 1e9),
        "freq": _frequency(facts, "freq_hz"),
        "nominal_freq": _frequency(facts, "nominal_freq_hz"),
        "from_s": "" if onset_s is None else f" from {onset_s:.0f} s on",
        "kept": "" if value is None else f", performance retention {value:.0%} by latency",
        "certainty": "reported by the device" if facts.get("is_certain") else "probable",
        # Rounded up, so that what is over the limit never reads as the limit itself.
        "ceiling": None if value is None else math.ceil(round(value * 1e4, 6)) / 1e4,
        # Of as many CPUs as the model has threads, on any of its CPUs; cut off at 100 %.
        "share_of_usable": ""
        if value is None
        else "at least as much CPU time as"
        if value >= 1
        else f"CPU time worth {value:.1%} of what",
        "milliseconds": None if value is None else 1e3 * value,
    }


def _time(facts: Mapping[str, Fact], name: str, unit_ns: float = 1.0) -> str:
    value = facts.get(name)
    return format_ns(None if value is None else float(value) * unit_ns)


def _frequency(facts: Mapping[str, Fact], name: str) -> str:
    value = facts.get(name)
    return ABSENT if value is None else f"{float(value) / 1e9:.2f} GHz"
