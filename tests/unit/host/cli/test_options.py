"""Parsers of commands, and hints that repeat the user's input."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

import pytest

from edgebench.host.cli.bench import parser as bench_parser
from edgebench.host.cli.compare import parser as compare_parser
from edgebench.host.cli.failure import ArgumentsRefused
from edgebench.host.cli.options import OneLineParser, given_command
from edgebench.host.cli.store import parser as store_parser
from edgebench.host.options.command import CommandLine
from edgebench.host.show.hints import hint_for
from edgebench.protocol.errors import LeaseHeld, NotComparable, RunNotStored, StoreError


@pytest.mark.parametrize("command", ["campaign", "store", "lab"])
def test_missing_action_lists_the_actions(command: str) -> None:
    """Otherwise the bare command would only report that ACTION is required."""
    parser = import_module(f"edgebench.host.cli.{command}").parser()
    with pytest.raises(ArgumentsRefused, match=r"required: ACTION \(ACTION: one of") as caught:
        parser.parse_words([])
    [actions] = [action for action in parser._actions if isinstance(action.choices, dict)]
    assert str(caught.value).endswith(f"one of {', '.join(actions.choices)})")


def parsed(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.Namespace:
    """The options of a command line."""
    assert isinstance(parser, OneLineParser)
    return parser.parse_words(words)


def test_option_of_another_command_is_kept() -> None:
    """Otherwise the hint of a busy board, once pasted, would measure this machine instead."""
    options = parsed(bench_parser(), ("a.onnx", "--on", "pixel-8", "--wait", "1m"))
    held = LeaseHeld("busy", stoppable_on="pixel-8")
    assert hint_for(held, given_command("bench", options)) == (
        "wait until the device is free: edgebench bench a.onnx --on pixel-8 --wait 10m; or end "
        "your run there: edgebench stop --on pixel-8"
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (
            ("a b.onnx", "--quick", "--threads", "2", "--wait", "1m"),
            "edgebench bench 'a b.onnx' --quick --threads 2 --wait 10m; or",
        ),
        (("a.onnx", "--wait=1m", "--on", "pi5"), "edgebench bench a.onnx --on pi5 --wait 10m; or"),
        (("--quick", "--", "-a.onnx"), "edgebench bench --quick ./-a.onnx --wait 10m; or"),
        (("MODEL", "--runs", "3"), "edgebench bench MODEL --runs 3 --wait 10m; or"),
    ],
)
def test_hint_repeats_the_command_that_was_given(words: tuple[str, ...], hint: str) -> None:
    """Otherwise the advice would measure differently: one thread, this machine, at full length."""
    options = parsed(bench_parser(), words)
    steps = hint_for(LeaseHeld("busy"), given_command("bench", options))
    assert steps.startswith(f"wait until the device is free: {hint}")


def test_hint_of_compare_repeats_its_runs_and_what_was_allowed() -> None:
    """Otherwise the advised command, which allows the second difference only, would be refused."""
    options = parsed(
        compare_parser(), ["r1", "--against", "r2", "--allow", "os", "--fail-on", "2%"]
    )
    differ = NotComparable("they differ in kernel", ["kernel"])
    assert hint_for(differ, given_command("compare", options)).endswith(
        ": edgebench compare r1 --against r2 --allow os --fail-on 2% --allow kernel"
    )
    measured = NotComparable("they differ in kernel", ["kernel"], "pairs-1")
    assert hint_for(measured, CommandLine(command="bench")).endswith(
        ": edgebench compare pairs-1 --allow kernel"
    )


def test_run_is_collected_into_the_store_that_was_given() -> None:
    """Otherwise, after a full disk, the run would be collected into another store."""
    options = parsed(bench_parser(), ["a.onnx", "--store", "a b"])
    hint = hint_for(RunNotStored("full"), given_command("bench", options))
    assert hint.endswith("edgebench collect --on local --store 'a b'")


def test_names_of_runs_are_not_the_number_of_runs() -> None:
    """Otherwise `--runs 3` of bench would be taken for the name of a run."""
    options = parsed(bench_parser(), ["a.onnx", "--runs", "3"])
    assert "RUN" not in given_command("bench", options).names


def test_store_is_a_part_of_the_other_store_to_merge() -> None:
    """Otherwise the repeated merge would go into another store."""
    options = parsed(store_parser(), ["merge", "there", "--store", "a b"])
    hint = hint_for(StoreError("full"), given_command("store merge", options))
    assert hint.endswith("edgebench store merge there --store 'a b'")
