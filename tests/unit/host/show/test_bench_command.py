"""The command that repeats the measurement of stored runs."""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.findings import some_facts
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.analysis.verdict.advice import Situation
from edgebench.host.analysis.verdict.table import ALL_RULES
from edgebench.host.bench.plan import Step
from edgebench.host.bench.request import BenchRequest
from edgebench.host.cli import bench
from edgebench.host.options.command import CommandLine
from edgebench.host.result.facts import BASELINE, CANDIDATE, CommandFacts, Pair, SetMember
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import Finding, RuleOutcome, State
from edgebench.host.show.bench_command import bench_words, command_line_of, command_line_of_sets
from edgebench.host.show.verdict import advice_for
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import UsageError
from edgebench.protocol.record import EmulatorFacts, FirmwareFacts
from edgebench.protocol.spec import Engine

MODEL = "digits_int8.tflite"


parser = cache(bench.parser)


def requested(line: str) -> BenchRequest:
    """The request of a command line."""
    return bench._request(parser().parse_args(shlex.split(line)), Store(Path("no store")))


def made(request: BenchRequest, number: int = 0, pair: Pair | None = None) -> Run:
    """A run of this request: with this number in its set, or in a comparison in pairs."""
    latency_ns = latencies(100)
    record = run_record(worker_record(latency_ns))
    base = analyse_run(record, traces_of(latency_ns), created_utc=CREATED_UTC, clock=None)
    is_of_set = request.run_count > 1 and pair is None
    member = SetMember("set-1", number, request.run_count) if is_of_set else None
    step = Step(request.models[0], request.runtime or "litert", pair, member)
    return replace(
        base,
        model=replace(base.model, name=MODEL, format="tflite"),
        runtime=replace(base.runtime, name=step.runtime),
        spec=step.spec(request.spec),
        member=member,
        pair=pair,
    )


def line_of(words: list[list[str]]) -> str:
    """The arguments in the form of a shell command line."""
    return shlex.join(word for group in words for word in group)


KINDS = [
    "",
    "--quick",
    "--quick --runs 15 --duration 90s --max-duration 2m --min-queries 100",
    "--preset mlperf",
    "--preset mlperf --duration 60s --runs 2",
    "--scenario server --qps 12.5 --target-latency 50ms",
    "--scenario offline",
    "--scenario multi_stream",
    "--engine loadgen --duration 600s",
    "--sustained 20m",
    "--profile",
    "--no-check --threads 2 --warmup 50",
    "--accuracy digits --accuracy-samples 50",
]
"""Options of runs of every kind."""


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
    """Otherwise advice would measure ten times as long, lose the run's settings, or not run."""
    request = requested(f"{MODEL} {options}")
    words = bench_words(made(request), request.run_count)
    again = requested(line_of(words))
    assert again.run_count == request.run_count
    assert again.runtime in (request.runtime, None)
    assert replace(again.spec, max_duration_s=None) == replace(request.spec, max_duration_s=None)
    assert again.spec.max_duration_s == pytest.approx(request.spec.max_duration_s)


@pytest.mark.parametrize("number", range(5))
def test_command_of_any_run_of_a_set_is_that_of_the_set(number: int) -> None:
    """Otherwise the advice of the last run would draw other inputs, and compare no outputs."""
    request = requested(f"{MODEL} --seed 7")
    again = requested(line_of(bench_words(made(request, number), request.run_count)))
    assert (again.spec.seed, again.spec.is_checked) == (7, True)


@pytest.mark.parametrize("number", [0, 3])
def test_checks_that_were_switched_off_stay_off(number: int) -> None:
    """Otherwise the command of a later run would compare outputs, which the user switched off."""
    run = made(requested(f"{MODEL} --no-check"), number)
    run = replace(run, command=CommandFacts("c", ((MODEL,), ("--no-check",))))
    assert line_of(bench_words(run, 5)).count("--no-check") == 1


def test_command_of_a_later_pair_compares_outputs() -> None:
    """Otherwise the advice about one side would switch off a check without a request."""
    later = made(requested(MODEL), pair=Pair("pairs-1", 3, BASELINE))
    assert not later.spec.is_checked
    assert "--no-check" not in line_of(bench_words(later, 5))


