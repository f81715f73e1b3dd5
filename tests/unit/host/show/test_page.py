"""The page of a run: its operators."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from edgebench.host.result.run import ProfileResult
from edgebench.host.show.page import operators_table
from edgebench.protocol.record import OperatorTime


def rows(*operators: OperatorTime) -> list[list[str]]:
    """The cells of the table, row by row."""
    out = Console(file=StringIO(), width=100)
    out.print(operators_table(ProfileResult(10, operators, None, None, None)))
    assert isinstance(out.file, StringIO)
    return [line.split() for line in out.file.getvalue().splitlines() if line.strip()]


def test_operators_are_shown_by_their_medians() -> None:
    """One preemption makes a small operator the most expensive one."""
    found = rows(
        OperatorTime(0, "CONV", "", "cpu", 10, 10_099_000, 9_000),
        OperatorTime(1, "ADD", "", "cpu", 10, 10_000, 1_000),
        OperatorTime(2, "RELU", "", "cpu", 10, 0, 0),
    )
    assert "median time" in " ".join(found[0])
    assert [(row[1], *row[3:6]) for row in found[-3:]] == [
        ("CONV", "9.00", "µs", "90.0%"),
        ("ADD", "1.00", "µs", "10.0%"),
        ("RELU", "<", "1", "µs"),
    ]


def test_profile_of_an_older_agent_is_shown_by_its_means() -> None:
    """A mean stands under the name of a median."""
    found = rows(OperatorTime(0, "CONV", "", "cpu", 10, 90_000))
    assert "mean time" in " ".join(found[0])
    assert found[-1][3] == "9.00"
