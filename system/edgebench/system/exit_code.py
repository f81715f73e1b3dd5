"""Exit codes of both command lines; apart from the parser, whose library takes time to load."""

from __future__ import annotations

from enum import IntEnum


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
    NOT_READ = 141
    """The reader of the output is gone, as in `edgebench runs | head -1`: 128 + SIGPIPE, as the
    shell reports it of other programs."""
