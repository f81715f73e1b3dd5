"""Overhead of timing a query, in addition to the inference: C, Python, edgebench and LoadGen.

    python benchmarks/harness_overhead.py [--rounds 7] [--duration 0.3] [--threads 1] [--models DIR]
                                          [--short]

Theory of operation. These sides are compared, for calls that do nothing and for models of
increasing size on each runtime:

    C           a C loop around the C function, if the wheel exports it (native_calls.py)
    Python      a Python loop that reads the clock before and after edgebench's native callable
    public      the same loop around the library's public call
    query       the same loop around a whole query: copy inputs, invoke, copy outputs
    edgebench   the loop of edgebench's worker: same callables and same work as `query`
    LoadGen     MLPerf's LoadGen through its Python binding: as `query`, with a single sample
    agent       the latency that a host gets from a real agent over TLS

Each side runs in its own process (overhead_side.py), once per round, in random order. The overhead
of a harness is its wall time per query minus the wall time per query of `query` in the same round.
Wall time per query is the median time from the start of a query to the start of the next, so that
occasional interruptions by other processes do not count. edgebench pauses between blocks of
queries; the sum of the pauses, divided by the number of queries, is added to its wall time per
query.

The built-in models are always measured. With --models, which names the folder of the project's test
models, smaller and larger models from this folder are measured too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from common import (
    NAME,
    LoopbackAgent,
    Spread,
    add_patience,
    interleave,
    machine,
    paired_ratios,
    parse,
    report,
    spread,
    table,
)
from overhead_side import NOTHING, SideResult

from edgebench.host.lab import Lab
from edgebench.host.result.metrics import METRICS

HERE = Path(__file__).resolve().parent
BUILT_IN = HERE.parent / "host" / "edgebench" / "host" / "builtin_models"
PACKAGES = {
    "tflite": "tflite-runtime",
    "litert": "ai-edge-litert",
    "onnx": "onnxruntime",
    "loadgen": "mlcommons-loadgen",
}
HELLO = "suite/01_hello_world/hello_world_int8.tflite"
MOBILENET = "suite/05_mobilenet_v1_0.25_224/mobilenet_v1_0.25_224"
CASES = (
    ("tflite", "digits_fp32.tflite"),
    ("litert", "digits_fp32.tflite"),
    ("onnx", "digits_int8.onnx"),
)
"""Runtimes, and names of built-in models."""
MORE_CASES = (
    ("tflite", HELLO),
    ("litert", HELLO),
    ("onnx", "bad/odd_but_valid/random_output.onnx"),
    ("tflite", "mlperf_tiny/models/vww_96_int8.tflite"),
    ("litert", f"{MOBILENET}_qat_uint8.tflite"),
    ("onnx", f"{MOBILENET}_float.onnx"),
)
"""Runtimes, and paths of models in the folder of --models. `HELLO` has three layers of 16 neurons,
and random_output.onnx has a single operator."""
C, PYTHON, QUERY, EDGEBENCH, LOADGEN = "c", "python-invoke", "python", "edgebench", "loadgen"
PUBLIC, AGENT = "python-public", "agent"
WARMUP_S = 0.1
LONG_NS = 1_000_000
SIDE_TIMEOUT_S = 120.0
ADDED_BAR_NS = 500.0
RATIO_BAR = 4.0
AGENT_BAR = 0.01
UNRESOLVED = "not resolvable"


@dataclass(frozen=True, slots=True)
class Case:
    """A model on a runtime, and how to measure it."""

    runtime: str
    model: Path
    threads: int
    duration_s: float
    loop: Path | None
    """The compiled C loop; None if it could not be compiled."""

    @property
    def names(self) -> list[str]:
        """Names of runtime and model, for tables."""
        if self.runtime == NOTHING:
            return ["none", "nothing"]
        return [self.runtime, self.model.name]

    def run(self, side: str) -> SideResult:
        """Run a side in its own process."""
        words = [side, self.runtime, self.model, self.threads, WARMUP_S, self.duration_s]
        words += [self.loop] if self.loop else []
        result = subprocess.run(
            [sys.executable, str(HERE / "overhead_side.py"), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=SIDE_TIMEOUT_S,
        )
        if result.returncode:
            raise SystemExit(f"{side} on {self.names} ended with {result.stderr[-2000:]}")
        return SideResult(**json.loads(result.stdout.splitlines()[-1]))

    def run_agent(self, lab: Lab) -> SideResult:
        """The latency that a host gets from an agent."""
        (run,) = lab.bench(
            self.model,
            runs=1,
            on=[NAME],
            runtime=self.runtime,
            threads=self.threads,
            duration_s=self.duration_s,
            min_query_count=1,
            warmup_duration_s=WARMUP_S,
        )
        metrics = run.metrics
        assert metrics.harness_ns is not None
        return SideResult(
            invoke_ns=float(METRICS["latency_ns.p50"].value(run.result) or 0),
            harness_ns=metrics.harness_ns.per_query,
        )


@dataclass
class Tables:
    """Rows of the tables in the report."""

    periods: list[list[str]] = field(default_factory=list)
    added: list[list[str]] = field(default_factory=list)
    latencies: list[list[str]] = field(default_factory=list)
    skipped: dict[str, None] = field(default_factory=dict)
    """Reasons for empty cells; each reason once, in order."""


def main() -> None:
    """Run the comparison and print it."""
    options = options_of_user()
    began = machine()
    tables = Tables()
    with ExitStack() as life:
        folder = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="edgebench-")))
        loop = compile_loop(folder, tables)
        agent = life.enter_context(LoopbackAgent(folder / "agent", "--no-advertise"))
        lab = agent.lab(folder / "host")
        cases = usable_cases(options.models, tables)
        for runtime, model in cases[1:2] if options.smoke else cases:
            case = Case(runtime, model, options.threads, options.duration, loop)
            add_rows(tables, case, measure(case, lab, options, tables))
    report("The timed loop", lines(tables, options), began)


def options_of_user() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    add_patience(parser)
    parser.add_argument("--duration", type=float, default=0.3, metavar="SECONDS")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=Path, metavar="DIR", help="folder of the test models")
    return parse(parser, smoke={"rounds": 1, "duration": 0.02}, rounds=3, duration=0.15)


def compile_loop(folder: Path, tables: Tables) -> Path | None:
    """Compile the C loop to a library; None if that fails, with the reason in `tables.skipped`."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        tables.skipped["C: no compiler"] = None
        return None
    library = folder / "native_loop.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", library, HERE / "native_loop.c"]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if result.returncode:
        tables.skipped[f"C: {compiler} fails: {result.stderr.strip()[-200:]}"] = None
        return None
    return library


