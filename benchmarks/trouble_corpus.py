"""How many rules fail in a disturbed run, and to how many causes are the failures attributed?

    python benchmarks/trouble_corpus.py [--runs 20] [--simulated-runs 12] [--record FILE] [--smoke]

Disturbances of six kinds are planted as in `disturbances.py`: a busy process, a browser, too many
threads and a quota of CPU time (as root) on this machine; heat and a weak supply on simulated
boards. Each run is a separate result, not a part of a set. The traces of real runs in
`shared/known_answers/traces` are analysed as if an undisturbed agent had recorded them.

`--record FILE` writes the failed findings of two runs of each kind, for the test of the diagnosis.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from common import claim, claims_table, machine, parse, report, table
from disturbances import (
    CPU,
    DISTURBANCES,
    Disturbance,
    PlantedSite,
    measured_sets,
    planted,
)
from ordinary import beside, work_and_rest

from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.diagnosis import diagnose
from edgebench.host.result.verdict import Finding, Verdict

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.quotas import enter, quota_group
from support.records import CREATED_UTC, run_record, traces_of, worker_record

FAILED_BAR, CAUSES_BAR = 4.5, 1.7
"""Minimum of the mean number of failed rules, and maximum of the mean number of causes. Source:
issue 40, "Must show", item 1."""
TRACES = Path(__file__).parents[2] / "shared" / "known_answers" / "traces"
RECORDED_RUNS = 2
"""Runs of each kind in the file of `--record`."""
SINGLE = ("--runs", "1", "--no-check", "--cooldown", "0s", "--cpus", CPU)
LAYERS, WIDTH = 64, 1024
"""Layers and width of a model whose inference takes a few milliseconds, which is about a time slice
of the scheduler."""
QUOTA_CPUS = 0.5


def single(*options: str) -> Callable[[PlantedSite], Sequence[str]]:
    """Function that returns the arguments of `bench` for a single run with these options."""
    return lambda site: (long_model(site.folder), *SINGLE, *options)


def long_model(folder: Path) -> str:
    """A model of layers that share their weights."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(1).normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", [f"x{number}", "w"], [f"x{number + 1}"])
        for number in range(LAYERS)
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH])
        for name in ("x0", f"x{LAYERS}")
    ]
    graph = helper.make_graph(
        nodes, "long", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = folder / "long.onnx"
    onnx.save(model, str(path))
    return str(path)


def browse(seed: int) -> None:
    """Alternate between work and sleep like a browser, on the model's CPU."""
    os.sched_setaffinity(0, {int(CPU)})
    work_and_rest(seed)


@contextmanager
def browser(_: PlantedSite) -> Iterator[Callable[[], None]]:
    """Run two processes that use the CPU like a browser."""
    with beside((browse, (0,)), (browse, (1,))):
        yield lambda: None


@contextmanager
def quota(site: PlantedSite) -> Iterator[Callable[[], None]]:
    """A quota of CPU time for the agent and the model.

    Raises:
        SystemExit: no control group can be created on this machine.
    """
    with quota_group(QUOTA_CPUS) as group:
        if group is None:
            raise SystemExit("no control group can be made: run as root")
        enter(group, site.agent.pid)
        yield lambda: None


PLANTED = {disturbance.name: disturbance for disturbance in DISTURBANCES}
KINDS = (
    replace(PLANTED["another process"], words=single("--duration", "3s")),
    Disturbance(
        name="browser",
        causes=frozenset({Cause.OTHER_PROGRAMS}),
        words=single("--duration", "3s"),
        plant=browser,
    ),
    replace(
        PLANTED["99 threads"], name="8 threads", words=single("--duration", "3s", "--threads", "8")
    ),
    Disturbance(
        name="CPU quota",
        causes=frozenset({Cause.CPU_LIMIT}),
        words=single("--duration", "3s"),
        plant=quota,
    ),
    replace(PLANTED["throttling"], words=single("--sustained", "10s")),
    replace(PLANTED["under-voltage"], words=single("--duration", "8s")),
)


@dataclass(frozen=True, slots=True)
class TroubledRun:
    """The verdict of a disturbed run."""

    kind: str
    verdict: Verdict

    @property
    def failed_count(self) -> int:
        """Number of failed rules that harm at least one number of the run."""
        return sum(bool(finding.harmed) for finding in self.verdict.failures)

    @property
    def causes(self) -> list[str]:
        """Names of the causes, in the order in which they should be removed."""
        return [diagnosis.summary.cause for diagnosis in diagnose(self.verdict)]


def main() -> None:
    """Measure, count and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="runs of each kind, on this machine")
    parser.add_argument("--simulated-runs", type=int, default=12, help="the same on boards")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write findings to this file")
    names = [kind.name for kind in KINDS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="KIND")
    options = parse(parser, smoke={"runs": 1}, runs=2, simulated_runs=2)
    began = machine()
    kinds = [kind for kind in KINDS if kind.name in options.only]
    if options.smoke:
        # Nothing else computes meanwhile.
        kinds = [each for each in kinds if each.name == "8 threads"]
        short = single("--quick", "--duration", "0.1s", "--min-queries", "16")
        kinds = [replace(each, words=short) for each in kinds]
    runs = [run for kind in kinds for run in runs_of(kind, options)]
    traces = list(islice(traced_runs(), 1 if options.smoke else None))
    if options.record is not None:
        options.record.write_text(json.dumps(recorded(runs), indent=1) + "\n")
    report("Runs in trouble", lines_of(runs, traces), began)


def runs_of(disturbance: Disturbance, options: argparse.Namespace) -> Iterator[TroubledRun]:
    """Runs with a disturbance on a single agent, each with its own link to the model file."""
    count = options.simulated_runs if disturbance.board else options.runs
    with (
        tempfile.TemporaryDirectory(prefix="edgebench-") as folder,
        planted(disturbance, Path(folder)) as site,
    ):
        command, model, *words = site.words
        models = [Path(folder) / f"long-{number}.onnx" for number in range(count)]
        for path in models:
            path.hardlink_to(model)
        found = measured_sets(site.lab, [command, *map(str, models), *words], Path(folder))
        for run in chain.from_iterable(run_set.runs for run_set in found):
            troubled = TroubledRun(disturbance.name, run.verdict)
            ids = ", ".join(finding.id for finding in run.verdict.failures)
            causes = ", ".join(troubled.causes)
            print(f"{disturbance.name}: {causes} ({ids})", file=sys.stderr, flush=True)
            yield troubled


def traced_runs() -> Iterator[TroubledRun]:
    """Runs with the latencies of the known traces, as if an undisturbed agent had made them."""
    for path in sorted(TRACES.glob("*.parquet")):
        rows = pq.read_table(path).to_pandas()
        latency_ns = (rows["invoke_end_ns"] - rows["invoke_start_ns"]).to_numpy()
        record = run_record(worker_record(latency_ns))
        traces = traces_of(latency_ns, int(rows["warmup"].sum()))
        run = analyse_run(record, traces, created_utc=CREATED_UTC, clock=None)
        yield TroubledRun(path.stem, run.verdict)


def recorded(runs: Sequence[TroubledRun]) -> list[dict[str, object]]:
    """The failed findings of the first runs of each kind."""
    chosen: list[TroubledRun] = []
    for run in runs:
        if sum(other.kind == run.kind for other in chosen) < RECORDED_RUNS:
            chosen.append(run)
    return [
        {"kind": run.kind, "failures": [_plain(finding) for finding in run.verdict.failures]}
        for run in chosen
    ]


def _plain(finding: Finding) -> dict[str, object]:
    """The values of a failed finding on which its diagnosis depends."""
    return {
        "id": finding.id,
        "severity": finding.severity.value,
        "value": finding.value,
        "limit": finding.limit,
        "reason": finding.reason,
    }


def lines_of(runs: Sequence[TroubledRun], traces: Sequence[TroubledRun]) -> list[str]:
    """Tables of the kinds, of the traces and of the claims."""
    rows: list[list[str]] = []
    for kind in dict.fromkeys(run.kind for run in runs):
        of_kind = [run for run in runs if run.kind == kind]
        firsts = Counter(run.causes[0] for run in of_kind if run.causes)
        shown = ", ".join(f"{cause} {count}" for cause, count in firsts.most_common())
        rows.append([kind, str(len(of_kind)), *_means(of_kind), shown])
    of_traces = [
        [run.kind, str(run.failed_count), ", ".join(run.causes) or "none"] for run in traces
    ]
    failed, causes = _means(runs)
    claims = [
        claim("failed rules a run", failed, f">= {FAILED_BAR}", float(failed) >= FAILED_BAR),
        claim("causes a run", causes, f"<= {CAUSES_BAR}", float(causes) <= CAUSES_BAR),
    ]
    return [
        table(["kind", "runs", "failed rules", "causes", "first cause"], rows),
        "",
        table(["trace", "failed rules", "causes"], of_traces),
        "",
        claims_table(claims),
    ]


def _means(runs: Sequence[TroubledRun]) -> tuple[str, str]:
    """Mean number of failed rules and of causes."""
    failed = statistics.mean(run.failed_count for run in runs)
    causes = statistics.mean(len(run.causes) for run in runs)
    return f"{failed:.2f}", f"{causes:.2f}"


if __name__ == "__main__":
    main()
