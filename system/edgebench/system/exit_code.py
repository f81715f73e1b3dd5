"""Exit codes of both command lines; in a module without `argparse`, which is slow to import."""

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
    """The command or an argument is invalid; argparse exits with this code as well."""
    INVALID = 3
    """Measured, but a result is invalid, or its energy was requested and is unknown."""
    REGRESSION = 4
    """The candidate is worse than the baseline by more than allowed."""
    INCONCLUSIVE = 5
    """At least one comparison is inconclusive, and none is worse."""
    INTERRUPTED = 130
    """Ctrl-C, as the shell reports it."""
    NOT_READ = 141
    """The reader has closed the output, as in `edgebench runs | head -1`: 128 + SIGPIPE, as the
    shell reports it for other programs."""
