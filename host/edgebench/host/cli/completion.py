"""`edgebench completion`: shell scripts that get their completions from this command.

The scripts do not depend on the options. When the user presses Tab, a script runs `edgebench
completion --complete WORD…` with the words typed so far. The first line that the command prints is
`files` if the shell should also complete paths. A line for each completion follows. The completions
are derived from the parsers of the commands.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path

from edgebench.host.cli.options import new_parser
from edgebench.host.options.bench import OPTIONS
from edgebench.system.exit_code import ExitCode

BASH = """\
# Completion of edgebench for bash: eval "$(edgebench completion bash)" in ~/.bashrc
_edgebench() {
    local IFS=$'\\n' found
    found=($("${COMP_WORDS[0]}" completion --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
    COMPREPLY=("${found[@]:1}")
    if [[ ${found[0]} == files ]]; then
        compopt -o filenames
        COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}
COMP_WORDBREAKS=${COMP_WORDBREAKS//:/}
complete -F _edgebench edgebench
"""
ZSH = """\
#compdef edgebench
# Completion of edgebench for zsh: eval "$(edgebench completion zsh)" in ~/.zshrc, after compinit
_edgebench() {
    local -a found
    found=("${(@f)$(${words[1]} completion --complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    compadd -- "${(@)found[2,-1]}"
    [[ ${found[1]} == files ]] && _files
}
compdef _edgebench edgebench
"""
FISH = """\
# Completion of edgebench for fish: edgebench completion fish | source, in config.fish
function __edgebench_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found ($words[1] completion --complete $words[2..-1] "$current" 2>/dev/null)
    printf '%s\\n' $found[2..-1]
    if test "$found[1]" = files
        __fish_complete_path "$current"
    end
end
complete -c edgebench -f -a '(__edgebench_complete)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
FILES, WORDS = "files", "words"
_SAFE = re.compile(r"[\w.,:/@+=%-]+")
"""Names that need no quoting in a shell; only these names are offered as completions."""
_FILES = {"FILE", "FILE.toml", "FILE.zip", "DIR", "PATH", "DATASET", "BOARD"}


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench completion`."""
    made = new_parser(
        "completion", "Print a script that completes commands, options, runs, devices and models."
    )
    made.add_argument("shell", nargs="?", choices=tuple(SCRIPTS), help="the shell")
    words = "print completions of the last WORD; WORD… is the command line after `edgebench`"
    made.add_argument("--complete", nargs=argparse.REMAINDER, metavar="WORD", help=words)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Print the script, or the completions."""
    from edgebench.protocol.errors import UsageError

    if options.complete is not None:
        # Not `options.complete`: argparse drops a `--` from it.
        typed: list[str] = options.words[options.words.index("--complete") + 1 :]
        kind, names = completions(typed or [""])
        print("\n".join([kind, *names]))
        return ExitCode.DONE
    if options.shell is None:
        raise UsageError(f"no shell given: choose from {', '.join(SCRIPTS)}")
    print(SCRIPTS[options.shell], end="")
    return ExitCode.DONE


def completions(words: Sequence[str]) -> tuple[str, list[str]]:
    """`FILES` (paths are also completed) or `WORDS`, and the completions of the last word.

    Args:
        words: Words after the name of the program, at least one; the last may be empty.
    """
    from edgebench.host.cli.main import COMMANDS

    begin = words[-1]
    if len(words) == 1:
        return WORDS, _beginning(begin, (*COMMANDS, "--help", "--version"))
    if words[0] not in COMMANDS:
        return WORDS, []
    made: argparse.ArgumentParser = import_module(f"edgebench.host.cli.{words[0]}").parser()
    place = _Place(made)
    for word in words[1:-1]:
        place.pass_over(word)
    if place.action is None or (begin.startswith("-") and not place.is_value):
        return WORDS, _beginning(begin, place.options)
    if place.action.choices is not None:
        return WORDS, _beginning(begin, map(str, place.action.choices))
    metavar = str(place.action.metavar or "")
    names = _NAMES.get(place.action.option_strings[-1] if place.is_value else "")
    names = names or _NAMES.get(metavar)
    is_path = metavar in _FILES or metavar in _PATHS_TOO
    return FILES if is_path else WORDS, _beginning(begin, names(place.store) if names else ())


class _Place:
    """Position of the next word in a command line."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.store = Path()
        self.is_value = False
        """Whether the next word is the value of an option."""
        self._enter(parser)

    def _enter(self, parser: argparse.ArgumentParser) -> None:
        actions = parser._actions  # pyright: ignore[reportPrivateUsage] argparse has no other way
        self._by_name = {name: action for action in actions for name in action.option_strings}
        self._positionals = [action for action in actions if not action.option_strings]
        self.action = self._positionals[0] if self._positionals else None

    @property
    def options(self) -> list[str]:
        """Long options of the command or action."""
        return [name for name in self._by_name if name.startswith("--")]

    def pass_over(self, word: str) -> None:
        """Advance past a word that is already typed."""
        if word == "=":  # bash splits --option=value
            return
        if self.is_value and not word.startswith("-"):
            is_list = self.action is not None and self.action.nargs in ("+", "*")
            if self.action is not None and self.action.dest == "store":
                self.store = Path(word)
            if not is_list:
                self._leave_option()
            return
        if word.startswith("-"):
            option = self._by_name.get(word)
            self._leave_option()
            if option is not None and option.nargs != 0:
                self.action, self.is_value = option, True
            return
        if self.action is not None and isinstance(self.action.choices, dict):
            self._enter(self.action.choices.get(word) or argparse.ArgumentParser(add_help=False))
        elif self.action is not None and self.action.nargs not in ("+", "*"):
            self._positionals = self._positionals[1:]
            self._leave_option()

    def _leave_option(self) -> None:
        self.is_value = False
        self.action = self._positionals[0] if self._positionals else None


def _beginning(begin: str, words: Iterable[str]) -> list[str]:
    """Words that begin with `begin`, or with the last item if `begin` is a comma-separated list."""
    before, comma, last = begin.rpartition(",")
    known = [word for word in words if word.startswith(last) and _SAFE.fullmatch(word)]
    return [f"{before}{comma}{word}" for word in known]


def _runs(store: Path) -> list[str]:
    from edgebench.host.store.names import default_root, run_names

    return run_names(store if store != Path() else default_root())


def _of_index(column: str) -> Callable[[Path], list[str]]:
    def names(store: Path) -> list[str]:
        from edgebench.host.store.names import default_root, values_of

        return values_of(store if store != Path() else default_root(), column)

    return names


def _devices(store: Path) -> list[str]:
    from edgebench.host.devices.names import device_names

    del store
    return ["local", "all", *device_names()]


def _models(store: Path) -> list[str]:
    from importlib.resources import files

    from edgebench.system.paths import MODEL_SUFFIXES

    del store
    folder = files("edgebench.host") / "builtin_models"
    return sorted(file.name for file in folder.iterdir() if file.name.endswith(MODEL_SUFFIXES))


def _metrics(store: Path) -> list[str]:
    from edgebench.host.result.metrics import BY_SHORT_NAME, METRICS

    del store
    return [*METRICS, *BY_SHORT_NAME]


def _fixed(*words: str) -> Callable[[Path], list[str]]:
    return lambda _: list(words)


_NAMES: dict[str, Callable[[Path], list[str]]] = {
    "RUN": _runs,
    "BASELINE": _runs,
    "CANDIDATE": _runs,
    "TAG": _of_index("tags"),
    "--tag": _of_index("tags"),
    "--model": _of_index("model"),
    "--device": _of_index("device"),
    "DEVICE": _devices,
    "OLD": _devices,
    "MODEL": _models,
    "B": _models,
    "DATASET": _fixed("digits"),
    "--metric": _metrics,
    **{option.flag: _fixed(*option.completions) for option in OPTIONS if option.completions},
}
"""Functions that list the names to complete, keyed by option or by placeholder."""
_PATHS_TOO = {"RUN", "BASELINE", "CANDIDATE", "MODEL", "B"}
"""Placeholders that accept a path as well as a name."""
