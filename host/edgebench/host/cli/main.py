"""`edgebench`: find the command, run it, and turn the outcome into an exit code.

Slow modules, such as pandas, are imported only once the command is known, to keep `--help` fast.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from edgebench.protocol.distributions import HOST_DISTRIBUTION, why_missing
from edgebench.system.command_process import exit_code_of, raise_when_interrupted
from edgebench.system.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host: typing is slow to import, too
if TYPE_CHECKING:
    from argparse import Namespace

    from edgebench.protocol.errors import EdgebenchError

GROUPS = {
    "measure": {
        "bench": "measure models on this machine or on devices",
        "demo": "watch a simulated board throttle, and open the report",
        "collect": "store runs that earlier commands left on devices",
        "stop": "stop your run on a device",
        "energy": "compute the energy of a stored run from a power recording",
    },
    "look": {
        "runs": "list the stored runs",
        "show": "show a run, a set of runs, or a table of several",
        "compare": "compare stored runs, baseline against candidate",
        "history": "show a metric over time, and where it changed",
        "changes": "show recent changes in the histories, the worst first",
        "report": "write runs, or a campaign, as an HTML file",
        "verify": "recompute a run or a set from the raw files",
    },
    "keep and share": {
        "bundle": "write stored runs to a single file",
        "export": "write runs in another format: CSV, Perfetto, JUnit, …",
        "store": "copy the runs of another store or bundle into this one",
        "tag": "add a tag to stored runs",
        "note": "set the note of a stored run",
        "rm": "remove stored runs",
        "prune": "remove old stored runs",
    },
    "devices": {
        "devices": "list the devices, usable or not",
        "deploy": "install an agent on a machine over SSH, and pair with it",
        "pair": "pair with a device's agent",
        "meters": "list, check and record energy meters",
        "bridge": "list microcontrollers, flash firmware, or open a console",
        "check": "print which microcontrollers a model fits on",
        "kit": "build a Python for phones, which have none",
    },
    "lab": {
        "campaign": "measure a matrix of runs on many devices, or resume it",
        "serve": "show devices, campaigns and runs on a live web page",
        "lab": "share devices and runs with other hosts",
    },
    "other": {
        "schema": "print the JSON Schema of run.json",
        "completion": "print the completion script for bash, zsh or fish",
    },
}
"""Maps each group of the help to its commands."""
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
_EXAMPLES = (
    ("edgebench bench model.tflite", "measure on this machine"),
    ("edgebench bench a.onnx b.onnx --on pi5", "measure two models on a device"),
    ("edgebench show last", "show the results of the last command"),
)
_OPTIONS = (
    ("--json", "a JSON document (-o json); bench, runs, show: also -o csv, -o md"),
    ("-q, -v", "-q: omit progress, notes and next steps; -v: logs, tracebacks"),
    ("-h", "print help; bench --help-all lists all options of bench"),
)
"""Options of (almost) every command, which may also precede the command."""


_LOADED = {
    "bench": ("edgebench.host.lab", "edgebench.host.cli.progress"),
    "demo": ("edgebench.host.lab", "edgebench.host.cli.progress"),
    "campaign": ("edgebench.host.lab", "edgebench.host.cli.progress"),
    "devices": ("edgebench.host.lab", "edgebench.host.show.devices"),
    "stop": ("edgebench.host.lab",),
    "collect": ("edgebench.host.lab", "edgebench.host.cli.progress"),
    "pair": ("edgebench.host.lab",),
    "lab": ("edgebench.host.lab",),
    "deploy": ("edgebench.host.lab",),
    "runs": ("edgebench.host.store.index", "edgebench.host.show.tables"),
    "show": ("edgebench.host.show.page",),
    "tag": ("edgebench.host.store.address",),
    "note": ("edgebench.host.store.address",),
    "rm": ("edgebench.host.store.address",),
    "prune": ("edgebench.host.store.index",),
    "store": ("edgebench.host.store.merge",),
    "bundle": ("edgebench.host.store.bundle",),
    "compare": ("edgebench.host.lab", "edgebench.host.show.comparisons"),
    "report": ("edgebench.host.lab", "edgebench.host.report.page"),
    "history": ("edgebench.host.lab", "edgebench.host.show.history"),
    "changes": ("edgebench.host.lab", "edgebench.host.show.changes"),
    "export": ("edgebench.host.export.exported",),
    "meters": ("edgebench.host.power.session", "edgebench.host.show.meters"),
    "bridge": ("edgebench.host.show.boards",),
    "check": ("edgebench.host.bench.builtin", "edgebench.host.show.boards"),
    "energy": ("edgebench.host.bench.energy", "edgebench.host.show.energy"),
    "verify": ("edgebench.host.bench.verify",),
    "serve": ("edgebench.host.lab", "edgebench.host.serve.server"),
}
"""Modules that are slow to load, keyed by command. The modules are loaded before the command runs,
so that Ctrl-C can interrupt the loading."""


_MEASURING = ("bench", "campaign run", "campaign resume", "collect")
"""Commands that show a status line while they load."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not to fail on a terminal without µ
            stream.reconfigure(errors="replace")
    words = list(sys.argv[1:] if arguments is None else arguments)
    return exit_code_of(lambda: _dispatch(words))


