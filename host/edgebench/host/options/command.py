"""Commands and next steps as data, for hints and advice; they become text only when printed.

A step repeats the command that was typed, or the command that would measure a run again, with some
options changed. A step contains commands and values, not parts of sentences.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgebench.host.options.bench import COMPARISON, FIELDS, OPTIONS, SECTIONS, words_of

Arguments = Sequence[Sequence[str]]
"""Arguments of a command; each item is a positional argument, or an option with its values."""
_COMPARISON = {option.flag for option in SECTIONS[COMPARISON]}
_REPEATABLE = {"--allow"}
"""Options that may be given repeatedly; a new value is added to the typed values."""


class Placeholder(str):
    """A word that the user replaces by a name, such as RUN…; it is printed without quotes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command line of `edgebench`."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        """The line, quoted for a shell."""
        words = (
            word if isinstance(word, Placeholder) else shlex.quote(word) for word in self.words
        )
        return " ".join(("edgebench", *words))


def command(*words: str | Sequence[str]) -> Command:
    """The command with these words; lists of words are flattened.

    >>> str(command("meters", "info", Placeholder("METER")))
    'edgebench meters info METER'
    >>> str(command("show", ["a b", "c"]))
    "edgebench show 'a b' c"
    """
    flat = ([word] if isinstance(word, str) else word for word in words)
    return Command(tuple(word for part in flat for word in part))


class NextStep:
    """A possible next action of the user, as a text that begins with a verb.

    >>> longer = command("bench", Placeholder("MODEL"), "--wait", "10m")
    >>> str(NextStep("wait: {}; or end it: {}", longer, command("stop")))
    'wait: edgebench bench MODEL --wait 10m; or end it: edgebench stop'
    """

    __slots__ = ("text", "values")

    def __init__(self, text: str, *values: object) -> None:
        """Create a step.

        Args:
            text: The text, with `{}` for each value.
            *values: Commands and other values.
        """
        self.text = text
        self.values = values

    @property
    def commands(self) -> tuple[Command, ...]:
        """Commands of the step and of steps nested in it."""
        found: list[Command] = []
        for value in self.values:
            if isinstance(value, Command):
                found.append(value)
            elif isinstance(value, NextStep):
                found += value.commands
        return tuple(found)

    def __str__(self) -> str:
        """The step in one line."""
        return self.text.format(*self.values)

    def __eq__(self, other: object) -> bool:
        """Whether text and values are equal."""
        return isinstance(other, NextStep) and (self.text, self.values) == (
            other.text,
            other.values,
        )

    def __hash__(self) -> int:
        """Hash of text and values."""
        return hash((self.text, self.values))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The contents of a command line, or of the command line that would measure a run again."""

    command: str = ""
    """The command, followed by its action if it has one: `meters record`."""
    arguments: tuple[tuple[str, ...], ...] = ()
    """Arguments as typed, each with its values."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Maps fields of `bench` options to a run's values, including defaults missing in
    `arguments`."""
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Maps placeholders, such as RUN… or METER, to the typed words that they stand for."""
    store: tuple[str, ...] = ()
    """`--store DIR` if the store is not the default store."""

    @property
    def words(self) -> tuple[str, ...]:
        """The command and its action, as separate words."""
        return tuple(self.command.split())

    @property
    def group(self) -> str:
        """The command without its action; empty if there is no command."""
        return self.command.partition(" ")[0]

    @property
    def models(self) -> tuple[str, ...]:
        """Models as the user named them, without the model of `--against`.

        >>> CommandLine(arguments=(("a.onnx",), ("--quick",), ("--against", "b.onnx"))).models
        ('a.onnx',)
        """
        return tuple(word for words in self.arguments if not _is_option(words) for word in words)

    @property
    def options(self) -> tuple[tuple[str, ...], ...]:
        """Options, each with its values."""
        return tuple(words for words in self.arguments if _is_option(words))

    def named(self, name: str) -> tuple[str, ...]:
        """Words that replace a placeholder; the placeholder itself if there are no such words.

        >>> CommandLine(names={"METER": ("ppk2",)}).named("METER"), CommandLine().named("METER")
        (('ppk2',), ('METER',))
        """
        return self.names.get(name, (Placeholder(name),))

    def value(self, field_name: str) -> Any | None:
        """Value of a `bench` option with this field; None if settings and arguments lack it."""
        if field_name in self.settings:
            return self.settings[field_name]
        for option in OPTIONS:
            if option.field != field_name:
                continue
            values = [words[1:] for words in self.arguments if words[0] == option.flag]
            if values:
                return option.constant if not values[-1] else option.kind.read(values[-1][-1])
        return None

    def more(self, field_name: str, least: float) -> float:
        """Twice the option's current value, but at least `least`.

        >>> given = CommandLine(command="bench", arguments=(("m.onnx",), ("--timeout", "20m")))
        >>> given.more("load_timeout_s", 600.0), given.more("idle_duration_s", 10.0)
        (2400.0, 10.0)
        """
        return max(least, 2 * (self.value(field_name) or 0))

    def bench(self, *words: str, without: Sequence[str] = (), **changes: Any) -> Command:
        """The `bench` command of this command line, with changes.

        Args:
            *words: Further arguments.
            without: Names of options to leave out.
            **changes: Values of options, by field.

        Raises:
            KeyError: no option has such a field.

        >>> given = CommandLine(command="bench", arguments=(("a b.onnx",), ("--wait", "1m")))
        >>> str(given.bench(wait_s=600.0)), str(CommandLine().bench(runs=15))
        ("edgebench bench 'a b.onnx' --wait 10m", 'edgebench bench MODEL --runs 15')
        """
        if unknown := changes.keys() - FIELDS:
            raise KeyError(f"options of bench have no field {min(unknown)}")
        if self.value("candidate") is not None:
            if changes.get("sustained_s") is not None:  # pairs of sustained runs would take hours
                return self._unpaired().bench(*words, without=without, **changes)
            if "runs" in changes:
                changes["pairs"] = changes.pop("runs")
        added = [*([word] for word in words), *words_of(changes)]
        return self._again("bench", self.named("MODEL"), added, without)

    def _unpaired(self) -> CommandLine:
        """This command line without the comparison: both models are measured separately."""
        options = [words for words in self.options if words[0] not in _COMPARISON]
        models = [(model,) for model in (*self.models, self.value("candidate")) if model]
        return replace(self, arguments=(*models, *options))

    def compare(self, added: Arguments) -> Command:
        """The `compare` command of this command line, with these arguments added."""
        return self._again("compare", ("RUNS",), added)

    def energy(self, run_id: str) -> Command:
        """The `energy` command of this command line, for another run.

        >>> words, names = (("r1",), ("--trace", "a.csv")), {"RUN…": ("r1",)}
        >>> str(CommandLine(command="energy", arguments=words, names=names).energy("r2"))
        'edgebench energy r2 --trace a.csv'
        """
        if self.command != "energy":
            return command("energy", run_id, "--trace", Placeholder("FILE"))
        runs = {(name,) for name in self.named("RUN…")}
        return command("energy", run_id, *(words for words in self.arguments if words not in runs))

    def again(self, added: Arguments) -> Command:
        """This command line, with these options added or replaced.

        >>> given = (("import",), ("a.csv",))
        >>> str(CommandLine(command="meters import", arguments=given).again([("--rate", "10")]))
        'edgebench meters import a.csv --rate 10'
        """
        changed = {words[0] for words in added}
        kept = [word for words in self.arguments if words[0] not in changed for word in words]
        return command(self.group, kept, [word for words in added for word in words])

    def collect(self) -> Command:
        """The command that collects the runs of the named devices."""
        return self._again("collect", ("--on", *self.named("DEVICE"), *self.store), ())

    def _again(
        self, name: str, template: Sequence[str], added: Arguments, without: Sequence[str] = ()
    ) -> Command:
        """The command `name` with the typed arguments or, if it was not typed, with `template`."""
        changed = {words[0] for words in added} - _REPEATABLE | {f"--{name}" for name in without}
        changed |= {flag for row in OPTIONS if row.flag in changed for flag in row.excludes}
        is_given = self.command == name and (self.arguments or name == "collect")
        kept = [words for words in self.arguments if words[0] not in changed]
        begin = [word for words in kept for word in words] if is_given else template
        return command(name, begin, [word for words in added for word in words])


def _is_option(words: Sequence[str]) -> bool:
    """Whether an argument is an option with its values, and not a model."""
    return bool(words) and words[0].startswith("--")
