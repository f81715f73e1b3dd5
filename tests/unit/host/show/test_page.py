"""The page of a run: its inputs and operators."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from support.records import (
    CREATED_UTC,
    WARMUP_COUNT,
    latencies,
    run_record,
    traces_of,
    worker_record,
)

from edgebench.host.analysis.run import analyse_failure, analyse_run
from edgebench.host.result.facts import CommandFacts, HostFacts, SetMember
from edgebench.host.result.measured import ProfileResult
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.show.page import facts_table, heat_lines, operators_table, run_page
from edgebench.host.show.verdict import failure_advice
from edgebench.protocol.errors import ErrorCode
from edgebench.protocol.record import Event, OperatorTime, Outcome, TensorSpec


def rows(*operators: OperatorTime) -> list[list[str]]:
    """The cells of the table, row by row."""
    out = Console(file=StringIO(), width=100)
    out.print(operators_table(ProfileResult(10, operators, None, None, None)))
    assert isinstance(out.file, StringIO)
    return [line.split() for line in out.file.getvalue().splitlines() if line.strip()]


def test_operators_are_shown_by_their_medians() -> None:
    """Otherwise one preemption would make a small operator the most expensive."""
    found = rows(
        OperatorTime(0, "CONV", "", "cpu", 10, 10_099_000, 9_000),
        OperatorTime(1, "ADD", "", "cpu", 10, 10_000, 1_000),
        OperatorTime(2, "RELU", "", "cpu", 10, 0, 0),
    )
    assert "median time" in " ".join(found[0])
    assert [(row[1], *row[3:7]) for row in found[-3:]] == [
        ("CONV", "9.00", "µs", "90.0", "%"),
        ("ADD", "1.00", "µs", "10.0", "%"),
        ("RELU", "<", "1", "µs", "<"),
    ]


def test_shares_have_the_error_of_a_timer_of_whole_microseconds() -> None:
    """Otherwise two operators of about 1 µs would get 50.0 % each, and the others nothing."""
    times_ns = (1000, 1000, 0)
    title, _, *found = rows(
        *(OperatorTime(index, "CONV", "", "cpu", 10, 0, ns) for index, ns in enumerate(times_ns))
    )
    assert " ".join(title).endswith("share ±50.0 % name")
    assert [row[-2] for row in found] == ["50.0", "50.0", "50.0"]
    assert found[2][-3] == "<"
    fine, *_ = rows(OperatorTime(0, "CONV", "", "cpu", 10, 0, 1234))
    assert " ".join(fine).endswith("share name")


def test_profile_of_an_older_agent_is_shown_by_its_means() -> None:
    """Otherwise a mean would stand under the name of a median."""
    found = rows(OperatorTime(0, "CONV", "", "cpu", 10, 90_000))
    assert "mean time" in " ".join(found[0])
    assert found[-1][3] == "9.00"


@pytest.mark.parametrize(
    ("clipped", "said"),
    [
        (None, "10 samples, own.npz: x [1, 4] int8"),
        (0.0, "10 samples, own.npz: x [1, 4] int8"),
        (0.004, "10 samples, own.npz (0.40 % of the values are clipped to the range of"),
        (1e-6, "10 samples, own.npz (under 0.01 % of the values are clipped to the"),
    ],
)
def test_page_says_which_share_of_the_inputs_is_clipped(clipped: float | None, said: str) -> None:
    """Otherwise the model would run on inputs that differ from the file's without a note."""
    latency_ns = latencies()
    worker = replace(
        worker_record(latency_ns),
        inputs=(TensorSpec("x", (1, 4), "int8", 0.1, 0),),
        inputs_clipped_ratio=clipped,
        sample_count=10,
    )
    traces = replace(traces_of(latency_ns), facts=HostFacts(inputs="own.npz"))
    run = analyse_run(run_record(worker), traces, created_utc=CREATED_UTC, clock=None)
    out = Console(file=StringIO(), width=200)
    out.print(run_page(run))
    assert isinstance(out.file, StringIO)
    assert said in out.file.getvalue()


def test_run_of_a_set_names_the_set_beside_its_verdict() -> None:
    """Otherwise `bench` would report suspect, but `show last` only valid, for the last of five."""
    traces = replace(traces_of(latencies()), facts=HostFacts(member=SetMember("set-1", 4, 5)))
    record = run_record(worker_record(latencies()))
    run = analyse_run(record, traces, created_utc=CREATED_UTC, clock=None)
    out = Console(file=StringIO(), width=200)
    out.print(run_page(run))
    assert isinstance(out.file, StringIO)
    above, *_ = out.file.getvalue().split("p50", maxsplit=1)
    assert "run 5 of 5; to see the verdict of the set: edgebench show set-1" in above


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_long_command_is_one_line_that_can_be_copied(width: int) -> None:
    """Otherwise a command would be cut in two, and its first line run without its value."""
    command = f"edgebench bench mobilenet_v2_int8.tflite --quick --duration 300s --store {'s' * 40}"
    rows = [("verdict", "suspect"), ("to improve", f"measure for longer: {command}; or do not")]
    out = Console(file=StringIO(), width=width)
    out.print(facts_table(rows), crop=False)
    assert isinstance(out.file, StringIO)
    lines = [line.strip() for line in out.file.getvalue().splitlines()]
    assert command in lines
    assert lines[0].split() == ["verdict", "suspect"]
    out.print(facts_table([("next", command)]), crop=False)
    assert "next" in [line.strip() for line in out.file.getvalue().splitlines()]


