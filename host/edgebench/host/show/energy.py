"""Energy of a run for the terminal: what it is, what it may be off by, and what is inside."""

from __future__ import annotations

from typing import Any

from edgebench.host.show.units import (
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

_SHOWN_COMPONENTS = 3
_PHASES = ("load", "warmup", "steady")
_MANY = 1e6
"""More than this is not counted to the last one."""


def energy_lines(energy: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Name and text of each line; none where no meter was asked for."""
    if energy is None:
        return []
    if energy["refused"] is not None:
        return [("energy", f"refused: {energy['refused']}"), ("meter", energy["meter"])]
    return [
        ("energy", _gross(energy)),
        ("", _net(energy)),
        ("power", _power(energy)),
        ("uncertainty", _uncertainty(energy)),
        ("per inference", _per_query(energy["per_query"])),
        ("phases", _phases(energy["phases"])),
        *_battery(energy["battery"]),
        ("meter", _meter(energy)),
        ("clocks", _sync(energy["sync"])),
    ]


def _meter(energy: dict[str, Any]) -> str:
    supply_v = energy["supply_v"]
    supply = "" if supply_v is None else f", {supply_v:g} V as given or set"
    return f"{energy['meter']}{supply}; inside: {energy['boundary']}"


def _gross(energy: dict[str, Any]) -> str:
    value = format_joules_within(energy["gross_j_per_inference"], energy["u95_absolute_j"])
    parts = [f"{value} an inference, gross"]
    if energy["inferences_per_j"] is not None:
        per_j = energy["inferences_per_j"]
        ratio = energy["u95_absolute_j"] / abs(energy["gross_j_per_inference"])
        parts.append(f"{format_rate(per_j, ratio * per_j)} inferences/J")
    count, duration_s = energy["inference_count"], energy["duration_s"]
    return ", ".join([*parts, f"over {count} in {duration_s:.3g} s"])


def _net(energy: dict[str, Any]) -> str:
    if energy["net_j_per_inference"] is None:
        return f"net: none, {energy['net_refused']}"
    value = format_joules_within(energy["net_j_per_inference"], energy["net_u95_absolute_j"])
    return f"{value} an inference, net of idle"


def _power(energy: dict[str, Any]) -> str:
    idle, peak = energy["power_w_idle"], energy["power_w_peak"]
    mean = format_watts_within(energy["power_w_mean"], energy["power_w_mean_u95_absolute"])
    rest, highest = "", ""
    if idle is not None:
        rest = f", idle {format_watts_within(idle, energy.get('power_w_idle_u95_absolute'))}"
    if peak is not None:
        within = format_watts_within(peak, energy.get("power_w_peak_u95_absolute"))
        highest = f", highest sample {within}"
    return f"mean {mean}{rest}{highest}"


def _uncertainty(energy: dict[str, Any]) -> str:
    """Both figures, and what they are made of."""
    absolute, comparative = energy["u95_absolute_j"], energy["u95_comparative_j"]
    largest = sorted(energy["components_j"].items(), key=lambda item: item[1], reverse=True)
    names = [f"{name} {format_joules(value, value)}" for name, value in largest[:_SHOWN_COMPONENTS]]
    off, beside = map(format_uncertainty_joules, (absolute, comparative))
    return (
        f"{off} absolute, {beside} beside another run with this meter (k = 2); most by "
        f"{', '.join(names) or 'nothing that is known'} (k = 1)"
    )


def _per_query(per_query: dict[str, Any]) -> str:
    if per_query["refused"] is not None:
        return f"only the mean: {per_query['refused']}"
    shown = []
    for name in ("p50", "p90"):
        u95_j = per_query.get(f"{name}_u95_absolute_j")  # none before schema_version 6
        shown.append(f"{name} {format_joules_within(per_query[f'{name}_j'], u95_j)}")
    return ", ".join(shown)


def _phases(phases: dict[str, Any]) -> str:
    shown = []
    for name in _PHASES:
        phase = phases[name]
        if phase["refused"] is None:
            energy = format_joules_within(phase["energy_j"], phase["u95_absolute_j"])
            shown.append(f"{name} {energy} at {format_watts(phase['power_w_mean'])}")
        else:
            shown.append(f"{name} none, {_short(phase['refused'])}")
    return "; ".join(shown)


def _short(reason: str) -> str:
    """A reason that stands in a list."""
    return "too short for this meter" if "too short" in reason else reason


def _battery(battery: dict[str, Any] | None) -> list[tuple[str, str]]:
    if battery is None:
        return []
    count, ratio = battery["inference_count"], battery["u95_ratio"]
    lasts = format_lasting(battery["duration_s"], ratio * battery["duration_s"])
    shown = f"{count:.3g}" if count >= _MANY else format_rate(count, ratio * count)
    within = format_ratio(ratio)
    of = format_joules(battery["capacity_j"])
    return [
        (
            "battery",
            f"{shown} inferences or {lasts} ({within}) without a pause from {of}, as stated",
        )
    ]


def _sync(sync: dict[str, Any]) -> str:
    others = [
        f"{one['method']} {format_ns(one['error_ns'])}" if one["error_ns"] is not None
        else f"{one['method']}: {one['reason']}"
        for one in sync["tried"]
        if one["method"] != sync["method"]
    ]  # fmt: skip
    rest = f"; not taken: {'; '.join(others)}" if others else ""
    return f"{sync['method']}, within {format_ns(sync['error_ns'])}{rest}"
