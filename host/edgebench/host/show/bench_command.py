"""The command of `edgebench bench` that measures like stored runs, as far as they tell."""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edgebench.host.analysis.median import MIN_RUNS
from edgebench.host.devices.names import EMULATED, LOCAL_NAME
from edgebench.host.result.run import Run
from edgebench.protocol.spec import (
    CHANGED,
    DEFAULT_PRESET,
    MAX_SEED,
    PRESETS,
    SCENARIO_PRESETS,
    Engine,
    RunSpec,
    from_preset,
    shape_text,
    with_all_runs,
)

_USUAL_RUNTIMES = {"tflite": "litert", "onnx": "onnx"}
"""Runtime of each format of models that need not be named."""


def _seconds(value: float) -> str:
    return f"{value:g}s"


_OPTIONS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "threads": ("--threads", str),
    "delegate": ("--delegate", str),
    "signature": ("--signature", str),
    "cpus": ("--cpus", lambda cpus: ",".join(map(str, cpus))),
    "priority": ("--priority", lambda priority: priority.value),
    "governor": ("--governor", str),
    "screen_brightness": ("--brightness", str),
    "scenario": ("--scenario", lambda scenario: scenario.value),
    "samples_per_query": ("--samples-per-query", str),
    "engine": ("--engine", lambda engine: engine.value),
    "target_qps": ("--qps", "{:g}".format),
    "target_latency_s": ("--target-latency", lambda value: f"{value * 1e3:g}ms"),
    "min_query_count": ("--min-queries", str),
    "max_duration_s": ("--max-duration", _seconds),
    "warmup_query_count": ("--warmup", str),
    "seed": ("--seed", str),
    "dataset_sample_count": ("--accuracy-samples", str),
    "dataset_limit_s": ("--accuracy-limit", _seconds),
    "cooldown_timeout_s": ("--cooldown", _seconds),
    "telemetry_rate_hz": ("--telemetry-rate", "{:g}".format),
}
"""Option for each field of a specification that one option sets, and its value as text."""


def bench_words(run: Run, run_count: int) -> list[list[str]]:
    """Arguments of `edgebench bench` that make runs like these: the model, then each option.

    The model has no directory, as runs do not tell it. A meter is `METER`: which it was does not
    tell where it is plugged in now. The device is left out if it is this machine, and so are
    settings that are the default.

    Args:
        run: One of the runs.
        run_count: How many of them shared the duration and the queries that were asked for.
    """
    spec = with_all_runs(_as_asked(run), run_count)
    usual = _usual(spec)
    if 0 <= spec.min_query_count - usual.min_query_count < run_count:  # each run's were rounded up
        spec = replace(spec, min_query_count=usual.min_query_count)
    words = [[run.model.name]]
    if (address := device_address(run)) is not None:
        words.append(["--on", address])
    if _USUAL_RUNTIMES.get(run.model.format, run.runtime.name) != run.runtime.name:
        words.append(["--runtime", run.runtime.name])
    if usual.preset != DEFAULT_PRESET:
        words.append(["--quick"] if usual.preset == "quick" else ["--preset", usual.preset])
    if spec.is_sustained:
        words.append(["--sustained", _seconds(spec.duration_s)])
    elif not _is_same(spec.duration_s, usual.duration_s):
        words.append(["--duration", _seconds(spec.duration_s)])
    for name, (option, as_text) in _OPTIONS.items():
        value = getattr(spec, name)
        if value is not None and not _is_same(value, getattr(usual, name)):
            words.append([option, as_text(value)])
    for name, shape in sorted(spec.input_shapes.items()):
        words.append(["--shape", f"{name}={shape_text(shape)}"])
    # A target repeats windows, not runs, and of some kinds there is only one run.
    is_one = run.spec.engine is Engine.TARGET or spec.is_sustained or spec.is_profiled
    optional = {
        "--inputs": run.conditions.inputs_file,
        "--accuracy": accuracy.dataset if (accuracy := run.metrics.accuracy) else None,
        "--meter": "METER" if run.metrics.energy is not None else None,
        "--runs": None if run_count == MIN_RUNS or is_one else str(run_count),
    }
    words += [[option, value] for option, value in optional.items() if value is not None]
    words += [["--airplane-mode"]] * spec.is_airplane_mode
    words += [["--profile"]] * spec.is_profiled + [["--no-check"]] * (not spec.is_checked)
    return words


def _as_asked(run: Run) -> RunSpec:
    """What was asked for, of which each run of a set, and the later ones of pairs, do a part."""
    spec = run.spec
    if spec.engine is Engine.TARGET:  # where the model runs decides it
        spec = replace(spec, engine=Engine.NATIVE)
    place = run.member or run.pair
    if place is not None and place.number > 0:
        drawn = run.member.number if run.member is not None else 0
        spec = replace(spec, is_checked=True, seed=(spec.seed - drawn) % MAX_SEED)
    return spec


def _usual(spec: RunSpec) -> RunSpec:
    """The specification that its preset alone makes, and what follows from its duration."""
    preset = spec.preset.removesuffix(CHANGED)
    if preset not in PRESETS:  # one of another version
        return from_preset(DEFAULT_PRESET)
    usual = from_preset(preset, duration_s=spec.duration_s)
    of_scenario = SCENARIO_PRESETS.get((preset, spec.scenario), {})
    return replace(usual, preset=preset, duration_s=PRESETS[preset]["duration_s"], **of_scenario)


def _is_same(value: object, usual: object) -> bool:
    if isinstance(value, float) and isinstance(usual, float):
        return math.isclose(value, usual, rel_tol=1e-6)
    return value == usual


def device_address(run: Run) -> str | None:
    """The device as `--on` takes it; None for this machine."""
    firmware = run.conditions.firmware
    if firmware is not None and firmware.emulator is not None and firmware.emulator.name == "QEMU":
        return f"{EMULATED}{firmware.emulator.machine}"  # one of Renode's is an agent's, by name
    return None if run.device.name in (LOCAL_NAME, platform.node()) else run.device.name
