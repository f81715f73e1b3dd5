"""Simulated runs beside an instrument of a driver, or beside a program that writes a file.

Nothing waits: a run is played (energy_simulation.py), sampled as the instrument samples, spoilt if
that is wanted (spoilt.py), and written as the instrument sends it (meter_bytes.py) or as the
program writes it (meter_texts.py). From there on edgebench's own code reads it.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import cast

import numpy as np

from edgebench.agent.expectation import expect
from edgebench.device_profiles.load import find_profile
from edgebench.host.power.metering import OpenMeter, OtherInstrument
from edgebench.host.result.facts import EnergyRequest
from edgebench.host.store.power_file import PowerFile
from edgebench.host.store.recording import write_power
from edgebench.meters.base import Meter, Recording
from edgebench.meters.polled import INTERVAL_RATIOS
from edgebench.meters.spool import SpoolWriter
from edgebench.protocol.record import SyncFacts
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.thermal import Expectation
from support.energy_simulation import Course, Outcome, PlayedRun, SimulatedDevice, play
from support.meter_bytes import Instrument, Load
from support.meter_texts import Program
from support.records import DEVICE, RUN_ID
from support.spoilt import Fault, Floats, Readings, Scene

LOOP_QUERIES = 200
LOOP_S = 2.0
"""Length of a timed loop that a meter does not ask to be longer."""
STATED_GAIN_RATIO = 0.01
NOISE_RATIO = 2e-3
"""Noise of a reading, over the power of the work."""
DRIFT_LIMIT_PPM = 80.0
"""Largest difference of two clocks. Crystals of instruments and computers are within 50 ppm each;
none is exactly equal to another."""
SPEC = RunSpec("tflite", duration_s=LOOP_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a source samples, and the run that bench makes beside it."""

    rate_hz: float
    is_averaging: bool
    is_polled: bool
    """Whether it is read by the host, on the host's clock."""
    spec: RunSpec
    noise_ratio: float = NOISE_RATIO
    drift_ppm: float = 0.0

    @classmethod
    def of_driver(cls, instrument: Instrument, seed: int) -> Sampling:
        """Sampling of a driver's instrument; its clock differs from the device's if it has one."""
        header, is_polled = instrument.header(), not instrument.has_own_clock
        request = EnergyRequest(meter=instrument.name)
        opened = OpenMeter(request=request, meter=cast(Meter, instrument), header=header)
        drift_ppm = 0.0 if is_polled else drift_of(seed)
        return cls(
            rate_hz=header.capability.rate_hz,
            is_averaging=header.capability.is_averaging,
            is_polled=is_polled,
            spec=opened.spec(SPEC, is_duration_fixed=False),
            drift_ppm=drift_ppm,
        )

    @classmethod
    def of_program(cls, program: Program, seed: int) -> Sampling:
        """Sampling of a program, whose rate the user states as `--trace-rate`.

        The times of its file are those of another clock than the device's.
        """
        rate_hz = program.trace_rate_hz or program.rate_hz
        spec = OtherInstrument(rate_hz=rate_hz).spec(SPEC, is_duration_fixed=False)
        return cls(
            rate_hz=program.rate_hz,
            is_averaging=program.is_averaging,
            is_polled=False,
            drift_ppm=drift_of(seed),
            spec=replace(spec, duration_s=max(spec.duration_s, program.window_s)),
        )

    def run(self, load: Load, seed: int, run_id: str = RUN_ID) -> PlayedRun:
        """A run of this length on a device of this load, whose work is steady."""
        spec = self.spec
        device = SimulatedDevice(
            idle_w=load.idle_w,
            work_w=load.work_w,
            active_ratio=1.0,
            period_s=spec.duration_s / LOOP_QUERIES,
            duration_s=spec.duration_s,
            warmup_s=spec.duration_s / 10,
            idle_s=spec.idle_duration_s,
            chip_s=spec.load_code_chip_s or SimulatedDevice().chip_s,
        )
        played = play(device, np.random.default_rng(seed), run_id)
        sync = played.worker.sync if spec.load_code_chip_s else SyncFacts()
        worker = replace(played.worker, sync=sync)
        described = replace(DEVICE, profile=load.profile)
        record = replace(
            played.record,
            worker=worker,
            device=described,
            spec=spec,
            expected=expectation_of(load.profile),
        )
        return replace(played, record=record, worker=worker)

    def readings(self, played: PlayedRun, supply_v: float, seed: int) -> Readings:
        """Readings of an instrument that works."""
        chance = np.random.default_rng(seed + 1)
        interval_s = 1 / self.rate_hz
        if self.is_polled:
            time_s = polled_times(played.end_s, interval_s, chance, is_even=self.is_averaging)
        else:
            interval_s /= 1 + self.drift_ppm * 1e-6
            time_s = np.arange(1, int(played.end_s / interval_s)) * interval_s
        noise_w = chance.normal(0, self.noise_ratio * played.device.work_w, len(time_s))
        power_w = self._powers(played.course, time_s) + noise_w
        # A counter counts the noise, too; it never counts down.
        noise_j = noise_w * np.diff(time_s, prepend=time_s[0] - interval_s)
        energy_j = np.maximum.accumulate(played.course.energy_j(time_s) + np.cumsum(noise_j))
        return Readings.of(time_s, power_w, energy_j, supply_v)

    def on_its_clock(self, readings: Readings) -> Readings:
        """Readings with the times of the source's clock, which a file states."""
        return replace(readings, time_s=readings.time_s * (1 + self.drift_ppm * 1e-6))

    def _powers(self, course: Course, time_s: Floats) -> Floats:
        if not self.is_averaging:
            return course.at(time_s).copy()
        begins_s = np.concatenate([[max(0.0, 2 * time_s[0] - time_s[1])], time_s[:-1]])
        powers: Floats = (course.energy_j(time_s) - course.energy_j(begins_s)) / (time_s - begins_s)
        return powers


