"""Command line of the agent."""

from __future__ import annotations

import pytest

from edgebench.agent.cli import command_parser


@pytest.mark.parametrize("words", [["srve"], ["serve", "--prot", "1"]])
def test_typo_is_one_line_and_a_hint(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise the agent would print its usage after a typo, where the host states what to do."""
    with pytest.raises(SystemExit) as left:
        command_parser().parse_args(words)
    assert left.value.code == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert hint == "hint: see all arguments: edgebench-agent --help"
