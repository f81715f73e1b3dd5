"""Which energies may be compared, and the share of the meter's errors that remains in their ratio.

Every error that the runs share is modelled as one variable. Such an error changes the ratio of two
energies by the difference between its relative effects on the two energies. A gain error has the
same effect on both energies, and cancels if both were measured in the same range of the meter. An
offset cancels to the extent that the two powers are equal. Errors specific to a run (edges, noise,
resolution, …) do not cancel.

Source: JCGM 100:2008 (GUM), 5.2.2, for the ratio of correlated quantities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from edgebench.host.analysis.energy.uncertainty import together
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.metrics import METRICS, Budget, Metric
from edgebench.host.result.run import Run
from edgebench.protocol.errors import MeasurementError, MetersDiffer, NotMetered, UsageError

MAX_RATIO = 0.5
"""Maximum standard uncertainty of a ratio; if it is larger, the ratio's interval contains 0."""
ENERGY, BATTERY = "energy.", "energy.battery."
"""Prefix of the paths of energies, and prefix of metrics that need a battery capacity."""
WITHOUT_BUDGET = (
    "energy.phases.",
    "energy.per_query.",
    "energy.power_w_idle",
    "energy.power_w_peak",
)
"""Prefixes of the paths of energies for which the meter's error in a ratio is not computed."""


def refuse_energy(path: str) -> UsageError:
    """The exception to raise for the path of an energy that cannot be compared."""
    if path.startswith(WITHOUT_BUDGET):
        return UsageError(
            f"metric {path!r} cannot be compared: its uncertainty is not computed; compare energy_j"
        )
    names = ", ".join(
        metric.short or metric.path for metric in METRICS.values() if metric.budget is not None
    )
    return UsageError(f"metric {path!r} cannot be compared; comparable metrics: {names}")


def energy_of(run: Run, path: str) -> EnergyResult:
    """The energy of a run, after a check that the energy has a value at this path.

    Raises:
        NotMetered: the run was made without a meter.
        MeasurementError: the energy is refused or, for a net metric, the net energy is refused.
    """
    energy = run.metrics.energy
    if energy is None:
        raise NotMetered(f"run {run.run_id} has no {path}: it was made without a meter")
    metric = METRICS.get(path)
    is_net = metric is not None and metric.budget is Budget.NET
    reason = energy.refused or (energy.net_refused if is_net else None)
    if reason is not None:
        raise MeasurementError(f"run {run.run_id} has no {path}: {reason}")
    return energy


def instrument_ratio(metric: Metric, baseline: Sequence[Run], candidate: Sequence[Run]) -> float:
    """Standard uncertainty that the meter causes in a ratio of energies; 0 for other metrics.

    Raises:
        UsageError: the batteries differ.
        MetersDiffer: the runs differ in meter, settings, boundary or supply, so no error cancels.
        MeasurementError: a run has no energy for the metric, or the energies do not exceed the
            error of the meter.
    """
    if metric.budget is None:
        return 0.0
    sides = [[energy_of(run, metric.path) for run in side] for side in (baseline, candidate)]
    _refuse_two_meters([*sides[0], *sides[1]])
    if metric.path.startswith(BATTERY):
        _refuse_two_batteries([*sides[0], *sides[1]])
    before, after = (_side(energies, metric.budget) for energies in sides)
    shared = {
        name: before[0].get(name, 0.0) - after[0].get(name, 0.0)
        for name in before[0].keys() | after[0]
    }
    ratio = math.hypot(together(shared), before[1], after[1])
    if ratio >= MAX_RATIO:
        raise MeasurementError(
            f"{metric.path} of these runs is not above the error of the meter: nothing to compare"
        )
    return ratio


def _refuse_two_meters(energies: Sequence[EnergyResult]) -> None:
    places = {_place(energy) for energy in energies}
    if len(places) > 1:
        shown = " / ".join(sorted(places))
        raise MetersDiffer(f"runs cannot be compared, they differ in the meter ({shown})")
    if len({energy.settings_sha256 for energy in energies}) > 1:
        raise MetersDiffer(
            f"runs cannot be compared, they differ in the settings of the meter, or were made with "
            f"two meters of this kind ({places.pop()})"
        )


def _refuse_two_batteries(energies: Sequence[EnergyResult]) -> None:
    capacities_j = sorted({energy.battery.capacity_j for energy in energies if energy.battery})
    if len(capacities_j) > 1:
        shown = " / ".join(f"{capacity_j:g} J" for capacity_j in capacities_j)
        raise UsageError(f"runs cannot be compared, they differ in the battery ({shown})")


def _place(energy: EnergyResult) -> str:
    supply = "" if energy.supply_v is None else f", supply {energy.supply_v:g} V"
    return f"{energy.meter}, {energy.boundary}{supply}"


def _budget(
    energy: EnergyResult, budget: Budget
) -> tuple[float, Mapping[str, float], Mapping[str, float]]:
    """An energy, the effects of shared errors on it, and all components of its uncertainty, J."""
    if budget is Budget.NET:
        value, common = energy.net_j_per_inference, energy.net_common_j
        components = energy.net_components_j
    else:
        value, common = energy.gross_j_per_inference, energy.common_j
        components = energy.components_j
    if value is None or common is None or components is None:
        raise MeasurementError("the energy was stored without its uncertainty: nothing to compare")
    return value, common, components


def _side(energies: Sequence[EnergyResult], budget: Budget) -> tuple[dict[str, float], float]:
    """Mean relative effect of each shared error; largest relative error specific to a run."""
    shared: dict[str, float] = {}
    own = 0.0
    for energy in energies:
        value, common, components = _budget(energy, budget)
        for name, effect in common.items():
            shared[name] = shared.get(name, 0.0) + effect / value / len(energies)
        rest = [u for name, u in components.items() if name not in common]
        own = max(own, math.hypot(*rest) / abs(value))
    return shared, own
