"""Failures of a command: a line and a hint for people, and one document for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from edgebench.host.cli.starting import end_starting
from edgebench.protocol.errors import UsageError
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import say, say_hint

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from typing import TypedDict

    class ErrorEntry(TypedDict):
        """An error as `bench --json` lists it; None where it is not about one run."""

        code: str
        message: str
        hint: str
        model: str | None
        runtime: str | None
        device: str | None
        run_id: str | None


OPTION = "--json"
_printed: list[object] = []
"""Document that the command has printed, of which there is at most one, however it ends."""


class ArgumentsRefused(UsageError):
    """The arguments of a command contain an unknown option, or a value that an option refuses."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(message)
        self.program = program
        """Command whose help lists what it takes, as `edgebench meters record`."""

    @property
    def hint(self) -> str:
        """What to do: the name that may have been meant, and where the others are listed."""
        likely = f"did you mean {self.meant}? otherwise " if self.meant else ""
        return f"{likely}see what it takes: {self.program} --help"


def print_document(document: object) -> None:
    """Print the document of a command that may still fail, and note that."""
    import json  # only here: help must not wait for it

    text = json.dumps(document, indent=1)
    _printed.append(document)
    print(text)


def forget_document() -> None:
    """Begin with a command that has printed nothing."""
    _printed.clear()


def wants_json(words: Sequence[str]) -> bool:
    """Whether a script reads the output of this command line, be it right or wrong."""
    return OPTION in takewhile(lambda word: word != "--", words)


def error_entry(
    kind: str,
    message: str,
    hint: str,
    *,
    model: str | None = None,
    runtime: str | None = None,
    device: str | None = None,
    run_id: str | None = None,
) -> ErrorEntry:
    """An error of a command, for scripts."""
    return {
        "code": kind,
        "message": message,
        "hint": hint,
        "model": model,
        "runtime": runtime,
        "device": device,
        "run_id": run_id,
    }


def report_failure(
    message: str,
    hint: str,
    code: ExitCode,
    *,
    as_json: bool,
    command: str = "",
    kind: str = "",
) -> ExitCode:
    """Print what failed and what to do; the exit code.

    A message may quote a file that anybody wrote.

    Args:
        message: What failed, with the value and the limit.
        hint: What to do, with a command.
        code: The exit code.
        as_json: Print a document on stdout, unless the command has printed its own: for `bench`
            its runs, of which there are none, and the error; for any other command the error.
        command: The command that failed.
        kind: Name of the kind of error, as `EdgebenchError.kind` has it.
    """
    if as_json and not _printed:
        document: dict[str, object] = {
            "error": {"message": message, "hint": hint, "exit_code": code},
        }
        if command == "bench":
            document = {"runs": [], "sets": [], "errors": [error_entry(kind, message, hint)]}
        print_document(document)
    end_starting()
    say(f"error: {message}")
    say_hint(hint)
    return code
