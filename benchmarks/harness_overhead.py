"""What a timed query costs beside the inference: C, plain Python, edgebench and LoadGen.

    python benchmarks/harness_overhead.py [--rounds 7] [--duration 0.3] [--threads 1] [--agent]

Theory of operation. For calls that do nothing, for the smallest model, for one of 10 to 60 µs and
for one of 1 ms and more, on each runtime:

    C           a C loop around the C function, where the wheel exports one (native_calls.py)
    Python      two looks at the clock around the native callable of edgebench's driver
    query       the same loop around inputs in, invoke, outputs out: the work of one query
    edgebench   the loop of edgebench's worker, same callables, same work
    LoadGen     MLPerf's, by its Python binding, same callables, same work, one sample

Each side runs in a process of its own (overhead_side.py), once in every round, in an order that is
drawn anew. What a harness adds is its wall time per query less that of the plain query loop,
within the round. Wall time per query is the median time from one query to the next, so that other
processes on the machine, which stop a loop now and then, do not count; to edgebench's is added what
its pauses between blocks of queries come to for each.

`--agent` adds what an agent reports to a host over TLS, and a plain loop around the library's
public call. The larger models are not in the repository; they are looked for in ../shared.
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
    Agent,
    Spread,
    add_patience,
    interleave,
    machine,
    paired_ratios,
    report,
    spread,
    table,
)
from overhead_side import NOTHING, Seen

from edgebench.host.lab import Lab
from edgebench.host.result.metrics import METRICS

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared" / "models"
BUILT_IN = HERE.parent / "host" / "edgebench" / "host" / "builtin_models"
HELLO = SHARED / "suite" / "01_hello_world" / "hello_world_int8.tflite"
MOBILENET = SHARED / "suite" / "05_mobilenet_v1_0.25_224"
PACKAGES = {
    "tflite": "tflite-runtime",
    "litert": "ai-edge-litert",
    "onnx": "onnxruntime",
    "loadgen": "mlcommons-loadgen",
}
CASES = (
    (NOTHING, Path(NOTHING)),
    ("tflite", HELLO),
    ("litert", HELLO),
    ("onnx", SHARED / "bad" / "odd_but_valid" / "random_output.onnx"),
    ("tflite", BUILT_IN / "digits_fp32.tflite"),
    ("litert", BUILT_IN / "digits_fp32.tflite"),
    ("onnx", BUILT_IN / "digits_int8.onnx"),
    ("tflite", SHARED / "mlperf_tiny" / "models" / "vww_96_int8.tflite"),
    ("litert", MOBILENET / "mobilenet_v1_0.25_224_qat_uint8.tflite"),
    ("onnx", MOBILENET / "mobilenet_v1_0.25_224_float.onnx"),
)
"""The smallest ones are three layers of 16 neurons, and a single operator."""
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
    """One model on one runtime, and how to measure it."""

    runtime: str
    model: Path
    threads: int
    duration_s: float
    loop: Path | None
    """The compiled C loop."""

    @property
    def names(self) -> list[str]:
        """Runtime and model, for tables."""
        if self.runtime == NOTHING:
            return ["none", "nothing"]
        return [self.runtime, self.model.name]

    def run(self, side: str) -> Seen:
        """Run a side in a process of its own."""
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
        return Seen(**json.loads(result.stdout.splitlines()[-1]))

    def run_agent(self, lab: Lab) -> Seen:
        """The median latency that a host has from an agent."""
        (run,) = lab.bench(
            self.model,
            on=[NAME],
            runtime=self.runtime,
            threads=self.threads,
            duration_s=self.duration_s,
            min_query_count=1,
            warmup_duration_s=WARMUP_S,
        )
        metrics = run.metrics
        return Seen(
            invoke_ns=float(METRICS["latency_ns.p50"].value(run.result) or 0),
            harness_ns=metrics.harness_ns.per_query,
        )


@dataclass
class Tables:
    """The rows, as they come."""

    latencies: list[list[str]] = field(default_factory=list)
    periods: list[list[str]] = field(default_factory=list)
    added: list[list[str]] = field(default_factory=list)
    agent: list[list[str]] = field(default_factory=list)
    skipped: dict[str, None] = field(default_factory=dict)
    """Why a column is empty; each reason once, in order."""


def main() -> None:
    """Run the comparison and print it."""
    options = parse()
    began = machine()
    tables = Tables()
    with ExitStack() as life:
        folder = Path(life.enter_context(tempfile.TemporaryDirectory(prefix="edgebench-")))
        loop = compile_loop(folder, tables)
        lab = None
        if options.agent:
            lab = life.enter_context(Agent(folder / "agent", "--no-advertise")).lab(folder / "host")
        for runtime, model in usable_cases(tables):
            case = Case(runtime, model, options.threads, options.duration, loop)
            add_rows(tables, case, measure(case, lab, options, tables))
    report("What a harness adds to a query", lines(tables, options), began)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    add_patience(parser)
    parser.add_argument("--duration", type=float, default=0.3, metavar="SECONDS")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--agent", action="store_true", help="a run by a real agent, too")
    return parser.parse_args()


def compile_loop(folder: Path, tables: Tables) -> Path | None:
    """The C loop as a library; None, with the reason, where there is no compiler."""
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


def usable_cases(tables: Tables) -> list[tuple[str, Path]]:
    """The cases whose model and runtime are here; a note on the others."""
    found = []
    for runtime, model in CASES:
        if runtime != NOTHING and installed(runtime) is None:
            tables.skipped[f"{runtime}: not installed"] = None
        elif runtime != NOTHING and not model.exists():
            tables.skipped[f"{model.name}: not beside the checkout"] = None
        else:
            found.append((runtime, model))
    return found


def installed(name: str) -> str | None:
    """Version of a package that is compared."""
    try:
        return version(PACKAGES[name])
    except PackageNotFoundError:
        return None


def measure(
    case: Case, lab: Lab | None, options: argparse.Namespace, tables: Tables
) -> dict[str, list[Seen]]:
    """What each side saw, round by round; without the sides that cannot be run."""
    names = [PYTHON, QUERY, EDGEBENCH]
    names += [C] if case.loop else []
    names += [LOADGEN] if installed("loadgen") else []
    if LOADGEN not in names:
        tables.skipped["LoadGen: not installed"] = None
    sides: dict[str, Callable[[], Seen]] = {name: partial(case.run, name) for name in names}
    if lab and case.runtime != NOTHING:
        sides |= {PUBLIC: partial(case.run, PUBLIC), AGENT: partial(case.run_agent, lab)}
    print(*case.names, file=sys.stderr)
    seen = interleave(sides, options.rounds, patience_s=options.patience)
    reasons = {one.skipped for one in seen.get(C, []) if one.skipped}
    for reason in sorted(reasons):
        tables.skipped[f"C on {' '.join(case.names)}: {reason}"] = None
        seen.pop(C, None)
    return seen


def add_rows(tables: Tables, case: Case, seen: dict[str, list[Seen]]) -> None:
    """A row in each table."""
    invoke = [cell(seen, side, "invoke_ns") for side in (C, PYTHON, EDGEBENCH)]
    query = [cell(seen, side, "query_ns") for side in (QUERY, EDGEBENCH, LOADGEN)]
    tables.latencies.append([*case.names, *invoke, *query])
    sides = (C, PYTHON, QUERY, EDGEBENCH, LOADGEN)
    tables.periods.append([*case.names, *(cell(seen, side, "period_ns") for side in sides)])
    tables.added.append([*case.names, *added_cells(seen)])
    if AGENT in seen:
        tables.agent.append([*case.names, *agent_cells(seen)])


def values(seen: Sequence[Seen], quantity: str) -> list[float]:
    """One quantity, round by round."""
    return [float(getattr(one, quantity)) for one in seen]


def cell(seen: dict[str, list[Seen]], side: str, quantity: str) -> str:
    """Median and quartiles of what a side saw."""
    if side not in seen:
        return "–"
    found = spread(values(seen[side], quantity))
    digits = 1 if found.median < 1000 else 0
    return quartiles(found, digits)


def quartiles(found: Spread, digits: int) -> str:
    """`median (q1..q3)`."""
    low, high = (f"{value:.{digits}f}" for value in found.quartiles)
    return f"{found.median:.{digits}f} ({low}..{high})"


def added_cells(seen: dict[str, list[Seen]]) -> list[str]:
    """What edgebench and LoadGen add to a query, and what that says of the bars."""
    bare = values(seen[QUERY], "period_ns")
    ours = Added.of(values(seen[EDGEBENCH], "period_ns"), bare)
    cells = [ours.ratio_text(), ours.text(), ours.verdict()]
    if LOADGEN not in seen:
        return [*cells, "–", "–", "–", "–"]
    theirs = Added.of(values(seen[LOADGEN], "period_ns"), bare)
    return [*cells, theirs.ratio_text(), theirs.text(), *times_cells(ours, theirs)]


@dataclass(frozen=True, slots=True)
class Added:
    """What a harness adds to the wall time of a query, against the plain loop of the round."""

    difference_ns: Spread
    ratio: Spread
    is_resolved: bool
    """Whether the rounds agree on the difference to within the bar, on a query that is short
    enough for it to matter."""

    @classmethod
    def of(cls, harness: Sequence[float], bare: Sequence[float]) -> Added:
        """From wall times per query, round by round."""
        difference = spread([a - b for a, b in zip(harness, bare, strict=True)])
        low, high = difference.quartiles
        is_close = high - low <= max(ADDED_BAR_NS, difference.median / 2)
        is_short = spread(bare).median < LONG_NS
        return cls(difference, paired_ratios(harness, bare), is_close and is_short)

    def text(self) -> str:
        """Nanoseconds, where they mean anything."""
        return quartiles(self.difference_ns, 0) if self.is_resolved else UNRESOLVED

    def ratio_text(self) -> str:
        """Against the plain loop."""
        return quartiles(self.ratio, 4 if self.ratio.median < 2 else 2)

    def verdict(self) -> str:
        """Against the bar for edgebench."""
        if not self.is_resolved:
            return "–"
        return "met" if self.difference_ns.median <= ADDED_BAR_NS else "missed"


def times_cells(ours: Added, theirs: Added) -> list[str]:
    """LoadGen's part over edgebench's, and the least that the quartiles allow; the bar."""
    if not (ours.is_resolved and theirs.is_resolved):
        return ["–", "–"]
    high = ours.difference_ns.quartiles[1]
    if ours.difference_ns.median <= 0 or high <= 0:
        return ["edgebench adds nothing that shows", "met"]
    times = theirs.difference_ns.median / ours.difference_ns.median
    least = theirs.difference_ns.quartiles[0] / high
    return [f"{times:.1f} (≥ {least:.1f})", "met" if times >= RATIO_BAR else "missed"]


def agent_cells(seen: dict[str, list[Seen]]) -> list[str]:
    """The latency that an agent reports, against plain loops."""
    agent, bare, public = (values(seen[side], "invoke_ns") for side in (AGENT, PYTHON, PUBLIC))
    ratio = paired_ratios(agent, public)
    is_long = spread(public).median >= LONG_NS
    is_met = abs(ratio.median - 1) <= AGENT_BAR
    medians = [cell(seen, side, "invoke_ns") for side in (AGENT, PYTHON, PUBLIC)]
    verdict = ("met" if is_met else "missed") if is_long else "–"
    ratios = [quartiles(found, 4) for found in (paired_ratios(agent, bare), ratio)]
    return [*medians, *ratios, verdict, cell(seen, AGENT, "harness_ns")]


def lines(tables: Tables, options: argparse.Namespace) -> list[str]:
    """All tables and what must be known to read them."""
    model = ["runtime", "model"]
    latency_head = ["invoke: C", "invoke: Python", "invoke: edgebench"]
    latency_head += ["query: Python", "query: edgebench", "query: LoadGen"]
    period_head = ["C, invoke", "Python, invoke", "Python, query", "edgebench", "LoadGen"]
    added_head = ["edgebench / Python", "edgebench adds, ns", f"≤ {ADDED_BAR_NS:.0f} ns"]
    added_head += ["LoadGen / Python", "LoadGen adds, ns", "LoadGen's / edgebench's"]
    added_head += [f"≥ {RATIO_BAR:.0f}"]
    found = [
        "Median latency that each side reports, ns:\n",
        table([*model, *latency_head], tables.latencies),
        "\nWall time per query, ns, as the median time from one query to the next:\n",
        table([*model, *period_head], tables.periods),
        "\nAdded to the wall time of a query, over the plain Python loop that does the same:\n",
        table([*model, *added_head], tables.added),
    ]
    if tables.agent:
        agent_head = ["agent", "Python", "Python, public call", "agent / Python"]
        agent_head += ["agent / public call", f"1 ± {AGENT_BAR}", "`harness_ns.per_query`"]
        found.append("\nMedian latency that a real agent reports, ns:\n")
        found.append(table([*model, *agent_head], tables.agent))
    return [*found, "", *notes(tables, options)]


def notes(tables: Tables, options: argparse.Namespace) -> list[str]:
    """How it was measured."""
    known = {name: installed(name) for name in PACKAGES}
    versions = ", ".join(f"{PACKAGES[name]} {found}" for name, found in known.items() if found)
    return [
        f"{options.rounds} rounds, {options.duration:g} s each, {options.threads} thread(s); "
        "median (quartiles) of the rounds; differences and ratios are taken within a round. "
        f"A difference is {UNRESOLVED} where a query takes 1 ms and more, or where the quartiles "
        f"are further apart than {ADDED_BAR_NS:.0f} ns and half the median. edgebench's pauses "
        "between blocks of queries are in its wall time, spread over all. LoadGen's callback "
        "counts its queries, which is about 35 ns of what it adds. In C, LiteRT's function is that "
        "of its compiled model, which does more around the kernels than the interpreter.",
        f"{versions}.",
        *(f"No figure: {reason}." for reason in tables.skipped),
    ]


if __name__ == "__main__":
    main()
