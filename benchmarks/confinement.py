"""Cost of the worker's confinement inside the timed loop.

    python benchmarks/confinement.py [--rounds 15] [--blocks 20] [--patience S] [--short]

Theory of operation. The confinement of a process cannot be lifted again. Two processes that load
the same model differ by more than the cost of the confinement, because their memory has different
addresses. So in each round, a process loads the model with a single thread and forks three
children, which have the same memory. The first child confines itself as a worker does, the other
two children do not. On the same CPU, the children take turns in random order; each turn runs a
block of the worker's own loop. For two children, each ratio is the quotient of their medians over
all blocks; the ratio of the two unconfined children shows the resolution of the method.

The system-call filter costs time only in system calls. So the number of system calls per inference
is determined too, with strace(1) if it is installed. The system calls of two processes are counted;
the second process runs twice as many inferences. The difference of the counts is divided by the
number of additional inferences.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import traceback
from collections.abc import Callable

from common import (
    Spread,
    add_patience,
    claim,
    claims_table,
    machine,
    parse,
    report,
    spread,
    table,
    wait_until_quiet,
)
from overhead_side import NOTHING, SideJob

from edgebench.agent.confine import AllowedPaths, Permissions, confine
from edgebench.agent.worker.loop import Calls, run_closed
from edgebench.host.bench.builtin import find_model

CASES = (
    (NOTHING, ""),
    ("tflite", "digits_fp32.tflite"),
    ("litert", "digits_fp32.tflite"),
    ("onnx", "digits_int8.onnx"),
)
"""Runtimes and built-in models; the models are small, so that a cost per inference is visible."""
SIDES = {"confined": True, "free": False, "free again": False}
_RUN, _END = b"r", b"e"
BLOCK_S = 0.03
LIMIT = 0.005
"""A median that changes by at most this share counts as unchanged."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--counted", type=int, default=20_000, metavar="N", help="under strace")
    parser.add_argument("--count", nargs=3, help=argparse.SUPPRESS)
    add_patience(parser)
    options = parse(parser, smoke={"rounds": 1, "blocks": 2, "counted": 500}, rounds=3, blocks=8)
    if options.count:
        runtime, path, count = options.count
        _loop(_calls(runtime, path), int(count))
        return
    began = machine()
    rows, claims = [], []
    for runtime, name in CASES[1:2] if options.smoke else CASES:
        path = str(find_model(name).path) if name else ""
        rounds = []
        for number in range(options.rounds):
            wait_until_quiet(options.patience)
            rounds.append(one_round(runtime, path, options.blocks, seed=number))
        cost = spread([one["confined"] / one["free"] for one in rounds])
        alike = spread([one["free again"] / one["free"] for one in rounds])
        case = f"{runtime} {name}".strip()
        p50_us = statistics.median(one["free"] for one in rounds) / 1000
        calls = calls_per_inference(runtime, path, options.counted, tries=1 if options.smoke else 2)
        rows.append([case, f"{p50_us:.3g}", cost.text(4), alike.text(4), calls])
        claims.append(
            claim(f"confined / free, {case}", cost.text(4), f"1 ± {LIMIT}", _is_met(cost))
        )
    headers = ["case", "µs", "confined / free", "free / free", "system calls per inference"]
    report("Confinement", [claims_table(claims), "", table(headers, rows)], began)


def _is_met(cost: Spread) -> bool:
    return abs(cost.median - 1) <= LIMIT


def one_round(runtime: str, path: str, blocks: int, seed: int) -> dict[str, float]:
    """Run a round in a new process; returns each side's median time per inference, nanoseconds."""

    def measure(answer: int) -> None:
        calls = _calls(runtime, path)
        count = max(20, int(BLOCK_S * 1e9 / max(1.0, _period_ns(calls, 200))))
        children = {name: ConfinementChild(calls, count, limits) for name, limits in SIDES.items()}
        draw = random.Random(seed)
        blocks_ns: dict[str, list[float]] = {name: [] for name in SIDES}
        for number in range(blocks + 1):
            for name in draw.sample(list(SIDES), len(SIDES)):
                value = children[name].run_block()
                if number:
                    blocks_ns[name].append(value)
        for child in children.values():
            child.end()
        medians = {name: statistics.median(values) for name, values in blocks_ns.items()}
        os.write(answer, json.dumps(medians).encode())

    reading, child = _fork(measure)
    with open(reading, "rb") as pipe:
        medians: dict[str, float] = json.loads(pipe.read())
    os.waitpid(child, 0)
    return medians


def _fork(action: Callable[[int], None]) -> tuple[int, int]:
    """Fork a child that runs a function with the writing end of a pipe.

    Returns the reading end of the pipe, and the id of the child.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            action(writing)
        except BaseException:  # a forked child may not return into its parent's code
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    return reading, child


class ConfinementChild:
    """A child process that runs a block of inferences for each request."""

    def __init__(self, calls: Calls, count: int, is_confined: bool) -> None:
        orders, self._orders = os.pipe()

        def serve(answer: int) -> None:
            if is_confined:
                done = confine(Permissions(AllowedPaths(), 3600.0)).record
                assert done.calls.is_applied, done.calls.detail
                assert done.files.is_applied, done.files.detail
            while os.read(orders, 1) == _RUN:
                os.write(answer, b"%r\n" % _period_ns(calls, count))

        self._answers, self._pid = _fork(serve)
        os.close(orders)

    def run_block(self) -> float:
        """Median time per inference of one block, nanoseconds."""
        os.write(self._orders, _RUN)
        return float(os.read(self._answers, 64))

    def end(self) -> None:
        """End the child."""
        os.write(self._orders, _END)
        os.close(self._orders)
        os.waitpid(self._pid, 0)


def _calls(runtime: str, path: str) -> Calls:
    """The prepared calls, on the CPU on which all sides run."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    return SideJob(runtime, path, 1, 0.0, 0.0, None).calls()


def _loop(calls: Calls, count: int) -> list[int]:
    times = run_closed(calls, [0] * count, duration_ns=0, min_count=count, max_count=count)
    return [end - start for start, end in zip(times.start_ns, times.end_ns, strict=True)]


def _period_ns(calls: Calls, count: int) -> float:
    return statistics.median(_loop(calls, count))


def calls_per_inference(runtime: str, path: str, counted: int, tries: int) -> str:
    """Number of system calls per inference in the worker's loop, as text.

    They are counted in loops with `counted` and with twice as many inferences.
    """
    if shutil.which("strace") is None:
        return "not counted"
    totals: dict[int, int] = {}
    # The number of waits between a library's threads varies while it loads: the minimum counts.
    for count in (counted, 2 * counted) * tries:
        command = [sys.executable, __file__, "--count", runtime, path, str(count)]
        traced = subprocess.run(
            ["strace", "-f", "-c", *command], capture_output=True, text=True, check=False
        )
        last = re.search(r"^100\.00\s+\S+\s+\S+\s+(\d+)", traced.stderr, re.MULTILINE)
        if last is None:
            return "not counted"
        totals[count] = min(int(last[1]), totals.get(count, sys.maxsize))
    return f"{(totals[2 * counted] - totals[counted]) / counted:.2f}"


if __name__ == "__main__":
    main()
