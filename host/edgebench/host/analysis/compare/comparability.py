"""Properties that two runs must have in common for a comparison of their numbers.

The fingerprint of a run contains device, runtime, settings and conditions, that is, everything that
changes the run's numbers and is not under test. The model is usually under test and is not part of
the fingerprint. A comparison lists the keys in which the sides differ. The comparison is refused
unless the user allows these keys, for example to measure the effect of such a key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from operator import attrgetter

from edgebench.host.analysis.cpu_quota import tightest_quota
from edgebench.host.result.run import Run
from edgebench.protocol.device import Environment
from edgebench.protocol.errors import NotComparable, UsageError, unknown_name
from edgebench.protocol.spec import SCENARIOS, shape_text


def _device(run: Run) -> object:
    """Id of the device, or the emulated machine if instructions are counted."""
    firmware = run.conditions.firmware
    is_counted = run.metrics.instructions_per_inference is not None
    if is_counted and firmware is not None and firmware.emulator is not None:
        return firmware.emulator.machine
    return run.device.id


def _of_machine(part: Callable[[Environment], object]) -> Callable[[Run], object]:
    """A property of the machine; None if the device is a board attached to the machine."""
    return lambda run: None if run.conditions.firmware else part(run.environment)


def _firmware(run: Run) -> object:
    """Hash of the image, or reported version, of the program on a device that times itself."""
    firmware = run.conditions.firmware
    return firmware and (firmware.sha256 or f"{firmware.name} {firmware.version}")


def _emulator(run: Run) -> object:
    firmware = run.conditions.firmware
    emulator = firmware.emulator if firmware else None
    return emulator and f"{emulator.name} {emulator.version}, {emulator.instruction_ns} ns"


def _cpu_quota(run: Run) -> object:
    """Tightest quota of CPU time, as a number of CPUs."""
    scheduling = run.conditions.scheduling
    quota = tightest_quota(scheduling) if scheduling is not None else None
    return quota and quota.cpu_count


def _android_build(around: Environment) -> object:
    """Build of a phone's system, because an update may change its clocks and scheduling."""
    return around.android and (around.android.fingerprint_sha256 or around.android.security_patch)


def _android_group(run: Run) -> object:
    """Control group that determined on which CPUs of a phone the model ran."""
    scheduling = run.conditions.scheduling
    groups = scheduling.android if scheduling is not None else None
    return groups and groups.cpuset


def _supply(run: Run) -> object:
    """Supply voltage that the meter set; for older runs, taken from the recorded command line."""
    supply_v = run.conditions.supply_v
    if supply_v is None and run.command is not None:
        metered = (words for words in run.command.arguments if words[:1] == ("--meter",))
        meter = next((words[1] for words in metered if len(words) > 1), None)
        if meter is None:
            return None
        from edgebench.meters.registry import supply_of  # `show` loads no meters

        with suppress(UsageError):  # a meter at an agent, or of another version
            supply_v = supply_of(meter)
    return supply_v and f"{supply_v:g} V"


KEYS: dict[str, Callable[[Run], object]] = {
    "device": _device,
    "arch": lambda run: run.device.arch,
    "os": lambda run: run.device.os,
    "cpu": _of_machine(lambda around: around.cpu.model),
    "usable_cpus": _of_machine(lambda around: around.cpu.usable_count),
    "memory": _of_machine(lambda around: around.memory_total_bytes),
    "kernel": _of_machine(lambda around: around.kernel),
    "virtualization": _of_machine(lambda around: around.virtualization),
    "android_build": _of_machine(_android_build),
    "android_group": _android_group,
    "python": _of_machine(lambda around: around.python),
    "packages": _of_machine(lambda around: around.packages),
    "firmware": _firmware,
    "emulator": _emulator,
    "model_source": lambda run: "file" if run.model.sha256 else "firmware",
    "runtime": lambda run: run.runtime.name,
    "runtime_version": lambda run: run.runtime.version,
    "delegates_used": lambda run: run.runtime.delegates_used,
    "scenario": lambda run: run.spec.scenario,
    "engine": lambda run: run.spec.engine,
    "threads": lambda run: run.spec.threads,
    "delegate": lambda run: run.spec.delegate,
    "signature": lambda run: run.spec.signature,
    **{  # settings that exist only in some scenarios
        name: attrgetter(f"spec.{name}")
        for traits in SCENARIOS.values()
        for name in traits.settings
    },
    "sample_count": lambda run: run.spec.sample_count,
    "input_shapes": lambda run: {
        name: shape_text(shape) for name, shape in run.spec.input_shapes.items()
    },
    "inputs": lambda run: run.spec.inputs_sha256,
    "duration": lambda run: run.spec.duration_s,
    "cpus": lambda run: run.conditions.scheduling and run.conditions.scheduling.cpus,
    "cpu_quota": _cpu_quota,
    "policy": lambda run: run.conditions.scheduling and run.conditions.scheduling.policy,
    "governor": lambda run: run.conditions.before and run.conditions.before.governors,
    "supply": _supply,
    "airplane_mode": lambda run: run.spec.is_airplane_mode,
    "screen_brightness": lambda run: run.spec.screen_brightness,
    "kind": lambda run: run.kind,
    "emulated": lambda run: run.emulated,
    "simulated": lambda run: run.simulated,
}
"""Maps each key of a fingerprint to the function that returns its value."""

