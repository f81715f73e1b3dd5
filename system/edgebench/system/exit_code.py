"""Exit codes of both command lines; apart from the parser, whose library takes time to load."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes; scripts and CI depend on them."""

    DONE = 0
    """Done, and no result is invalid."""
    FAILED = 1
    """The device, the link, the meter, the store or the model failed, or `verify` found a
    difference."""
    USAGE = 2
    """The command or one of its arguments is invalid; argparse exits with this code, too."""
    INVALID = 3
    """Measured, but a result is invalid, or its energy was requested and is not known."""
    REGRESSION = 4
    """The candidate is worse than the baseline by more than allowed."""
    INCONCLUSIVE = 5
    """At least one comparison is inconclusive, and none is worse."""
    INTERRUPTED = 130
    """Ctrl-C, as the shell reports it."""
    NOT_READ = 141
    """The reader of the output is gone, as in `edgebench runs | head -1`: 128 + SIGPIPE, as the
    shell reports it of other programs."""
