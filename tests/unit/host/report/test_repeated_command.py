"""The command to measure again is the one that was typed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.bench.plan import Step, run_request
from edgebench.host.bench.request import BenchRequest, new_request
from edgebench.host.cli import bench
from edgebench.host.report.anonymous import Anonymizer
from edgebench.host.report.conditions import commands_of
from edgebench.host.result.facts import SetMember
from edgebench.host.result.run import Run
from edgebench.host.show.bench_command import bench_words
from edgebench.host.store.layout import Store

MODEL, OTHER = "digits_int8.tflite", "digits_fp32.tflite"
LINES = [
    "",
    *(MODEL, f"{MODEL} {OTHER}", f"{MODEL} digits_int8.onnx --runtime all"),
    *(f"{MODEL} {words}" for words in (
        "--quick", "--preset mlperf", "--preset quick --runs 3", "--runs 7", "--runs 1",
        "--extra-runs 0", "--duration 30s", "--duration 1500ms --runs 1", "--max-duration 2m",
        "--min-queries 100", "--warmup 200", "--warmup-duration 3s", "--cooldown 10m",
        "--seed 7", "--threads 2", "--threads 2 --cpus 2,3", "--priority realtime",
        "--governor performance", "--runtime tflite", "--runtime onnx", "--timeout 20m",
        "--memory-limit 512M", "--scenario offline",
        "--scenario multi_stream --samples-per-query 4",
        "--scenario server --qps 12.5 --target-latency 50ms", "--engine loadgen --duration 600s",
        "--sustained 20m", "--sustained 40s --cooldown 0s", "--profile", "--no-check",
        "--telemetry-rate 0", "--telemetry-rate 2", "--shape ids=1x4 --shape x=1x8x8x1",
        "--accuracy digits", "--accuracy digits --accuracy-samples 50",
        f"--accuracy digits --reference {OTHER}", "--ambient 21.5", "--wait 10m",
        "--inputs inputs.npz", "--on pi5", "--on pi5,rock", "--on label:pi,arch:aarch64",
        "--on all --wait 1m", "--delegate xnnpack",
    )),
    # Meters, and instruments that edgebench does not drive.
    *(f"{MODEL} {words}" for words in (
        "--meter synthetic:follow", "--meter agent:synthetic:follow --on pi5",
        "--meter synthetic:follow --sync coded_load", "--meter synthetic:follow --idle 5s",
        "--meter synthetic:follow --sustained 1m", "--meter synthetic:follow --runs 3 --quick",
        "--meter synthetic:follow --battery 10Wh", "--sync coded_load --trace-rate 1000",
        "--sync coded_load --trace-rate 4000 --idle 10s", "--meter ppk2 --on pi5",
        "--meter farm --on pi5", "--meter lpm01a:/dev/ttyACM0,supply=1.8 --on pi5",
        "--meter ppk2:/dev/ttyACM0,source --supply 1.8V --on pi5",
    )),
    # Comparisons in pairs.
    *(f"{MODEL} --against {OTHER} {words}" for words in (
        "", "--pairs 12", "--metric latency_ns.p90 --fail-on 2%", "--allow runtime",
        "--quick --pairs 6", "--meter synthetic:follow --metric energy_j",
    )),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of inputs, which one of the lines names."""
    monkeypatch.chdir(tmp_path)
    np.savez("inputs.npz", x=np.zeros((2, 8, 8, 1), np.float32))


def requested(line: str) -> BenchRequest:
    """The request of a command line."""
    return bench._request(bench.parser().parse_args(shlex.split(line)), Store(Path("no store")))


def made(request: BenchRequest, number: int = 0, *, set_id: str = "set-1") -> Run:
    """A run of a request, as the device and the host make it."""
    latency_ns = latencies(100)
    member = SetMember(set_id, number, request.run_count)
    step = Step(request.models[0], "litert", None, member)
    # The labels of a data set are not among the traces.
    facts = run_request(replace(request, accuracy=None), step, None, None).facts
    traces = replace(traces_of(latency_ns), facts=facts)
    record = run_record(worker_record(latency_ns), f"20260102-03040{number}-0123abcd")
    return analyse_run(record, traces, created_utc=CREATED_UTC, clock=None)


def test_there_are_sixty_lines() -> None:
    """Otherwise a kind of command could be missing unnoticed."""
    assert len(set(LINES)) >= 60


@pytest.mark.parametrize("line", LINES)
def test_line_on_the_page_is_the_line_that_was_typed(line: str) -> None:
    """Otherwise the command to measure again would lack a meter, or state derived settings."""
    [command] = commands_of(find_sets([made(requested(line))]))
    assert command.startswith("edgebench bench")
    again = command.removeprefix("edgebench bench")
    # Data sets are opened each time; their names are among the arguments.
    assert replace(requested(again), accuracy=None) == replace(requested(line), accuracy=None)
    parsed, typed = (bench.parser().parse_args(shlex.split(words)) for words in (again, line))
    assert {**vars(parsed), "preset": None, "quick": None} == {
        **vars(typed),
        "preset": None,
        "quick": None,
    }


def test_every_set_of_a_command_has_its_line() -> None:
    """Otherwise the page of a model would repeat only a part of what was typed."""
    request = requested(f"{MODEL} {OTHER} --quick")
    runs = [made(request, 0), made(request, 1, set_id="set-2")]
    line = f"edgebench bench {MODEL} {OTHER} --quick"
    assert commands_of(find_sets(runs)) == [line, line]


def test_call_of_the_python_api_has_its_line() -> None:
    """Otherwise a run of a notebook could not be repeated in a shell."""
    request = new_request([MODEL], on="pi5", duration_s=30.0, preset="quick")
    assert request.command is not None
    assert shlex.join(request.command.words) == f"{MODEL} --on pi5 --duration 30s --quick"


def test_advice_has_the_meter_that_was_typed() -> None:
    """Otherwise the advised command would name METER, which no machine has."""
    request = requested(f"{MODEL} --meter synthetic:follow --sync coded_load")
    words = bench_words(made(request), request.run_count)
    assert words[-2:] == [["--meter", "synthetic:follow"], ["--sync", "coded_load"]]


def test_advice_has_the_voltage_as_it_was_typed() -> None:
    """Otherwise a voltage in the text of the meter would stand twice in the advised command."""
    for words in ("--meter lpm01a,supply=1.8", "--supply 1.8V --meter lpm01a"):
        run = made(requested(f"{MODEL} --on pi5 {words}"))
        run = replace(run, conditions=replace(run.conditions, supply_v=1.8))
        line = shlex.join(word for part in bench_words(run, 5) for word in part)
        assert line.count("1.8") == 1
        assert ("--supply" in line) == ("--supply" in words)


def test_anonymous_page_names_no_path_of_the_line() -> None:
    """Otherwise a report to be published would name the home of its author."""
    run = made(requested(MODEL))
    assert run.command is not None
    named = replace(run, command=replace(run.command, arguments=(("/home/ada/m.tflite",),)))
    hidden = Anonymizer([named]).run(named)
    assert hidden.command is None
    assert "ada" not in commands_of(find_sets([hidden]))[0]
