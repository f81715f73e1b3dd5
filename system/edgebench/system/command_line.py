"""Parser for the command lines of host and agent."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False  # type checkers know this name; to import it from typing takes 2 ms
if TYPE_CHECKING:
    from typing import Any


class CommandParser(argparse.ArgumentParser):
    """Parser that rejects abbreviated options: in scripts, new options could make them ambiguous.

    The parsers of subcommands have this class too.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
