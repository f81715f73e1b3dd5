"""Simulated runs with a simulated meter: everything is known, and a thousand take a minute.

A run is a course of power over the device's clock: idle, loading, load code, loop, load code, idle.
The meter samples it by a clock of its own, and the host gets the samples late. The energy of the
timed loop follows from the course, to the last bit.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgebench.agent.worker.jitter import STRETCH_GAPS, STRETCH_QUERIES
from edgebench.agent.worker.load_code import CHIP_COUNT, chips_of, shifts_of
from edgebench.agent.worker.marks import QUIET_S
from edgebench.host.analysis.energy.run import find_energy
from edgebench.host.analysis.energy.windows import TimedQueries
from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.power.trace import placed, write_trace
from edgebench.host.result.energy import EnergyResult, SyncMethod
from edgebench.host.result.facts import EnergyRequest, ImportOptions, TraceRequest
from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.arrival import ArrivalEnvelope
from edgebench.meters.base import (
    Capability,
    Channel,
    Header,
    LossReport,
    MeterInfo,
    SampleBlock,
)
from edgebench.meters.polled import HOST_CLOCK, INTERVAL_RATIOS
from edgebench.meters.uncertainty import UncertaintyTerm
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import Event, LoadCode, RunRecord, SyncFacts, WorkerRecord
from support.energy import SECOND_NS, recorded
from support.records import RUN_ID, run_record, worker_record

Floats = NDArray[np.float64]
IDLE_S, CHIP_S, LOADING_S, GAP_S = 2.0, 0.02, 0.3, 0.002
FIRST_S = 1.0
"""When the device is idle first; the meter records from second 0."""
TAIL_S = 3.0
"""For how long the meter records behind the run."""
METER_NS = 7_000_000_000
"""Meter minus device, at the device's zero."""
SAME_CLOCK = ClockModel("host:h", "device:d", 0, 0.0, 0.0, 10_000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedDevice:
    """Powers and times of a device."""

    idle_w: float = 0.01
    work_w: float = 0.06
    """Power in the active part of an inference."""
    pause_w: float | None = None
    """Power in the rest of it; None: as idle."""
    code_w: float | None = None
    """Power of an active chip of the load code; None: as an inference."""
    period_s: float = 0.01
    active_ratio: float = 0.8
    jitter_ratio: float = 0.0
    """Standard deviation of a period."""
    duration_s: float = 2.0
    warmup_s: float = 0.2
    tick_s: float = 0.0
    """Period of something that the device does all the time, whatever it runs; 0: nothing."""
    tick_active_s: float = 0.0
    tick_w: float = 0.0
    chip_s: float = CHIP_S
    """Length of a chip of the load code."""
    idle_s: float = IDLE_S
    jitter_s: float = 0.0
    """Longest random gap of the timed loop; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedMeter:
    """Errors of a meter."""

    rate_hz: float = 10_000.0
    is_averaging: bool = True
    drift_ppm: float = 0.0
    late_s: float = 0.0
    """By which the samples come later than they are taken, all of them."""
    rate_step_ppm: float = 0.0
    """Change of its clock's rate in the middle of the recording."""
    noise_w: float = 1e-4
    noise_ratio: float = 0.0
    """Standard deviation of a noise that grows with the power, relative to it."""
    noise_span: int = 1
    """Number of values over which the noise is averaged, so that successive values are alike."""
    lag_s: float = 0.0
    """Time constant of a filter that the meter does not tell of."""
    smoothing_s: float | None = None
    uncertainty: tuple[UncertaintyTerm, ...] = ()
    is_polled: bool = False
    """A program polls instants by the clock of the device, at random intervals; the device plays no
    load code."""
    hold_s: float = 0.0
    """Interval after which a polled meter has a new value, the mean since the last one if it
    averages; in between, it repeats its value."""
    step_w: float = 0.0
    """Step to which values are rounded."""
    glitch_ratio: float = 0.0
    """Share of single samples that are too high by `glitch_w`."""
    glitch_w: float = 0.0
    elsewhere_s: float = 0.0
    """It is wired to another device, which is active and idle for so long on average; 0: it is
    not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedFile:
    """The format in which an instrument without a driver writes its samples."""

    zero_s: float = 0.0
    """Time of its clock at the first sample; None of it is the device's."""
    begins_s: float = 0.0
    """When it begins to record, on the device's clock."""
    is_clock: bool = False
    """Times are those of a clock, with the date."""
    has_commas: bool = False
    """Decimal commas, and semicolons between the columns."""
    gain_ratio: float = 0.01
    """Largest error of its gain, as its user states it; the true one is drawn."""
    jitter_s: float = 0.0
    """Error of the time of each sample: a program that asks, and is late now and then."""
    step_w: float = 0.0
    """Step to which powers are rounded; 0: seven digits."""


@dataclass(frozen=True, slots=True)
class Course:
    """Power over the device's clock, seconds, constant between two edges."""

    edges_s: Floats
    power_w: Floats
    joules: Floats = field(init=False)

    def __post_init__(self) -> None:
        steps_j = np.diff(self.edges_s) * self.power_w
        object.__setattr__(self, "joules", np.concatenate([[0.0], np.cumsum(steps_j)]))

    def energy_j(self, time_s: Floats) -> Floats:
        """Energy up to these times."""
        energy_j: Floats = np.interp(time_s, self.edges_s, self.joules)
        return energy_j

    def at(self, time_s: Floats) -> Floats:
        """Power at these times."""
        piece = np.searchsorted(self.edges_s, time_s, side="right") - 1
        powers: Floats = self.power_w[np.clip(piece, 0, len(self.power_w) - 1)]
        return powers

    def filtered(self, time_s: Floats, lag_s: float) -> Floats:
        """Power at these times behind a filter of this time constant, exact at each edge."""
        kept = np.exp(-np.diff(self.edges_s) / lag_s).tolist()
        states_w = [float(self.power_w[0])]
        for share, power_w in zip(kept, self.power_w.tolist(), strict=True):
            states_w.append(power_w + (states_w[-1] - power_w) * share)
        piece = np.searchsorted(self.edges_s, time_s, side="right") - 1
        piece = np.clip(piece, 0, len(self.power_w) - 1)
        share = np.exp(-(time_s - self.edges_s[piece]) / lag_s)
        target_w = self.power_w[piece]
        powers_w: Floats = target_w + (np.array(states_w)[piece] - target_w) * share
        return powers_w


@dataclass(frozen=True, slots=True)
class Outcome:
    """The findings in a simulated run, and the truth."""

    energy: EnergyResult
    gross_j: float
    net_j: float

    @property
    def is_refused(self) -> bool:
        """Whether there is no energy."""
        return self.energy.gross_j_per_inference is None

    @property
    def is_inside(self) -> bool:
        """Whether the true gross energy is in the printed interval."""
        value, u95 = self.energy.gross_j_per_inference, self.energy.u95_absolute_j
        return value is not None and u95 is not None and abs(value - self.gross_j) <= u95

    @property
    def is_net_inside(self) -> bool | None:
        """Whether the true net energy is in its interval; None where none is printed."""
        value, u95 = self.energy.net_j_per_inference, self.energy.net_u95_absolute_j
        if value is None or u95 is None:
            return None
        return abs(value - self.net_j) <= u95

    @property
    def off_ratio(self) -> float:
        """Error of the gross energy over the true one; 0 where there is none."""
        value = self.energy.gross_j_per_inference
        return 0.0 if value is None else value / self.gross_j - 1

    @property
    def u95_ratio(self) -> float:
        """Printed interval of the gross energy over the true one."""
        return (self.energy.u95_absolute_j or 0.0) / self.gross_j


def simulate(
    device: SimulatedDevice, meter: SimulatedMeter, seed: int, sync: SyncMethod | None = None
) -> Outcome:
    """One run with its analysis; the seed decides on which part of a sample a change falls."""
    chance = np.random.default_rng(seed)
    played = play(device, chance, has_code=not meter.is_polled)
    with tempfile.TemporaryDirectory() as folder:
        seen = played.course
        if meter.elsewhere_s:
            seen = _another(device, meter.elsewhere_s, played.end_s, chance)
        power = _recorded(Path(folder), seen, played.end_s, meter, chance)
        request = EnergyRequest(meter="simulated", sync=sync)
        return played.outcome(power, request)


def simulate_file(
    device: SimulatedDevice, meter: SimulatedMeter, file: SimulatedFile, seed: int
) -> Outcome | str:
    """One run, and the file of an instrument recorded with it; its outcome, or the refusal."""
    chance = np.random.default_rng(seed)
    played = play(device, chance)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seen = played.course
        if meter.elsewhere_s:
            seen = _another(device, meter.elsewhere_s, played.end_s, chance)
        at_s, power_w = _sampled(seen, played.end_s, meter, chance)
        kept = at_s >= file.begins_s
        gain = 1 + float(chance.uniform(-file.gain_ratio, file.gain_ratio))
        path = folder / "export.csv"
        _write_csv(path, power_w[kept] * gain, meter, file, chance)
        columns = ImportOptions(is_averaging=meter.is_averaging)
        return played.outcome_by_file(folder, path, columns, file.gain_ratio)


def _write_csv(
    path: Path,
    power_w: Floats,
    meter: SimulatedMeter,
    file: SimulatedFile,
    chance: np.random.Generator,
) -> None:
    """Samples as a table, with times of the instrument's own clock."""
    times_s = file.zero_s + (np.arange(len(power_w)) + 1) / meter.rate_hz
    if file.jitter_s:
        times_s = times_s + chance.exponential(file.jitter_s, len(times_s))
    if file.step_w:
        power_w = np.rint(power_w / file.step_w) * file.step_w
    if file.is_clock:
        times = np.rint(1e6 * times_s).astype("datetime64[us]").astype(str).tolist()
    else:
        times = [f"{at_s:.6f}" for at_s in times_s.tolist()]
    rows = zip(times, (1e3 * power_w).tolist(), strict=True)
    text = "".join([f"{time};{milliwatts:.7g}\n" for time, milliwatts in rows])
    text = text.replace(".", ",") if file.has_commas else text.replace(";", ",")
    head = "time" if file.is_clock else "time_s"
    path.write_text(f"{head}{';' if file.has_commas else ','}power_mW\n{text}")


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A run that was played, and what is true of it."""

    device: SimulatedDevice
    record: RunRecord
    worker: WorkerRecord
    timed: TimedQueries
    course: Course
    end_s: float

    def outcome_by_file(
        self, folder: Path, path: Path, options: ImportOptions, gain_ratio: float
    ) -> Outcome | str:
        """The outcome with an instrument's file, or why the file is refused."""
        trace = TraceRequest(name=path.name, sha256="", options=options, gain_ratio=gain_ratio)
        try:
            write_trace(folder, path, trace)
            trace = placed(folder, trace, self.record, [])
            write_trace(folder, path, trace)
        except EdgebenchError as exc:
            return str(exc)
        request = EnergyRequest(meter="trace", sync=SyncMethod.CODED_LOAD, trace=trace)
        return self.outcome(PowerFile.open(folder), request)

    def outcome(self, power: PowerFile, request: EnergyRequest) -> Outcome:
        """The findings in a recording."""
        found = find_energy(self.record, self.worker, self.timed, power, SAME_CLOCK, request)
        device, timed = self.device, self.timed
        begins_s, ends_s = (
            times[timed.first_row :] / SECOND_NS
            for times in (timed.queries.start_ns, timed.queries.end_ns)
        )
        gross_j = float(np.mean(self.course.energy_j(ends_s) - self.course.energy_j(begins_s)))
        tick_w = device.tick_w * device.tick_active_s / device.tick_s if device.tick_s else 0.0
        idle_j = (device.idle_w + tick_w) * float(np.mean(ends_s - begins_s))
        return Outcome(found, gross_j, gross_j - idle_j)


def play(
    device: SimulatedDevice,
    chance: np.random.Generator,
    run_id: str = RUN_ID,
    *,
    has_code: bool = True,
) -> PlayedRun:
    """One run, step by step."""
    at_s = FIRST_S + float(chance.uniform(0, 0.1))
    made = _Run(device, chance, run_id)
    made.enter("idle", at_s)
    at_s = made.stay(at_s, device.idle_s, device.idle_w)
    made.enter("idle_ended", at_s)
    made.enter("starting", at_s)
    at_s = made.stay(at_s, GAP_S, device.idle_w)
    made.enter("loading", at_s)
    at_s = made.stay(at_s, LOADING_S, 0.7 * device.work_w)
    if has_code:
        at_s = made.code(at_s)
    made.enter("warming_up", at_s)
    at_s = made.loop(at_s, device.warmup_s)
    warmup_count = len(made.starts_s)
    made.enter("measuring", at_s)
    at_s = made.loop(at_s, device.duration_s, device.jitter_s)
    at_s = made.stay(at_s, GAP_S, device.idle_w)
    if has_code:
        at_s = made.code(at_s)
    made.enter("spooling", at_s)
    at_s = made.stay(at_s, LOADING_S, 0.5 * device.work_w)
    made.enter("idle", at_s)
    at_s = made.stay(at_s, device.idle_s, device.idle_w)
    made.enter("idle_ended", at_s)
    end_s = at_s + TAIL_S
    course = made.course(end_s)

    starts_ns, ends_ns = made.queries_ns()
    samples = np.zeros(len(starts_ns), np.int64)
    queries = Queries(starts_ns, starts_ns, starts_ns, ends_ns, ends_ns, samples, warmup_count)
    worker = replace(
        worker_record(np.full(len(starts_ns), 1000)), sync=SyncFacts(codes=tuple(made.codes))
    )
    events = tuple(Event(round(second * SECOND_NS), kind) for kind, second in made.events)
    record = replace(run_record(worker, run_id), events=events)
    timed = TimedQueries(queries, warmup_count, has_gaps=device.jitter_s > 0)
    return PlayedRun(device, record, worker, timed, course, end_s)


@dataclass(slots=True)
class _Run:
    device: SimulatedDevice
    chance: np.random.Generator
    run_id: str
    events: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    codes: list[LoadCode] = field(default_factory=list[LoadCode])
    starts_s: list[float] = field(default_factory=list[float])
    ends_s: list[float] = field(default_factory=list[float])
    pieces: list[tuple[float, float, float]] = field(
        default_factory=list[tuple[float, float, float]]
    )
    """Begin, end and power of everything that is not idle."""

    def enter(self, kind: str, at_s: float) -> None:
        self.events.append((kind, at_s))

    def stay(self, at_s: float, duration_s: float, power_w: float) -> float:
        self.pieces.append((at_s, at_s + duration_s, power_w))
        return at_s + duration_s

    def code(self, at_s: float) -> float:
        """A quiet time, and the code with an idle chip before and after it."""
        device = self.device
        self.enter("syncing", at_s)
        at_s += QUIET_S + device.chip_s
        number = len(self.codes)
        chips, shifts = chips_of(self.run_id, number), shifts_of(self.run_id, number)
        edges_s = at_s + device.chip_s * (np.arange(CHIP_COUNT + 1) + shifts)
        busy_w = device.work_w if device.code_w is None else device.code_w
        for begin_s, end_s, is_busy in zip(edges_s, edges_s[1:], chips, strict=False):
            if is_busy:
                self.stay(float(begin_s), float(end_s - begin_s), busy_w)
        edges_ns = np.rint(edges_s * SECOND_NS).astype(np.int64).tolist()
        self.codes.append(LoadCode(tuple(edges_ns), chips))
        return float(edges_s[-1]) + device.chip_s

    def loop(self, at_s: float, duration_s: float, jitter_s: float = 0.0) -> float:
        """Inferences; with jitter, gaps between them as `agent/worker/jitter.py` makes them."""
        device = self.device
        stretch_s = max(STRETCH_GAPS * jitter_s, STRETCH_QUERIES * device.period_s)
        gap_due_s = at_s + stretch_s
        pause_w = device.idle_w if device.pause_w is None else device.pause_w
        end_s = at_s + duration_s
        while at_s < end_s:
            wide = float(self.chance.normal(1.0, device.jitter_ratio))
            period_s = device.period_s * max(0.1, wide)
            active_s = device.active_ratio * period_s
            self.stay(at_s, active_s, device.work_w)
            self.stay(at_s + active_s, period_s - active_s, pause_w)
            self.starts_s.append(at_s)
            at_s += period_s
            self.ends_s.append(at_s)
            if jitter_s and at_s >= gap_due_s:
                at_s += float(self.chance.uniform(0, jitter_s))
                gap_due_s = at_s + stretch_s
        return at_s

    def queries_ns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        starts, ends = (
            np.rint(np.array(times) * SECOND_NS).astype(np.int64)
            for times in (self.starts_s, self.ends_s)
        )
        return starts, ends

    def course(self, end_s: float) -> Course:
        """Everything as one course; ticks are on top of it."""
        device = self.device
        begins, ends, powers = (np.array(column) for column in zip(*self.pieces, strict=True))
        edges = [np.array([0.0, end_s]), begins, ends]
        ticks_s = np.zeros(0)
        if device.tick_s:
            phase_s = float(self.chance.uniform(0, device.tick_s))
            ticks_s = np.arange(phase_s, end_s - device.tick_active_s, device.tick_s)
            edges += [ticks_s, ticks_s + device.tick_active_s]
        edges_s = np.unique(np.concatenate(edges))
        middle_s = (edges_s[1:] + edges_s[:-1]) / 2
        piece = np.searchsorted(begins, middle_s, side="right") - 1
        inside = (piece >= 0) & (middle_s < ends[np.clip(piece, 0, None)])
        power_w = np.where(inside, powers[np.clip(piece, 0, None)], device.idle_w)
        if len(ticks_s):
            tick = np.searchsorted(ticks_s, middle_s, side="right") - 1
            is_ticking = (tick >= 0) & (middle_s - ticks_s[tick] < device.tick_active_s)
            power_w = power_w + device.tick_w * is_ticking
        return Course(edges_s, power_w)


def _another(
    device: SimulatedDevice, dwell_s: float, end_s: float, chance: np.random.Generator
) -> Course:
    """A device of the same powers that does something else."""
    dwells_s = chance.exponential(dwell_s, 10 + round(2 * end_s / dwell_s))
    edges_s = np.concatenate([[0.0], np.cumsum(dwells_s), [end_s + np.sum(dwells_s)]])
    is_busy = np.arange(len(edges_s) - 1) % 2 == 1
    return Course(edges_s, np.where(is_busy, device.work_w, device.idle_w))


def _sampled(
    course: Course, end_s: float, meter: SimulatedMeter, chance: np.random.Generator
) -> tuple[Floats, Floats]:
    """Times on the device's clock, and powers, that the meter makes of a course."""
    if meter.is_polled:
        return _polled(course, end_s, meter, chance)
    interval_s = 1 / meter.rate_hz / (1 + meter.drift_ppm * 1e-6)
    phase_s = float(chance.uniform(0, interval_s))
    at_s = np.arange(phase_s + interval_s, end_s, interval_s)
    if meter.rate_step_ppm:
        middle_s = at_s[len(at_s) // 2]
        late = np.maximum(0.0, at_s - middle_s) * meter.rate_step_ppm * 1e-6
        at_s = (at_s - late)[at_s - late < end_s]
    if meter.is_averaging:
        power_w = (course.energy_j(at_s) - course.energy_j(at_s - interval_s)) / interval_s
    else:
        power_w = course.at(at_s)
    if meter.lag_s:
        kept = float(np.exp(-interval_s / meter.lag_s))
        for index in range(1, len(power_w)):
            power_w[index] = kept * power_w[index - 1] + (1 - kept) * power_w[index]
    return at_s, _read_out(power_w, meter, chance)


def _polled(
    course: Course, end_s: float, meter: SimulatedMeter, chance: np.random.Generator
) -> tuple[Floats, Floats]:
    """Times and powers of a meter that is polled at random intervals, as `PolledSession` does."""
    low, high = INTERVAL_RATIOS
    count = math.ceil(end_s * meter.rate_hz / low)
    at_s = np.cumsum(chance.uniform(low, high, count) / meter.rate_hz)
    at_s = at_s[at_s < end_s]
    value_s = at_s
    if meter.hold_s:
        phase_s = float(chance.uniform(0, meter.hold_s))
        value_s = phase_s + np.floor((at_s - phase_s) / meter.hold_s) * meter.hold_s
    value_s, place = np.unique(np.clip(value_s, 0.0, None), return_inverse=True)
    if meter.lag_s:
        power_w = course.filtered(value_s, meter.lag_s)
    elif meter.hold_s and meter.is_averaging:
        passed_j = course.energy_j(value_s) - course.energy_j(value_s - meter.hold_s)
        power_w = passed_j / meter.hold_s
    else:
        power_w = course.at(value_s)
    return at_s, _read_out(power_w, meter, chance)[place]


def _read_out(power_w: Floats, meter: SimulatedMeter, chance: np.random.Generator) -> Floats:
    """Values as the meter reports them: with its noise, glitches and rounding."""
    white = chance.normal(0, 1, len(power_w) + meter.noise_span - 1)
    noise = np.convolve(white, np.ones(meter.noise_span), "valid") / math.sqrt(meter.noise_span)
    values_w: Floats = power_w + noise * np.hypot(meter.noise_w, meter.noise_ratio * power_w)
    if meter.glitch_ratio:
        values_w = values_w + meter.glitch_w * (chance.random(len(power_w)) < meter.glitch_ratio)
    if meter.step_w:
        values_w = np.rint(values_w / meter.step_w) * meter.step_w
    return values_w


def _recorded(
    directory: Path,
    course: Course,
    end_s: float,
    meter: SimulatedMeter,
    chance: np.random.Generator,
) -> PowerFile:
    """The meter's recording of a course."""
    at_s, power_w = _sampled(course, end_s, meter, chance)
    if meter.is_polled:
        times_ns = np.rint(at_s * SECOND_NS).astype(np.int64)
        return recorded(directory, times_ns, power_w, of=_header(meter))
    # The meter counts its own intervals, from an arbitrary zero.
    ends_ns = np.rint((np.arange(len(at_s)) + 1) * (SECOND_NS / meter.rate_hz)).astype(np.int64)
    begins_ns = ends_ns - round(SECOND_NS / meter.rate_hz)
    header = _header(meter)
    block = SampleBlock(
        channel=0,
        index0=0,
        time_ns=METER_NS + ends_ns,
        begin_ns=METER_NS + begins_ns if meter.is_averaging else None,
        power_w=power_w,
        flags=np.zeros(len(at_s), np.uint8),
    )
    envelope = ArrivalEnvelope()
    packet = max(1, round(meter.rate_hz / 100))
    for last in range(packet - 1, len(at_s), packet):
        came_s = at_s[last] + meter.late_s + chance.exponential(1e-3)
        envelope.add(round(came_s * SECOND_NS), int(METER_NS + ends_ns[last]))
    loss = LossReport(received_count=len(at_s), rate_error_ppm=meter.drift_ppm, rate_span_s=end_s)
    write_blocks(directory, header, [block], lambda: loss, envelope)
    return PowerFile.open(directory)


def _header(meter: SimulatedMeter) -> Header:
    capability = Capability(
        driver="simulated",
        channels=(Channel("supply", "board"),),
        rate_hz=meter.rate_hz,
        is_averaging=meter.is_averaging and not meter.is_polled,
        clock_domain=HOST_CLOCK if meter.is_polled else "meter:7",
        is_uniform=not meter.is_polled,
        smoothing_s=meter.smoothing_s,
        loss_detection="wallclock" if meter.is_polled else "counter",
    )
    return Header(
        driver="simulated",
        info=MeterInfo(vendor="Example", model="Simulated", serial="7"),
        capability=capability,
        uncertainty=meter.uncertainty,
        facts={"supply_v": 3.3},
    )
