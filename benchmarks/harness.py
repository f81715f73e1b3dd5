"""What measuring by the agent adds to a latency, against a plain loop by hand.

    python benchmarks/harness.py [--rounds 15] [--duration 2] [--threads 1] [--patience 0]

Every side of a round is a fresh process of the same interpreter with the same model, input bytes
and thread count, and the same warm-up: a run by a real agent, from a host over TLS, and a loop of
two `perf_counter_ns` reads around one call of the library (bare_loop.py). What is compared is the
median latency that each reports. Models of 200 µs and more say how far that number is off; tiny
models say what the loop costs in nanoseconds, beside what the agent itself says that it costs.

The slow models and the tiniest are not in the repository: they are looked for in ../shared.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from common import (
    NAME,
    Agent,
    add_patience,
    interleave,
    machine,
    paired_ratios,
    report,
    spread,
    table,
)

from edgebench.host.lab import Lab

ROOT = Path(__file__).resolve().parents[1]
MODELS = ROOT.parent / "shared" / "models"
BUILT_IN = ROOT / "host" / "edgebench" / "host" / "builtin_models"
BARE_LOOP = Path(__file__).with_name("bare_loop.py")
SLOW_NS = 200_000
BAR = 0.01
WARMUP_S = 0.5
VWW = MODELS / "mlperf_tiny" / "models" / "vww_96_int8.tflite"
MOBILENET = MODELS / "suite" / "05_mobilenet_v1_0.25_224" / "mobilenet_v1_0.25_224_float.onnx"
HELLO = MODELS / "suite" / "01_hello_world" / "hello_world_int8.tflite"
AGENT, BARE, RUN = "agent", "bare loop", "bare loop, session.run"
PACKAGES = {"litert": "ai_edge_litert", "tflite": "tflite_runtime", "onnx": "onnxruntime"}
CASES = (
    ("litert", VWW),
    ("tflite", VWW),
    ("onnx", MOBILENET),
    ("litert", HELLO),
    ("tflite", HELLO),
    ("onnx", BUILT_IN / "digits_int8.onnx"),
)


@dataclass
class Case:
    """One model on one runtime."""

    runtime: str
    model: Path
    threads: int
    duration_s: float
    harness: list[dict[str, float]] = field(default_factory=list)
    """What each run said about its own loop."""

    def by_agent(self, lab: Lab) -> float:
        """Median latency as the agent's raw queries give it, nanoseconds."""
        (run,) = lab.bench(
            self.model,
            on=[NAME],
            runtime=self.runtime,
            threads=self.threads,
            duration_s=self.duration_s,
            min_query_count=1,
            warmup_duration_s=WARMUP_S,
        )
        self.harness.append(run.metrics["harness_ns"])
        return float(run.metrics["latency_ns"]["p50"])

    def by_hand(self, runtime: str) -> float:
        """Median latency in the plain loop, nanoseconds."""
        words = [runtime, self.model, self.threads, WARMUP_S, self.duration_s]
        command = [sys.executable, str(BARE_LOOP), *map(str, words)]
        result = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
        )
        return float(result.stdout)

    def sides(self, lab: Lab) -> dict[str, Callable[[], float]]:
        """The ways to measure this case."""
        sides: dict[str, Callable[[], float]] = {
            AGENT: partial(self.by_agent, lab),
            BARE: partial(self.by_hand, self.runtime),
        }
        if self.runtime == "onnx":
            sides[RUN] = partial(self.by_hand, "onnx-run")
        return sides


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    add_patience(parser)
    parser.add_argument("--duration", type=float, default=2.0, metavar="SECONDS")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    began = machine()
    slow: list[list[str]] = []
    tiny: list[list[str]] = []
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name:
        folder = Path(name)
        with Agent(folder / "agent", "--no-advertise") as agent:
            lab = agent.lab(folder / "host")
            for runtime, model in usable_cases():
                case = Case(runtime, model, options.threads, options.duration)
                nanoseconds = interleave(
                    case.sides(lab), options.rounds, patience_s=options.patience
                )
                is_slow = spread(nanoseconds[BARE]).median >= SLOW_NS
                (slow if is_slow else tiny).extend(rows(case, nanoseconds, is_slow))
    report("The timed loop", lines(slow, tiny, options), began)


def usable_cases() -> list[tuple[str, Path]]:
    """The cases whose model and runtime are here; the others are named on stderr."""
    found = []
    for runtime, model in CASES:
        if find_spec(PACKAGES[runtime]) is None:
            print(f"{runtime} skipped: not installed", file=sys.stderr)
        elif not model.exists():
            print(f"{runtime} on {model.name} skipped: not beside the checkout", file=sys.stderr)
        else:
            found.append((runtime, model))
    return found


def rows(case: Case, nanoseconds: dict[str, list[float]], is_slow: bool) -> list[list[str]]:
    """A row of the table for each loop that the agent is compared with."""
    make = slow_row if is_slow else tiny_row
    agent = nanoseconds.pop(AGENT)
    return [make(case, agent, name, values) for name, values in nanoseconds.items()]


def slow_row(case: Case, agent: list[float], name: str, bare: list[float]) -> list[str]:
    """The agent's median over the other's."""
    ratio = paired_ratios(agent, bare)
    is_met = abs(ratio.median - 1) <= BAR
    verdict = ["1 ± 0.01", "met" if is_met else "missed"] if name == BARE else ["", ""]
    medians = [f"{spread(values).median / 1e3:.1f}" for values in (agent, bare)]
    return [case.runtime, case.model.name, *medians, name, ratio.text(4), *verdict]


def tiny_row(case: Case, agent: list[float], name: str, bare: list[float]) -> list[str]:
    """The agent's median less the other's."""
    difference = spread([a - b for a, b in zip(agent, bare, strict=True)])
    medians = [f"{spread(values).median:.0f}" for values in (agent, bare)]
    own = [f"{spread([facts[key] for facts in case.harness]).median:.0f}" for key in FACTS]
    return [case.runtime, case.model.name, *medians, name, difference.text(0), *own]


FACTS = ("p50", "per_query")


def lines(slow: list[list[str]], tiny: list[list[str]], options: Any) -> list[str]:
    """Both tables."""
    heads = (
        ["runtime", "model", "agent µs", "other µs", "other", "agent / other", "bar", ""],
        ["runtime", "model", "agent ns", "other ns", "other", "agent - other, ns",
         "`harness_ns.p50`", "`harness_ns.per_query`"],
    )  # fmt: skip
    notes = (
        f"\n{options.rounds} rounds, {options.duration:g} s each, {options.threads} thread(s); "
        "median (quartiles; extremes)."
    )
    return [table(heads[0], slow), "", table(heads[1], tiny), notes]


if __name__ == "__main__":
    main()
