"""Advice for rules that failed or could not be checked.

The sentence of a finding states the problem (`sentences`); the advice tells how to improve the next
run. It starts with a verb, and contains a command if one helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgebench.host.result.verdict import Finding, RuleOutcome

_LONGER = "measure for longer: edgebench bench MODEL --duration 120s"
_ALONE = (
    "end other programs on the device (top lists them), or give the model CPUs of its own: "
    "edgebench bench MODEL --cpus CPU_IDS"
)
_MORE_RUNS = f"{_ALONE}; and make more runs: edgebench bench MODEL --cpus CPU_IDS --runs 15"
_OR_LONGER = f"{_ALONE}; or measure for longer: edgebench bench MODEL --duration 300s"
_STEADIER = "measure for longer: edgebench bench MODEL --duration 300s"
_ROOM = "end programs that take memory there, or measure a smaller model"
_COOL = (
    "improve the cooling, or wait for longer before each run: edgebench bench MODEL --cooldown 20m"
)
_GOVERNOR = "fix the CPU's frequency during the run: edgebench bench MODEL --governor performance"
_LEVELS = (
    "bind the model to CPUs of one kind, and fix their frequency: edgebench bench MODEL --cpus "
    "CPU_IDS --governor performance"
)
_SHARED = (
    "measure where nobody else uses the CPUs: those of a virtual machine or container are shared"
)
_SCHEDULING = (
    "choose CPUs that the agent may use, or start it as root for --priority realtime: edgebench "
    "bench MODEL --cpus CPU_IDS"
)
_QUOTA = (
    "raise or remove the CPU quota of the agent's container, pod or unit (docker run --cpus N, "
    "limits.cpu, CPUQuota=); then edgebench bench MODEL"
)
_TYPES = "bind the model to CPUs of one kind: edgebench bench MODEL --cpus CPU_IDS"
_SAMPLING = (
    "sample less often, or leave a CPU free for it: edgebench bench MODEL --telemetry-rate 2, or "
    "--cpus CPU_IDS"
)
_SENSORS = (
    "measure on the device itself, not in a virtual machine or container that hides its sensors"
)
_OPERATORS = "see which operator it is: edgebench bench MODEL --profile; or try --runtime all"
_ACCURACY = (
    "quantise the model again, with calibration data like its inputs; then edgebench bench MODEL "
    "--accuracy DATASET"
)
_HARNESS = (
    "use the number to compare models as small as this one, not as the model's own time: the loop "
    "adds the same to each"
)
_NO_OVERRIDE = "let it report again: adb shell cmd thermalservice reset"
_METER = (
    "see which check failed in docs/meters.md, and check the meter: edgebench meters selftest METER"
)
_SYNC = "give the meter's clock a load to align with: edgebench bench MODEL --sync coded_load"

ADVICE: Mapping[str, Mapping[str, str]] = {
    "complete": {"": "let it end: edgebench bench MODEL"},
    "real_time": {"": "measure on a real CPU: edgebench bench MODEL --on DEVICE"},
    "real_device": {"": "measure on a real device: edgebench bench MODEL --on DEVICE"},
    "enough_queries": {
        "": _LONGER,
        "max_duration": "allow more time, or ask for fewer queries: edgebench bench MODEL "
        "--max-duration 60m, or --min-queries 100",
    },
    "enough_time": {
        "": _LONGER,
        "no_time": "wire the meter to the board's pin, see docs/bring-your-own-board.md; then "
        "edgebench bench MODEL --meter METER",
        "heard": "time it by a meter: edgebench bench --on BOARD --meter METER",
    },
    "enough_windows": {"": _LONGER},
    "keeps_up": {"": "send fewer queries: edgebench bench MODEL --scenario server --qps N"},
    "latency_target": {
        "": "send fewer queries, or allow a longer latency: edgebench bench MODEL --scenario "
        "server --qps N --target-latency 50ms",
        "too_few": "measure more queries: edgebench bench MODEL --scenario server --qps N "
        "--min-queries 10000",
    },
    "loadgen": {
        "": "read why in the run's raw/ directory; most often it is too short: "
        "edgebench bench MODEL --engine loadgen --duration 600s"
    },
    "finite_outputs": {
        "": "give the model inputs that make sense: edgebench bench MODEL --inputs FILE.npz"
    },
    "dataset_complete": {
        "": "allow the data set more time: edgebench bench MODEL --accuracy DATASET "
        "--accuracy-limit 24h"
    },
    "accuracy_floor": {"": _ACCURACY},
    "accuracy": {"": _ACCURACY},
    "agreement": {
        "": "try another runtime or no delegate: edgebench bench MODEL --runtime all",
        "saturated": "quantise the weights to 7 bits, or use another runtime: edgebench bench "
        "MODEL --runtime all",
        "constant": "give the model inputs that change its outputs: edgebench bench MODEL --inputs "
        "FILE.npz",
    },
    "agreement_of_all": {
        "": "try another runtime or no delegate: edgebench bench MODEL --runtime all"
    },
    "delegation": {
        "": "see which delegates the device has: edgebench devices; or measure without one: "
        "edgebench bench MODEL"
    },
    "delegated_share": {
        "": "see which operators stay on the CPU: edgebench bench MODEL --delegate D --profile"
    },
    "profile": {"": "profile on another runtime: edgebench bench MODEL --profile --runtime onnx"},
    "harness_dominates": {"": _HARNESS},
    "harness_share": {"": _HARNESS},
    "binding_share": {
        "": "use the number to compare, not as the model's own time; a larger model hides the "
        "binding"
    },
    "steady_state": {
        "": _STEADIER,
        "levels": _LEVELS,
        "switching": _LEVELS,
        "slower": "see whether heat is the cause: edgebench bench MODEL --sustained 20m",
        "too_few": _LONGER,
    },
    "steady_share": {
        "": "warm up for as long as it took: edgebench bench MODEL --warmup WARMUP_COUNT"
    },
    "precision_floor": {"": _LONGER},
    "precision": {"": _LONGER},
    "spread": {"": _ALONE},
    "block_stability": {"": _OR_LONGER},
    "clock": {"": "let nothing set the device's clock during a run: timedatectl set-ntp false"},
    "clock_drift": {
        "": "let nothing set the device's clock during a run: timedatectl set-ntp false"
    },
    "frequency": {"": _GOVERNOR, "not_told": _SENSORS},
    "scheduling": {"": _SCHEDULING},
    "cpu_quota": {"": _QUOTA},
    "background_load": {"": _ALONE, "not_told": _SENSORS, "too_short": _LONGER},
    "cpu_pressure": {
        "": _ALONE,
        "not_told": _SENSORS,
        "quota": _QUOTA,
        "more_threads": "use no more threads than CPUs: edgebench bench MODEL --threads 1",
    },
    "cpu_share": {"": _ALONE, "quota": _QUOTA, "too_short": _LONGER},
    "memory_pressure": {"": _ROOM},
    "memory": {"": _ROOM},
    "swap": {"": _ROOM},
    "suspended": {
        "": "keep the device awake: on a phone, adb shell svc power stayon true; then edgebench "
        "bench MODEL --on DEVICE"
    },
    "charging": {
        "": "pull the cable (the run waits there for edgebench collect --on DEVICE); or, where the "
        "phone heeds it: adb shell setprop power.battery_input.suspended true, and false after",
        "faked": "let it report again: adb shell dumpsys battery reset",
    },
    "screen": {
        "": "switch the screen on, and keep it on: adb shell input keyevent 224; adb shell svc "
        "power stayon true"
    },
    "power_saver": {"": "switch the power saver off: adb shell settings put global low_power 0"},
    "phone_settings": {
        "": "leave the phone alone during the run, and measure again",
        "not_told": "let it sample: edgebench bench MODEL --telemetry-rate 10; or upgrade its "
        "agent: edgebench deploy adb:SERIAL",
    },
    "scheduling_group": {"": "keep the screen on: adb shell svc power stayon true"},
    "thermal_status_moderate": {"": _COOL, "overridden": _NO_OVERRIDE},
    "thermal_status": {"": _COOL, "overridden": _NO_OVERRIDE},
    "thermal": {
        "": _COOL,
        "not_looked_at": "let it sample: edgebench bench MODEL --telemetry-rate 10",
        "no_sensor": _SENSORS,
    },
    "interference": {
        "": _ALONE,
        "moved": _TYPES,
    },
    "start_temperature": {"": _COOL, "no_limit": _SENSORS, "not_read": _SENSORS},
    "nominal_clock": {"": _GOVERNOR, "no_clock": _SENSORS},
    "cooldown": {"": _COOL},
    "telemetry": {"": _SAMPLING},
    "known_model": {
        "": "measure a model file instead, where the firmware takes one: edgebench bench MODEL "
        "--on BOARD"
    },
    "inputs_read_back": {"": "look at the line to the board: edgebench bridge console BOARD"},
    "window_range": {"": _LONGER},
    "target_clock": {
        "": "state the rate of the board's counter in its firmware, see docs/firmware.md; then "
        "measure again: edgebench bench MODEL --on BOARD"
    },
    "meter": {"": _METER},
    "energy_sync": {
        "": _SYNC,
        "not_seen": f"see whether the meter is wired to this device; then {_SYNC}",
        "blind": f"see whether the meter is wired to this device; then {_SYNC}",
    },
    "energy_idle": {
        "": "end other programs on the device, and let it rest for longer around each run: "
        "edgebench bench MODEL --meter METER --idle 10s"
    },
    "energy_windows": {
        "": "make the windows longer: edgebench bench MODEL --meter METER --duration 120s"
    },
    "energy": {
        "": _METER,
        "simulated": "measure with a real meter: edgebench bench MODEL --meter METER; which there "
        "are: edgebench meters",
    },
    "run_count": {
        "": "make more runs (in a campaign's file, repeats = 5; with --against B, --pairs 10): "
        "edgebench bench MODEL --runs 5"
    },
    "between_runs_floor": {"": _MORE_RUNS},
    "between_runs": {"": _MORE_RUNS},
}
"""Advice by rule and reason; the empty reason is the default of a rule."""


_UNBOUND: Mapping[str, str] = {
    _ALONE: "end other programs on the device: top lists them",
    _OR_LONGER: "end other programs on the device (top lists them), or measure for longer: "
    "edgebench bench MODEL --duration 300s",
    _MORE_RUNS: "end other programs on the device (top lists them), and make more runs: edgebench "
    "bench MODEL --runs 15",
    _LEVELS: _GOVERNOR,
    _SCHEDULING: "start the agent as root for --priority realtime: edgebench bench MODEL",
    _TYPES: "measure when nothing else uses the memory of the device: edgebench bench MODEL",
    _SAMPLING: "sample less often: edgebench bench MODEL --telemetry-rate 2",
}
"""What is advised in place of CPUs, where none are left to choose."""
_AT_QUERY_LIMIT: Mapping[str, str] = dict.fromkeys((_LONGER, _STEADIER, _OR_LONGER), _ALONE)
"""What is advised in place of a longer run, where runs end by their number of queries."""
_WITHOUT_GOVERNORS: Mapping[str, str] = {_LEVELS: _TYPES, _GOVERNOR: _SHARED}
"""What is advised in place of a governor, where the kernel shows none."""


def advice(
    finding: Finding,
    *,
    can_bind: bool = True,
    has_governors: bool = True,
    can_be_longer: bool = True,
) -> str | None:
    """Advice for a finding; None if the rule passed, or nothing can be done.

    A rule that could not be checked has advice only for a specific reason.

    Args:
        finding: The finding.
        can_bind: Whether the model can be bound to CPUs that leave others to the rest.
        has_governors: Whether the kernel shows governors of the CPU's frequency.
        can_be_longer: Whether a run takes longer if it is asked to.
    """
    known = ADVICE.get(finding.id)
    if known is None or finding.outcome not in (RuleOutcome.FAIL, RuleOutcome.UNKNOWN):
        return None
    is_failure = finding.outcome is RuleOutcome.FAIL
    line = known.get(finding.reason or "", known[""] if is_failure else None)
    if line is not None and not can_be_longer:
        line = _AT_QUERY_LIMIT.get(line, line)
    if line is not None and not can_bind:
        line = _UNBOUND.get(line, line)
    if line is not None and not has_governors:
        line = _WITHOUT_GOVERNORS.get(line, line)
    return line


def without_repeats(lines: Iterable[str]) -> list[str]:
    """The lines in their order, each once, and none that another one contains."""
    once = dict.fromkeys(lines)
    return [line for line in once if not any(other != line and line in other for other in once)]