def drift_of(seed: int) -> float:
    """Difference of the clocks of an instrument and a device, ppm."""
    return float(np.random.default_rng(seed).uniform(-DRIFT_LIMIT_PPM, DRIFT_LIMIT_PPM))


@cache
def expectation_of(profile: str) -> Expectation:
    """What an agent sends of the profile of its device, such as the powers that it can take."""
    found = find_profile(profile)
    assert found is not None, profile
    return expect(found, Path("/nonexistent"))


def polled_times(
    end_s: float, interval_s: float, chance: np.random.Generator, *, is_even: bool
) -> Floats:
    """Times at which a host asks: at random where values are instants, as PolledSession does."""
    low, high = (1.0, 1.0) if is_even else INTERVAL_RATIOS
    steps_s = interval_s * chance.uniform(low, high, int(end_s / interval_s / low) + 2)
    time_s: Floats = float(chance.uniform(0, interval_s)) + np.cumsum(steps_s)
    return time_s[time_s < end_s]


def scene_of(played: PlayedRun, full_w: float, counter_range_j: float) -> Scene:
    """What a fault needs to know of a run and an instrument."""
    begin_ns, end_ns = played.timed.window_ns
    return Scene(
        loop_s=(begin_ns / 1e9, end_ns / 1e9),
        idle_w=played.device.idle_w,
        work_w=played.device.work_w,
        full_w=full_w,
        counter_range_j=counter_range_j,
    )


def metered_run(
    instrument: Instrument, seed: int, fault: Fault | None = None, load: Load | None = None
) -> Outcome:
    """A run beside the instrument of a driver, and what edgebench finds in it."""
    header = instrument.header()
    sampling = Sampling.of_driver(instrument, seed)
    played = sampling.run(load or instrument.load, seed)
    readings = sampling.readings(played, instrument.supply_v, seed)
    if fault is not None:
        limits = header.capability.current_limits
        scene = replace(
            scene_of(played, instrument.full_w, instrument.counter_range_j),
            has_ranges=any(limit.range is not None for limit in limits),
        )
        readings = fault.spoil(readings, scene)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        path = directory / "meter.spool"
        with SpoolWriter(path, header) as writer:
            for packet in instrument.packets(header, readings):
                writer.append(packet)
        write_power(directory, Recording(path, header))
        return played.outcome(PowerFile.open(directory), EnergyRequest(meter=instrument.name))


def filed_run(
    program: Program, seed: int, fault: Fault | None = None, load: Load | None = None
) -> Outcome | str:
    """A run beside a program that writes a file; its outcome, or why the file is refused."""
    sampling = Sampling.of_program(program, seed)
    played = sampling.run(load or program.load, seed)
    readings = sampling.readings(played, program.supply_v, seed)
    if fault is not None:
        scene = scene_of(played, program.full_a * program.supply_v, 262_143.328850)
        readings = fault.spoil(readings, scene)
    with tempfile.TemporaryDirectory() as folder:
        return filed_outcome(played, program, sampling.on_its_clock(readings), Path(folder))


def filed_outcome(
    played: PlayedRun, program: Program, readings: Readings, folder: Path
) -> Outcome | str:
    """The outcome of a run with a file of these readings, or why the file is refused."""
    path = program.write(folder, readings)
    return played.outcome_by_file(folder, path, program.options, STATED_GAIN_RATIO)


SWAPS = ("the next run of a set", "another model", "another day", "a set of three other runs")


def swapped_file(program: Program, seed: int) -> tuple[str, Outcome | str]:
    """The file of another run, or of a set of others, given to a run: the kind, and its outcome."""
    kind = SWAPS[seed % len(SWAPS)]
    sampling, load = Sampling.of_program(program, seed), program.load
    played = sampling.run(load, seed, f"20260102-030405-{seed:08x}")
    other, day = sampling, "20260102"
    if kind == "another model":
        load = replace(load, work_w=1.5 * load.work_w)
        other = replace(sampling, spec=replace(sampling.spec, duration_s=4.0))
    elif kind == "another day":
        day = "20260311"
    count = 3 if kind.startswith("a set") else 1
    parts = []
    for place in range(count):
        recorded = other.run(load, seed + 1000 * (1 + place), f"{day}-0{4 + place}0405-{seed:08x}")
        parts.append(other.readings(recorded, program.supply_v, seed))
    with tempfile.TemporaryDirectory() as folder:
        return kind, filed_outcome(played, program, _in_a_row(parts, program), Path(folder))


def _in_a_row(parts: list[Readings], program: Program) -> Readings:
    """Readings of several runs, one after another in one file."""
    time_s = np.arange(1, sum(len(part.time_s) for part in parts) + 1) / program.rate_hz
    power_w = np.concatenate([part.power_w for part in parts])
    energy_j = np.cumsum(power_w) / program.rate_hz
    return Readings.of(time_s, power_w, energy_j, program.supply_v)
