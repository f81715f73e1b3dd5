"""What both command lines share, and scripts rely on."""

from __future__ import annotations

import pytest

from edgebench.system.command_line import CommandParser
from edgebench.system.exit_code import ExitCode


def test_exit_codes_are_never_renumbered() -> None:
    """Otherwise a CI job would take a regression for a failed device."""
    assert {code.name: int(code) for code in ExitCode} == {
        "DONE": 0,
        "FAILED": 1,
        "USAGE": 2,
        "INVALID": 3,
        "REGRESSION": 4,
        "INCONCLUSIVE": 5,
        "INTERRUPTED": 130,
        "NOT_READ": 141,
    }


@pytest.mark.parametrize("words", [("--verb",), ("run", "--verb"), ("run", "--quick", "--verb")])
def test_abbreviated_option_is_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Otherwise an abbreviation in a script would mean another option as soon as one is added."""
    parser = CommandParser(prog="program")
    parser.add_argument("--verbose", action="store_true")
    command = parser.add_subparsers().add_parser("run")
    for option in ("--verbose", "--quick"):
        command.add_argument(option, action="store_true")
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(words)
    assert ended.value.code == ExitCode.USAGE
    assert "unrecognized arguments: --verb" in capsys.readouterr().err
