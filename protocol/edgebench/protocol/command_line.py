"""What the command lines of host and agent have in common: exit codes and the parser."""

from __future__ import annotations

import argparse
from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Exit codes; scripts and CI depend on them."""

    DONE = 0
    FAILED = 1
    """The device, the link or the store failed."""
    USAGE = 2
    """The command makes no sense; argparse exits with this code, too."""
    INVALID = 3
    """A result cannot be trusted."""
    REGRESSION = 4
    """The candidate is worse than the baseline by more than allowed."""
    INCONCLUSIVE = 5
    """There are too few data to tell."""
    INTERRUPTED = 130
    """Ctrl-C, as the shell reports it."""


class CommandParser(argparse.ArgumentParser):
    """Accepts no abbreviated options: a new option would change what a script means.

    The parsers of its commands are of the same class.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
