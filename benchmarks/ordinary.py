"""How often is an ordinary set of quick runs valid, and how often is it wrong?

    python benchmarks/ordinary.py [--sets 8] [--models MODEL…] [--conditions quiet browser …]
        [--follow [CONDITION …]] [--patience 60] [--short]

Five built-in models, or the models of `--models`, are measured in turn with `edgebench bench MODEL
--quick`. Under each of these conditions, each model is measured `--sets` times:

    quiet      nothing else runs
    browser    two processes work for 50 to 500 ms at a time, and rest for 0.1 to 1 s
    neighbour  a process streams memory without a pause
    switching  the process of `neighbour` works for 15 s and rests for 15 s

The verdict of a set is the verdict of its headline, the median. The truth of a model is the median
over all of its sets on the quiet machine. For each condition, the table has the number of sets
whose median is valid, of sets whose interval contains the truth, and of sets that are valid
although their median was moved. A median was moved if its interval lies outside of the range of the
quiet medians. The rules that failed in sets without a valid median are listed with their counts.

With `--follow`, the first command that is advised for a set without a valid median is run under the
same condition. The advice counts as good if the median is then valid. If `--follow` has conditions
as its arguments, advice is followed only under these conditions.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import add_patience, machine, parse, report, table, wait_until_quiet

from edgebench.host.lab import Lab
from edgebench.host.result.verdict import NumberKind, State
from edgebench.host.show.verdict import advised
from edgebench.host.stored_run import StoredSet

ModelRuntime = tuple[str, str | None]
"""A model and its runtime; None: the runtime that `bench` chooses."""

PAIRS: Sequence[ModelRuntime] = (
    ("digits_int8.tflite", "litert"),
    ("digits_fp32.tflite", "litert"),
    ("digits_int8.tflite", "tflite"),
    ("digits_int8.onnx", "onnx"),
    ("digits_fp32.onnx", "onnx"),
)
"""Built-in models and their runtimes, in the order of measurement."""
HEADLINE = "latency_ns.p50"
STREAM_BYTES = 64 * 2**20
"""Size of the streamed memory: larger than the caches of a desktop, so that the memory bus is
busy."""
SWITCH_S = 15.0
"""Duration of each work phase and of each rest under the condition `switching`. It is about as long
as a set, so that some sets are disturbed in all runs and others only in a part of their runs."""
QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class OrdinarySet:
    """The headline (median latency) of a set, with its interval and its verdict."""

    pair: ModelRuntime
    median_ns: float | None
    """None if the numbers of the set are refused."""
    ci95_ns: tuple[float, float] | None
    state: State
    reasons: tuple[str, ...]
    """Failed rules that make the median invalid."""
    is_cleared: bool | None = None
    """Whether the median was valid after the first advice; None if no advice was followed."""


def work_and_rest(seed: int) -> None:
    """Alternate between work and rest like a web page with scripts, until the process is ended."""
    draw = random.Random(seed)
    while True:
        end_s = time.monotonic() + draw.uniform(0.05, 0.5)
        while time.monotonic() < end_s:
            sum(range(1000))
        time.sleep(draw.uniform(0.1, 1.0))


def stream(work_s: float, rest_s: float) -> None:
    """Copy memory for `work_s`, rest for `rest_s`, and repeat until the process is ended."""
    source = np.zeros(STREAM_BYTES, np.uint8)
    target = np.empty_like(source)
    while True:
        end_s = time.monotonic() + work_s
        while time.monotonic() < end_s:
            np.copyto(target, source)
        time.sleep(rest_s)


@contextmanager
def beside(*calls: tuple[Callable[..., None], tuple[float, ...]]) -> Iterator[None]:
    """Processes that run these calls."""
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=call, args=given, daemon=True) for call, given in calls]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.terminate()
            process.join()


CONDITIONS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    QUIET: beside,
    "browser": lambda: beside((work_and_rest, (0,)), (work_and_rest, (1,))),
    "neighbour": lambda: beside((stream, (60.0, 0.0))),
    "switching": lambda: beside((stream, (SWITCH_S, SWITCH_S))),
}


def main() -> None:
    """Measure under each condition, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", type=int, default=8, help="sets of each model, per condition")
    parser.add_argument("--models", nargs="+", metavar="MODEL", help="instead of built-in ones")
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=[*CONDITIONS])
    parser.add_argument(
        "--follow", nargs="*", choices=CONDITIONS, metavar="CONDITION", help="carry out the advice"
    )
    add_patience(parser)
    options = parse(parser, smoke={"sets": 1}, sets=2)
    if options.smoke:
        options.conditions = [QUIET]
    followed = () if options.follow is None else options.follow or CONDITIONS
    began = machine()
    sets: dict[str, list[OrdinarySet]] = {}
    for name in (QUIET, *(name for name in options.conditions if name != QUIET)):
        patience_s = options.patience if name == QUIET else 0.0
        with tempfile.TemporaryDirectory(prefix="edgebench-") as folder, CONDITIONS[name]():
            print(name, file=sys.stderr)
            pairs = [(path, None) for path in options.models] if options.models else PAIRS
            if options.smoke:
                pairs = pairs[:1]
            sets[name] = [
                replace(found, is_cleared=is_cleared(stored_set, Path(folder)))
                if name in followed and found.state is not State.VALID
                else found
                for stored_set, found in measured(Path(folder), pairs, options.sets, patience_s)
            ]
    report("Ordinary sets", lines(sets), began)


