"""The parser that the command lines of host and agent have in common."""

from __future__ import annotations

import argparse

TYPE_CHECKING = False  # type checkers know this name; to import it from typing takes 2 ms
if TYPE_CHECKING:
    from typing import Any


class CommandParser(argparse.ArgumentParser):
    """Accepts no abbreviated options: a new option would change what a script means.

    The parsers of its commands are of the same class.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