def usable_cases(models: Path | None, tables: Tables) -> list[tuple[str, Path]]:
    """Cases whose model and runtime are present; `tables.skipped` gets reasons for the others."""
    cases = [(runtime, BUILT_IN / name) for runtime, name in CASES]
    if models:
        cases += [(runtime, models / name) for runtime, name in MORE_CASES]
    found = [(NOTHING, Path(NOTHING))]
    for runtime, model in cases:
        if installed(runtime) is None:
            tables.skipped[f"{runtime}: not installed"] = None
        elif not model.exists():
            tables.skipped[f"{model}: no such file"] = None
        else:
            found.append((runtime, model))
    return found


def installed(name: str) -> str | None:
    """Version of a package, None if it is not installed."""
    try:
        return version(PACKAGES[name])
    except PackageNotFoundError:
        return None


def measure(
    case: Case, lab: Lab, options: argparse.Namespace, tables: Tables
) -> dict[str, list[SideResult]]:
    """Results of each side, round by round, without the sides that cannot be run."""
    names = [PYTHON, QUERY, EDGEBENCH]
    names += [C] if case.loop else []
    names += [LOADGEN] if installed("loadgen") else []
    if LOADGEN not in names:
        tables.skipped["LoadGen: not installed"] = None
    sides: dict[str, Callable[[], SideResult]] = {name: partial(case.run, name) for name in names}
    if case.runtime != NOTHING:
        sides |= {PUBLIC: partial(case.run, PUBLIC), AGENT: partial(case.run_agent, lab)}
    print(*case.names, file=sys.stderr)
    seen = interleave(sides, options.rounds, patience_s=options.patience)
    reasons = {one.skipped for one in seen.get(C, []) if one.skipped}
    for reason in sorted(reasons):
        tables.skipped[f"C on {' '.join(case.names)}: {reason}"] = None
        seen.pop(C, None)
    return seen


def add_rows(tables: Tables, case: Case, seen: dict[str, list[SideResult]]) -> None:
    """Add a row for a case to each table."""
    sides = (C, PYTHON, QUERY, EDGEBENCH, LOADGEN)
    tables.periods.append([*case.names, *(cell(seen, side, "period_ns") for side in sides)])
    tables.added.append([*case.names, *added_cells(seen)])
    if AGENT in seen:
        tables.latencies.append([*case.names, *latency_cells(seen)])


def values(seen: Sequence[SideResult], quantity: str) -> list[float]:
    """Values of a quantity, round by round."""
    return [float(getattr(one, quantity)) for one in seen]


def cell(seen: dict[str, list[SideResult]], side: str, quantity: str) -> str:
    """Median and quartiles of a quantity of a side."""
    if side not in seen:
        return "–"
    found = spread(values(seen[side], quantity))
    digits = 1 if found.median < 1000 else 0
    return quartiles(found, digits)


def quartiles(found: Spread, digits: int) -> str:
    """Text `median (q1..q3)`."""
    low, high = (f"{value:.{digits}f}" for value in found.quartiles)
    return f"{found.median:.{digits}f} ({low}..{high})"


def added_cells(seen: dict[str, list[SideResult]]) -> list[str]:
    """Overhead of edgebench and LoadGen per query, and whether the bars are met."""
    bare = values(seen[QUERY], "period_ns")
    ours = Overhead.of(values(seen[EDGEBENCH], "period_ns"), bare)
    cells = [ours.ratio_text(), ours.text(), ours.verdict()]
    if LOADGEN not in seen:
        return [*cells, "–", "–", "–", "–"]
    theirs = Overhead.of(values(seen[LOADGEN], "period_ns"), bare)
    return [*cells, theirs.ratio_text(), theirs.text(), *times_cells(ours, theirs)]


