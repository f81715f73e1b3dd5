"""How a command fails: a line and a hint for people, and one document for scripts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from edgebench.protocol.errors import UsageError

OPTION = "--json"


class WrongWords(UsageError):
    """The words of a command line are none of its options, or an option's value is none."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(message)
        self.program = program
        """Whose help tells what it takes: edgebench meters record."""


def wants_json(words: Sequence[str]) -> bool:
    """Whether a script reads the output of this command line, right or wrong as it may be."""
    options = words[: words.index("--")] if "--" in words else words
    return OPTION in options


def tell(message: str, hint: str, code: int, *, as_json: bool, command: str = "") -> int:
    """Say what failed and what to do; the exit code.

    Args:
        message: What failed, with the value and the limit.
        hint: What to do, with a command.
        code: The exit code.
        as_json: Print a document on stdout: of `bench` the runs, as always, of which there are
            none; of any other command the error.
        command: Which one.
    """
    if as_json:
        import json  # who reads a help waits for no more than that

        error = {"message": message, "hint": hint, "exit_code": code}
        document: dict[str, Any] = {"runs": []} if command == "bench" else {"error": error}
        print(json.dumps(document, indent=1))
    print(f"error: {message}", file=sys.stderr)
    print(f"hint: {hint}", file=sys.stderr)
    return code
