"""What two runs with one meter have in common, and what is left of its errors in their ratio.

Every error that the runs share is one variable. It changes the ratio of two energies by the
difference of what it does to each, relative to that: a gain does the same to both and cancels, as
far as both were in the same range; an offset cancels as far as their powers are alike. What is a
run's own (edges, noise, resolution, …) does not cancel.

Source: JCGM 100:2008 (GUM), 5.2.2, for the ratio of correlated quantities.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from edgebench.protocol.errors import MeasurementError, MetersDiffer

ENERGY = "energy."
"""Beginning of the metrics that a meter has a share in."""
MAX_RATIO = 0.5
"""Beyond, twice the uncertainty is as much as the energy itself."""
_NET = "energy.net_"

Document = Mapping[str, Any]


def instrument_ratio(
    metric: str, baseline: Sequence[Document], candidate: Sequence[Document]
) -> float:
    """Standard uncertainty of the ratio of two energies by the meter; 0 for any other metric.

    Raises:
        MetersDiffer: two meters, boundaries or supplies: nothing cancels, the joules are others.
        MeasurementError: the energy is not above what the meter may be off by.
    """
    if not metric.startswith(ENERGY):
        return 0.0
    energies = [document["metrics"]["energy"] for document in (*baseline, *candidate)]
    _refuse_two_meters(energies)
    prefix = "net_" if metric.startswith(_NET) else ""
    before, after = (_side(documents, prefix) for documents in (baseline, candidate))
    shared = [
        before[0].get(name, 0.0) - after[0].get(name, 0.0) for name in before[0].keys() | after[0]
    ]
    ratio = math.hypot(*shared, before[1], after[1])
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
