"""Samples of three PPK2 that are lost while runs of two devices are analysed at the same time.

    python benchmarks/meters_beside_analysis.py [--streams 3] [--lanes 2] [--seconds 30] [--short]

Another process writes the words of three units to pseudo-terminals in real time. Like real units,
the process has a buffer for a tenth of a second of words; if the host does not read them within
this time, words are lost. While sessions read the words, two threads repeatedly finish (analyse and
store) copies of a run of about a million queries. On one side, the copies are finished in the
analysis process, as in `edgebench bench` with several devices; on the other side, in the threads
themselves. Only the first side has a bar.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import threading
import time
import tty
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from common import claim, claims_table, machine, parse, report
from meter_streams import decode, feed, header

from edgebench.host.bench.finish import Finish, FinishingProcess, finish
from edgebench.host.lab import Lab
from edgebench.host.result.run import Run
from edgebench.meters.ppk2.words import RATE_HZ
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import SerialTransport

RUN_S = 10.0
"""Duration of the timed loop of the analysed run, in which the built-in model runs some hundred
thousand queries per second."""


@dataclass(frozen=True, slots=True)
class FinishCost:
    """Samples lost and received, and runs finished, for one way of finishing runs."""

    lost_count: int
    received_count: int
    finished_count: int


def main() -> None:
    """Measure both sides, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--lanes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parse(parser, smoke={"streams": 1, "lanes": 1, "seconds": 1}, seconds=8)
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-beside-") as folder:
        fetched = Path(folder) / "fetched"
        run_s = min(RUN_S, 2 * options.seconds)
        queries = make_run(Path(folder) / "store", fetched, run_s)
        with FinishingProcess() as other:
            apart = measured(options, fetched, other.finish, Path(folder) / "apart")
        within = measured(options, fetched, finish, Path(folder) / "within")
    assert min(apart.finished_count, within.finished_count) > 0, "nothing was analysed"
    expected = options.streams * int(options.seconds * RATE_HZ)
    rows = [
        claim("samples of the meters", f"{expected:,}"),
        claim(
            f"runs of {queries:,} queries finished, apart; in threads",
            f"{apart.finished_count}; {within.finished_count}",
        ),
        claim(
            "lost, analysis in a process of its own",
            f"{expected - apart.received_count:,}",
            "0",
            apart.received_count == expected,
        ),
        claim("lost, analysis in the lanes' threads", f"{expected - within.received_count:,}"),
    ]
    title = f"{options.streams} PPK2 beside the analysis of {options.lanes} lanes"
    report(f"{title}, {options.seconds:g} s", [claims_table(rows)], began)


def make_run(store: Path, fetched: Path, run_s: float) -> int:
    """Make a run, and copy its files as they were fetched; returns its number of inferences."""

    def keeping(directory: Path, trouble: str | None = None) -> Run:
        shutil.copytree(directory, fetched)
        return finish(directory, trouble)

    with patch("edgebench.host.bench.host.finish", keeping):
        [run] = Lab(store).bench("digits_int8.tflite", runs=1, duration_s=run_s, is_checked=False)
    return len(run.queries)


def measured(options: argparse.Namespace, fetched: Path, how: Finish, folder: Path) -> FinishCost:
    """Record while the lanes finish copies of a run with the function `how`."""
    folder.mkdir()
    ends = [os.openpty() for _ in range(options.streams)]
    for _, slave in ends:
        tty.setraw(slave)
    listening, ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(listening, 1)
        feed([master for master, _ in ends], options.seconds)
        os._exit(0)
    paths = [folder / str(number) for number in range(options.streams)]
    counts = [0 for _ in range(options.lanes)]
    is_over = threading.Event()

    def finish_often(number: int) -> None:
        while not is_over.is_set():
            run = folder / f"run-{number}-{counts[number]}"
            shutil.copytree(fetched, run)
            how(run, None)
            shutil.rmtree(run)
            counts[number] += 1

    lanes = [threading.Thread(target=finish_often, args=(at,)) for at in range(options.lanes)]
    record(
        [os.ttyname(slave) for _, slave in ends], paths, lanes, lambda: os.write(ready, b"!"), child
    )
    is_over.set()
    for lane in lanes:
        lane.join()
    for descriptor in (listening, ready, *(one for end in ends for one in end)):
        os.close(descriptor)
    losses = [decode(path) for path in paths]
    return FinishCost(
        lost_count=sum(loss.lost_count for loss in losses),
        received_count=sum(loss.received_count for loss in losses),
        finished_count=sum(counts),
    )


def record(
    ports: list[str],
    paths: list[Path],
    lanes: list[threading.Thread],
    start_units: Callable[[], object],
    units: int,
) -> None:
    """Record until the process of the units has ended; the lanes work at the same time."""
    with ExitStack() as stack:
        sessions: list[StreamSession] = []
        for port, path in zip(ports, paths, strict=True):
            transport = SerialTransport(port, 115_200)
            stack.callback(transport.close)
            session = StreamSession(transport, header(), path, start=_nothing, stop=_nothing)
            sessions.append(stack.enter_context(session))
        for lane in lanes:
            lane.start()
        start_units()
        os.waitpid(units, 0)
        time.sleep(0.5)  # for bytes in flight
    assert all(session.trouble is None for session in sessions), [s.trouble for s in sessions]


def _nothing() -> None:
    """Send nothing, because the units stream all the time."""


if __name__ == "__main__":
    main()
