"""Comparisons for the terminal: the command that makes enough runs for a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from support.changes import changed
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.compare.comparison import Design
from edgebench.host.analysis.compare.runs import compare_groups
from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.result.facts import BASELINE, CANDIDATE, CommandFacts, Pair
from edgebench.host.result.run import Run
from edgebench.host.show.comparisons import more_runs_line

MEASURED = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)
Arguments = tuple[tuple[str, ...], ...]


def side(
    name: str, arguments: Arguments | None, *, count: int = 3, pairs: str | None = None
) -> list[Run]:
    """Runs of a model, made by this command, or in pairs on this side."""
    command = None if arguments is None else CommandFacts(f"command-{name}", arguments)
    return [
        replace(
            changed(
                MEASURED,
                {
                    "run_id": f"20260101-00000{number}-{pairs or name}",
                    "model.name": f"{name}.tflite",
                    "model.sha256": name,
                    "metrics.latency_ns.p50": 1000 + number,
                    "metrics.instructions_per_inference": 5000.0,
                },
            ),
            command=command,
            pair=None if pairs is None else Pair("pairs-1", number, pairs),
        )
        for number in range(count)
    ]


def line_of(
    baseline: Sequence[Run], candidate: Sequence[Run], metrics: Sequence[str] = ("latency_ns.p50",)
) -> str | None:
    """The line for a comparison of these sides."""
    comparisons = compare_groups([(baseline, candidate)], metrics=metrics)
    return more_runs_line(comparisons, find_sets([*baseline, *candidate]))


TYPED: Arguments = (
    ("models/a.tflite",),
    ("c.tflite",),
    ("--on", "pi"),
    ("--threads", "2"),
    ("--runs", "3"),
    ("--accuracy", "digits"),
)


def test_sides_are_measured_in_turn_with_the_options_of_the_baseline() -> None:
    """Otherwise the pairs would measure other threads, or a file that is not in this directory."""
    candidate = side("b", (("../b.tflite",), ("--on", "pi"), ("--threads", "2")))
    assert line_of(side("a", TYPED), candidate) == (
        "to improve: make 6 pairs: edgebench bench models/a.tflite --on pi --threads 2 "
        "--against ../b.tflite --pairs 6"
    )


def test_metric_of_the_comparison_is_that_of_the_pairs() -> None:
    """Otherwise the pairs would decide about another number."""
    line = line_of(side("a", TYPED), side("b", TYPED), ["latency_ns.p90"])
    assert line is not None
    assert line.endswith("--against b.tflite --pairs 6 --metric latency_ns.p90")


def test_runs_without_a_command_have_the_command_of_their_settings() -> None:
    """Otherwise runs of older versions would lose their device and their settings."""
    line = line_of(side("a", None), side("b", None))
    assert line is not None
    assert "edgebench bench a.tflite " in line
    assert f"--on {MEASURED.device.name} " in line
    assert line.endswith("--against b.tflite --pairs 6")
    assert "--runs" not in line


def test_model_is_not_measured_against_itself() -> None:
    """Otherwise the pairs would compare a model with itself, after a change of its runtime."""
    candidate = [replace(run, run_id=f"{run.run_id}-new") for run in side("a", TYPED)]
    assert line_of(side("a", TYPED), candidate) is None


def test_command_of_pairs_is_repeated() -> None:
    """Otherwise an option of the pairs would be lost."""
    arguments = (("a.tflite",), ("--against", "b.tflite"), ("--pairs", "3"), ("--threads", "2"))
    baseline = side("a", arguments, pairs=BASELINE)
    assert line_of(baseline, side("b", arguments, pairs=CANDIDATE)) == (
        "to improve: make 6 pairs: edgebench bench a.tflite --against b.tflite --threads 2 "
        "--pairs 6"
    )


@pytest.mark.parametrize("metric", ["instructions_per_inference", "latency_ns.p50"])
def test_exact_metrics_need_no_pairs(metric: str) -> None:
    """Otherwise a count that takes no part in Holm's correction would cost a seventh pair."""
    arguments = (("a.tflite",), ("--against", "b.tflite"))
    sides = (side(name, arguments, pairs=on) for name, on in (("a", BASELINE), ("b", CANDIDATE)))
    baseline, candidate = sides
    metrics = dict.fromkeys((metric, "instructions_per_inference"))
    comparisons = compare_groups([(baseline, candidate)], metrics=list(metrics))
    assert comparisons[-1].result.rules.design is Design.EXACT
    line = more_runs_line(comparisons, find_sets([*baseline, *candidate]))
    if metric == "instructions_per_inference":
        assert line is None
    else:
        assert line is not None
        assert line.startswith("to improve: make 6 pairs: ")
