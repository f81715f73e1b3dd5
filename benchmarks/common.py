"""What the benchmarks share: paired repetitions, spreads, tables, the machine, an agent.

All sides of a comparison run in one process of one benchmark, once each in every round, in an
order that is drawn anew for each round. What is compared is the ratio within a round, so that a
machine that is slow for a second slows both sides; the median over the rounds is reported, with
its quartiles and its extremes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeVar

from edgebench.host.lab import Lab
from edgebench.protocol.identity import parse_pairing_string

NAME = "bench-agent"
"""What the agent of a benchmark is called."""
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
IDLE_RATIO = 0.9
"""A machine is quiet when its cores were idle for this part of a second."""

Value = TypeVar("Value")
"""What a side gives: a number, or more."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its quartiles and extremes."""

    median: float
    quartiles: tuple[float, float]
    extremes: tuple[float, float]
    count: int

    def text(self, digits: int = 2, scale: float = 1.0) -> str:
        """`median (q1..q3; min..max)`, every value times `scale`."""
        low, high = (f"{value * scale:.{digits}f}" for value in self.quartiles)
        least, most = (f"{value * scale:.{digits}f}" for value in self.extremes)
        return f"{self.median * scale:.{digits}f} ({low}..{high}; {least}..{most})"


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least two values."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    extremes = (min(values), max(values))
    return Spread(statistics.median(values), (low, high), extremes, len(values))


def paired_ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """The spread of `above / below`, taken round by round."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def interleave(
    sides: Mapping[str, Callable[[], Value]],
    rounds: int,
    *,
    before_round: Callable[[], None] = lambda: None,
    patience_s: float = 0.0,
    seed: int = 0,
) -> dict[str, list[Value]]:
    """Run every side once in each round; the values of each side, in the order of the rounds.

    One more round goes first, to warm files and caches, and is not reported. Each round waits up
    to `patience_s` for a quiet machine; no round is dropped or repeated.
    """
    draw = random.Random(seed)
    values: dict[str, list[Value]] = {name: [] for name in sides}
    for number in range(rounds + 1):
        before_round()
        wait_until_quiet(patience_s)
        for name in draw.sample(list(sides), len(sides)):
            value = sides[name]()
            if number:
                values[name].append(value)
        print(f"\rround {number} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return values


def add_patience(parser: argparse.ArgumentParser) -> None:
    """--patience."""
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait so long before each round for other processes to rest",
    )


def wait_until_quiet(patience_s: float) -> None:
    """Wait until other processes leave the cores alone for a second, but not for ever."""
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        before = idle_ticks()
        time.sleep(1.0)
        ticks = os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
        if idle_ticks() - before >= IDLE_RATIO * ticks:
            return


def idle_ticks() -> int:
    """Time that all cores have spent idle. Source: proc(5), /proc/stat, fields 4 and 5."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[4]) + int(fields[5])


def seconds_of(action: Callable[[], object]) -> float:
    """Wall time of a call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """One line on this machine and what else it is doing now."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    virtual = ", virtual machine" if re.search(r"\bhypervisor\b", cpuinfo) else ""
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"{date}; {named[1].strip() if named else platform.machine()}, "
        f"{len(os.sched_getaffinity(0))} cores{virtual}; Linux {platform.release()}; "
        f"Python {platform.python_version()}; load {load}"
    )


def report(title: str, lines: Sequence[str], began: str) -> None:
    """Print the results with the machine's state before and after."""
    print(f"### {title}\n")
    print("\n".join(lines))
    print(f"\nBefore: {began}.\nAfter: {machine()}.")


class Agent:
    """`edgebench-agent serve` on loopback in a process and with directories of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[str]
        self.port = 0
        self.ready_s = 0.0
        """Time from the start of the process to its `ready` line."""

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        return self._process.pid

    def __enter__(self) -> Agent:
        self._folder.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        with (self._folder / "stderr.txt").open("ab") as errors:
            self._process = subprocess.Popen(
                self._command("serve", "--name", NAME, "--listen", "127.0.0.1:0", *self._options),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        line = self._process.stdout.readline() if readable else ""
        self.ready_s = time.perf_counter() - begin
        if not line.startswith("ready "):
            self.__exit__()
            raise SystemExit(f"agent did not start: {(self._folder / 'stderr.txt').read_text()}")
        self.port = int(line.split()[-1])
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdout is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def lab(self, folder: Path) -> Lab:
        """A host with directories of its own that knows this agent as `NAME`."""
        answer = subprocess.run(
            self._command("pair", "--json"), capture_output=True, check=True, timeout=60
        )
        string = parse_pairing_string(json.loads(answer.stdout)["pairing"])
        lab = Lab(folder / "store", config=folder / "config")
        lab.pair(str(replace(string, addresses=("127.0.0.1",))))
        return lab

    def _command(self, *words: str) -> list[str]:
        directories = ["--state", str(self._folder / "state")]
        directories += ["--config", str(self._folder / "config")]
        return [sys.executable, "-m", "edgebench.agent", *directories, *words]


def end(process: subprocess.Popen[bytes]) -> None:
    """Stop a process that a benchmark started."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_TIMEOUT_S)
        return
    process.kill()
    process.wait()
