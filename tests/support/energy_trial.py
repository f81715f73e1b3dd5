"""A run of a real model with a made-up PPK2 whose current follows the real activity of the device.

What the unit emits is known to the last sample, and the device's clock is this machine's own: so
the energy of any window is known, whatever the unit's clock does.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.host.analysis.run import analyse_run, fit_clock
from edgebench.host.result.energy import EnergyResult, EnergySync, SyncMethod
from edgebench.host.store import files
from edgebench.host.store.layout import Store
from edgebench.host.stored_run import StoredRun
from support.activity import SUPPLY_V, Activity
from support.agents import AgentProcess, Host
from support.ppk2 import Faults, Ppk2Emulator

DEVICE = "board"
FAST_PPM, LATE_S = 37.0, 1.8
IDLE_S = 1.8
"""Behind the run the recording must go on for longer than samples are late."""
MODELS = ("digits_int8.tflite", "digits_fp32.tflite", "digits_int8.onnx")


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of one method in one run, and the truth."""

    method: str
    value_j: float | None
    u95_absolute_j: float | None
    u95_comparative_j: float | None
    error_ns: float | None
    off_ns: float | None
    """By which the middle of the run is laid beside where it is in the trace."""
    truth_j: float
    refused: str | None

    @property
    def ratio(self) -> float:
        """Found over true; 0 where nothing was found."""
        return (self.value_j or 0.0) / self.truth_j

    @property
    def is_inside(self) -> bool:
        """Whether the truth is inside the printed interval."""
        if self.value_j is None or self.u95_absolute_j is None:
            return False
        return abs(self.value_j - self.truth_j) <= self.u95_absolute_j

    @property
    def is_inside_comparative(self) -> bool:
        """The same for the interval without the meter's gain, which this meter does not have."""
        if self.value_j is None or self.u95_comparative_j is None:
            return False
        return abs(self.value_j - self.truth_j) <= self.u95_comparative_j


@dataclass(frozen=True, slots=True)
class Bench:
    """An agent with a wire, a host that is paired with it, and the watcher of the worker."""

    host: Host
    activity: Activity

    def trial(self, seed: int, methods: Sequence[SyncMethod]) -> list[Found]:
        """One run with currents, a model and a length that follow from the seed."""
        chance = random.Random(seed)
        self.activity.begin(
            rest_a=chance.uniform(1e-3, 4e-3),
            work_a=chance.uniform(8e-3, 40e-3),
            noise_a=chance.uniform(0, 3e-4),
            seed=seed,
        )
        unit = Ppk2Emulator(faults=Faults(rate_error_ppm=FAST_PPM, delay_s=LATE_S))
        unit.waveform = lambda time_s: self.activity.waveform(unit, time_s)
        with unit:
            [run] = self.host.lab.bench(
                chance.choice(MODELS),
                runs=1,
                on=[DEVICE],
                duration_s=chance.uniform(0.6, 1.2),
                min_query_count=10,
                warmup_duration_s=0.2,
                meter=f"ppk2:{unit.path},supply={SUPPLY_V}",
                idle_duration_s=IDLE_S,
                cooldown_timeout_s=0.0,
                is_checked=False,
            )
        return [self._found(run, method, unit) for method in methods]

    def _found(self, run: StoredRun, method: SyncMethod, unit: Ppk2Emulator) -> Found:
        energy = analysed_again(self.host.lab.store, run.id, method)
        queries = run.queries
        assert run.metrics.warmup is not None
        first = run.metrics.warmup.query_count
        begin_ns, end_ns = int(queries["start_ns"].iloc[first]), int(queries["end_ns"].iloc[-1])
        return Found(
            method=method.value,
            value_j=energy.gross_j_per_inference,
            u95_absolute_j=energy.u95_absolute_j,
            u95_comparative_j=energy.u95_comparative_j,
            error_ns=energy.sync.error_ns if energy.sync else None,
            off_ns=_off_ns(energy.sync, (begin_ns + end_ns) // 2, unit),
            truth_j=self.activity.energy_j(begin_ns, end_ns) / (len(queries) - first),
            refused=energy.refused,
        )


def _off_ns(sync: EnergySync | None, device_ns: int, unit: Ppk2Emulator) -> float | None:
    """How far a moment is from its place by the unit's own clock."""
    if sync is None or sync.offset_ns is None:
        return None
    assert unit.started_s is not None
    true_ns = (device_ns - unit.started_s * 1e9) * (1 + FAST_PPM * 1e-6)
    assert sync.reference_ns is not None
    assert sync.slope_ppm is not None
    passed_ns = (device_ns - sync.reference_ns) * sync.slope_ppm * 1e-6
    return float(device_ns + sync.offset_ns + passed_ns - true_ns)


def analysed_again(store: Store, run_id: str, method: SyncMethod | None) -> EnergyResult:
    """`metrics.energy` of a stored run, by another way to align the clocks."""
    directory = store.directory(run_id)
    record = files.read_record(directory)
    traces = files.read_traces(directory, record, files.read_queries(directory))
    assert traces.facts.energy is not None
    request = replace(traces.facts.energy, sync=method)
    traces = replace(traces, facts=replace(traces.facts, energy=request))
    clock = fit_clock(files.read_clock(directory), record)
    energy = analyse_run(record, traces, created_utc="", clock=clock).metrics.energy
    assert energy is not None
    return energy


@contextmanager
def bench(folder: Path) -> Iterator[Bench]:
    """Started, paired, and stopped in the end."""
    host, directory = Host(folder / "host"), folder / "agent"
    with Activity(directory) as activity:
        line = f"uart:{activity.line_path}"
        agent = AgentProcess(directory, options=["--name", DEVICE, "--sync-line", line]).start()
        try:
            host.lab.pair(agent.pairing_string())
            yield Bench(host, activity)
        finally:
            agent.stop()