KEYS_OF_DEVICE = frozenset(
    {
        *("device", "arch", "os", "cpu", "usable_cpus", "memory", "kernel", "virtualization"),
        *("android_build", "android_group", "python", "packages", "firmware", "emulator"),
        *("cpus", "cpu_quota", "governor", "emulated", "simulated"),
    }
)
"""Keys that usually differ if the devices differ."""
IMPLIED = {"runtime": frozenset({"runtime_version", "delegates_used", "delegate"})}
"""Maps an allowed key to further keys that are then allowed too, such as a runtime's version."""

Fingerprint = dict[str, str]
Differences = dict[str, tuple[str, ...]]
"""Maps each key in which runs differ to the values that occur."""


def fingerprint(run: Run, keys: Iterable[str] = KEYS) -> Fingerprint:
    """Maps keys to properties that must be equal for a comparison; `none` if absent."""
    return {key: _text(KEYS[key](run)) for key in keys}


def differences(runs: Iterable[Run]) -> Differences:
    """Keys in which these runs differ, with the values that occur."""
    prints = [fingerprint(run) for run in runs]
    by_key = {key: tuple(dict.fromkeys(fingerprint[key] for fingerprint in prints)) for key in KEYS}
    return {key: values for key, values in by_key.items() if len(values) > 1}


def unshown_differences(runs: Sequence[Run]) -> Differences:
    """Differences that are not visible in a table with columns for model, runtime and device."""
    shown = shown_keys(runs)
    return {key: values for key, values in differences(runs).items() if key not in shown}


def shown_keys(runs: Sequence[Run]) -> set[str]:
    """Keys whose differences are visible in a table with columns for model, runtime and device."""
    found = differences(runs)
    implied = {"runtime": {"runtime", *IMPLIED["runtime"]}, "device": KEYS_OF_DEVICE}
    return {key for name, keys in implied.items() if name in found for key in keys}


def check_keys(allowed: Collection[str]) -> None:
    """Refuse keys that do not exist.

    Raises:
        UsageError: a key does not exist.
    """
    if unknown := set(allowed) - KEYS.keys():
        raise unknown_name("key", min(unknown), KEYS)


def check_comparable(
    baseline: Sequence[Run], candidate: Sequence[Run], allowed: Collection[str] = ()
) -> Differences:
    """Refuse runs that differ in more than the model and the allowed keys.

    Returns:
        The differences that were allowed.

    Raises:
        NotComparable: the runs differ in a key that is not allowed.
        UsageError: a key does not exist, or a side has several models.
    """
    check_keys(allowed)
    allowed = set(allowed).union(*(IMPLIED.get(key, ()) for key in allowed))
    for side, runs in (("baseline", baseline), ("candidate", candidate)):
        # Models without a file count as the same model if they have the same name.
        names = {
            (model := run.model).sha256 or f"in firmware: {model.name}": model.name for run in runs
        }
        if len(names) > 1:
            raise UsageError(f"{side} has several models: {', '.join(names.values())}")
    differing = differences([*baseline, *candidate])
    refused = [
        f"{key} ({' / '.join(values)})" for key, values in differing.items() if key not in allowed
    ]
    if refused:
        keys = [key for key in differing if key not in allowed]
        followed = {key for name in keys for key in IMPLIED.get(name, ())}
        keys = [key for key in keys if key not in followed]
        text = f"runs cannot be compared, they differ in {', '.join(refused)}"
        ids = {run.pair.comparison_id if run.pair else None for run in (*baseline, *candidate)}
        raise NotComparable(text, keys, ids.pop() if len(ids) == 1 else None)
    return differing


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value[name]}" for name in sorted(value)) or "none"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float):  # hide rounding: 0.3 s / 3 is not exactly 0.1 s
        return str(round(value, 12))
    return "none" if value is None else str(value)
