"""Shared parts of the benchmarks: options, paired rounds, spreads, tables, machine facts, an agent.

A benchmark compares sides, such as edgebench and another program. Each side runs once per round;
the order of the sides in a round is random. Ratios are computed within a round, so that a temporary
slowdown of the machine affects both sides of a ratio. The report has the median over the rounds,
the quartiles and the extremes. A claim has a figure and may have a bar, the limit for the figure.

With --short, a benchmark takes a minute or two; `make benchmarks` runs all benchmarks with --short.
With --smoke, a benchmark takes seconds, and its figures mean nothing.
tests/system/test_benchmarks.py runs all benchmarks with --smoke, to detect broken scripts.

If edgebench, the operating system or a program that the benchmark started reports an error, the
benchmark prints a one-line message and ends.
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
from types import TracebackType
from typing import TypeVar

from edgebench.host.lab import Lab
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.identity import parse_pairing_string
from edgebench.protocol.text import one_line

NAME = "bench-agent"
"""Name of the agent that a benchmark starts."""
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
IDLE_RATIO = 0.9
"""A machine counts as quiet if all cores together are idle for at least this share of a second."""

Value = TypeVar("Value")
"""Result of a side: a number, or a record with several numbers."""


def parse(
    parser: argparse.ArgumentParser, smoke: Mapping[str, float] | None = None, **short: float
) -> argparse.Namespace:
    """Parse the options of a benchmark, with --short and --smoke.

    Args:
        parser: Parser with the options of this benchmark.
        smoke: Defaults that apply with --smoke, by the name of the option.
        short: Defaults that apply with --short, by the name of the option.
    """
    smoke = smoke or {}
    sizes = parser.add_mutually_exclusive_group()
    for word, values in (("--short", short), ("--smoke", smoke)):
        parts = (f"--{name.replace('_', '-')} {value:g}" for name, value in values.items())
        sizes.add_argument(word, action="store_true", help=", ".join(parts))
    given = parser.parse_known_args()[0]
    parser.set_defaults(**smoke if given.smoke else short if given.short else {})
    return parser.parse_args()


def end_in_one_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print an expected error on a single line, and any other exception with its traceback."""
    if isinstance(error, (EdgebenchError, OSError, subprocess.SubprocessError)):
        print(f"error: {Path(sys.argv[0]).name}: {one_line(error)}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = end_in_one_line


def add_patience(parser: argparse.ArgumentParser) -> None:
    """Add the option --patience."""
    parser.add_argument(
        "--patience",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait up to this long before each round until the machine is idle",
    )


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with its quartiles and extremes."""

    median: float
    quartiles: tuple[float, float]
    extremes: tuple[float, float]
    count: int

    def text(self, digits: int = 2, scale: float = 1.0) -> str:
        """Text `median (q1..q3; min..max)`, with every value multiplied by `scale`."""
        low, high = (f"{value * scale:.{digits}f}" for value in self.quartiles)
        least, most = (f"{value * scale:.{digits}f}" for value in self.extremes)
        return f"{self.median * scale:.{digits}f} ({low}..{high}; {least}..{most})"


def spread(values: Sequence[float]) -> Spread:
    """The spread of values; for a single value, as with --smoke, all its figures are equal."""
    several = values if len(values) > 1 else [*values, *values]
    low, _, high = statistics.quantiles(several, n=4, method="inclusive")
    extremes = (min(values), max(values))
    return Spread(statistics.median(values), (low, high), extremes, len(values))


def paired_ratios(above: Sequence[float], below: Sequence[float]) -> Spread:
    """The spread of the ratio `above / below` over the rounds."""
    return spread([a / b for a, b in zip(above, below, strict=True)])


def interleave(
    sides: Mapping[str, Callable[[], Value]],
    rounds: int,
    *,
    before_round: Callable[[], None] = lambda: None,
    patience_s: float = 0.0,
    seed: int = 0,
) -> dict[str, list[Value]]:
    """Run every side once per round; returns the values of each side, in the order of the rounds.

    An extra first round, which is not reported, loads files and fills caches; if `rounds` is 1,
    there is no extra round. Each round waits up to `patience_s` for a quiet machine. No round is
    dropped or repeated.
    """
    draw = random.Random(seed)
    values: dict[str, list[Value]] = {name: [] for name in sides}
    for number in range(0 if rounds > 1 else 1, rounds + 1):
        before_round()
        wait_until_quiet(patience_s)
        for name in draw.sample(list(sides), len(sides)):
            value = sides[name]()
            if number:
                values[name].append(value)
        print(f"\rround {number} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return values


def wait_until_quiet(patience_s: float) -> None:
    """Wait until the cores have been idle for a second, but no longer than `patience_s`."""
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        before = idle_ticks()
        time.sleep(1.0)
        ticks = os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
        if idle_ticks() - before >= IDLE_RATIO * ticks:
            return


def idle_ticks() -> int:
    """Idle time of all cores since boot. Source: proc(5), /proc/stat, fields 4 and 5."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[4]) + int(fields[5])


def seconds_of(action: Callable[[], object]) -> float:
    """Wall time of a call."""
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def claim(text: str, figure: str, bar: str = "", is_met: bool | None = None) -> list[str]:
    """A row of a table of claims; `is_met` is None if the bar is missing or cannot be judged."""
    return [text, figure, bar, "" if is_met is None else "met" if is_met else "missed"]


def claims_table(claims: Sequence[Sequence[str]]) -> str:
    """Table of the claims of a benchmark, in the form of docs/performance.md."""
    return table(["claim", "median (quartiles; extremes)", "bar", ""], claims)


def table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def machine() -> str:
    """Date, machine and present load of the machine, on one line."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    named = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    virtual = ", virtual machine" if re.search(r"\bhypervisor\b", cpuinfo) else ""
    date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"{date}; {named[1].strip() if named else platform.machine()}, "
        f"{len(os.sched_getaffinity(0))} cores{virtual}; Linux {platform.release()}; "
        f"Python {platform.python_version()}; load {os.getloadavg()[0]:.1f} before"
    )


def report(title: str, lines: Sequence[str], began: str) -> None:
    """Print the results, with the machine and its load before and after."""
    print(f"\n### {title}\n")
    print("\n".join(lines))
    print(f"\n{began}, {os.getloadavg()[0]:.1f} after.", flush=True)


class LoopbackAgent:
    """`edgebench-agent serve` on loopback, in its own process and with its own directories."""

    def __init__(self, folder: Path, *options: str, name: str = NAME) -> None:
        self._folder = folder
        self._options = options
        self._name = name
        self._process: subprocess.Popen[str]
        self.port = 0
        self.ready_s = 0.0
        """Time from the start of the process to its `ready` line."""

    @property
    def pid(self) -> int:
        """Process id of the daemon."""
        return self._process.pid

    def __enter__(self) -> LoopbackAgent:
        self._folder.mkdir(parents=True, exist_ok=True)
        begin = time.perf_counter()
        with (self._folder / "stderr.txt").open("ab") as errors:
            self._process = subprocess.Popen(
                self._command(
                    "serve", "--name", self._name, "--listen", "127.0.0.1:0", *self._options
                ),
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
        """Create a host with its own directories, paired with this agent."""
        lab = Lab(folder / "store", config=folder / "config")
        self.pair(lab)
        return lab

    def pair(self, lab: Lab) -> None:
        """Pair a host with this agent."""
        answer = subprocess.run(
            self._command("pair", "--json"), capture_output=True, check=True, timeout=60
        )
        string = parse_pairing_string(json.loads(answer.stdout)["pairing"])
        lab.pair(str(replace(string, addresses=("127.0.0.1",))))

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
