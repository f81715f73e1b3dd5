"""The `edgebench bench` command that repeats stored runs, with the options that the runs record."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from edgebench.host.analysis.median import MIN_RUNS
from edgebench.host.devices.names import EMULATED, LOCAL_NAME, SEAT_MARK, address_of
from edgebench.host.options.bench import SETTINGS, words_of
from edgebench.host.options.command import CommandLine
from edgebench.host.result.facts import BASELINE, CANDIDATE
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.protocol.spec import (
    DEFAULT_PRESET,
    MAX_SEED,
    PRESETS,
    SCENARIO_PRESETS,
    Engine,
    RunSpec,
    SpecChanges,
    base_preset,
    from_preset,
    usual_run_count,
    with_all_runs,
)

_USUAL_RUNTIMES = {"tflite": "litert", "onnx": "onnx"}
"""Maps each model format to its default runtime, which the command omits."""
_RECORDED = frozenset(SpecChanges.__annotations__) | {
    *("on", "runtime", "load_timeout_s", "memory_limit_bytes", "sustained_s", "preset", "runs"),
    *("supply_v", "reference"),
}
"""Fields of options that runs record. `reference` is included so that this option is not copied
from the command. A copy is not needed, because the same command also measures the reference. The
reference may even be the run itself."""
_AS_TYPED = {option.flag for option in SETTINGS if option.field not in _RECORDED}
"""Options that runs record only in part, such as the names of files, or not at all, such as meters.
Their values are copied from the command that made a run."""


def command_line_of(run: Run, run_count: int) -> CommandLine:
    """The command that made these runs; see `bench_words` for the parameters.

    A model in firmware has no file; for such a model, the command has no arguments.
    """
    spec = with_all_runs(_requested_spec(run), run_count)
    words = [] if run.model.sha256 is None else bench_words(run, run_count)
    address = device_address(run)
    return CommandLine(
        command="bench",
        arguments=tuple(map(tuple, words)),
        settings={**_by_field(spec), "runs": run_count},
        names={"DEVICE": (LOCAL_NAME if address is None else address,)},
    )


def run_count_of(run: Run) -> int:
    """Number of runs needed to repeat the measurement that this run belongs to."""
    if run.member is not None:
        return run.member.count
    return 1 if run.pair is None else MIN_RUNS


def command_line_of_sets(sets: Sequence[RunSet]) -> CommandLine | None:
    """The command that makes all of these sets; None if several commands are needed.

    If one command made exactly these sets, it is returned as typed. Otherwise the command names all
    models. If the sets are the two sides of pairs, the candidate is the value of --against.
    """
    firsts = [run_set.first for run_set in sets]
    pairs = [run.pair for run in firsts if run.pair is not None]
    # Each run of a pair has the whole duration.
    run_count = 1 if pairs else max(map(run_count_of, firsts))
    lines = [command_line_of(run, run_count) for run in firsts]
    pair_count = max(run_set.planned_count for run_set in sets)
    settings = {**lines[0].settings, "runs": pair_count if pairs else run_count}
    if (typed := _typed(firsts)) is not None:
        return replace(lines[0], arguments=typed, settings=settings)
    models, options = [line.arguments[:1] for line in lines], lines[0].arguments[1:]
    if not all(models) or any(line.arguments[1:] != options for line in lines):
        return None
    named = tuple(dict.fromkeys(words for model in models for words in model))
    if pairs:
        sides = {pair.side: words for pair, [words] in zip(pairs, models, strict=False)}
        if len(pairs) != len(sets) or len({pair.comparison_id for pair in pairs}) > 1:
            return None
        if sides.keys() != {BASELINE, CANDIDATE}:
            return None
        options = tuple(words for words in options if words[0] != "--runs")
        named = (sides[BASELINE],)
        options = (*options, ("--against", *sides[CANDIDATE]))
    return replace(lines[0], arguments=(*named, *options), settings=settings)


def _typed(runs: Sequence[Run]) -> tuple[tuple[str, ...], ...] | None:
    """Arguments of the command that made these runs.

    None in these cases: the command is not known, several commands made the runs, or the models in
    the command are not exactly the models of these runs.
    """
    commands = {run.command for run in runs}
    made_by = commands.pop() if len(commands) == 1 else None
    if made_by is None or not made_by.arguments:
        return None
    given = CommandLine(arguments=made_by.arguments)
    named = {PurePath(name).name for name in (*given.models, given.value("candidate")) if name}
    return made_by.arguments if named == {run.model.name for run in runs} else None


def is_of_demo(run: Run) -> bool:
    """Whether a run was made by `edgebench demo`, whose simulated board is gone."""
    if not run.simulated or run.command is None:
        return False
    return CommandLine(arguments=run.command.arguments).value("on") is None


def bench_words(run: Run, run_count: int) -> list[list[str]]:
    """Arguments of `edgebench bench` that repeat these runs, the model before the options.

    Files are named as in the command that made the run, or else by their names alone. Runs do
    not record the meter's name: it is taken from the command that made the run, or else is `METER`.
    The device is omitted if it is this machine; settings with default values are omitted.

    Args:
        run: One of the runs.
        run_count: Number of runs among which the requested duration and queries are divided.
    """
    spec = with_all_runs(_requested_spec(run), run_count)
    usual = _usual(spec)
    if 0 <= spec.min_query_count - usual.min_query_count < run_count:  # rounded up for each run
        spec = replace(spec, min_query_count=usual.min_query_count)
    before = _by_field(usual)
    settings = {
        name: value for name, value in _by_field(spec).items() if not _is_same(value, before[name])
    }
    if (address := device_address(run)) is not None:
        settings["on"] = [address]
    if _USUAL_RUNTIMES.get(run.model.format, run.runtime.name) != run.runtime.name:
        settings["runtime"] = run.runtime.name
    if usual.preset != DEFAULT_PRESET:
        settings["preset"] = usual.preset
    if spec.is_sustained:
        settings |= {"sustained_s": spec.duration_s, "duration_s": None}
    # A target repeats windows, not runs; sustained and profiled runs are always single.
    is_one = run.spec.engine is Engine.TARGET or spec.is_sustained or spec.is_profiled
    if run_count != usual_run_count(usual.preset) and not is_one:
        settings["runs"] = run_count
    settings["inputs"] = run.conditions.inputs_file
    if run.metrics.accuracy is not None:
        settings["accuracy"] = run.metrics.accuracy.dataset
    if run.metrics.energy is not None:
        settings["meter"] = "METER"
    given = [list(words) for words in run.command.arguments] if run.command is not None else []
    # The text of a meter, in the command, may have the voltage, too.
    is_typed = not given or any(words[0] == "--supply" for words in given)
    if run.conditions.supply_v is not None and is_typed:  # it needs a meter, even if the run failed
        settings |= {"supply_v": run.conditions.supply_v, "meter": "METER"}
    typed = [words for words in given if words[0] in _AS_TYPED]
    flags = {words[0] for words in typed}
    words = [words for words in words_of(settings) if words[0] not in flags]
    return [[model_as_named(run)], *words, *typed]


def model_as_named(run: Run) -> str:
    """The model of a run as named in the command that made the run, or else the file's name."""
    given = CommandLine(arguments=() if run.command is None else run.command.arguments)
    names = filter(None, (*given.models, given.value("candidate")))
    return next((name for name in names if PurePath(name).name == run.model.name), run.model.name)


