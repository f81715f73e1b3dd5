"""Conditions of a run as rows of a page, and the command that repeats the run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.host.analysis.compare.comparability import KEYS, fingerprint
from edgebench.host.result.facts import BASELINE, CANDIDATE, side_id
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.show.page import confinement_line
from edgebench.host.show.units import ABSENT, format_ns, format_size
from edgebench.host.show.verdict import device_address
from edgebench.protocol.spec import DEFAULT_PRESET, PRESETS, Engine, Priority, Scenario


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """One condition with its value in each column of a page."""

    name: str
    values: tuple[str, ...]

    @property
    def is_different(self) -> bool:
        """Whether the columns differ."""
        return len(set(self.values)) > 1


def condition_rows(sets: Sequence[RunSet]) -> list[ConditionRow]:
    """Conditions of the first run of each set, those that differ first.

    A condition that is absent in all sets has no row.
    """
    columns = [_conditions(one.first) for one in sets]
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
    known["duration"] = f"at least {format_ns(run.spec.duration_s * 1e9)}"
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
        "other processes": _share(conditions.background_busy_ratio),
        "power source": conditions.power_source or ABSENT,
        "ambient": ABSENT if conditions.ambient_c is None else f"{conditions.ambient_c:g} °C",
        "inputs drawn or given": conditions.inputs_file or "drawn from the seed",
    }
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


def _share(ratio: float | None) -> str:
    return ABSENT if ratio is None else f"{ratio:.1%} of the CPU time"


def commands_of(sets: Sequence[RunSet]) -> list[str]:
    """The command that repeats each set; for both sides of a comparison in pairs, the same one."""
    by_id = {one.set_id: one for one in sets if one.set_id is not None}
    commands: list[str] = []
    for one in sets:
        pair = one.first.pair
        ids = [side_id(pair.comparison_id, side) for side in (BASELINE, CANDIDATE)] if pair else []
        sides = [by_id[name] for name in ids if name in by_id]
        commands.append(command_of(*sides) if len(sides) == 2 else command_of(one))
    return commands


def command_of(one: RunSet, candidate: RunSet | None = None) -> str:
    """The command that repeats the runs, with the models in the current directory.

    Args:
        one: The set; the baseline, if there is a candidate.
        candidate: The other side of a comparison in pairs.
    """
    run = one.first
    # Only the runs of a set share the duration and the queries; those of pairs do not.
    spec, count = run.spec, max(1, one.planned_count) if candidate is None else 1
    words = ["edgebench", "bench", run.model.name]
    if candidate is not None:
        pair_count = max(one.planned_count, candidate.planned_count)
        words += ["--against", candidate.model, "--pairs", str(pair_count)]
    if candidate is None or candidate.runtime == one.runtime:
        words += ["--runtime", run.runtime.name]
    else:
        words += ["--allow", "runtime"]
    if (device := device_address(run)) is not None:
        words += ["--on", device]
    if spec.preset != DEFAULT_PRESET:
        words += ["--preset", spec.preset]
    preset = PRESETS.get(spec.preset, {})
    duration_s, query_count = spec.duration_s * count, spec.min_query_count * count
    if spec.is_sustained:
        words += ["--sustained", f"{duration_s:g}s"]
    elif abs(duration_s - preset.get("duration_s", 0.0)) > 1e-6:
        words += ["--duration", f"{duration_s:g}s"]
    # Queries are divided among the runs, and rounded up.
    if not 0 <= query_count - preset.get("min_query_count", 0) < count:
        words += ["--min-queries", str(query_count)]
    if spec.scenario is not Scenario.SINGLE_STREAM:
        words += ["--scenario", spec.scenario.value]
    if spec.engine is Engine.LOADGEN:
        words += ["--engine", spec.engine.value]
    optional = {
        "--threads": spec.threads if spec.threads != 1 else None,
        "--delegate": spec.delegate,
        "--seed": spec.seed or None,
        "--cpus": ",".join(map(str, spec.cpus)) or None,
        "--priority": spec.priority.value if spec.priority is not Priority.NORMAL else None,
        "--governor": spec.governor,
        "--qps": spec.target_qps,
        "--target-latency": spec.target_latency_s and f"{spec.target_latency_s * 1e3:g}ms",
        "--inputs": run.conditions.inputs_file,
        "--ambient": run.conditions.ambient_c,
        "--meter": "METER" if run.metrics.energy is not None else None,
        "--runs": count if candidate is None else None,
    }
    for name, value in optional.items():
        if value is not None:
            words += [name, f"{value:g}" if isinstance(value, float) else str(value)]
    words += ["--profile"] if spec.is_profiled else []
    words += [] if spec.is_checked else ["--no-check"]
    return shlex.join(words)
