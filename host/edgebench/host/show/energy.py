"""Energy of a run for the terminal, with its uncertainty, boundary and assumptions."""

from __future__ import annotations

from collections.abc import Mapping

from edgebench.host.result.energy import (
    ASSUMED_GAIN,
    BatteryLife,
    EnergyResult,
    PhaseEnergy,
    QueryEnergy,
    TraceAssumption,
    TraceFile,
)
from edgebench.host.result.reasons.table import text_of
from edgebench.host.result.units import (
    format_joules,
    format_joules_within,
    format_lasting,
    format_ns,
    format_rate,
    format_ratio,
    format_uncertainty_joules,
    format_watts,
    format_watts_within,
)
from edgebench.protocol.percent import format_percent

_SHOWN_COMPONENTS = 3
_PHASES = ("load", "warmup", "steady")
_ASSUMED = {
    TraceAssumption.GAIN: (
        f"a gain error of {format_percent(ASSUMED_GAIN)}, because --gain was not given"
    ),
    TraceAssumption.OFFSET: "no offset of the instrument, because --offset was not given",
    TraceAssumption.INSTANTS: "samples are instants, because --samples was not given",
}
_MANY = 1e6
"""Numbers of inferences above this limit are rounded to three digits."""


def energy_lines(energy: EnergyResult | None) -> list[tuple[str, str]]:
    """Name and text of each line; empty if no meter was used."""
    if energy is None:
        return []
    if energy.refused is not None or energy.gross_j_per_inference is None:
        return [("energy", f"refused: {energy.refused}"), ("meter", energy.meter)]
    parts = []
    for name, power_w, u95_w in (
        ("mean", energy.power_w_mean, energy.power_w_mean_u95_absolute),
        ("idle", energy.power_w_idle, energy.power_w_idle_u95_absolute),
        ("highest sample", energy.power_w_peak, energy.power_w_peak_u95_absolute),
    ):
        if power_w is not None:
            parts.append(f"{name} {format_watts_within(power_w, u95_w)}")
    lines = [
        ("energy", _gross(energy, energy.gross_j_per_inference)),
        *([("", _edges(energy))] if energy.edge_windows else []),
        ("", _net(energy)),
        ("power", ", ".join(parts)),
        ("uncertainty", _uncertainty(energy)),
    ]
    if energy.per_query is not None:
        lines.append(("per inference", _per_query(energy.per_query)))
    if energy.phases is not None:
        lines.append(("phases", _phases(energy.phases)))
    if energy.battery is not None:
        lines.append(("battery", _battery(energy.battery)))
    supply = "" if energy.supply_v is None else f", supply {energy.supply_v:g} V as stated or set"
    lines.append(("meter", f"{energy.meter}{supply}; boundary: {energy.boundary}"))
    if energy.sync is not None:
        others = [
            f"{attempt.method.value} {format_ns(attempt.error_ns)}"
            if attempt.error_ns is not None
            else f"{attempt.method.value}: {attempt.reason}"
            for attempt in energy.sync.tried
            if attempt.method is not energy.sync.method
        ]
        rest = f"; other methods: {'; '.join(others)}" if others else ""
        method = energy.sync.method.value if energy.sync.method else "none"
        lines.append(("clocks", f"{method}, within {format_ns(energy.sync.error_ns)}{rest}"))
    if energy.trace is not None:
        lines.append(("trace", _trace(energy.trace)))
        lines += [("assumed", _ASSUMED[quantity]) for quantity in energy.trace.assumed]
        lines += [("reading", text_of((note,))) for note in energy.trace.reading]
    return lines


def _gross(energy: EnergyResult, gross_j: float) -> str:
    parts = [f"{format_joules_within(gross_j, energy.u95_absolute_j)} per inference, gross"]
    if energy.inferences_per_j is not None and energy.u95_absolute_j is not None and gross_j:
        ratio = energy.u95_absolute_j / abs(gross_j)
        per_j = format_rate(energy.inferences_per_j, ratio * energy.inferences_per_j)
        parts.append(f"{per_j} inferences/J")
    parts.append(f"over {energy.inference_count} in {energy.duration_s or 0:.3g} s")
    return ", ".join(parts)


def _edges(energy: EnergyResult) -> str:
    """Median and range of the energies of windows between edges at an input of the meter."""
    energies_j = (edge_window.energy_j_per_inference for edge_window in energy.edge_windows)
    each_j = [energy_j for energy_j in energies_j if energy_j is not None]
    span = f"{format_joules(min(each_j))} to {format_joules(max(each_j))}"
    return (
        f"median of {len(each_j)} windows between edges at input {energy.edge_input} of the meter; "
        f"the windows have {span}"
    )


def _net(energy: EnergyResult) -> str:
    if energy.net_j_per_inference is None:
        return f"net: none, {energy.net_refused}"
    value = format_joules_within(energy.net_j_per_inference, energy.net_u95_absolute_j)
    return f"{value} per inference, net of idle power"


def _uncertainty(energy: EnergyResult) -> str:
    """Absolute and comparative uncertainty, and their largest components."""
    components = energy.components_j or {}
    largest = sorted(components.items(), key=lambda item: item[1], reverse=True)
    names = [f"{name} {format_joules(value, value)}" for name, value in largest[:_SHOWN_COMPONENTS]]
    absolute = format_uncertainty_joules(energy.u95_absolute_j or 0.0)
    comparative = format_uncertainty_joules(energy.u95_comparative_j or 0.0)
    mainly = f"mainly {', '.join(names)} (k = 1)" if names else "components unknown"
    return (
        f"{absolute} absolute, {comparative} in comparisons of runs with this meter (k = 2); "
        f"{mainly}"
    )


def _per_query(energy: QueryEnergy) -> str:
    if energy.p50_j is None or energy.p90_j is None:
        return f"only the mean: {energy.refused}"
    return (
        f"p50 {format_joules_within(energy.p50_j, energy.p50_u95_absolute_j)}, "
        f"p90 {format_joules_within(energy.p90_j, energy.p90_u95_absolute_j)}"
    )


def _phases(phases: Mapping[str, PhaseEnergy]) -> str:
    shown = []
    for name in _PHASES:
        phase = phases[name]
        if phase.energy_j is not None:
            energy = format_joules_within(phase.energy_j, phase.u95_absolute_j)
            shown.append(f"{name} {energy} at {format_watts(phase.power_w_mean)}")
        else:
            reason = "too short for this meter" if phase.is_too_short else phase.refused
            shown.append(f"{name} none, {reason}")
    return "; ".join(shown)


def _battery(life: BatteryLife) -> str:
    count, ratio = life.inference_count, life.u95_ratio
    shown = f"{count:.3g}" if count >= _MANY else format_rate(count, ratio * count)
    lasts = format_lasting(life.duration_s, ratio * life.duration_s)
    capacity, within = format_joules(life.capacity_j), format_ratio(ratio)
    lasting = f"{shown} inferences or {lasts} ({within}) of continuous inference"
    return f"{lasting}, with the stated capacity of {capacity}"


def _trace(trace: TraceFile) -> str:
    kind = "means over their intervals" if trace.is_averaging else "instants"
    smear = f", smoothed over {format_ns(1e9 * trace.smoothing_s)}" if trace.smoothing_s else ""
    return f"{trace.name}, {trace.format}, SHA-256 {trace.sha256[:12]}…; samples are {kind}{smear}"
