"""The user's request for a meter; idle times and load codes that align a run with the meter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgebench.host.analysis.energy.in_step import MIN_INSTANTS_HZ, has_own_clock, samples_instants
from edgebench.host.analysis.energy.windows import (
    IDLE_BEGIN_RATIO,
    IDLE_END_RATIO,
    shortest_window_s,
)
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.power.session import open_meter
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.facts import EnergyRequest
from edgebench.meters.base import Capability, Header, Meter
from edgebench.meters.options import meant_of
from edgebench.meters.polled import HOST_CLOCK
from edgebench.meters.registry import is_external, supply_of, with_supply
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    MeterLost,
    MeterNotServed,
    NoSuchMeter,
    UsageError,
    WrongMeterOption,
    unknown_name,
)
from edgebench.protocol.spec import MAX_JITTER_S, RunSpec, has_gaps, with_duration

AGENT_PREFIX = "agent:"
"""Prefix in the text of a meter that the device's agent serves."""
FARM_METER = "farm"
"""Name for the meter that the farm file assigns to the device."""
IDLE_S = 2.0
IDLE_SAMPLES = 60
"""Minimum number of meter samples in an idle window. A quarter of the window is discarded."""
INSTANTS_DRIFT = 20e-6
"""Assumed relative difference between the rates of the meter's clock and the device's clock. At
this difference, sampling instants drift by a whole sample interval during the idle time. The drift
limits how much power instantaneous samples can miss (see `analysis.energy.unsampled`)."""
MAX_INSTANTS_IDLE_S = 30.0
"""Maximum length to which an idle window is extended so that the sampling instants drift."""
LOOP_WINDOWS = 2
"""Minimum length of a timed loop, in multiples of the meter's shortest window, because half of the
loop may be warm-up."""
_TYPICAL_RATE_HZ = 10.0
"""Rate assumed for a meter of the device's agent; the host does not have the meter's rate."""
CHIP_S = 0.02
CHIP_SAMPLES = 8
"""Minimum number of meter samples in a chip (the shortest step of a load code). So at least this
number of samples lies on each side of a change of the load."""
MAX_TRACE_HZ = 1e8


