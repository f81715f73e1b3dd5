"""Which meter a run is to use, where the agent has it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from support.energy import header

from edgebench.host.bench.request import BenchRequest
from edgebench.host.power import metering
from edgebench.host.power.metering import (
    FARM_METER,
    OpenMeter,
    OtherInstrument,
    new_energy_request,
    other_instrument,
)
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.facts import EnergyRequest
from edgebench.meters.base import Header, Meter
from edgebench.meters.polled import HOST_CLOCK
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    MeterLost,
    MeterNotServed,
    NoSuchMeter,
    UsageError,
    WrongMeterOption,
)
from edgebench.protocol.spec import RunSpec, Scenario

FULL = "ppk2:/dev/ttyACM0,supply=3.3"
BESIDE = cast("Meter", SimpleNamespace())
"""A meter of this host that is never read."""


def opened(name: str, header: Header | None = None, sync: SyncMethod | None = None) -> OpenMeter:
    """A meter with this header; a meter of the agent has no header yet."""
    request = EnergyRequest(meter=name, sync=sync)
    return OpenMeter(request=request, meter=BESIDE if header else None, header=header)


def spec_for(
    header: Header | None, *, sync: SyncMethod | None = None, is_duration_fixed: bool = False
) -> RunSpec:
    """What a run of ten seconds specifies for a meter."""
    metering = opened("ppk2" if header else "agent:ppk2", header, sync)
    return metering.spec(RunSpec("tflite", duration_s=10.0), is_duration_fixed=is_duration_fixed)


@pytest.mark.parametrize(
    ("clock", "smoothing_s", "sync", "chip_s"),
    [
        ("meter:7", None, None, 0.02),
        ("meter:7", 0.002, None, 0.02),
        ("meter:7", 0.5, None, None),
        ("meter:7", 0.5, SyncMethod.CODED_LOAD, 2.0),
        (HOST_CLOCK, None, None, None),
    ],
)
def test_code_is_played_for_meters_that_can_see_it(
    clock: str, smoothing_s: float | None, sync: SyncMethod | None, chip_s: float | None
) -> None:
    """Otherwise a run would take two minutes to show a pattern to a tester.

    The arrivals of a tester's samples show more.
    """
    found = header(clock=clock, smoothing_s=smoothing_s)
    assert spec_for(found, sync=sync).load_code_chip_s == chip_s


@pytest.mark.parametrize(
    ("rate_hz", "min_window_s", "least_s", "most_s"),
    [(1000.0, 0.001, 2.0, 2.0), (10.0, 1.0, 6.0, 6.0), (100.0, 5.0, 6.7, 8.0)],
)
def test_idle_is_long_enough_for_the_meter(
    rate_hz: float, min_window_s: float, least_s: float, most_s: float
) -> None:
    """Otherwise the rest of an idle window would be too short, and every net energy be refused."""
    found = header(rate_hz=rate_hz, min_window_s=min_window_s, clock=HOST_CLOCK)
    assert least_s <= spec_for(found).idle_duration_s <= most_s


@pytest.mark.parametrize(
    ("clock", "rate_hz", "is_averaging", "scenario", "jitter_s", "idle_s"),
    [
        ("meter:7", 1e3, False, Scenario.SINGLE_STREAM, 1e-3, 25.0),
        ("meter:7", 4e3, False, Scenario.SINGLE_STREAM, 0.25e-3, 6.25),
        ("meter:7", 10.0, False, Scenario.SINGLE_STREAM, 0.1, 30.0),
        ("meter:7", 4e3, False, Scenario.OFFLINE, None, 6.25),
        ("meter:7", 4e3, True, Scenario.SINGLE_STREAM, None, 2.0),
        ("meter:7", 5e4, False, Scenario.SINGLE_STREAM, None, 2.0),
        (HOST_CLOCK, 60.0, False, Scenario.SINGLE_STREAM, None, 2.0),
    ],
)
def test_loop_has_gaps_for_a_meter_of_few_instants(
    clock: str,
    rate_hz: float,
    is_averaging: bool,
    scenario: Scenario,
    jitter_s: float | None,
    idle_s: float,
) -> None:
    """Otherwise the loop would be in step with such a meter, or have gaps for every meter."""
    opened_meter = opened("otii", header(rate_hz=rate_hz, clock=clock, is_averaging=is_averaging))
    plain = RunSpec("tflite", scenario=scenario, duration_s=10.0)
    spec = opened_meter.spec(plain, is_duration_fixed=True)
    assert spec.jitter_s == jitter_s
    assert spec.idle_duration_s == pytest.approx(idle_s)
    without = opened_meter.spec(replace(plain, jitter_s=0.0), is_duration_fixed=True)
    assert without.jitter_s == 0.0


@pytest.mark.parametrize(
    ("rate_hz", "min_window_s", "loop_s"),
    [(1000.0, 0.001, 10.0), (10.0, 1.0, 10.0), (1.0, 1.0, 40.0), (0.5, 100.0, 200.0)],
)
def test_loop_is_long_enough_for_the_meter(
    rate_hz: float, min_window_s: float, loop_s: float
) -> None:
    """Otherwise a battery's gauge, which needs 100 s, would measure the preset's ten seconds."""
    found = header(rate_hz=rate_hz, min_window_s=min_window_s)
    assert spec_for(found).duration_s == loop_s
    assert spec_for(found, is_duration_fixed=True).duration_s == 10.0
    assert spec_for(None).duration_s == 10.0, "nobody knows what a meter of the agent's needs"


@pytest.mark.parametrize(
    ("wanted", "meant"), [("ppk2", FULL), ("ppk2:/dev/x", None), ("rap", None)]
)
def test_half_of_a_served_name_is_told_the_whole(wanted: str, meant: str | None) -> None:
    """Otherwise the hint for `agent:ppk2` would be to start the agent as it was started."""
    metering = opened(f"agent:{wanted}")
    system = SimpleNamespace(device=SimpleNamespace(name="pi"), meters=(FULL, "rapl", "rapl:/x"))
    with pytest.raises(MeterNotServed) as refused:
        metering.require_served(cast("SystemDescription", system))
    assert refused.value.meant == meant


@pytest.mark.parametrize(
    ("rate_hz", "is_fixed", "chip_s", "idle_s", "duration_s"),
    [
        (1000.0, False, 0.02, 2.0, 10.0),
        (100.0, False, 0.08, 2.0, 10.0),
        (10.0, False, 0.8, 6.0, 10.0),
        (1.0, False, 8.0, 60.0, 40.0),
        (1.0, True, 8.0, 60.0, 10.0),
    ],
)
def test_run_is_long_enough_for_an_instrument_of_its_own(
    rate_hz: float, is_fixed: bool, chip_s: float, idle_s: float, duration_s: float
) -> None:
    """Otherwise a plug of one sample per second could not see the run.

    It sees no chip of 20 ms, and no loop of ten seconds.
    """
    instrument = other_instrument(None, sync="coded_load", rate_hz=rate_hz, idle_duration_s=None)
    assert instrument == OtherInstrument(rate_hz=rate_hz)
    spec = instrument.spec(RunSpec("tflite", duration_s=10.0), is_duration_fixed=is_fixed)
    assert (spec.load_code_chip_s, spec.idle_duration_s) == (chip_s, idle_s)
    assert spec.duration_s == duration_s
    assert spec.meter is None


def test_code_without_a_meter_is_played_only_if_asked_for() -> None:
    """Otherwise every run would take eight seconds longer, or a rate be given for nothing."""
    for meter, sync in ((None, None), (FULL, "coded_load"), (None, "loop")):
        nobody = other_instrument(meter, sync=sync, rate_hz=None, idle_duration_s=1.0)
        assert nobody is None
        with pytest.raises(UsageError, match="--trace-rate is for an instrument"):
            other_instrument(meter, sync=sync, rate_hz=10.0, idle_duration_s=None)


def test_voltage_that_nothing_sets_is_refused() -> None:
    """Otherwise the runs of a device without a meter would be named after voltages."""
    energy = EnergyRequest(meter=FARM_METER, supply_v=1.8)
    request = BenchRequest(models=(), energy=energy)
    with pytest.raises(WrongMeterOption, match="no meter is wired to pi5, so nothing sets"):
        request.on_device("pi5", None)
    assert replace(request, energy=replace(energy, supply_v=None)).on_device("pi5", None)


def test_voltage_in_the_text_of_a_meter_is_that_of_the_run() -> None:
    """Otherwise it would be a condition only if it was given by --supply."""
    meter = "lpm01a:/dev/ttyACM0,supply=1.8"
    for supply_v in (None, 1.8):
        request = new_energy_request(meter, ["pi5"], supply_v=supply_v)
        assert request is not None
        assert (request.meter, request.supply_v) == (meter, 1.8)
    of_farm = BenchRequest(models=(), energy=EnergyRequest(meter=FARM_METER))
    energy = of_farm.on_device("pi5", meter).energy
    assert energy is not None
    assert energy.supply_v == 1.8


def test_meter_that_does_not_open_again_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a unit that calibrates for a moment would end all runs at that voltage for good."""
    meter = SimpleNamespace(close=lambda: None)
    energy = EnergyRequest(meter="ppk2:/dev/ttyACM0,source", supply_v=1.8)
    opened_meter = OpenMeter(request=energy, meter=cast("Meter", meter), header=header())
    units: list[Meter] = []

    def open_meter(name: str) -> tuple[Meter, Header]:
        if not units:
            raise NoSuchMeter(f"{name} is busy")
        return units[0], header()

    monkeypatch.setattr(metering, "open_meter", open_meter)
    with pytest.raises(MeterLost, match="the meter was open before the voltage was changed"):
        opened_meter.set_supply(2.5)
    assert opened_meter.request.supply_v == 1.8
    units.append(BESIDE)
    opened_meter.set_supply(2.5)
    assert (opened_meter.meter, opened_meter.request.supply_v) == (BESIDE, 2.5)
