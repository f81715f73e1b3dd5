"""Options that several commands share, and the parser of all commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from edgebench.host.cli.failure import ArgumentsRefused
from edgebench.host.options.values import hertz, offset, percent
from edgebench.protocol.errors import with_meant
from edgebench.system.command_line import CommandParser

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from edgebench.host.options.bench import BenchOption
    from edgebench.host.options.command import CommandLine
    from edgebench.host.result.facts import ImportOptions

OPTION_CUTOFF = 0.75
"""An unknown option counts as a misspelled known option if their similarity is above this limit.
`--device` and `--metric` are different options with a similarity of 0.6."""
Add = Callable[..., object]
"""Signature of `add_argument`, which is a method of parsers and of their groups of options."""


class OneLineParser(CommandParser):
    """Parser that reports invalid arguments as one line and a hint, without the usage."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.basic: Sequence[str] = ()
        """Options that `--help` lists; if empty, `--help` lists all options."""
        self.examples: Sequence[str] = ()
        # In the help of edgebench itself, not of each command.
        hidden, unset = argparse.SUPPRESS, argparse.SUPPRESS
        self.add_argument("--help-all", action=HelpOfAllOptions, default=unset, help=hidden)
        for short, long in (("-q", "--quiet"), ("-v", "--verbose")):
            name = f"is_{long[2:]}"
            self.add_argument(
                short, long, dest=name, action="store_true", default=unset, help=hidden
            )

    def parse_words(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words of a command line.

        Raises:
            ArgumentsRefused: an option is unknown, or a value is invalid.
        """
        try:
            options, others = self.parse_known_args(words)
            options.words = list(words)
            options.given = _grouped(self, words)
            if others:
                error = ArgumentsRefused(f"unrecognized arguments: {' '.join(others)}", self.prog)
                name = next((word for word in others if word.startswith("-")), "")
                # Among many options, the closest is often not the option that was meant.
                raise with_meant(error, name, options_of(self), cutoff=OPTION_CUTOFF)
        except ArgumentsRefused as error:
            from edgebench.host.options.peers import hint_for_option

            command = self.prog.split()[1]
            error.likely = error.likely or hint_for_option(command, tuple(options_of(self)), words)
            raise
        return options

    def format_help(self) -> str:
        """Format the help; a command with many options shows only basic options, with examples."""
        if not self.basic:
            return super().format_help()
        lines = [
            f"usage: {self.prog} [MODEL]… [OPTION]…",
            "",
            str(self.description),
            "",
            "examples:",
            *(f"  {example}" for example in self.examples),
            "",
        ]
        formatter = self._get_formatter()
        formatter.start_section("options")
        shown = [action for action in self._actions if action.dest in self.basic]
        formatter.add_arguments(shown)
        formatter.end_section()
        count = sum(action.help != argparse.SUPPRESS for action in self._actions) - len(shown)
        more = f"{count} more options: {self.prog} --help-all\n"
        return "\n".join([*lines, formatter.format_help(), more])

    def format_full_help(self) -> str:
        """The help with all options."""
        return super().format_help()

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Reject a value that is not among the choices, and suggest the most similar choice."""
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            name = "/".join(action.option_strings) or action.metavar or action.dest
            text = f"argument {name}: invalid choice: {value!r} (choose from {', '.join(known)})"
            from edgebench.host.options.peers import hint_for_value

            error = ArgumentsRefused(text, self.prog)
            error.likely = hint_for_value(str(value))
            raise with_meant(error, str(value), known)

    def error(self, message: str) -> NoReturn:
        """Report invalid arguments.

        Raises:
            ArgumentsRefused: always.
        """
        for action in self._actions:
            if isinstance(action.choices, dict) and action.required:
                message += f" ({action.metavar}: one of {', '.join(action.choices)})"
        raise ArgumentsRefused(message, self.prog)


class HelpOfAllOptions(argparse.Action):
    """Prints the help with all options, and ends the command."""

    def __init__(self, option_strings: Sequence[str], dest: str, **settings: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **settings)

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Print the help."""
        del namespace, values, option_string
        assert isinstance(parser, OneLineParser)
        print(parser.format_full_help(), end="")
        parser.exit()


_NAMES = {
    "RUN": ("run", "runs", "names"),
    "MODEL": ("models", "model_file"),
    "METER": ("meter",),
    "DEVICE": ("on",),
    "OTHER": ("other",),
    "TARGET": ("target",),
    "USER@HOST": ("target",),
    "tcp://SCHEDULER:8786": ("cluster",),
}
"""Placeholders in hints, and the names of the arguments whose values replace them."""


def given_command(command: str, options: argparse.Namespace) -> CommandLine:
    """The given command line, from which hints build the next command.

    `RUN…` is replaced by any number of words. Any other placeholder is replaced by a single word.

    >>> options = argparse.Namespace(run=["r1", "r 2"], meter="ppk2", given=[])
    >>> given_command("show", options).names
    {'RUN…': ('r1', 'r 2'), 'METER': ('ppk2',)}
    """
    from edgebench.host.options.command import CommandLine  # only here: keeps --help fast

    names: dict[str, tuple[str, ...]] = {}
    is_action = getattr(options, "action", None) is not None  # its names may be device names
    for name, arguments in _NAMES.items():
        values: list[str] = []
        for argument in arguments:
            value = None if is_action and argument == "names" else getattr(options, argument, None)
            words = value if isinstance(value, list) else [value]
            values += [str(word) for word in words if isinstance(word, (str, Path))]
        if values and name == "RUN":
            names["RUN…"] = tuple(values)
        if len(values) == 1:
            names[name] = tuple(values)
    if hasattr(options, "models") and not options.on:
        names["DEVICE"] = ("local",)
    store = getattr(options, "store", None)
    return CommandLine(
        command=command,
        arguments=tuple(map(tuple, options.given)),
        names=names,
        store=() if store is None else ("--store", str(store)),
    )


def _grouped(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[list[str]]:
    """Split words into groups; a group is a positional argument, or an option with its values.

    >>> parser = argparse.ArgumentParser()
    >>> actions = [parser.add_argument("models"), parser.add_argument("--on")]
    >>> _grouped(parser, ["a.onnx", "--on", "pi5", "--", "-b.onnx"])
    [['a.onnx'], ['--on', 'pi5'], ['./-b.onnx']]
    """
    groups: list[list[str]] = []
    known = parser._option_string_actions  # pyright: ignore[reportPrivateUsage] argparse has no other way
    left, is_option = 0, True
    for word in words:
        if word == "--" and is_option:
            is_option, left = False, 0
        elif is_option and word.startswith("-") and not (left and word[1:2].isdigit()):
            name, equals, _ = word.partition("=")
            groups.append([name, *([word[len(name) + 1 :]] if equals else [])])
            action = known.get(name)
            takes = 0 if action is None or action.nargs == 0 else len(words)
            left = 0 if equals else 1 if action is not None and action.nargs is None else takes
        elif left:
            groups[-1].append(word)
            left -= 1
        else:
            groups.append([f"./{word}" if word.startswith("-") else word])
    return groups


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Option strings of a command and of its actions."""
    for action in parser._actions:  # pyright: ignore[reportPrivateUsage] argparse has no other way
        yield from action.option_strings
        if isinstance(action.choices, dict):
            for choice in action.choices.values():
                yield from options_of(choice)


class GivenOnce(argparse.Action):
    """Stores an option's value; rejects a second value, which would silently replace the first.

    Only for options without a default.
    """

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store the value.

        Raises:
            ArgumentError: the option already has a value.
        """
        del parser, option_string
        first = getattr(namespace, self.dest)
        if first is not None:
            raise argparse.ArgumentError(self, f"given twice: {first!r} and {values!r}")
        setattr(namespace, self.dest, values)


def new_parser(command: str, description: str) -> OneLineParser:
    """A parser for a command; the parsers of its actions have the same class."""
    return OneLineParser(prog=f"edgebench {command}", description=description)


def add_option(add: Add, option: BenchOption) -> None:
    """Add an option of `bench`, as its row in `options/bench.py` defines it."""
    if option.constant is not None:
        add(option.flag, action="store_const", const=option.constant, help=option.help_text)
        return
    once = GivenOnce if option.is_given_once else "store"
    add(
        option.flag,
        action=once if option.join is None else "append",
        type=option.kind.read,
        metavar=option.metavar or option.kind.metavar,
        help=option.help_text,
    )


def add_store(parser: argparse.ArgumentParser) -> None:
    """Add --store."""
    parser.add_argument(
        "--store",
        type=Path,
        metavar="DIR",
        help="directory of the results (default: $EDGEBENCH_STORE, else the XDG data directory)",
    )


def add_cluster_certificates(parser: argparse.ArgumentParser) -> None:
    """Add --tls-ca-file, --tls-cert and --tls-key."""
    texts = {
        "ca-file": "CA certificate of the cluster, for tls://",
        "cert": "certificate of this host",
        "key": "private key of this host",
    }
    for name, text in texts.items():
        parser.add_argument(f"--tls-{name}", type=Path, metavar="FILE", help=text)


_RUN_HELP = (
    "run (id, beginning or unique part of an id, last, tag, directory, bundle), set (id), or "
    "directory of a meter's recording"
)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add RUN, the argument of `edgebench verify`."""
    parser.add_argument("run", metavar="RUN", help=_RUN_HELP)


def add_runs(parser: argparse.ArgumentParser) -> None:
    """Add RUN…, the arguments of `edgebench show`."""
    parser.add_argument("run", metavar="RUN", nargs="+", help=_RUN_HELP)


def add_columns(add: Add) -> None:
    """Add options for properties that a power file does not contain."""
    unit = "; if the column name has no unit, append the unit, as in P:mW"
    add("--time", metavar="COLUMN", help=f"column of the time{unit}")
    add("--power", metavar="COLUMN", help="column of the power")
    add("--current", metavar="COLUMN", help="column of the current")
    add("--rate", type=hertz, metavar="HZ", help="sample rate of a file without timestamps")
    samples = "whether a sample is the mean over its interval, or an instantaneous value (default: "
    samples += "as documented for the program that wrote the file)"
    add("--samples", choices=("means", "instants"), help=samples)
    bound = "start of the part to read, as a time after the first sample (10s) or a time in the "
    bound += "file (4000.5, 09:00:05)"
    add("--from", dest="begin", metavar="TIME", help=bound)
    add("--until", metavar="TIME", help="end of the part to read, in the forms of --from")


def add_instrument_errors(add: Add) -> None:
    """Add options for the errors of an instrument."""
    gain = "largest gain error of the instrument, from its data sheet (default: 15%% is assumed)"
    add("--gain", type=percent, metavar="1%", help=gain)
    zero = (
        "largest offset of the instrument, from its data sheet: 30uA, 1mW (default: no offset "
        "is assumed)"
    )
    add("--offset", type=offset, metavar="30uA", help=zero)


def stated_columns(options: argparse.Namespace) -> ImportOptions:
    """Properties of a power file, from the options of `add_columns`, --voltage and --supply."""
    from edgebench.host.result.facts import ImportOptions  # only here: keeps --help fast

    # `energy` also takes a constant voltage in --voltage.
    constant_v = options.voltage if isinstance(options.voltage, float) else None
    return ImportOptions(
        time=options.time,
        power=options.power,
        current=options.current,
        voltage=options.voltage if isinstance(options.voltage, str) else None,
        supply_v=getattr(options, "supply", constant_v),
        rate_hz=options.rate,
        is_averaging=None if options.samples is None else options.samples == "means",
        begin=options.begin,
        until=options.until,
    )


class OutputFormat(argparse.Action):
    """Stores the format of stdout, given by `--json` or `-o`; for runs, also csv or md."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store the format.

        Raises:
            ArgumentError: another format was given before.
        """
        del parser, option_string
        given = values if self.option_strings == ["-o"] else JSON
        before = getattr(namespace, "output_format", given)
        if before != given:
            raise argparse.ArgumentError(
                self, f"output formats {before} and {given} exclude each other"
            )
        namespace.json = given == JSON
        namespace.output_format = given


JSON, CSV, MARKDOWN = "json", "csv", "md"


def add_json(
    parser: argparse.ArgumentParser,
    default: bool | str = False,
    *,
    formats: Sequence[str] = (JSON,),
) -> None:
    """Add --json. Also add -o FORMAT if the command does not use -o for another purpose.

    Args:
        parser: The parser.
        default: Value if --json is not given. If the parser is an action of a command that also has
            --json, the value is `argparse.SUPPRESS`.
        formats: Formats of -o.
    """
    text = "print a JSON document on stdout"
    parser.add_argument("--json", action=OutputFormat, nargs=0, default=default, help=text)
    if "-o" in options_of(parser):
        return
    metavar = "|".join(formats)
    parser.add_argument(
        "-o",
        dest="output_format",
        action=OutputFormat,
        choices=formats,
        metavar=metavar,
        default=argparse.SUPPRESS,
        help="format of stdout; json is the same as --json"
        if formats != (JSON,)
        else argparse.SUPPRESS,
    )


def is_quiet(options: argparse.Namespace) -> bool:
    """Whether -q was given; -q suppresses progress, notes and next steps."""
    return bool(getattr(options, "is_quiet", False))


def format_of(options: argparse.Namespace) -> str | None:
    """The format of -o; None if it was not given."""
    given: str | None = getattr(options, "output_format", None)
    return given


def add_trust_model(add: Add) -> None:
    """Add --trust-model, for commands that open models."""
    text = "do not warn if a device lets models access files of the agent's user"
    add("--trust-model", action="store_true", help=text)
