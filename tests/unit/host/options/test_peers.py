"""Hints for words of other tools: the commands and options that they name exist."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module

import pytest

from edgebench.host.cli.main import COMMANDS as KNOWN
from edgebench.host.cli.options import options_of
from edgebench.host.options.peers import COMMANDS, OPTIONS, VALUES, PeerWord, plain


def flags_of(command: str) -> set[str]:
    """Options of a command and of its actions."""
    return set(options_of(import_module(f"edgebench.host.cli.{command}").parser()))


@pytest.mark.parametrize("row", [*OPTIONS, *COMMANDS, *VALUES], ids=lambda row: row.words[0])
def test_commands_and_options_in_hints_exist(row: PeerWord) -> None:
    """Otherwise the hint for a mistake would be another mistake.

    An option without a command is one of the command that was typed; `campaign` and `collect` take
    words of `bench` from their files or the earlier command.
    """
    for step in re.sub(r" \| [^;]*", "", plain(row.hint)).split("; "):
        named = re.search(r"edgebench ([a-z]+)", step)
        flags = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", step))
        if named is not None:
            assert named[1] in {*KNOWN, "help"}, step
            typed = [named[1]] if named[1] in KNOWN else []
        elif "bench" in row.commands:
            typed = ["bench"]
        else:
            typed = list(row.commands)
        for command in typed:
            assert flags <= flags_of(command), f"{command}: {step}"


@pytest.mark.parametrize("rows", [OPTIONS, COMMANDS, VALUES], ids=["options", "commands", "values"])
def test_no_word_has_two_rows_for_a_command(rows: tuple[PeerWord, ...]) -> None:
    """Otherwise the first row would silently hide the hint of the other."""
    pairs = [(word, command) for row in rows for word in row.words for command in row.commands]
    assert sorted(pair for pair, count in Counter(pairs).items() if count > 1) == []
