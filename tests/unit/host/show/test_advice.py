"""Advice and hints: every rule and error has advice, with valid and helpful commands."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module

import pytest
from support.errors import LEAVES, made
from support.findings import some_facts

from edgebench.host.analysis.verdict.advice import Situation, without_repeats
from edgebench.host.analysis.verdict.table import ALL_RULES, BY_ID
from edgebench.host.cli.main import COMMANDS
from edgebench.host.cli.options import OneLineParser, given_command, options_of
from edgebench.host.options.bench import OPTIONS
from edgebench.host.options.command import Command, CommandLine
from edgebench.host.result.verdict import Finding, RuleOutcome, State
from edgebench.host.show.hints import steps_after
from edgebench.host.show.verdict import advice_for
from edgebench.protocol.errors import EdgebenchError, MeasurementError, WorkerTimeout

KINDS = [(rule, kind) for rule in ALL_RULES for kind in rule.reasons().values()]
LONG = (
    "--duration 10m --max-duration 2h --min-queries 50 --runs 30 --cooldown 30m --idle 30s "
    "--timeout 20m --telemetry-rate 1 --meter ppk2 --accuracy digits --accuracy-limit 48h"
)
"""A command that exceeds what any advice or hint would propose without looking at it."""
LINES = {
    "a model of 3 µs": f"tiny.tflite --cpus 1 {LONG}",
    "a model of 4 s": f"large.onnx --threads 4 --preset mlperf {LONG}",
    "a board": f"kws.tflite --on qemu:mps2-an386 {LONG}",
    "a phone": f"--on pixel-8 --airplane-mode a.tflite --brightness 80 {LONG}",
    "a remote device": f"'a b.onnx' --on pi5,pi4 --scenario server --qps 60000 {LONG}",
    "a sustained run": "heat.onnx --on pi5 --sustained 1h",
    "as little as can be": "a.onnx",
}
MORE = {
    *("duration_s", "max_duration_s", "runs", "cooldown_timeout_s", "idle_duration_s"),
    *("load_timeout_s", "dataset_limit_s", "sustained_s", "min_query_count"),
}
"""Fields that an advice increases, never decreases."""
LESS = {"telemetry_rate_hz", "target_qps"}


def finding(rule: str, outcome: RuleOutcome, reason: str = "") -> Finding:
    """A finding of this reason."""
    return Finding(
        id=rule,
        outcome=outcome,
        severity=State.SUSPECT,
        reason=reason or None,
        value=120,
        facts=some_facts(BY_ID[rule].reasons()[reason]),
    )


def given_for(line: str) -> CommandLine:
    """The request of a bench command line."""
    bench = parser_of("bench")
    assert isinstance(bench, OneLineParser)
    return given_command("bench", bench.parse_words(shlex.split(line)))


@cache
def parser_of(name: str) -> ArgumentParser:
    """Parser of a command."""
    parser: ArgumentParser = import_module(f"edgebench.host.cli.{name}").parser()
    return parser


@cache
def commands_after(line: str) -> list[tuple[str, Command]]:
    """Commands of every advice and hint after a command line, made once for all tests."""
    return list(commands(given_for(line)))


def commands(given: CommandLine) -> Iterator[tuple[str, Command]]:
    """Commands of every advice and hint, each with the name of its rule or error."""
    for rule, reason in KINDS:
        for cpus, is_free in (((2, 3), True), ((), False)):
            situation = Situation(
                given=given,
                free_cpus=cpus,
                own_cpus=cpus,
                has_governors=is_free,
                can_be_longer=is_free,
                warmup_query_count=1000,
            )
            advised = advice_for(finding(rule.id, RuleOutcome.FAIL, reason.id), situation)
            assert advised is not None
            for step in advised.steps:
                yield from ((f"{rule.id} {reason.id}", command) for command in step.commands)
    for kind in LEAVES:
        for step in steps_after(made(kind), given):
            yield from ((kind.__name__, command) for command in step.commands)


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_every_command_is_one_that_is_accepted(line: str) -> None:
    """Otherwise an advised command would fail with an unknown or contradictory option."""
    refused: list[str] = []
    for name, command in commands_after(line):
        try:
            check(tuple(command.words))
        except EdgebenchError as exc:
            refused.append(f"{name}: {command}: {exc}")
    assert refused == []


STANDINS = {"N": "5", "HZ": "100", "D": "xnnpack", "FILE.npz": "FILE.npz"}


@cache
def check(words: tuple[str, ...]) -> None:
    """Parse a command, which several rules may advise."""
    name, *others = words
    if name.startswith("--"):
        return
    assert name in COMMANDS
    known = parser_of(name)
    if name == "bench":
        assert isinstance(known, OneLineParser)
        known.parse_words([STANDINS.get(word, word) for word in others])
    else:
        assert {word for word in others if word.startswith("--")} <= {*options_of(known), "--help"}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_more_is_more_than_what_was_asked_for(line: str) -> None:
    """Otherwise a `--timeout 20m` that failed would be followed by the advice `--timeout 10m`."""
    before, less = given_for(line), []
    for name, command in commands_after(line):
        if command.words[0] != "bench" or name == "RunsTooShort":
            continue
        values = [STANDINS.get(word, word) for word in command.words]
        groups = tuple((word, values[i + 1]) for i, word in flags(command))
        after = CommandLine(command="bench", arguments=groups)
        for field in MORE | LESS:
            old, new = before.value(field), after.value(field)
            if old is None or new is None or new == old:
                continue
            if (new > old) != (field in MORE) and (field, new) != ("telemetry_rate_hz", 10.0):
                less.append(f"{name}: {field} {old:g} -> {new:g}")
    assert less == []


def flags(command: Command) -> Iterator[tuple[int, str]]:
    """Options of a command that have a value, with their places."""
    valued = {option.flag for option in OPTIONS if option.constant is None}
    return ((i, word) for i, word in enumerate(command.words) if word in valued)


@pytest.mark.parametrize(
    ("rule", "reason", "part"),
    [
        ("keeps_up", "", "--qps 400"),  # 120 of 60,000 arrivals are due during one inference
        ("latency_target", "missed", "--qps 5300, or --target-latency 8646ms"),
        ("enough_queries", "max_duration", "--max-duration 4h, or --min-queries 3600"),
        ("precision", "", "--duration 20m"),
        ("steady_state", "slower", "--sustained 20m"),
        ("between_runs", "", "--runs 60"),
        ("cooldown", "", "--cooldown 60m"),
        ("energy_idle", "", "--idle 60s"),
        ("telemetry", "", "--telemetry-rate 0.5"),
        ("dataset_complete", "", "--accuracy-limit 96h"),
        ("loadgen", "why", "--duration 20m"),
        ("meter", "incomplete", "cable and power supply, then measure again: edgebench bench"),
    ],
)
def test_numbers_follow_from_the_finding_and_from_what_was_asked_for(
    rule: str, reason: str, part: str
) -> None:
    """Otherwise an advice would lower what its own first line reports as too low."""
    situation = Situation(given=given_for(LINES["a model of 4 s"]))
    assert part in str(advice_for(finding(rule, RuleOutcome.FAIL, reason), situation))


def test_hints_ask_for_more_than_what_was_not_enough() -> None:
    """Otherwise a load that took longer than 20 minutes would be given ten."""
    given = given_for(f"a.onnx {LONG}")
    assert str(steps_after(WorkerTimeout("late"), given)[0]).endswith("--timeout 40m")
    assert str(steps_after(MeasurementError("short"), given)[0]).endswith("--duration 20m")


def test_run_that_ends_by_its_queries_is_not_advised_to_be_longer() -> None:
    """Otherwise a run that ends at a million queries would be repeated, and end there again."""
    for rule, reason in (("steady_state", "unsteady"), ("precision", ""), ("block_stability", "")):
        fails = finding(rule, RuleOutcome.FAIL, reason)
        line = advice_for(fails, Situation(can_be_longer=False))
        assert line is not None
        assert "--duration" not in str(line)


def test_sustained_run_is_not_advised_to_start_cooler() -> None:
    """Otherwise a run that is to heat the device would be advised to wait before it."""
    hot = finding("thermal", RuleOutcome.FAIL)
    waits = {
        line: "--cooldown" in str(advice_for(hot, Situation(given=given_for(line))))
        for line in ("a.onnx --sustained 1m", "a.onnx")
    }
    assert waits == {"a.onnx --sustained 1m": False, "a.onnx": True}


def test_what_passed_needs_no_advice() -> None:
    """Otherwise a good run would be advised to be longer."""
    for outcome in (RuleOutcome.PASS, RuleOutcome.NOT_APPLICABLE):
        assert advice_for(finding("precision", outcome), Situation()) is None
    assert advice_for(finding("frequency", RuleOutcome.UNKNOWN, "not_told"), Situation())
    assert advice_for(finding("precision", RuleOutcome.UNKNOWN, "no_interval"), Situation()) is None
    past = replace(finding("precision", RuleOutcome.FAIL), id="a rule of the past")
    assert advice_for(past, Situation()) is None


def test_governor_is_advised_where_the_kernel_has_one() -> None:
    """Otherwise the advice on a virtual machine would end in an error that leads back to it."""
    for rule, reason in (("steady_state", "switching"), ("frequency", "")):
        fails = finding(rule, RuleOutcome.FAIL, reason)
        for cpus in ((2, 3), ()):
            assert "--governor" in str(advice_for(fails, Situation(own_cpus=cpus)))
            without = advice_for(fails, Situation(own_cpus=cpus, has_governors=False))
            assert without is not None
            assert "--governor" not in str(without)


def test_advice_whose_steps_another_one_has_is_not_repeated() -> None:
    """Otherwise the page of a set on a busy machine would advise twice to end other programs."""
    more_runs, alone, longer = (
        advice_for(finding(rule, RuleOutcome.FAIL), Situation(own_cpus=(1,)))
        for rule in ("between_runs", "background_load", "precision")
    )
    assert more_runs
    assert alone
    assert longer
    assert without_repeats([more_runs, longer, alone, longer]) == [more_runs, longer]
