"""Accelerator that a model ran on, whose clock is used in place of the CPU's clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from edgebench.host.analysis.delegates import accelerator_kinds, is_cpu
from edgebench.host.analysis.thermal.telemetry import TelemetryTrace
from edgebench.protocol.record import OperatorPlacement
from edgebench.protocol.thermal import Expectation, ExpectedAccelerator

_MOST = 0.5
"""An accelerator's clock is used if at least this share of the operators ran on the accelerator."""


@dataclass(frozen=True, slots=True)
class Delegation:
    """A model whose operators ran mostly on an accelerator."""

    devfreq: str | None
    """Accelerator's name under /sys/class/devfreq; None if its clock was not read."""


def uses_accelerator(placement: Iterable[OperatorPlacement]) -> bool:
    """Whether a part of the model ran on an accelerator, as far as the runtime reports it."""
    return not all(is_cpu(part.place) for part in placement)


def find_delegation(
    placement: Iterable[OperatorPlacement], telemetry: TelemetryTrace, expected: Expectation
) -> Delegation | None:
    """Accelerator that ran most of the model; None if the CPU did, or if this is not reported.

    If several accelerators match, the accelerator whose mean clock is nearest to its highest clock
    is returned.
    """
    parts = list(placement)
    total = sum(part.count for part in parts)
    accelerated = [part for part in parts if not is_cpu(part.place)]
    if not total or sum(part.count for part in accelerated) < _MOST * total:
        return None
    kinds = accelerator_kinds(max(accelerated, key=lambda part: part.count).place)
    read = [
        accelerator
        for accelerator in expected.accelerators
        if f"devfreq.{accelerator.devfreq}.freq_hz" in telemetry.series
        and (not kinds or accelerator.kind in kinds)
    ]
    if not read:
        return Delegation(None)
    # The clock of an idle accelerator is far below its highest.
    return Delegation(
        max(read, key=lambda accelerator: _share_of_highest(accelerator, telemetry)).devfreq
    )


def _share_of_highest(accelerator: ExpectedAccelerator, telemetry: TelemetryTrace) -> float:
    name = f"devfreq.{accelerator.devfreq}"
    freq_hz = telemetry.series[f"{name}.freq_hz"].value
    cap = telemetry.series.get(f"{name}.freq_hz_cap")
    highest_hz = float(freq_hz.max() if cap is None else max(cap.value.max(), freq_hz.max()))
    return float(np.mean(freq_hz)) / highest_hz if highest_hz > 0 else 0.0