def test_command_of_a_microcontroller_has_no_engine() -> None:
    """`--engine target` cannot be requested."""
    run = made(requested(MODEL))
    run = replace(run, spec=replace(run.spec, engine=Engine.TARGET), member=None)
    assert not {"--engine", "--runs"} & {words[0] for words in bench_words(run, 1)}


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("local/nucleo", "local/nucleo"),
        ("pi4,pi5/nucleo", "pi5/nucleo"),
        ("all", "AGENT/nucleo"),
        (None, "AGENT/nucleo"),
    ],
)
def test_command_of_a_board_names_its_agent(typed: str | None, address: str) -> None:
    """Otherwise the printed command would name a device that is not paired."""
    run = made(requested(MODEL))
    firmware = FirmwareFacts(name="edgebench", version="1")
    options = () if typed is None else (("--on", typed),)
    run = replace(
        run,
        device=replace(run.device, name="nucleo"),
        conditions=replace(run.conditions, firmware=firmware),
        command=CommandFacts("c", ((MODEL,), *options)),
    )
    assert ["--on", address] in bench_words(run, 5)
    machine = EmulatorFacts(name="QEMU", version="7", machine="mps2-an386")
    emulated = replace(
        run, conditions=replace(run.conditions, firmware=replace(firmware, emulator=machine))
    )
    assert ["--on", "qemu:mps2-an386"] in bench_words(emulated, 5)
    elsewhere = CommandFacts("c", ((MODEL,), ("--on", "pi5/qemu:mps2-an386")))
    assert ["--on", "pi5/qemu:mps2-an386"] in bench_words(replace(emulated, command=elsewhere), 5)


@pytest.mark.parametrize("options", KINDS)
def test_every_advice_is_a_command_that_is_accepted(options: str) -> None:
    """Otherwise the advised command would contradict the request."""
    request = requested(f"{MODEL} {options}")
    situation = Situation(
        given=command_line_of(made(request), request.run_count),
        free_cpus=(0,),
        own_cpus=(0,),
        warmup_query_count=1000,
    )
    lines: set[str] = set()
    for rule, kind in ((one, kind) for one in ALL_RULES for kind in one.reasons().values()):
        finding = Finding(
            id=rule.id,
            outcome=RuleOutcome.FAIL,
            severity=State.SUSPECT,
            reason=kind.id,
            facts=some_facts(kind),
        )
        advice = advice_for(finding, situation)
        assert advice is not None
        for command in (command for step in advice.steps for command in step.commands):
            words = [PLACES.get(word, word) for word in command.words[1:]]
            # Arrivals and latency limits belong to the server scenario.
            if command.words[0] != "bench" or {"--qps", "--target-latency"} & set(words):
                continue
            lines.add(shlex.join(words))
    refused: list[str] = []
    for line in sorted(lines):
        try:
            requested(line)
        except UsageError as exc:
            refused.append(f"{line}: {exc}")
    assert refused == []


PLACES = {
    "METER": "synthetic:follow",
    "DATASET": "digits",
    "FILE.npz": "inputs.npz",
    "DEVICE": "local",
}
"""Values for the placeholders of an advice."""


