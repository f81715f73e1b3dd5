"""Comparison of the outputs of two trees: which differences fail it."""

from __future__ import annotations

import json
import math
import runpy
from typing import Any

import pytest
from support.tools import ROOT_OF_CHECKOUT

SCRIPT = runpy.run_path(str(ROOT_OF_CHECKOUT / "devtools/compare_outputs.py"))
NAMED = [{"id": "loss", "outcome": "pass"}]
"""A list with a named element."""
ADDED = {"id": "rate", "outcome": "fail"}


@pytest.mark.parametrize(
    ("before", "after", "kinds", "code"),
    [
        ({"p50": 1.5}, {"p50": 1.5}, [], 0),
        ({"p50": math.nan}, {"p50": math.nan}, [], 0),
        ({"p50": 1.5}, {"p50": 1.5, "p90": 2.0}, ["new"], 0),
        ({"note": "two runs"}, {"note": "2 runs"}, ["words"], 0),
        ({"p50": 1.5}, {"p50": 1.6}, ["number"], 1),
        ({"is_valid": True}, {"is_valid": 1}, ["number"], 1),
        ({"state": "valid"}, {"state": "suspect"}, ["verdict"], 1),
        ({"p50": 1.5, "p90": 2.0}, {"p50": 1.5}, ["lost"], 1),
        ({"runs": [1, 2]}, {"runs": [1, 2, 3]}, ["value"], 1),
        ({"rules": NAMED}, {"rules": [*NAMED, ADDED]}, ["value"], 1),
        ({"rules": [*NAMED, ADDED]}, {"rules": NAMED}, ["lost"], 1),
        ({"rules": [*NAMED, ADDED]}, {"rules": [ADDED, *NAMED]}, [], 0),
    ],
    ids=json.dumps,
)
def test_difference_has_its_kind_and_fails_unless_it_is_words_or_a_new_key(
    before: Any, after: Any, kinds: list[str], code: int
) -> None:
    """Otherwise a number could change with the code, unnoticed."""
    assert [kind for kind, _, _ in SCRIPT["differences"](before, after)] == kinds
    name = "store", "show", "run"
    outputs = [{name: (0, document)} for document in (before, after)]
    assert SCRIPT["report"](*outputs, are_words_listed=False) == code


def test_command_that_a_tree_lacks_fails(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a tree that lists no runs would have no differences."""
    outputs: dict[tuple[str, ...], tuple[int, Any]] = {("store", "runs"): (0, [])}
    assert SCRIPT["report"](outputs, {}, are_words_listed=False) == 1
    assert "1 and 0 outputs" in capsys.readouterr().out
