"""Mistakes of people who know other tools: the hint is about what they wanted."""

from __future__ import annotations

import shlex

from support.commands import Run
from support.mistakes import MISTAKES

from edgebench.host.options.peers import COMMANDS, OPTIONS

LEAST_RIGHT = 79


def test_hints_are_about_what_was_wanted(edgebench: Run) -> None:
    """Each of 79 mistakes gets the right hint; all are one line, a hint and exit code 2."""
    assert len(MISTAKES) == 79
    wrong: list[str] = []
    for _, line, expected in MISTAKES:
        printed = edgebench(*shlex.split(line))
        assert (printed.code, printed.out) == (2, ""), line
        error, hint = printed.err.splitlines()
        assert error.startswith("error: "), line
        if expected not in hint:
            wrong.append(f"{line}: {hint}")
    assert len(MISTAKES) - len(wrong) >= LEAST_RIGHT, "\n".join(wrong)


def test_forty_words_of_peers_are_known() -> None:
    """No word stands twice for the same command, of which the second would never be printed."""
    assert sum(len(row.words) for row in OPTIONS) >= 40
    placed = [
        (word, command)
        for rows in (OPTIONS, COMMANDS)
        for row in rows
        for word in row.words
        for command in row.commands or (rows is COMMANDS,)
    ]
    assert [place for place in set(placed) if placed.count(place) > 1] == []