@pytest.fixture(autouse=True)
def _inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of inputs, as some of the advice needs it."""
    monkeypatch.chdir(tmp_path)
    np.savez("inputs.npz", x=np.zeros((2, 8, 8, 1), np.float32))


@pytest.mark.parametrize("options", ["", "--quick", "--preset mlperf", "--scenario offline"])
def test_command_has_no_setting_that_is_the_default(options: str) -> None:
    """Otherwise the line to be copied would take three lines of the terminal."""
    request = requested(f"{MODEL} {options}")
    words = [word for group in bench_words(made(request), request.run_count) for word in group]
    assert words[:2] == [MODEL, "--on"]
    asked = options.split()
    assert words[3:] in (asked, ["--runs", "1", *asked], [*asked, "--runs", "1"])


def test_several_sets_have_one_command_if_one_makes_them() -> None:
    """Otherwise the advice on a busy machine would measure one model of several, or no pairs."""

    def named(run: Run, name: str) -> Run:
        member = run.member and replace(run.member, set_id=f"set-{name}")
        return replace(run, model=replace(run.model, name=name), member=member)

    run = made(requested(f"{MODEL} --quick --threads 2 --on board"))
    both = [named(run, "a.tflite"), named(run, "b.tflite")]
    line = command_line_of_sets(find_sets(both))
    assert line is not None
    words = "edgebench bench a.tflite b.tflite --on board --threads 2 --quick"
    assert str(line.bench(runs=15)) == f"{words} --runs 15"
    other = made(requested(f"{MODEL} --quick --threads 1 --on board"))
    assert command_line_of_sets(find_sets([named(run, "a"), named(other, "b")])) is None
    compared = requested(f"{MODEL} --against digits_fp32.tflite --threads 2 --on board")
    sides = [
        named(made(compared, pair=Pair("pairs-1", number, side)), name)
        for number in range(12)
        for side, name in ((CANDIDATE, "b.tflite"), (BASELINE, "a.tflite"))
    ]
    line = command_line_of_sets(find_sets(sides))
    assert line is not None
    more = line.bench(runs=int(line.more("runs", 15)))
    words = "edgebench bench a.tflite --on board --threads 2 --against b.tflite --pairs 24"
    assert str(more) == words, "pairs have no --runs"
    assert command_line_of_sets(find_sets(sides[::2])) is None, "only one side"


def test_command_names_the_files_as_they_were_typed() -> None:
    """Otherwise the printed command would fail in any other directory than that of the model."""
    run = made(requested(f"{MODEL} --quick --inputs inputs.npz"))
    typed = ((f"models/{MODEL}",), ("--inputs", "/data/inputs.npz"), ("--quick",))
    run = replace(run, command=CommandFacts("c", typed))
    words = bench_words(run, 8)
    assert words[0] == [f"models/{MODEL}"]
    assert [group[1:] for group in words if group[0] == "--inputs"] == [["/data/inputs.npz"]]
    other = replace(run, command=CommandFacts("c", (("set-1",), ("--quick",))))
    assert bench_words(other, 8)[0] == [MODEL], "the runs of a set name no file"


def test_command_keeps_the_options_of_the_host() -> None:
    """Otherwise the runs that are advised would have no ambient temperature, or would not wait."""
    run = made(requested(f"{MODEL} --quick"))
    others = (("--ambient", "22"), ("--wait", "10m"), ("--extra-runs", "1"))
    compared = (("--against", "b.tflite"), ("--fail-on", "3%"))
    run = replace(run, command=CommandFacts("c", ((MODEL,), *others, *compared, ("--quick",))))
    assert set(map(tuple, bench_words(run, 8)[1:])) >= {*others, ("--quick",)}
    assert not {"--against", "--fail-on"} & {words[0] for words in bench_words(run, 8)}


def test_several_sets_of_one_command_have_it_as_typed() -> None:
    """Otherwise advice would lose directories, metrics, or the runtimes of the command."""

    def named(name: str, runtime: str, arguments: str) -> Run:
        run = made(requested(f"{MODEL} --quick"))
        words = tuple(tuple(group.split()) for group in arguments.split(", "))
        return replace(
            run,
            model=replace(run.model, name=name),
            runtime=replace(run.runtime, name=runtime),
            member=run.member and replace(run.member, set_id=f"set-{name}-{runtime}"),
            command=CommandFacts("c", words),
        )

    typed = "x/a.tflite, y/b.tflite, --runtime all, --quick"
    cells = [("a.tflite", "litert"), ("a.tflite", "tflite"), ("b.tflite", "litert")]
    line = command_line_of_sets(find_sets([named(*cell, typed) for cell in cells]))
    assert line is not None
    words = "edgebench bench x/a.tflite y/b.tflite --runtime all --quick"
    assert str(line.bench(runs=15)) == f"{words} --runs 15"
    one = command_line_of_sets(find_sets([named(*cell, typed) for cell in cells[:1] * 2]))
    assert one is None or "b.tflite" not in str(one.bench()), "a command that made others"


def test_long_runs_are_made_without_a_comparison() -> None:
    """Otherwise ten pairs of twenty minutes would be advised to see whether heat is the cause."""
    words = (("a.onnx",), ("--against", "b.onnx"), ("--fail-on", "3%"), ("--pairs", "6"))
    line = CommandLine(command="bench", arguments=(*words, ("--threads", "2")))
    assert str(line.bench(sustained_s=1200.0)) == (
        "edgebench bench a.onnx b.onnx --threads 2 --sustained 20m"
    )
    assert str(line.bench(runs=8)).endswith("--fail-on 3% --threads 2 --pairs 8")
