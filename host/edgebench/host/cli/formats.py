"""Print runs on standard output in the format of -o."""

from __future__ import annotations

import sys

from edgebench.host.cli.options import CSV, MARKDOWN

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgebench.host.export.exported import ExportedRun

TEXT_FORMATS = {CSV: "csv", MARKDOWN: "markdown"}
"""Maps values of -o to the names of export formats."""


def print_runs(runs: Sequence[ExportedRun], output_format: str) -> None:
    """Print runs as `edgebench export` writes them.

    Args:
        runs: The runs.
        output_format: A key of `TEXT_FORMATS`.
    """
    from edgebench.host.export.registry import named_format

    sys.stdout.flush()
    named_format(TEXT_FORMATS[output_format]).load()(runs, sys.stdout.buffer)