def _by_field(spec: RunSpec) -> dict[str, object]:
    """Map the field of each option to its value in the specification."""
    return {
        **{name: getattr(spec, name) for name in SpecChanges.__annotations__},
        "load_timeout_s": spec.limits.load_timeout_s,
        "memory_limit_bytes": spec.limits.memory_bytes,
    }


def _requested_spec(run: Run) -> RunSpec:
    """The specification as requested.

    In a set or in pairs, all runs except the first skip the checks; in a set, each run also has a
    different seed. Both changes are undone here.
    """
    spec = run.spec
    if spec.engine is Engine.TARGET:  # the device determines this engine
        spec = replace(spec, engine=Engine.NATIVE)
    place = run.member or run.pair
    if place is not None and place.number > 0:
        drawn = run.member.number if run.member is not None else 0
        typed = () if run.command is None else run.command.arguments
        is_checked = not any(words[0] == "--no-check" for words in typed)
        spec = replace(spec, is_checked=is_checked, seed=(spec.seed - drawn) % MAX_SEED)
    return spec


def _usual(spec: RunSpec) -> RunSpec:
    """The specification from the preset, with the values that depend on the run's duration."""
    preset = base_preset(spec.preset)
    if preset not in PRESETS:  # a preset of another version
        return from_preset(DEFAULT_PRESET)
    usual = from_preset(preset, duration_s=spec.duration_s)
    of_scenario = SCENARIO_PRESETS.get((preset, spec.scenario), {})
    return replace(usual, preset=preset, duration_s=PRESETS[preset]["duration_s"], **of_scenario)


def _is_same(value: object, usual: object) -> bool:
    if isinstance(value, float) and isinstance(usual, float):
        return math.isclose(value, usual, rel_tol=1e-6)
    return value == usual


def device_address(run: Run) -> str | None:
    """The device as the value of `--on`; None for this machine."""
    firmware, name = run.conditions.firmware, run.device.name
    if name in (LOCAL_NAME, platform.node()):
        return None
    given = run.command.arguments if run.command is not None else ()
    selections = [value for words in given if words[0] == "--on" for value in words[1:]]
    emulator = None if firmware is None else firmware.emulator
    if emulator is not None and emulator.name == "QEMU":
        emulated = f"{EMULATED}{emulator.machine}"
        return address_of(emulated, selections) or emulated
    # A run does not record the agent that its board, or a machine of Renode, is connected to.
    unknown = name if firmware is None else f"AGENT{SEAT_MARK}{name}"
    return address_of(name, selections) or unknown
