"""Which energies may be compared, and what is left of the meter's errors in their ratio.

Every error that the runs share is one variable. It changes the ratio of two energies by the
difference of what it does to each, relative to that: a gain does the same to both and cancels, as
far as both were in the same range; an offset cancels as far as their powers are alike. What is a
run's own (edges, noise, resolution, …) does not cancel.

Source: JCGM 100:2008 (GUM), 5.2.2, for the ratio of correlated quantities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgebench.host.analysis.compare.comparison import Better
from edgebench.host.analysis.energy.uncertainty import together
from edgebench.protocol.errors import MeasurementError, MetersDiffer, UsageError

ENERGY = "energy."
"""Beginning of the metrics that a meter has a share in."""
MAX_RATIO = 0.5
"""Beyond, twice the uncertainty is as much as the energy itself."""
_NET, BATTERY = "energy.net_", "energy.battery."


@dataclass(frozen=True, slots=True)
class EnergyMetric:
    """How two runs are judged by it."""

    better: Better
    budget: str = ""
    """Whose uncertainty it has: beginning of the keys of the net energy, or of the gross one."""


ENERGY_METRICS: Mapping[str, EnergyMetric] = {
    "energy.gross_j_per_inference": EnergyMetric(Better.LOWER),
    "energy.net_j_per_inference": EnergyMetric(Better.LOWER, "net_"),
    "energy.energy_delay_js": EnergyMetric(Better.LOWER),
    "energy.power_w_mean": EnergyMetric(Better.LOWER),
    "energy.inferences_per_j": EnergyMetric(Better.HIGHER),
    "energy.inferences_per_s_per_w": EnergyMetric(Better.HIGHER),
    "energy.battery.inference_count": EnergyMetric(Better.HIGHER),
    "energy.battery.duration_s": EnergyMetric(Better.HIGHER),
}
"""The energies that can be compared, and no others.

All but the net one are the gross energy, or its inverse, times what the meter has no share in: the
number of inferences, times on the device's clock, a capacity.
"""
WITHOUT_BUDGET = (
    "energy.phases.",
    "energy.per_query.",
    "energy.power_w_idle",
    "energy.power_w_peak",
)
"""Beginnings of those whose meter's share in a ratio nobody computes."""
SHORT_NAMES = {
    "energy_j": "energy.gross_j_per_inference",
    "net_energy_j": "energy.net_j_per_inference",
}
"""Metrics that may be called by less than their place in run.json."""

Document = Mapping[str, Any]


def energy_metric(metric: str) -> EnergyMetric:
    """How this energy is compared.

    Raises:
        UsageError: it is no goal, or nobody knows its uncertainty.
    """
    found = ENERGY_METRICS.get(metric)
    if found is not None:
        return found
    if metric.startswith(WITHOUT_BUDGET):
        raise UsageError(
            f"metric {metric!r} has no uncertainty of its own to compare by; compare energy_j"
        )
    short = {name: word for word, name in SHORT_NAMES.items()}
    names = ", ".join(short.get(name, name) for name in ENERGY_METRICS)
    raise UsageError(f"metric {metric!r} has no better or worse; compare one of {names}")


def instrument_ratio(
    metric: str, baseline: Sequence[Document], candidate: Sequence[Document]
) -> float:
    """Standard uncertainty of the ratio of two energies by the meter; 0 for any other metric.

    Raises:
        UsageError: this energy cannot be compared, or the batteries differ.
        MetersDiffer: two meters, boundaries or supplies: nothing cancels, the joules are others.
        MeasurementError: the energy is not above what the meter may be off by.
    """
    if not metric.startswith(ENERGY):
        return 0.0
    energies = [document["metrics"]["energy"] for document in (*baseline, *candidate)]
    _refuse_two_meters(energies)
    if metric.startswith(BATTERY):
        _refuse_two_batteries(energies)
    prefix = energy_metric(metric).budget
    before, after = (_side(documents, prefix) for documents in (baseline, candidate))
    shared = {
        name: before[0].get(name, 0.0) - after[0].get(name, 0.0)
        for name in before[0].keys() | after[0]
    }
    ratio = math.hypot(together(shared), before[1], after[1])
    if ratio >= MAX_RATIO:
        raise MeasurementError(
            f"{metric} of these runs is not above what the meter may be off by: nothing to compare"
        )
    return ratio


def _refuse_two_meters(energies: Sequence[Mapping[str, Any]]) -> None:
    places = {_place(one) for one in energies}
    if len(places) > 1:
        shown = " / ".join(sorted(places))
        raise MetersDiffer(f"runs cannot be compared, they differ in the meter ({shown})")
    if len({one["settings_sha256"] for one in energies}) > 1:
        raise MetersDiffer(
            f"runs cannot be compared, the meter was another unit or set otherwise ({places.pop()})"
        )


def _refuse_two_batteries(energies: Sequence[Mapping[str, Any]]) -> None:
    capacities_j = sorted({one["battery"]["capacity_j"] for one in energies})
    if len(capacities_j) > 1:
        shown = " / ".join(f"{capacity_j:g} J" for capacity_j in capacities_j)
        raise UsageError(f"runs cannot be compared, they differ in the battery ({shown})")


def _place(energy: Mapping[str, Any]) -> str:
    supply_v = energy["supply_v"]
    supply = "" if supply_v is None else f", supply {supply_v:g} V"
    return f"{energy['meter']}, {energy['boundary']}{supply}"


def is_metered(document: Document) -> bool:
    """Whether a run was made with a meter. Older runs know no energy."""
    return document["metrics"].get("energy") is not None


def no_energy(document: Document, metric: str) -> str | None:
    """Why a run has no such number; None where it may have it."""
    if not is_metered(document):
        return "it was made without a meter"
    energy = document["metrics"]["energy"]
    if energy["refused"] is not None:
        return str(energy["refused"])
    return energy["net_refused"] if metric.startswith(_NET) else None


def _side(documents: Sequence[Document], prefix: str) -> tuple[dict[str, float], float]:
    """Relative effect of each shared variable, mean of the runs; and the worst of their own."""
    common: dict[str, float] = {}
    own = 0.0
    for document in documents:
        energy = document["metrics"]["energy"]
        value = energy["net_j_per_inference" if prefix else "gross_j_per_inference"]
        effects = energy[f"{prefix}common_j"]
        for name, effect in effects.items():
            common[name] = common.get(name, 0.0) + effect / value / len(documents)
        rest = [u for name, u in energy[f"{prefix}components_j"].items() if name not in effects]
        own = max(own, math.hypot(*rest) / abs(value))
    return common, own
