"""The list of formats: names, modules, file name suffixes and documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgebench.host.export.columns import FACT_COLUMNS, number_columns
from edgebench.host.export.registry import FORMATS, ExportKind, format_of_file, named_format
from edgebench.protocol.errors import UsageError

DOCS = Path(__file__).resolve().parents[4] / "docs" / "export.md"


@pytest.mark.parametrize("name", [one.name for one in FORMATS])
def test_every_format_has_a_function_that_writes_it(name: str) -> None:
    """Otherwise a format would be in the list and the help, but end in a traceback."""
    assert callable(named_format(name).load())


def test_documentation_has_every_format_with_its_suffixes() -> None:
    """Otherwise the documentation would lack a format, or list it with another suffix."""
    rows = re.findall(r"^\| `([a-z-]+)` \| ([^|]*) \|", DOCS.read_text(), re.MULTILINE)
    documented = {name: tuple(re.findall(r"`([^`]+)`", ends)) for name, ends in rows}
    assert documented == {one.name: one.suffixes for one in FORMATS}


def test_documentation_has_every_column_in_its_order() -> None:
    """Otherwise a column would be renamed silently, and scripts that read it would fail."""
    block = re.search(r"```columns\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert block is not None
    assert block[1].split() == [
        *(fact_column.name for fact_column in FACT_COLUMNS),
        *number_columns(),
    ]


@pytest.mark.parametrize("one", FORMATS, ids=lambda one: one.name)
def test_suffix_selects_its_format(one: object) -> None:
    """Otherwise two formats would share a suffix, and the first of them would be used."""
    assert one in FORMATS
    form = next(other for other in FORMATS if other is one)
    assert all(format_of_file(f"Results{suffix.upper()}") is form for suffix in form.suffixes)
    assert form.suffixes or form.kind is ExportKind.DIRECTORY


@pytest.mark.parametrize(
    ("file_name", "message"),
    [("results.json", r"\.chrome\.json, \.bmf\.json"), ("results", "no format"), ("a.xlsx", "no")],
)
def test_unknown_or_ambiguous_suffix_is_refused(file_name: str, message: str) -> None:
    """Otherwise a JSON file would be written in the first matching format."""
    with pytest.raises(UsageError, match=message):
        format_of_file(file_name)


def test_unknown_format_is_refused_with_the_known_ones() -> None:
    """Otherwise the user would have to look up the name in the documentation."""
    with pytest.raises(UsageError, match="unknown format 'excel'; known: csv, parquet"):
        named_format("excel")
