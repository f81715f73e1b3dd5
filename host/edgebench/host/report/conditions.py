"""Conditions of runs as table rows, and the command that repeats a run."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgebench.host.analysis.compare.comparability import KEYS, fingerprint
from edgebench.host.result.facts import BASELINE, CANDIDATE, side_id
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import ABSENT, format_ns, format_size
from edgebench.host.show.bench_command import bench_words, is_of_demo
from edgebench.host.show.page import confinement_line
from edgebench.host.show.times import simulated_pace
from edgebench.protocol.percent import format_percent
from edgebench.protocol.spec import usual_run_count


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """A condition with its value in each column of a page."""

    name: str
    values: tuple[str, ...]

    @property
    def is_different(self) -> bool:
        """Whether the columns differ."""
        return len(set(self.values)) > 1


def condition_rows(sets: Sequence[RunSet]) -> list[ConditionRow]:
    """Conditions of the first run of each set, differing conditions first.

    A condition that is absent in all sets has no row.
    """
    columns = [_conditions(run_set.first) for run_set in sets]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [
        ConditionRow(name, tuple(column.get(name, ABSENT) for column in columns)) for name in names
    ]
    known = [row for row in rows if set(row.values) - {ABSENT, "none", "False"}]
    return sorted(known, key=lambda row: not row.is_different)


def _conditions(run: Run) -> dict[str, str]:
    conditions, environment = run.conditions, run.environment
    known = fingerprint(run)
    if environment.memory_total_bytes is not None and run.conditions.firmware is None:
        known["memory"] = format_size(environment.memory_total_bytes)
    known["duration"] = f"at least {format_ns(run.spec.duration_s * 1e9)}{simulated_pace(run)}"
    busy_ratio = conditions.background_busy_ratio
    rows = {
        "model": run.model.name,
        "model SHA-256": (run.model.sha256 or ABSENT)[:16],
        "model size": format_size(run.model.size_bytes),
        "precision": run.model.precision or ABSENT,
        **{key.replace("_", " "): known[key] for key in KEYS},
        "SoC": run.device.soc,
        "profile": run.device.profile,
        "agent": environment.agent_version,
        "preset": run.spec.preset,
        "seed": str(run.spec.seed),
        "CPU features": ", ".join(environment.cpu.features or ()) or ABSENT,
        "load average before": _plain(environment.load_1m),
        "load average after": _plain(conditions.load_1m_after),
        "other processes": ABSENT
        if busy_ratio is None
        else f"{format_percent(busy_ratio, 1)} of the CPU time",
        "power source": conditions.power_source or ABSENT,
        "ambient": ABSENT if conditions.ambient_c is None else f"{conditions.ambient_c:g} °C",
        "inputs drawn or given": conditions.inputs_file or "drawn from the seed",
    }
    if conditions.settings is not None:
        effective = conditions.settings.threads.effective
        rows["threads in effect"] = ABSENT if effective is None else str(effective)
        rows["signature in effect"] = run.model.signature or ABSENT
    if conditions.confinement is not None:
        rows["confinement"] = confinement_line(conditions.confinement)
    if conditions.telemetry is not None:
        telemetry = conditions.telemetry
        rows["telemetry"] = f"{len(telemetry.sensors)} sensors at {telemetry.rate_hz:g} Hz"
    absent = dict(conditions.telemetry_absent)
    if (reason := absent.pop("all", None)) is not None:
        rows["no telemetry"] = reason
    if absent:
        rows["not readable"] = "; ".join(f"{sensor}: {why}" for sensor, why in absent.items())
    return rows


def _plain(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.2f}"


def commands_of(sets: Sequence[RunSet]) -> list[str]:
    """The command that made each set or, if it was not recorded, a command that repeats the run.

    The recorded command of a demonstration is not used, because it does not name the simulated
    device, and that device no longer exists. Both sides of a paired comparison have the same
    command.
    """
    by_id = {run_set.set_id: run_set for run_set in sets if run_set.set_id is not None}
    commands: list[str] = []
    for run_set in sets:
        made_by = run_set.first.command
        if made_by is not None and not is_of_demo(run_set.first):
            commands.append(shlex.join(["edgebench", "bench", *made_by.words]))
            continue
        pair = run_set.first.pair
        ids = [side_id(pair.comparison_id, side) for side in (BASELINE, CANDIDATE)] if pair else []
        sides = [by_id[name] for name in ids if name in by_id]
        commands.append(command_of(*sides) if len(sides) == 2 else command_of(run_set))
    return commands


def command_of(run_set: RunSet, candidate: RunSet | None = None) -> str:
    """The command that repeats the runs, with the models in the current directory.

    The command includes the runtime, because the default runtime differs between machines.

    Args:
        run_set: The set, or the baseline of a paired comparison.
        candidate: The other side of a paired comparison.
    """
    run, count = run_set.first, max(1, run_set.planned_count)
    if candidate is None:
        model, *options = bench_words(run, count)
        options = [["--runtime", run.runtime.name], *_without("--runtime", options)]
        if count == usual_run_count(run.spec.preset):
            options.append(["--runs", str(count)])
    else:  # only the runs of a set share the duration and the queries
        model, *options = bench_words(run, 1)
        options = _without("--runtime", _without("--runs", options))
        is_shared = candidate.runtime == run_set.runtime
        runtime = ["--runtime", run.runtime.name] if is_shared else ["--allow", "runtime"]
        pair_count = max(count, candidate.planned_count)
        options = [["--against", candidate.model], ["--pairs", str(pair_count)], runtime, *options]
    if run.conditions.ambient_c is not None:
        options.append(["--ambient", f"{run.conditions.ambient_c:g}"])
    return shlex.join(
        ["edgebench", "bench", *model, *(word for words in options for word in words)]
    )


def _without(option: str, options: Iterable[list[str]]) -> list[list[str]]:
    return [words for words in options if words[0] != option]