def _dispatch(words: list[str]) -> ExitCode:
    words = _options_last(words)
    first, others = (words[0], words[1:]) if words else ("", [])
    if first == "help" and others and others[0] in COMMANDS:
        return _run(others[0], [*others[1:], "--help"])
    if not words or first in ("-h", "--help", "help"):
        print(_help())
        return ExitCode.DONE if words else ExitCode.USAGE
    if first == "--help-all":
        print(_help())
        for command in COMMANDS:
            print()
            _run(command, ["--help-all"])
        return ExitCode.DONE
    if first in ("-V", "--version", "version"):
        from edgebench.host.this_host import software

        print(software())
        return ExitCode.DONE
    if first not in COMMANDS:
        from edgebench.host.cli.failure import report_failure, wants_json
        from edgebench.host.options.peers import hint_for_command
        from edgebench.protocol.errors import UsageError, with_meant

        error = UsageError(f"unknown command {words[0]!r}")
        hint = "see the list of commands: edgebench --help"
        if (instruction := hint_for_command(words)) is not None:
            hint = f"{instruction}; otherwise {hint}"
        elif with_meant(error, words[0], (*COMMANDS, "help", "version")).meant:
            hint = f"did you mean edgebench {error.meant}? otherwise {hint}"
        return report_failure(str(error), hint, ExitCode.USAGE, as_json=wants_json(words))
    return _run(first, others)


def _options_last(words: list[str]) -> list[str]:
    """The words, with common options that precede the command moved behind its arguments."""
    count = 0
    while count < len(words) and words[count] in ("-q", "--quiet", "-v", "--verbose", "--json"):
        count += 1
    if count < len(words) - 1 and words[count] == "-o":
        count += 2
    if words[count : count + 1] and words[count] not in COMMANDS:
        return words
    end = next((at for at in range(count, len(words)) if words[at] == "--"), len(words))
    return [*words[count:end], *words[:count], *words[end:]]


def _run(command: str, words: list[str]) -> ExitCode:
    from edgebench.host.cli.failure import forget_document, report_failure, wants_json
    from edgebench.host.cli.options import is_quiet
    from edgebench.host.cli.starting import print_starting, print_waiting

    typed, options = command, None
    forget_document()
    try:
        module = import_module(f"edgebench.host.cli.{command}")
        try:
            options = module.parser().parse_words(words)
        except SystemExit:  # the help is printed
            return ExitCode.DONE
        _log(is_verbose=getattr(options, "is_verbose", False))
        typed = " ".join(filter(None, (command, getattr(options, "action", None))))
        if is_quiet(options):
            pass
        elif typed in _MEASURING:
            print_starting(options.on if command == "bench" else ["all"])
        elif command == "report":
            print_waiting("making the report…")
        for name in _LOADED.get(command, ()):
            import_module(name)
        raise_when_interrupted()
        _end_like_ctrl_c()
        code: ExitCode = module.run(options)
    except Exception as exc:
        if isinstance(exc, OSError) and exc.filename is None:
            raise  # standard output failed, so no document can be printed
        message = why_missing(exc) if isinstance(exc, ModuleNotFoundError) else None
        if message is not None:
            hint = f"install the missing package: pip install {HOST_DISTRIBUTION}"
            exit_code, kind = ExitCode.FAILED, "module_missing"
        else:
            from edgebench.system.unforeseen import exit_code_for, named_error

            error = named_error(exc)
            message, hint = str(error), _hint(error, typed, options)
            exit_code, kind = exit_code_for(error), error.kind
        return report_failure(
            message, hint, exit_code, as_json=wants_json(words), command=command, kind=kind
        )
    return code


def _hint(error: EdgebenchError, command: str, options: Namespace | None) -> str:
    from edgebench.host.cli.failure import ArgumentsRefused

    # Not through show.hints, whose modules take long to import.
    if isinstance(error, ArgumentsRefused):
        return error.hint
    from edgebench.host.cli.options import given_command
    from edgebench.host.options.command import CommandLine
    from edgebench.host.show.hints import hint_for

    return hint_for(
        error, given_command(command, options) if options else CommandLine(command=command)
    )


def _end_like_ctrl_c() -> None:
    """Make SIGTERM and SIGHUP act like Ctrl-C, unless the process ignores the signal."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            with suppress(ValueError):  # not in the main thread
                signal.signal(number, signal.default_int_handler)


def _log(*, is_verbose: bool) -> None:
    """Log to stderr with -v; without it, keep logged tracebacks off stderr.

    A failure is then reported in a single line. Libraries also log tracebacks: websockets does so
    for a ping without a response.
    """
    import logging

    if is_verbose:
        os.environ["EDGEBENCH_DEBUG"] = "1"
        logging.basicConfig(format="%(levelname)s: %(name)s: %(message)s")
        logging.getLogger("edgebench").setLevel(logging.DEBUG)
    elif not os.environ.get("EDGEBENCH_DEBUG"):
        logging.getLogger().addHandler(logging.NullHandler())


def _help() -> str:
    rows = [row for group in GROUPS.values() for row in group.items()]
    width = max(len(name) for name, _ in (*rows, *_OPTIONS))
    lines = [
        "usage: edgebench COMMAND [OPTION]…",
        "",
        "Measure machine-learning inference on the devices that run it.",
    ]
    for title, group in GROUPS.items():
        lines += ["", f"{title}:", *(f"  {name:<{width}}  {text}" for name, text in group.items())]
    lines += ["", "options of every command:"]
    lines += [f"  {name:<{width}}  {text}" for name, text in _OPTIONS]
    lines += ["", "examples:"]
    example_width = max(len(example) for example, _ in _EXAMPLES)
    lines += [f"  {example:<{example_width}}  {text}" for example, text in _EXAMPLES]
    lines += ["", "For help on a command: edgebench help COMMAND"]
    if os.isatty(1):  # not sys.stdout, which is None if `>&-` closed it
        import shutil
        import textwrap

        wrapper = textwrap.TextWrapper(
            shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False
        )
        for i, line in enumerate(lines):
            wrapper.subsequent_indent = " " * (width + 4) if line[:1].isspace() else ""
            lines[i] = wrapper.fill(line)
    return "\n".join(lines)
