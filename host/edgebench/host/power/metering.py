"""How runs are metered: which meter, what the device has to do for it, and what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgebench.host.analysis.energy.sync.alignment import SyncMethod
from edgebench.host.analysis.energy.windows import (
    IDLE_BEGIN_RATIO,
    IDLE_END_RATIO,
    shortest_window_s,
)
from edgebench.host.devices.files import LOCAL_NAME
from edgebench.host.power.session import open_meter
from edgebench.meters.base import Header, Meter
from edgebench.meters.options import meant_of
from edgebench.meters.polled import HOST_CLOCK
from edgebench.meters.registry import is_external
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import MeterNotServed, UsageError

AGENT_PREFIX = "agent:"
"""Before the name of a meter that the device's own agent serves."""
IDLE_S = 2.0
IDLE_SAMPLES = 60
"""In an idle window, of which a quarter is left out."""
LOOP_WINDOWS = 2
"""Shortest windows of the meter in a timed loop, half of which may go before it is steady."""
_TYPICAL_RATE_HZ = 10.0
"""Of a meter that only the device's agent knows."""
CHIP_S = 0.02
CHIP_SAMPLES = 8
"""Samples of the meter in a chip: the change is in the middle of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metering:
    """A meter that is ready, and what goes with it."""

    name: str
    """As the user wrote it."""
    meter: Meter | None
    """None: the agent has it."""
    header: Header | None
    sync: SyncMethod | None = None
    battery_capacity_j: float | None = None
    idle_duration_s: float | None = None
    """None: as the meter needs it."""

    def close(self) -> None:
        """Let go of the meter."""
        if self.meter is not None:
            self.meter.close()

    @property
    def served_name(self) -> str | None:
        """Of a meter of the agent's, as the agent knows it; None for one of the host's."""
        return self.name.removeprefix(AGENT_PREFIX) if self.meter is None else None

    def require_served(self, system: SystemDescription) -> None:
        """Check that an agent has the meter, if it is to be the agent's.

        Raises:
            MeterNotServed: it has not.
        """
        wanted = self.served_name
        if wanted is not None and wanted not in system.meters:
            raise MeterNotServed(
                f"meter {wanted} is not served by the agent of {system.device.name}, which serves "
                f"{', '.join(system.meters) or 'none'}",
                wanted,
                meant=meant_of(wanted, system.meters),
            )

    def settings(self) -> dict[str, Any]:
        """Fields of `RunSpec`: what the device does for the meter."""
        agents = self.served_name
        return {
            "meter": agents,
            "idle_duration_s": self._idle_s(),
            "load_code_chip_s": self._chip_s() if self._is_code_wanted(agents) else None,
        }

    def loop_s(self, preset_s: float) -> float:
        """How long to measure where nobody said it: as the preset, or longer for the meter."""
        if self.header is None:
            return preset_s
        return max(preset_s, LOOP_WINDOWS * shortest_window_s(self.header.capability))

    def _idle_s(self) -> float:
        if self.idle_duration_s is not None:
            return self.idle_duration_s
        if self.header is None:
            return max(IDLE_S, IDLE_SAMPLES / _TYPICAL_RATE_HZ)
        capability = self.header.capability
        # What is left of an idle window has to be one that the meter can tell something of.
        shortest_s = shortest_window_s(capability) / (1 - IDLE_BEGIN_RATIO - IDLE_END_RATIO)
        return max(IDLE_S, IDLE_SAMPLES / capability.rate_hz, 1.1 * shortest_s)

    def _is_code_wanted(self, agents: str | None) -> bool:
        """Of a meter with a clock of its own; the others need no code."""
        if self.sync is not None:
            return self.sync is SyncMethod.CODED_LOAD
        if self.header is None:
            return agents is not None and is_external(agents)
        capability = self.header.capability
        # Of a meter that smears it, the code would tell less than the samples' arrival.
        smeared_s, arrival_s = (capability.smoothing_s or 0.0) / 2, capability.arrival_error_s
        is_seen = arrival_s is None or smeared_s <= max(arrival_s, CHIP_S / 4)
        return capability.clock_domain != HOST_CLOCK and is_seen

    def _chip_s(self) -> float:
        if self.header is None:
            return CHIP_S
        capability = self.header.capability
        smoothing_s = capability.smoothing_s or 0.0
        return max(CHIP_S, CHIP_SAMPLES / capability.rate_hz, 4 * smoothing_s)


def open_metering(
    name: str | None,
    on: Sequence[str],
    *,
    sync: str | None = None,
    battery_capacity_j: float | None = None,
    idle_duration_s: float | None = None,
) -> Metering | None:
    """Open the meter that `--meter` names; None where none is named.

    Raises:
        UsageError: there is no such meter, it cannot be used, or it measures another machine, or
            only one of several; or something was asked that needs a meter.
    """
    if name is None:
        given = {"--sync": sync, "--battery": battery_capacity_j, "--idle": idle_duration_s}
        for option, value in given.items():
            if value is not None:
                raise UsageError(f"{option} needs a meter: --meter METER")
        return None
    wanted = _method(sync)
    meter, header = None, None
    if name.startswith(AGENT_PREFIX):
        is_external(name.removeprefix(AGENT_PREFIX))  # an unknown name is told here
    else:
        _refuse_elsewhere(name, on)
        meter, header = open_meter(name)
    return Metering(
        name=name,
        meter=meter,
        header=header,
        sync=wanted,
        battery_capacity_j=battery_capacity_j,
        idle_duration_s=idle_duration_s,
    )


def _method(sync: str | None) -> SyncMethod | None:
    if sync in (None, "auto"):
        return None
    try:
        return SyncMethod(sync)
    except ValueError:
        names = ", ".join(method.value for method in SyncMethod)
        raise UsageError(f"unknown synchronisation {sync!r}: there are auto, {names}") from None


def _refuse_elsewhere(name: str, on: Sequence[str]) -> None:
    if len(set(on)) > 1:
        raise UsageError(
            f"meter {name} is wired to one device, not to {', '.join(on)}; agent:METER takes the "
            "meter of each"
        )
    elsewhere = [device for device in on if device != LOCAL_NAME]
    if elsewhere and not is_external(name):
        raise UsageError(f"meter {name} measures this machine, not {elsewhere[0]}")
