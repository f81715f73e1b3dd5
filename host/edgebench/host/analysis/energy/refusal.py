"""Errors raised when a recording gives no energy, with their reasons as data."""

from __future__ import annotations

from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import energy
from edgebench.host.result.reasons.table import text_of
from edgebench.protocol.errors import MeasurementError


class EnergyRefused(MeasurementError):
    """A recording gives no energy."""

    def __init__(self, *reasons: Reason) -> None:
        super().__init__(text_of(reasons))
        self.reasons = reasons


class WindowTooShort(EnergyRefused):
    """A window is too short for the resolution of the meter and the uncertainty of the clocks."""


def reasons_of(error: MeasurementError) -> tuple[Reason, ...]:
    """Reasons of an error; for an error without reasons, a reason with the error's text."""
    return error.reasons if isinstance(error, EnergyRefused) else (energy.stated(text=str(error)),)
