"""Report the failure of a command as an error line with a hint, and as a document for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, takewhile

from edgebench.host.cli.starting import end_starting
from edgebench.protocol.errors import UsageError
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo, echo_hint

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from typing import TypedDict

    class ErrorEntry(TypedDict):
        """An error in the output of `bench --json`; fields without a value are None."""

        code: str
        message: str
        hint: str
        model: str | None
        runtime: str | None
        device: str | None
        run_id: str | None


OPTION = "--json"
_printed: list[object] = []
"""The document that the command has printed; a command prints at most one, even if it fails."""


class ArgumentsRefused(UsageError):
    """The arguments of a command contain an unknown option or an invalid value."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(message)
        self.program = program
        """Command whose help lists the valid arguments, such as `edgebench meters record`."""
        self.likely: str | None = None
        """First part of the hint, if an unknown option belongs to another tool; otherwise None."""

    @property
    def hint(self) -> str:
        """Likely meaning of the option, if known, and the command that lists all arguments."""
        likely = f"did you mean {self.meant}? otherwise " if self.meant else ""
        likely = f"{self.likely}; otherwise " if self.likely else likely
        return f"{likely}see all arguments: {self.program} --help"


def print_document(document: object) -> None:
    """Print a command's JSON document; a later failure then prints no second document."""
    import json  # only here: keeps --help fast

    text = json.dumps(document, indent=1)
    _printed.append(document)
    print(text)


def forget_document() -> None:
    """Forget the printed document, because a new command begins."""
    _printed.clear()


def wants_json(words: Sequence[str]) -> bool:
    """Whether the words before `--` contain `--json` or `-o json`.

    The command line need not be valid.

    >>> wants_json(["runs", "-o", "json"]), wants_json(["report", "json", "-o", "r"])
    (True, False)
    """
    given = list(takewhile(lambda word: word != "--", words))
    return bool({OPTION, "-ojson"} & {*given}) or ("-o", "json") in pairwise(given)


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
    """An error in the format of `bench --json`."""
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
    message: str, hint: str, code: ExitCode, *, as_json: bool, command: str = "", kind: str = ""
) -> ExitCode:
    """Print an error and its hint, and return the exit code.

    The message is untrusted text: it may quote a file of unknown origin.

    Args:
        message: What failed, with the value and the limit.
        hint: What to do, with a command.
        code: The exit code.
        as_json: Print a document on stdout, unless the command has printed its own document. The
            document of any command contains the error. The document of `bench` has the error in a
            list, after empty lists of runs and sets.
        command: The command that failed.
        kind: Name of the kind of error, from `EdgebenchError.kind`.
    """
    if as_json and not _printed:
        document: dict[str, object] = {
            "error": {"message": message, "hint": hint, "exit_code": code}
        }
        if command == "bench":
            document = {"runs": [], "sets": [], "errors": [error_entry(kind, message, hint)]}
        print_document(document)
    end_starting()
    echo(f"error: {message}")
    echo_hint(hint)
    return code
