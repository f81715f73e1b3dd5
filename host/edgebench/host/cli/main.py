"""`edgebench`: find the command, run it, turn what happens into an exit code.

Nothing is imported before it is known which command is wanted: help must not wait for pandas.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module

DONE, FAILED, USAGE, INVALID, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes; 4 and 5 belong to comparisons. 130 is the shell's for Ctrl-C."""

COMMANDS = {
    "bench": "measure models on this machine or on devices",
    "devices": "list the devices, usable or not",
    "pair": "pair with a device's agent",
    "deploy": "install an agent on a machine over SSH, and pair with it",
    "runs": "list the stored runs",
    "show": "show one run",
    "verify": "compute a run again from its raw files",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no µ is no reason to fail
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return DONE if words else USAGE
    if words[0] == "--version":
        from edgebench.host.this_host import software

        print(software())
        return DONE
    if words[0] not in COMMANDS:
        print(f"error: unknown command {words[0]!r}", file=sys.stderr)
        print("hint: see what there is: edgebench --help", file=sys.stderr)
        return USAGE
    return _run(words[0], words[1:])


def _run(command: str, words: list[str]) -> int:
    from edgebench.protocol.errors import EdgebenchError, UsageError

    module = import_module(f"edgebench.host.cli.{command}")
    try:
        code: int = module.run(module.parser().parse_args(words))
    except EdgebenchError as exc:
        from edgebench.host.show.hints import hint_for

        print(f"error: {exc}", file=sys.stderr)
        if isinstance(exc, UsageError):
            print(f"hint: see what it takes: edgebench {command} --help", file=sys.stderr)
            return USAGE
        print(f"hint: {hint_for(exc)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output is gone: nothing is left to say
        return FAILED
    return code


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "usage: edgebench COMMAND [OPTION]…",
            "",
            "Measure machine-learning inference on the devices that run it.",
            "",
            *lines,
            "",
            "edgebench COMMAND --help tells more about one command.",
        ]
    )