TRACE_RATE_HZ = 1000.0
"""Default rate of an instrument that edgebench does not drive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherInstrument:
    """Instrument that has no driver in edgebench and records the run into its own file.

    The device plays a load code, with which `edgebench energy` aligns the file with the run.
    """

    rate_hz: float = TRACE_RATE_HZ
    """Samples per second. A slow instrument needs a load code with long chips (steps)."""
    idle_duration_s: float | None = None
    """Idle time before and after each run; None if it is derived from the rate."""

    def spec(self, spec: RunSpec, *, is_duration_fixed: bool) -> RunSpec:
        """The specification with the duration, idle time and load code that the instrument needs.

        Raises:
            UsageError: the load code's chips (steps) would be longer than a run allows.
        """
        capability = Capability(
            driver="other",
            channels=(),
            rate_hz=self.rate_hz,
            is_averaging=True,
            clock_domain="other",
        )
        duration_s = _duration_s(capability, spec, is_duration_fixed=is_duration_fixed)
        return replace(
            with_duration(spec, duration_s),
            idle_duration_s=_idle_s(capability, self.idle_duration_s),
            load_code_chip_s=_chip_s(capability),
        )


def other_instrument(
    meter: str | None, *, sync: str | None, rate_hz: float | None, idle_duration_s: float | None
) -> OtherInstrument | None:
    """The instrument that `--sync coded_load` implies if there is no `--meter`, or else None.

    Raises:
        UsageError: a rate is given without such an instrument, or is out of range.
    """
    is_other = meter is None and sync == SyncMethod.CODED_LOAD.value
    if rate_hz is not None:
        if not is_other:
            raise UsageError(
                "--trace-rate is for an instrument that edgebench does not drive: --trace-rate "
                "needs --sync coded_load, and excludes --meter"
            )
        if not 0 < rate_hz <= MAX_TRACE_HZ:
            raise UsageError(f"--trace-rate must be above 0 and at most {MAX_TRACE_HZ:g} Hz")
    if not is_other:
        return None
    return OtherInstrument(rate_hz=rate_hz or TRACE_RATE_HZ, idle_duration_s=idle_duration_s)


def new_energy_request(
    meter: str | None,
    devices: Sequence[str],
    *,
    sync: str | None = None,
    battery_capacity_j: float | None = None,
    idle_duration_s: float | None = None,
    supply_v: float | None = None,
) -> EnergyRequest | None:
    """The request from the meter options; None if no meter is named.

    Raises:
        UsageError: the meter does not exist, measures another machine or only one of several
            devices, or cannot set the supply voltage; or an option needs a meter.
    """
    if meter is None:
        if sync == SyncMethod.CODED_LOAD.value:
            sync = idle_duration_s = None  # for an instrument that edgebench does not drive
        options = {
            "--sync": sync,
            "--battery": battery_capacity_j,
            "--idle": idle_duration_s,
            "--supply": supply_v,
        }
        for option, value in options.items():
            if value is not None:
                raise UsageError(f"{option} needs a meter: --meter METER")
        return None
    method = None
    if sync not in (None, "auto"):
        names = [method.value for method in SyncMethod]
        if sync not in names:
            raise unknown_name("synchronisation", str(sync), ["auto", *names])
        method = SyncMethod(sync)
    check_wiring(meter, devices)
    request = EnergyRequest(
        meter=meter,
        sync=method,
        battery_capacity_j=battery_capacity_j,
        idle_duration_s=idle_duration_s,
        supply_v=supply_v,
    )
    return request if meter == FARM_METER else with_set_supply(request)


def with_set_supply(request: EnergyRequest) -> EnergyRequest:
    """The request, with its supply voltage taken from the meter's text if none is requested.

    Raises:
        NoSuchMeter: no driver has that name.
        WrongMeterOption: the meter cannot set this voltage, or is configured by an agent.
    """
    supplied_meter(request)
    if request.supply_v is not None or not is_of_host(request.meter):
        return request
    return replace(request, supply_v=supply_of(request.meter))


def supplied_meter(request: EnergyRequest) -> str:
    """The meter's text as the user wrote it, with the requested supply voltage as an option.

    Raises:
        NoSuchMeter: no driver has that name.
        WrongMeterOption: the meter cannot set this voltage, or is configured by an agent.
    """
    if request.supply_v is None:
        return request.meter
    if not is_of_host(request.meter):
        raise WrongMeterOption(
            f"the supply voltage of meter {request.meter} can only be set by the agent that serves "
            f"the meter; to set {request.supply_v:g} V here: connect the meter to this host"
        )
    return with_supply(request.meter, request.supply_v)


def is_of_host(meter: str) -> bool:
    """Whether a meter is wired to this host rather than served by an agent."""
    return not meter.startswith(AGENT_PREFIX)


def check_wiring(meter: str, devices: Sequence[str]) -> None:
    """Check that a meter can measure all of these devices.

    Raises:
        UsageError: the meter has no driver, or measures another machine or only one of several
            devices.
    """
    if meter == FARM_METER:
        return
    # A meter without a driver is refused here, before a connection is opened for it.
    is_outside = is_external(meter.removeprefix(AGENT_PREFIX))
    if not is_of_host(meter):
        return
    if len(set(devices)) > 1:
        raise UsageError(
            f"meter {meter} is wired to one device, not to {', '.join(devices)}; for a meter of "
            f"each device, use agent:METER, or {FARM_METER} for the meters in the farm file"
        )
    elsewhere = [device for device in devices if device != LOCAL_NAME]
    if elsewhere and not is_outside:
        raise UsageError(f"meter {meter} measures this machine, not {elsewhere[0]}")


@dataclass(slots=True, kw_only=True)
class OpenMeter:
    """A request with its open meter."""

    request: EnergyRequest
    meter: Meter | None
    """Meter of this host; None if the device's agent serves the meter."""
    header: Header | None

    @classmethod
    def of(cls, request: EnergyRequest) -> OpenMeter:
        """Open the meter of a request; an agent opens its meter for each run.

        Raises:
            UsageError: the meter cannot be used.
            TargetError: the driver fails.
        """
        if not is_of_host(request.meter):
            return cls(request=request, meter=None, header=None)
        meter, header = open_meter(supplied_meter(request))
        return cls(request=request, meter=meter, header=header)

    def set_supply(self, supply_v: float | None) -> None:
        """Open the meter again if the next run needs another supply voltage, in volts.

        Raises:
            UsageError: the meter cannot be used, or cannot set this voltage.
            TargetError: the driver fails.
        """
        if supply_v == self.request.supply_v:
            return
        request = replace(self.request, supply_v=supply_v)
        name = supplied_meter(request)
        self.close()
        try:
            self.meter, self.header = open_meter(name)
        except NoSuchMeter as exc:  # it was open a moment ago: a later attempt may succeed
            raise MeterLost(f"{exc}; the meter was open before the voltage was changed") from exc
        self.request = request

    def close(self) -> None:
        """Close the meter, unless the device's agent serves it."""
        if self.meter is not None:
            self.meter.close()

    @property
    def served_name(self) -> str | None:
        """Name under which the agent serves the meter; None for a meter of this host."""
        return self.request.meter.removeprefix(AGENT_PREFIX) if self.meter is None else None

    def require_served(self, system: SystemDescription, device: str | None = None) -> None:
        """Check that the agent serves the meter, unless it is a meter of this host.

        Args:
            system: The description that the device reports.
            device: Name that the user gave the device; None: the reported name.

        Raises:
            MeterNotServed: the agent does not serve the meter.
        """
        wanted = self.served_name
        if wanted is not None and wanted not in system.meters:
            raise MeterNotServed(
                f"the agent of {device or system.device.name} does not serve meter {wanted}; "
                f"it serves {', '.join(system.meters) or 'none'}",
                wanted,
                meant=meant_of(wanted, system.meters),
            )

    def spec(self, spec: RunSpec, *, is_duration_fixed: bool) -> RunSpec:
        """The specification with the duration, idle time and load code that the meter needs.

        Args:
            spec: The specification without a meter.
            is_duration_fixed: Whether the user chose the duration. Otherwise the loop may be longer
                than the preset, unless the arrivals of queries determine its length.

        Raises:
            UsageError: the idle time or the load code exceeds the limit of a run.
        """
        duration_s = spec.duration_s
        if self.header is not None:
            capability = self.header.capability
            duration_s = _duration_s(capability, spec, is_duration_fixed=is_duration_fixed)
        return replace(
            with_duration(spec, duration_s),
            meter=self.served_name,
            idle_duration_s=self._idle_s(),
            load_code_chip_s=self._chip_s() if self._is_code_wanted() else None,
            jitter_s=self._jitter_s(spec),
        )

    def _jitter_s(self, spec: RunSpec) -> float | None:
        """Longest random gap in the loop: as requested or, for a slow meter, a sample interval."""
        if spec.jitter_s is not None or self.header is None:
            return spec.jitter_s
        capability = self.header.capability
        is_needed = _is_of_few_instants(capability) and has_gaps(spec.scenario, spec.engine)
        return min(MAX_JITTER_S, 1 / capability.rate_hz) if is_needed else None

    def _idle_s(self) -> float:
        requested_s = self.request.idle_duration_s
        if self.header is not None:
            return _idle_s(self.header.capability, requested_s)
        return max(IDLE_S, IDLE_SAMPLES / _TYPICAL_RATE_HZ) if requested_s is None else requested_s

    def _is_code_wanted(self) -> bool:
        """Whether to play a load code: it is requested, or the meter needs and resolves one.

        A meter needs a load code if its samples have times of its own clock.
        """
        served, sync = self.served_name, self.request.sync
        if sync is not None:
            # A device that plays a code is also idle before and after the loop, as LOOP requires.
            return sync in (SyncMethod.CODED_LOAD, SyncMethod.LOOP)
        if self.header is None:
            return served is not None and is_external(served)
        capability = self.header.capability
        # A code that the meter smooths away gives less accuracy than the samples' arrival times.
        smeared_s, arrival_s = (capability.smoothing_s or 0.0) / 2, capability.arrival_error_s
        is_seen = arrival_s is None or smeared_s <= max(arrival_s, CHIP_S / 4)
        return capability.clock_domain != HOST_CLOCK and is_seen

    def _chip_s(self) -> float:
        return CHIP_S if self.header is None else _chip_s(self.header.capability)