@dataclass(frozen=True, slots=True)
class Overhead:
    """Wall time that a harness adds to a query, relative to the plain loop of the round."""

    difference_ns: Spread
    ratio: Spread
    is_resolved: bool
    """Whether the difference varies little between the rounds, and a query is shorter than
    `LONG_NS`. An unresolved difference is not printed."""

    @classmethod
    def of(cls, harness: Sequence[float], bare: Sequence[float]) -> Overhead:
        """Compute the overhead from the wall times per query, a value for each round."""
        difference = spread([a - b for a, b in zip(harness, bare, strict=True)])
        low, high = difference.quartiles
        is_close = high - low <= max(ADDED_BAR_NS, difference.median / 2)
        is_short = spread(bare).median < LONG_NS
        return cls(difference, paired_ratios(harness, bare), is_close and is_short)

    def text(self) -> str:
        """Difference to the plain loop, nanoseconds, as text; `UNRESOLVED` if not resolved."""
        return quartiles(self.difference_ns, 0) if self.is_resolved else UNRESOLVED

    def ratio_text(self) -> str:
        """Ratio of the wall time per query to that of the plain loop, as text."""
        return quartiles(self.ratio, 4 if self.ratio.median < 2 else 2)

    def verdict(self) -> str:
        """Whether the overhead meets edgebench's bar; a dash if the difference is not resolved."""
        if not self.is_resolved:
            return "–"
        return "met" if self.difference_ns.median <= ADDED_BAR_NS else "missed"


def times_cells(ours: Overhead, theirs: Overhead) -> list[str]:
    """Overhead of LoadGen divided by edgebench's, with a lower bound from the quartiles."""
    if not (ours.is_resolved and theirs.is_resolved):
        return ["–", "–"]
    high = ours.difference_ns.quartiles[1]
    if ours.difference_ns.median <= 0 or high <= 0:
        return ["edgebench adds nothing that shows", "met"]
    times = theirs.difference_ns.median / ours.difference_ns.median
    least = theirs.difference_ns.quartiles[0] / high
    return [f"{times:.1f} (≥ {least:.1f})", "met" if times >= RATIO_BAR else "missed"]


def latency_cells(seen: dict[str, list[SideResult]]) -> list[str]:
    """Latency that an agent reports, compared with plain loops."""
    agent, public = (values(seen[side], "invoke_ns") for side in (AGENT, PUBLIC))
    ratio = paired_ratios(agent, public)
    is_long = spread(public).median >= LONG_NS
    is_met = abs(ratio.median - 1) <= AGENT_BAR
    medians = [cell(seen, side, "invoke_ns") for side in (C, PYTHON, PUBLIC, AGENT)]
    verdict = ("met" if is_met else "missed") if is_long else "–"
    return [*medians, quartiles(ratio, 4), verdict, cell(seen, AGENT, "harness_ns")]


def lines(tables: Tables, options: argparse.Namespace) -> list[str]:
    """All tables, and the notes needed to read them."""
    model = ["runtime", "model"]
    period_head = ["C, invoke", "Python, invoke", "Python, query", "edgebench", "LoadGen"]
    added_head = ["edgebench / Python", "edgebench adds, ns", f"≤ {ADDED_BAR_NS:.0f} ns"]
    added_head += ["LoadGen / Python", "LoadGen adds, ns", "LoadGen's / edgebench's"]
    added_head += [f"≥ {RATIO_BAR:.0f}"]
    latency_head = ["C", "Python", "Python, public call", "agent", "agent / public call"]
    latency_head += [f"1 ± {AGENT_BAR}", "`harness_ns.per_query`"]
    return [
        "Overhead per query, relative to the plain Python loop that does the same:\n",
        table([*model, *added_head], tables.added),
        "\nWall time per query, ns:\n",
        table([*model, *period_head], tables.periods),
        "\nMedian invocation latency, ns:\n",
        table([*model, *latency_head], tables.latencies),
        "",
        *notes(tables, options),
    ]


def notes(tables: Tables, options: argparse.Namespace) -> list[str]:
    """Settings, and reasons for empty cells."""
    known = {name: installed(name) for name in PACKAGES}
    versions = ", ".join(f"{PACKAGES[name]} {found}" for name, found in known.items() if found)
    return [
        f"{options.rounds} rounds, {options.duration:g} s each, {options.threads} thread(s); "
        "median (quartiles) of the rounds; differences and ratios are taken within a round. "
        f"A difference is {UNRESOLVED} if a query takes 1 ms or more, or if the quartiles are "
        f"further apart than both {ADDED_BAR_NS:.0f} ns and half the median. LoadGen's callback "
        "counts its queries, which is about 35 ns of its overhead. In C, LiteRT's function is that "
        "of its compiled model, which does more around the kernels than the interpreter.",
        f"{versions}.",
        *(f"No figure: {reason}." for reason in tables.skipped),
    ]


if __name__ == "__main__":
    main()