def measured(
    folder: Path, pairs: Sequence[ModelRuntime], set_count: int, patience_s: float
) -> Iterator[tuple[StoredSet, OrdinarySet]]:
    """Measure quick sets of each pair of model and runtime, in turn."""
    lab = Lab(folder)
    for number in range(set_count):
        for model, runtime in pairs:
            wait_until_quiet(patience_s)
            runs = lab.bench(model, runtime=runtime, preset="quick")
            (one,) = lab.sets(runs)
            found = summary(one, (model, runtime))
            print(f"{number + 1}: {model}: {row_of(found)}", file=sys.stderr)
            yield one, found


def summary(stored_set: StoredSet, pair: ModelRuntime) -> OrdinarySet:
    """The headline of a set, with the rules that harm it."""
    spread = None if stored_set.verdict.is_refused else stored_set.metrics.get(HEADLINE)
    return OrdinarySet(
        pair=pair,
        median_ns=None if spread is None else spread.median,
        ci95_ns=None if spread is None else spread.ci95,
        state=stored_set.verdict.state_of(NumberKind.MEDIAN),
        reasons=tuple(
            finding.id
            for finding in stored_set.verdict.failures
            if NumberKind.MEDIAN in finding.harmed
        ),
    )


def is_cleared(stored_set: StoredSet, store: Path) -> bool | None:
    """Whether the median is valid after the first advised command; None without a command."""
    commands = (
        found for advice in advised(stored_set) for step in advice.steps for found in step.commands
    )
    advice = next(commands, None)
    if advice is None:
        return None
    script = str(Path(sys.executable).with_name("edgebench"))
    words = [script, *advice.words, "--json", "--store", str(store)]
    done = subprocess.run(words, capture_output=True, text=True)
    sets = json.loads(done.stdout or "{}").get("sets", [])
    if not sets:
        print(f"{advice}: {done.stderr}", file=sys.stderr)
        return False
    return bool(sets[0]["verdict"]["numbers"][NumberKind.MEDIAN.value] == State.VALID.value)


def lines(sets: Mapping[str, Sequence[OrdinarySet]]) -> list[str]:
    """The table of conditions, and the rules that failed."""
    truth: dict[ModelRuntime, list[float]] = {}
    for one in sorted(sets[QUIET], key=lambda one: one.median_ns or 0.0):
        if one.median_ns:
            truth.setdefault(one.pair, []).append(one.median_ns)
    rows = [
        [
            name,
            str(len(found)),
            str(sum(one.state is State.VALID for one in found)),
            str(sum(is_inside(one, statistics.median(truth[one.pair])) for one in found)),
            str(sum(one.state is State.VALID and is_moved(one, truth[one.pair]) for one in found)),
            str(sum(is_moved(one, truth[one.pair]) for one in found)),
            f"{sum(one.is_cleared is True for one in found)} of "
            f"{sum(one.is_cleared is not None for one in found)}",
        ]
        for name, found in sets.items()
    ]
    headers = ["condition", "sets", "valid", "truth inside", "moved, but valid", "moved", "cleared"]
    reasons = Counter(
        (name, rule) for name, found in sets.items() for one in found for rule in one.reasons
    )
    counted = [[*pair, str(count)] for pair, count in reasons.most_common()]
    return [table(headers, rows), "", table(["condition", "rule that failed", "sets"], counted)]


def is_inside(ordinary_set: OrdinarySet, truth_ns: float) -> bool:
    """Whether the interval of the set contains the true median."""
    return (
        ordinary_set.ci95_ns is not None
        and ordinary_set.ci95_ns[0] <= truth_ns <= ordinary_set.ci95_ns[1]
    )


def is_moved(ordinary_set: OrdinarySet, quiet_ns: Sequence[float]) -> bool:
    """Whether the interval is outside of the range of the medians on the quiet machine."""
    if ordinary_set.ci95_ns is None:
        return False
    return ordinary_set.ci95_ns[0] > quiet_ns[-1] or ordinary_set.ci95_ns[1] < quiet_ns[0]


def row_of(ordinary_set: OrdinarySet) -> str:
    """A line of text about a set, printed as progress."""
    if ordinary_set.median_ns is None:
        return f"{ordinary_set.state.value}, {', '.join(ordinary_set.reasons)}"
    low, high = ordinary_set.ci95_ns or (ordinary_set.median_ns, ordinary_set.median_ns)
    interval = f"{ordinary_set.median_ns:.0f} ({low:.0f}..{high:.0f}) ns"
    return ", ".join([interval, ordinary_set.state.value, *ordinary_set.reasons])


if __name__ == "__main__":
    main()
