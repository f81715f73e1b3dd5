"""The examples in docstrings, of every module that has some."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import edgebench

MODULES = sorted(
    ".".join(("edgebench", *path.relative_to(root).with_suffix("").parts))
    for root in map(Path, edgebench.__path__)
    for path in root.rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_show_what_the_code_does(name: str) -> None:
    """Otherwise the documentation would show results that the code does not give."""
    result = doctest.testmod(import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
