"""The command that measures like stored runs."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.bench.request import BenchRequest
from edgebench.host.cli import bench
from edgebench.host.result.facts import SetMember
from edgebench.host.result.run import Run
from edgebench.host.show.bench_command import bench_words

MODEL = "digits_int8.tflite"


def requested(line: str) -> BenchRequest:
    """What a command line asks for."""
    return bench._request(bench.parser().parse_args(shlex.split(line)))


def made(request: BenchRequest) -> Run:
    """A run that the request makes."""
    latency_ns = latencies(100)
    record = run_record(worker_record(latency_ns))
    base = analyse_run(record, traces_of(latency_ns), created_utc=CREATED_UTC, clock=None)
    member = SetMember("set-1", 0, request.run_count)
    runtime = request.runtime or "litert"
    return replace(
        base,
        model=replace(base.model, name=MODEL, format="tflite"),
        runtime=replace(base.runtime, name=runtime),
        spec=replace(request.spec, runtime=runtime),
        member=member if request.run_count > 1 else None,
    )


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--quick",
        "--quick --runs 3 --duration 7s --min-queries 100",
        "--runs 7",
        "--runs 15 --duration 90s --threads 2 --cpus 2,3 --priority realtime --seed 7",
        "--preset mlperf",
        "--preset mlperf --runs 3",
        "--preset mlperf --duration 60s",
        "--preset mlperf --runs 2 --duration 60s --min-queries 50",
        "--preset mlperf --scenario offline",
        "--preset mlperf --scenario multi_stream --samples-per-query 4",
        "--scenario server --qps 12.5 --target-latency 50ms",
        "--scenario offline --max-duration 45m --warmup 1000",
        "--engine loadgen --duration 600s",
        "--sustained 20m --cooldown 0s --telemetry-rate 0",
        "--profile --runtime tflite",
        "--no-check --governor performance --shape x=1x8x8x1 --shape ids=1x4",
        "--duration 33s --runs 4 --min-queries 1001",
    ],
)
def test_command_of_a_run_asks_for_the_same_runs(options: str) -> None:
    """Advice measures ten times as long, without what the run was made with, or not at all."""
    request = requested(f"{MODEL} {options}")
    words = bench_words(made(request), request.run_count)
    again = requested(shlex.join(word for group in words for word in group))
    assert again.run_count == request.run_count
    assert again.runtime in (request.runtime, None)
    assert replace(again.spec, max_duration_s=None) == replace(request.spec, max_duration_s=None)
    assert again.spec.max_duration_s == pytest.approx(request.spec.max_duration_s)


@pytest.mark.parametrize("options", ["", "--quick", "--preset mlperf", "--scenario offline"])
def test_command_has_no_setting_that_is_the_default(options: str) -> None:
    """The line that is to be copied takes three lines of the terminal."""
    request = requested(f"{MODEL} {options}")
    words = [word for group in bench_words(made(request), request.run_count) for word in group]
    assert words[:2] == [MODEL, "--on"]
    asked = options.split()
    assert words[3:] in (asked, [*asked, "--runs", "1"])