def _duration_s(capability: Capability, spec: RunSpec, *, is_duration_fixed: bool) -> float:
    """Length of the timed loop; a preset that is too short for the meter is extended."""
    if is_duration_fixed or spec.scenario.traits.is_scheduled:
        return spec.duration_s
    return max(spec.duration_s, LOOP_WINDOWS * shortest_window_s(capability))


def _idle_s(capability: Capability, requested_s: float | None) -> float:
    """Length of an idle window, as requested or else derived from the meter."""
    if requested_s is not None:
        return requested_s
    # What remains of the idle window must not be shorter than the meter resolves.
    shortest_s = shortest_window_s(capability) / (1 - IDLE_BEGIN_RATIO - IDLE_END_RATIO)
    idle_s = max(IDLE_S, IDLE_SAMPLES / capability.rate_hz, 1.1 * shortest_s)
    if _is_of_few_instants(capability):
        # Half of this time is before the run, and half after.
        moved_s = 1 / capability.rate_hz / INSTANTS_DRIFT
        idle_s = max(idle_s, min(MAX_INSTANTS_IDLE_S, moved_s / 2))
    return idle_s


def _is_of_few_instants(capability: Capability) -> bool:
    """Whether a meter takes instantaneous samples by its own clock, at a low rate."""
    is_paced_by_it = capability.is_uniform and has_own_clock(capability)
    return is_paced_by_it and samples_instants(capability) and capability.rate_hz < MIN_INSTANTS_HZ


def _chip_s(capability: Capability) -> float:
    """Length of a load code's chip (shortest step) that the meter can resolve."""
    smoothing_s = capability.smoothing_s or 0.0
    return max(CHIP_S, CHIP_SAMPLES / capability.rate_hz, 4 * smoothing_s)
