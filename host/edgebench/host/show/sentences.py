"""A line for every finding of the rules; the data is made in `analysis.verdict`.

Each rule has a sentence, and one more for each reason that its check may give. `{value}`,
`{limit}` and the facts of the finding are filled in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from edgebench.host.result.verdict import Fact, Finding, Verdict

_NO_METER = {"no_meter": "no meter was asked for"}
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
    "unbounded": "differs from {reference} without bound: one is not a number, or 0",
    "not_asked": "not compared: it was not asked for",
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
    "labels_elsewhere": "the data set was answered, but its labels are on another host",
}
_HARNESS = {"": "the timed loop itself is {value:.2%} of the median {what}, limit {limit:.0%}"}
_CLOCK = {
    "": "monotonic and wall clock differ by {value:.3%}, limit {limit:.1%}",
    "stood_still": "the monotonic clock stood still",
}
_STALL = {
    "": "in {value:.1%} of the run something waited for {resource}, limit {limit:.0%}",
    "not_told": "the kernel has no pressure stall information",
}
_TOO_SHORT = "{loop_s:.3f} s are too short to tell"

SENTENCES: Mapping[str, Mapping[str, str]] = {
    "complete": {"": "run {ended}", "why": "run {ended}: {why}"},
    "real_time": {"": "the CPU is real", "emulated": "the CPU is emulated: times mean nothing"},
    "real_device": {
        "": "the device is real",
        "simulated": "the device is simulated: its times are made up",
    },
    "enough_queries": {"": "{value:.0f} {counted}, at least {limit:.0f}"},
    "enough_time": {
        "": "{value:.3f} s, at least {limit:g} s",
        "full": "{value:.3f} s, at least {limit:g} s or {max_query_count} inferences",
    },
    "keeps_up": {
        "": "{mean_us:.4g} µs a query at {qps:g} queries a second: {value:.1%} of the time, limit "
        "{limit:.0%}",
        "no_schedule": "queries do not arrive by a schedule",
    },
    "latency_target": {
        "": "{value:.0f} of {count} queries took over {target_s:g} s, so p{percentile:g} did not, "
        "with 99 % confidence",
        "too_few": "{value:.0f} of {count} queries took over {target_s:g} s: too few queries to "
        "tell p{percentile:g}; {needed} would do",
        "missed": "{value:.0f} of {count} queries took over {target_s:g} s{p99}; {per_s:.4g} of "
        "{qps:g} queries a second were answered",
        "no_target": "no target latency was asked for",
        "known_to_loadgen": "when a query was due is known to LoadGen alone: see its log",
    },
    "loadgen": {
        "": "LoadGen calls its run {loadgen_verdict}",
        "why": "LoadGen calls its run {loadgen_verdict}: {why}",
        "native": "the queries were issued by the timed loop",
        "no_result": "LoadGen left no result",
    },
    "finite_outputs": {
        "": "outputs are finite, of {value:.0f} different samples",
        "not_finite": "outputs hold NaN or infinity",
    },
    "accuracy_floor": _ACCURACY,
    "accuracy": _ACCURACY,
    "agreement": _AGREEMENT,
    "agreement_of_all": _AGREEMENT,
    "delegation": {
        "": "asked for {asked}, {ran}",
        "not_asked": "no delegate was asked for, {ran}",
        "not_told": "asked for {asked}, {ran}; the runtime does not tell whether it was used",
    },
    "delegated_share": {
        "": "{count} of {total} operators ran on it, at least {limit:.0%}",
        "not_asked": "no delegate was asked for",
        "not_told": "the runtime does not tell where its operators ran",
    },
    "profile": {
        "": "{value:.0f} operators over {run_count} inferences",
        "none": "{why}",
        "not_asked": "no profile was asked for",
    },
    "harness_dominates": _HARNESS,
    "harness_share": _HARNESS,
    "steady_state": {
        "flat": "flat: steady from the start, the first {value:.0f} queries are warm-up as issued",
        "warmup": "warmup: steady after a warm-up: the first {value:.0f} queries are warm-up",
        "slowdown": "slowdown: the device became slower and stayed so",
        "no_steady_state": "no_steady_state: the latency kept changing until the end",
        "too_few": "{count} queries are too few to tell",
    },
    "steady_share": {
        "": "{value:.1%} of the measured inferences come after the warm-up, at least {limit:.0%}"
    },
    "clock": _CLOCK,
    "clock_drift": _CLOCK,
    "frequency": {
        "": "governor {governors}; frequency changed by {value:.1%}, limit {limit:.0%}",
        "governor_changed": "governor changed from {before} to {governors}",
        "not_told": "the kernel tells neither governor nor frequency",
    },
    "scheduling": {
        "": "policy {policy}, nice {nice}, CPU {cpus}",
        "refused": "{why}",
        "bound_elsewhere": "bound to {count} CPUs, asked for {wanted_count}",
    },
    "cpu_share": {
        "": "the worker had {value:.1%} of a CPU during the run, at least {limit:.0%}",
        "waits_for_arrivals": "the worker waits for arrivals",
        "waits_for_accelerator": "the worker may wait for an accelerator",
        "too_short": f"{_TOO_SHORT} what the worker had of its CPU",
    },
    "background_load": {
        "": "others took {value:.1%} of the CPU time during the run, limit {limit:.0%}",
        "not_told": "the kernel does not tell what other processes did",
        "too_short": f"{_TOO_SHORT} what others did",
    },
    "cpu_pressure": _STALL,
    "memory_pressure": _STALL,
    "memory": {"": "peak memory {value:.0f} bytes, available {limit:.0f} bytes"},
    "swap": {
        "": "{value:.0f} pages were moved to or from swap during the run",
        "not_told": "the kernel does not tell about swap",
    },
    "thermal": {
        "": "{verdict}{from_s}{kept}: {why} ({certainty})",
        "not_throttled": "{why}",
        "not_heat": "not by heat",
        "unknown": "{why}",
        "not_looked_at": "nothing was looked at",
    },
    "interference": {
        "": "{why}",
        "none": "the latency did not grow without a reason",
        "unknown": "nothing tells whether the latency grew, or why",
    },
    "start_temperature": {
        "": "{value:.1f} °C at the start, {max_temp_c:.1f} °C at most: below {limit:.1f} °C, its "
        "limit",
        "hot": "{value:.1f} °C at the start, {max_temp_c:.1f} °C at most: in its first seconds "
        "near {limit:.1f} °C, its limit",
        "no_limit": "no temperature with a known limit can be read",
        "not_read": "the temperature was not read in the first seconds",
    },
    "nominal_clock": {
        "": "{freq_ghz:.2f} of {nominal_ghz:.2f} GHz at first",
        "low": "{freq_ghz:.2f} of {nominal_ghz:.2f} GHz at first: a slow governor or a power mode",
        "maybe_turbo": "{freq_ghz:.2f} of {nominal_ghz:.2f} GHz at first: a slow governor, a power "
        "mode, or a turbo that did not come",
        "no_clock": "no clock that can be believed, or none to hold it against",
    },
    "cooldown": {
        "": "{value:.1f} °C after {waited_s:.0f} s of waiting, at most {limit:.1f} °C",
        "no_target": "{value:.1f} °C after {waited_s:.0f} s of waiting",
        "not_asked": "nobody waited for a cool device",
        "no_sensor": "no temperature with a known target can be read",
    },
    "telemetry": {
        "": "{sensor_count} sensors at {rate_hz:g} Hz, which took {ceiling:.2%} of a CPU, limit "
        "{limit:.0%}",
        "guard_only": "{sensor_count} sensors at {rate_hz:g} Hz, only for the limit of the "
        "temperature, which took {ceiling:.2%} of a CPU, limit {limit:.0%}",
        "lost": "no telemetry: {why}",
        "none": "no telemetry",
        "not_asked": "nobody was asked to look",
    },
    "meter": {"": "{checks}", "nothing_recorded": "{why}", **_NO_METER},
    "energy_sync": {
        "": "{method}, within {milliseconds:.3g} ms",
        "not_seen": "{method}, within {milliseconds:.3g} ms: the meter does not see the device "
        "work; is it wired to this device?",
        "no_method": "{why}",
        "not_tried": "not tried, as the recording cannot be used",
        **_NO_METER,
    },
    "energy_idle": {
        "": "idle took {before_w:.4g} W before and {after_w:.4g} W after, limit {limit:.2g} apart",
        "no_power": "no power can be used",
        "one_side": "{why}",
        **_NO_METER,
    },
    "energy": {
        "": "{value:.3g} J ±{u95_ratio:.2%} per inference, gross",
        "not_positive": "{value:.3g} J per inference, gross",
        "refused": "refused: {why}",
        **_NO_METER,
    },
}
"""By rule and reason; the reason of a plain outcome is empty."""


def sentence(finding: Finding) -> str:
    """A finding in one line: what was found, and the limit.

    Findings of older documents have no data, and keep the line that they were stored with.
    """
    if finding.detail:
        return finding.detail
    template = SENTENCES[finding.id][finding.reason or ""]
    words = {**finding.facts, "value": finding.value, "limit": finding.limit}
    return template.format(**words, **_more_words(finding))


def described(verdict: Verdict) -> Verdict:
    """A verdict whose findings have their sentences, for those who read the document."""
    rules = tuple(replace(one, detail=sentence(one)) for one in verdict.rules)
    return replace(verdict, rules=rules)


def _more_words(finding: Finding) -> dict[str, Fact]:
    """Words that follow from the data of a finding."""
    facts, value = finding.facts, finding.value
    onset_s, p99_ms = facts.get("onset_s"), facts.get("p99_ms")
    top1 = facts.get("top1_equal_ratio")
    return {
        "resource": "memory" if finding.id == "memory_pressure" else "a CPU",
        "loadgen_verdict": "VALID" if finding.outcome.value == "pass" else "INVALID",
        "top1": "" if top1 is None else f"; same largest output in {top1:.0%} of the samples",
        "p99": "" if p99_ms is None else f", p99 is {p99_ms:.4g} ms",
        "from_s": "" if onset_s is None else f" from {onset_s:.0f} s on",
        "kept": "" if value is None else f", {value:.0%} of the speed left by the median",
        "certainty": "the device says so" if facts.get("is_certain") else "probable",
        # Rounded up, so that what is over the limit never reads as the limit itself.
        "ceiling": None if value is None else math.ceil(round(value * 1e4, 6)) / 1e4,
        "milliseconds": None if value is None else 1e3 * value,
    }
