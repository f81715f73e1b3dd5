"""Failures of a command: a line and a hint for people, and one document for scripts."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from edgebench.protocol.errors import UsageError
from edgebench.protocol.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from typing import Any

OPTION = "--json"


class ArgumentsRefused(UsageError):
    """The arguments of a command contain an unknown option, or a value that an option refuses."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(message)
        self.program = program
        """Command whose help lists what it takes, as `edgebench meters record`."""


def wants_json(words: Sequence[str]) -> bool:
    """Whether a script reads the output of this command line, be it right or wrong."""
    options = words[: words.index("--")] if "--" in words else words
    return OPTION in options


def report_failure(
    message: str, hint: str, code: ExitCode, *, as_json: bool, command: str = ""
) -> ExitCode:
    """Print what failed and what to do; the exit code.

    A message may quote a file that anybody wrote.

    Args:
        message: What failed, with the value and the limit.
        hint: What to do, with a command.
        code: The exit code.
        as_json: Print a document on stdout: for `bench` its runs, of which there are none; for
            any other command the error.
        command: The command that failed.
    """
    from edgebench.protocol.text import printable  # only here: it takes typing with it

    if as_json:
        import json  # only here: help must not wait for it

        error = {"message": message, "hint": hint, "exit_code": code}
        nothing: dict[str, Any] = {"runs": [], "sets": []}
        document = nothing if command == "bench" else {"error": error}
        print(json.dumps(document, indent=1))
    print(f"error: {printable(message)}", file=sys.stderr)
    print(f"hint: {printable(hint)}", file=sys.stderr)
    return code
