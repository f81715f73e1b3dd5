"""Cost and time for a single host to watch, discover and measure many devices at the same time.

    python benchmarks/farm_scale.py [--most 1000] [--duration 20] [--repeats 5] [--announced 300]
                                    [--agents 4] [--seats 3] [--runs 5] [--lane-repeats 3] [--short]

*Watch.* Agents on loopback (`farm_sides.py`: TLS, separate identities, the real codec) send a batch
of ten samples once a second, as `edgebench-agent` does in a run at 10 Hz. The agents share two
processes. A new process watches all agents with `edgebench.host.watch`. The figures are its CPU
time divided by the elapsed time, the growth of its proportional set size, and the time from each
sample to its delivery.

*Discovery.* Six processes announce devices by zeroconf on loopback. The time is measured for the
part of `edgebench devices` that listens and resolves every name.

*Lanes.* `Lab.bench` measures on agents with simulated boards; each board is a lane. All boards
share the cores of this machine, so a run issues only 20 queries per second, and waits most of the
time. The length of a lane is the time from the beginning of its first run to the result of its last
run.

*Scheduling.* The measurement is the same as for lanes, but with agents whose runs take no time
(`farm_sides.py`). Such a run has ended as soon as it is requested, and its files are those of a
real run of two seconds. So the devices do not use the cores. *CPU of the host a run* is the CPU
time of all threads of the process that calls `Lab.bench`, from the call to its return: lease, clock
probes, start, waiting, fetching, syncing, and the index. The analysis, which runs in another
process, is not included. The CPU time is the slope between a bench with few runs and a bench with
many runs: the difference of their CPU times, divided by the difference of their numbers of runs. So
work that a bench does only once does not count. *Of it, the result* is the part for reading the
run.json that the analysis has written, and for writing a row of the index. *Of it, clock probes* is
the part for 24 clock probes in the calling thread; the thread that receives their replies takes
about the same time in addition.

This process and its children raise their limit on open files to the hard limit. A host that watches
a thousand devices needs `ulimit -n 2048`, or `LimitNOFILE=2048` in its systemd unit.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import (
    LoopbackAgent,
    claim,
    claims_table,
    end,
    machine,
    parse,
    report,
    seconds_of,
    spread,
)
from farm_sides import WatchFigures, allow_many_files

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.started import start

from edgebench.host.bench import collect
from edgebench.host.bench.events import MeasurementEvent, RunBegan, RunStored, raise_failures
from edgebench.host.bench.finish import FinishingProcess
from edgebench.host.client import Client
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.lab import Lab
from edgebench.host.store import index
from edgebench.host.transports import mdns
from edgebench.protocol.plain import to_plain
from edgebench.protocol.spec import SpecChanges, from_preset

SIDES = Path(__file__).with_name("farm_sides.py")
AGENT_PROCESSES, ANNOUNCER_PROCESSES = 2, 6
CPU_BAR, BYTES_BAR, DELAY_BAR_S = 0.40, 150e3, 1.2
DISCOVERY_BAR_S = 1.5
HOST_CPU_BAR_S = 0.020
LANES_BAR = 1.2
"""Limit of the total time, relative to the time of the slowest lane (device). Source of these bars:
the issue about the farm, "Must show", item 3."""
BOARD = "imx8mp-evk"
MODEL = "digits_int8.onnx"
FEW_RUNS, MANY_RUNS = 5, 25
RUN_S = 2.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--most", type=int, default=1000, metavar="N", help="devices watched")
    parser.add_argument("--duration", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--repeats", type=int, default=5, metavar="N")
    parser.add_argument("--announced", type=int, default=300, metavar="N")
    parser.add_argument("--agents", type=int, default=4, metavar="N", help="agents with lanes")
    parser.add_argument("--seats", type=int, default=3, metavar="N", help="lanes of an agent")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="runs of a lane")
    parser.add_argument("--lane-repeats", type=int, default=3, metavar="N")
    options = parse(
        parser,
        smoke={
            "most": 10,
            "duration": 1,
            "repeats": 1,
            "announced": 5,
            "agents": 1,
            "seats": 1,
            "runs": 1,
            "lane_repeats": 1,
        },
        most=100,
        duration=5,
        repeats=2,
        announced=60,
        agents=2,
        seats=2,
        lane_repeats=2,
    )
    allow_many_files()
    # Functions of edgebench are replaced by functions that time them, which the types forbid.
    collect.note_run = RESULT.timed(index.note_run)  # type: ignore[attr-defined]
    Client.probe_clock = PROBES.timed(Client.probe_clock)  # type: ignore[method-assign]
    FinishingProcess.finish = RESULT.timed(FinishingProcess.finish)  # type: ignore[method-assign]
    began = machine()
    for count in counts(int(options.most)):
        report_watch(count, options.duration, int(options.repeats))
    report_discovery(int(options.announced), int(options.repeats))
    with tempfile.TemporaryDirectory(prefix="edgebench-farm-") as name:
        run = Path(name)
        report_lanes(options, run)
        report_scheduling(run, int(options.seats), int(options.lane_repeats))
    print(f"\nall of it: {began}")


def counts(most: int) -> list[int]:
    """Numbers of devices to watch: 100, 500 and 1,000, up to `most`."""
    return [count for count in (100, 500, 1000) if count <= most] or [most]


# Watching.


def report_watch(count: int, duration_s: float, repeats: int) -> None:
    """Watch `count` devices several times, each time in a new process, and print the figures."""
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-farm-") as name:
        figures = [
            watch_once(Path(name) / str(number), count, duration_s) for number in range(repeats)
        ]
    cpu = spread([figure.cpu_ratio for figure in figures])
    size = spread([figure.bytes_per_device for figure in figures])
    delay = spread([figure.delay_s_p99 for figure in figures])
    batches = spread([figure.batch_count / count / duration_s for figure in figures])
    rows = [
        claim("CPU, % of a core", cpu.text(1, 100), *met(cpu.median, CPU_BAR, 100)),
        claim("memory of a device, KB", size.text(0, 1e-3), *met(size.median, BYTES_BAR, 1e-3)),
        claim("sample to delivery, p99, s", delay.text(3), *met(delay.median, DELAY_BAR_S)),
        claim("the same, p50, s", spread([figure.delay_s_p50 for figure in figures]).text(3)),
        claim("batches of a device, 1/s", batches.text(3)),
        claim("all connected after, s", spread([figure.connect_s for figure in figures]).text(1)),
        claim(
            "away meanwhile", spread([float(figure.absence_count) for figure in figures]).text(0)
        ),
    ]
    report(f"{count} devices watched", [claims_table(rows)], began)


def watch_once(folder: Path, count: int, duration_s: float) -> WatchFigures:
    """Start new agents and a process that watches them; returns the figures of this process."""
    certificate = certificate_of(HostFiles(folder), folder)
    share = math.ceil(count / AGENT_PROCESSES)
    with sides([["agents", str(certificate), str(share)]] * AGENT_PROCESSES) as lines:
        places = [place for line in lines for place in json.loads(line)][:count]
        words = [sys.executable, str(SIDES), "watcher", str(folder), str(duration_s)]
        said = subprocess.run(
            words, input=json.dumps(places) + "\n", text=True, stdout=subprocess.PIPE, check=True
        )
    return WatchFigures(**json.loads(said.stdout))


# Discovery.


def report_discovery(count: int, repeats: int) -> None:
    """Discover `count` announced devices several times, and print the figures."""
    began = machine()
    share = math.ceil(count / ANNOUNCER_PROCESSES)
    words = [["announcer", str(n * share), str(share)] for n in range(ANNOUNCER_PROCESSES)]
    resolved: list[int] = []

    def listen() -> None:
        found = mdns.listen(3.0)
        resolved.append(sum(bool(one.endpoint.addresses and one.endpoint.pin) for one in found))

    with sides(words):
        time.sleep(2.0)  # until the unsolicited announcements at the start are over
        took = spread([seconds_of(listen) for _ in range(repeats)])
    total = share * ANNOUNCER_PROCESSES
    rows = [
        claim("discovered and resolved, s", took.text(), *met(took.median, DISCOVERY_BAR_S)),
        claim(
            "of them resolved, least", f"{min(resolved)} of {total}", "all", min(resolved) == total
        ),
    ]
    report(f"{total} devices discovered", [claims_table(rows)], began)


# Lanes.


class DeviceTimes:
    """Times at which the first run of each device began, and at which its last run was stored."""

    def __init__(self) -> None:
        self._began_s: dict[str, float] = {}
        self._ended_s: dict[str, float] = {}

    def __call__(self, event: MeasurementEvent) -> None:
        """Record the time of an event; a failure is raised."""
        raise_failures(event)
        if isinstance(event, RunBegan):
            self._began_s.setdefault(event.device, time.monotonic())
        elif isinstance(event, RunStored):
            self._ended_s[event.device] = time.monotonic()

    def lengths_s(self) -> list[float]:
        """Time of each device from the beginning of its first run to its last result."""
        return [ended_s - self._began_s[name] for name, ended_s in self._ended_s.items()]


@dataclass(frozen=True, slots=True)
class BenchFigures:
    """Figures of a bench over all lanes (one lane per device)."""

    run_count: int
    wall_s: float
    longest_s: float
    sum_s: float
    host_cpu_s: float
    result_cpu_s: float
    """Part of `host_cpu_s` for reading results and writing their rows."""
    probes_cpu_s: float
    """Part of `host_cpu_s` for clock probes, in the threads that make them."""

    def cpu_s_per_run(self, fewer: BenchFigures) -> float:
        """CPU time per additional run of this bench, compared with a bench with fewer runs."""
        return (self.host_cpu_s - fewer.host_cpu_s) / (self.run_count - fewer.run_count)


def report_lanes(options: argparse.Namespace, run: Path) -> None:
    """Measure on all boards of all agents, print the figures, and store a run in folder `run`."""
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-farm-") as name, ExitStack() as stack:
        folder = Path(name)
        lab = Lab(folder / "store", config=folder / "config")
        devices = []
        for number in range(int(options.agents)):
            words = [w for seed in range(options.seats) for w in ("--simulate", f"{BOARD}:{seed}")]
            agent = LoopbackAgent(folder / f"agent-{number}", *words, name=f"rack{number}")
            stack.enter_context(agent)
            agent.pair(lab)
            seats = [BOARD, *(f"{BOARD}-{n}" for n in range(2, int(options.seats) + 1))]
            devices += [f"rack{number}-simulated/{seat}" for seat in seats]
        bench(lab, devices, 1)  # sends the model, and examines the runtimes
        many = [bench(lab, devices, int(options.runs)) for _ in range(int(options.lane_repeats))]
        keep_run(lab, devices[0], run)
    count = many[0].run_count
    ratio = spread([one.wall_s / one.longest_s for one in many])
    speedup = spread([one.sum_s / one.wall_s for one in many])
    every = spread([one.host_cpu_s / count for one in many])
    rows = [
        claim(
            f"{count} runs on {len(devices)} seats / longest lane",
            ratio.text(3),
            *met(ratio.median, LANES_BAR),
        ),
        claim("longest lane, s", spread([one.longest_s for one in many]).text(1)),
        claim("sum of the lanes / all of it", speedup.text(1)),
        claim("CPU of the host / runs, beside the devices, ms", every.text(1, 1e3)),
    ]
    report("Lanes", [claims_table(rows)], began)


def keep_run(lab: Lab, device: str, run: Path) -> None:
    """Make a run, and store its files and the description of its device in a directory."""
    spec = from_preset("default", runtime="onnx", **settings(1))
    with lab.connect(device) as client:
        system = client.describe()
        run_id = start(client, spec, MODEL)
        for _ in client.follow_run():
            pass
        client.fetch_run(run_id, run)
        client.acknowledge(run_id)
    (run / "system.json").write_text(json.dumps(to_plain(system)))


def report_scheduling(run: Path, count: int, repeats: int) -> None:
    """Measure on agents whose runs take no time, and print the figures."""
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-farm-") as name:
        folder = Path(name)
        lab, files = Lab(folder / "store", config=folder / "config"), HostFiles(folder / "config")
        words = ["replayers", str(certificate_of(files, folder)), str(count), str(run)]
        with sides([words]) as lines:
            devices = [KnownDevice(*place) for place in json.loads(lines[0])]
            for device in devices:
                files.remember(device)
            names = [device.name for device in devices]
            bench(lab, names, 1)
            few = [bench(lab, names, FEW_RUNS) for _ in range(repeats)]
            many = [bench(lab, names, MANY_RUNS) for _ in range(repeats)]
    runs = many[0].run_count
    cpu = spread([more.cpu_s_per_run(less) for more, less in zip(many, few, strict=True)])
    result = spread([one.result_cpu_s / runs for one in many])
    probes = spread([one.probes_cpu_s / runs for one in many])
    rows = [
        claim("CPU of the host a run, ms", cpu.text(1, 1e3), *met(cpu.median, HOST_CPU_BAR_S, 1e3)),
        claim("of it, the result, ms", result.text(1, 1e3)),
        claim("of it, clock probes, ms", probes.text(1, 1e3)),
        claim("runs a second", spread([runs / one.wall_s for one in many]).text(1)),
    ]
    report(f"Scheduling on {count} devices", [claims_table(rows)], began)


class CpuClock:
    """CPU time of the host's threads in wrapped functions."""

    def __init__(self) -> None:
        self.cpu_s = 0.0

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function, so that its CPU time is added to `cpu_s`."""

        def do(*arguments: object) -> object:
            begin_s = time.thread_time()
            try:
                return work(*arguments)
            finally:
                self.cpu_s += time.thread_time() - begin_s

        return do


RESULT, PROBES = CpuClock(), CpuClock()


def bench(lab: Lab, devices: Sequence[str], runs: int) -> BenchFigures:
    """Measure on all devices at the same time."""
    times, result_s, probes_s = DeviceTimes(), RESULT.cpu_s, PROBES.cpu_s
    cpu_s, begin_s = time.process_time(), time.monotonic()
    made = lab.bench(MODEL, on=devices, runs=runs, watcher=times, **settings(runs))
    wall_s, cpu_s = time.monotonic() - begin_s, time.process_time() - cpu_s
    assert len(made) == runs * len(devices)
    lengths = times.lengths_s()
    return BenchFigures(
        run_count=len(made),
        wall_s=wall_s,
        longest_s=max(lengths),
        sum_s=sum(lengths),
        host_cpu_s=cpu_s,
        result_cpu_s=RESULT.cpu_s - result_s,
        probes_cpu_s=PROBES.cpu_s - probes_s,
    )


def settings(runs: int) -> SpecChanges:
    """Settings for a set of `runs` runs, which mostly wait."""
    return {
        "scenario": "server",
        "target_qps": 20.0,
        "duration_s": RUN_S * runs,
        "min_query_count": 10 * runs,
        "warmup_duration_s": 0.1,
        "is_checked": False,
        "cooldown_timeout_s": 0.0,
    }


# Shared.


def certificate_of(files: HostFiles, folder: Path) -> Path:
    """File with the certificate of a host, without its key."""
    pem = files.identity_path().read_text()
    path = folder / "certificate.pem"
    path.write_text(pem[pem.index("-----BEGIN CERTIFICATE") :])
    return path


@contextmanager
def sides(words: Sequence[Sequence[str]]) -> Iterator[list[str]]:
    """Start processes of `farm_sides.py`; yields the first line that each prints."""
    processes = [
        subprocess.Popen(
            [sys.executable, str(SIDES), *those],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for those in words
    ]
    try:
        yield [process.stdout.readline().decode() for process in processes if process.stdout]
    finally:
        for process in processes:
            end(process)
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()


def met(value: float, limit: float, scale: float = 1.0) -> tuple[str, bool]:
    """A bar that is an upper limit, and whether the value meets it."""
    return f"≤ {limit * scale:g}", value <= limit


if __name__ == "__main__":
    main()