def test_baseline_of_a_short_run_is_not_stated_in_seconds() -> None:
    """Otherwise a run of 7.5 s, whose baseline is 2.1 s, would be shown with one of 5 s."""
    thermal = ThermalResult(
        ThermalState.NOT_THROTTLED,
        None,
        is_certain=False,
        peak_latency_ns=1e6,
        sustained_latency_ns=2e6,
        peak_throughput_per_s=1000.0,
        sustained_throughput_per_s=500.0,
        retention_ratio=0.5,
    )
    speeds = "\n".join(heat_lines(thermal))
    assert "latency 1.00 ms at the start, 2.00 ms in the last 20 % of the run" in speeds
    assert "throughput 1,000/s at the start, 500/s in the last 20 % of the run" in speeds


def test_page_of_a_failed_run_begins_with_the_reason() -> None:
    """Otherwise the reason would have to be searched for on the page of a run without numbers."""
    record = replace(
        run_record(None),
        outcome=Outcome.FAILED,
        error_code=int(ErrorCode.WORKER_DIED),
        error="worker was killed by SIGKILL",
        events=(Event(1, "starting"), Event(2, "warming_up"), Event(3, "failed", "killed")),
    )
    run = analyse_failure(record, HostFacts(), created_utc=CREATED_UTC, clock=None)
    out = Console(file=StringIO(), width=200)
    out.print(run_page(run))
    assert isinstance(out.file, StringIO)
    first, *others = [line.strip() for line in out.file.getvalue().splitlines() if line.strip()]
    assert first.split(maxsplit=1) == [
        "failed",
        "worker was killed by SIGKILL (worker_died, warming up)",
    ]
    assert others[0].split(maxsplit=2)[:2] == ["to", "improve"]
    command = "edgebench bench digits.tflite --on board --duration 0.01s --min-queries 100 --runs 1"
    assert f"{command} --runtime all" in others[0]
    [broken] = [line for line in others if line.startswith("complete")]
    assert "run failed: worker was killed by SIGKILL" in broken


def test_advice_of_a_failed_run_is_that_of_its_command(tmp_path: Path) -> None:
    """Otherwise `show` would offer other runtimes for a file that `bench` reported as cut."""
    path = tmp_path / "cut.tflite"
    path.write_bytes(b"    TFL3" + bytes(92))
    record = replace(
        run_record(None),
        outcome=Outcome.FAILED,
        error_code=int(ErrorCode.MODEL_REFUSED),
        error="litert refused the model",
        events=(Event(1, "loading"),),
    )
    facts = HostFacts(command=CommandFacts("c", ((str(path),), ("--quick",))))
    run = analyse_failure(record, facts, created_utc=CREATED_UTC, clock=None)
    run = replace(run, model=replace(run.model, name=path.name, size_bytes=100))
    assert failure_advice(run).startswith("copy the file again, because it is cut after 100 bytes")
    other = replace(run, model=replace(run.model, size_bytes=99))
    assert failure_advice(other).startswith("check the file"), "the file has changed"


def test_page_begins_with_the_verdict_and_folds_what_passed() -> None:
    """Otherwise the two rules that matter would stand between 41 lines."""
    made = shown(20)
    answer, first, second, third, *others = [line for line in made.splitlines() if line.strip()]
    assert answer.startswith("digits.tflite on tflite: refused, too little was measured")
    assert re.match(r"verdict +invalid: too little was measured", first), first
    cause = r"why +10 queries, at least 100 needed \(also failed: precision\)"
    assert re.match(cause, second), second
    assert re.match(r"to improve +allow more time|to improve +measure for longer", third), third
    assert "finite_outputs" not in made
    [folded] = [line for line in others if line.startswith("rules: ")]
    counts = [int(count) for count in re.findall(r"(\d+) (?:passed|not applicable)", folded)]
    assert len(counts) == 2
    listed = shown(20, is_all=True)
    assert "finite_outputs" in listed
    assert "rules: " not in listed
    rules = re.findall(r"^ ?\w+ +(pass|fail|unknown|not_applicable) ", listed, re.M)
    assert rules.count("pass") + rules.count("not_applicable") == sum(counts)


def shown(count: int, *, is_all: bool = False) -> str:
    """The page of a run with this number of queries."""
    latency_ns = latencies(count)
    record = run_record(worker_record(latency_ns))
    traces = traces_of(latency_ns, min(WARMUP_COUNT, count - 1))
    run = analyse_run(record, traces, created_utc=CREATED_UTC, clock=None)
    out = Console(file=StringIO(), width=200)
    out.print(run_page(run, is_all=is_all))
    assert isinstance(out.file, StringIO)
    return out.file.getvalue()
