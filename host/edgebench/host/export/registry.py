"""List of the export formats; importing it does not import the formats' modules."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module

from edgebench.protocol.errors import UsageError, with_meant


class ExportKind(Enum):
    """Kind of output of a format."""

    TEXT = "text"
    BYTES = "bytes"
    """Binary file, never written to a terminal."""
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """An export format; its module has `write(runs, out)` or `copy(runs, directory)`."""

    name: str
    about: str
    module: str
    """Name of the module in this package."""
    suffixes: tuple[str, ...] = ()
    """File name suffixes that select this format."""
    kind: ExportKind = ExportKind.TEXT
    function: str = "write"

    def load(self) -> Callable[..., None]:
        """Import the format's module and return its function."""
        module = import_module(f"edgebench.host.export.{self.module}")
        function: Callable[..., None] = getattr(module, self.function)
        return function


FORMATS = (
    ExportFormat("csv", "a row for each run, with all metrics", "csv_file", (".csv",)),
    ExportFormat(
        "parquet",
        "the columns of csv, and the latencies of each run",
        "parquet_file",
        (".parquet",),
        ExportKind.BYTES,
    ),
    ExportFormat(
        "perfetto",
        "a trace for ui.perfetto.dev",
        "perfetto",
        (".pftrace", ".perfetto-trace"),
        ExportKind.BYTES,
    ),
    ExportFormat(
        "chrome", "the trace of perfetto, in Chrome's JSON format", "chrome", (".chrome.json",)
    ),
    ExportFormat("bmf", "Bencher Metric Format", "bencher", (".bmf.json",)),
    ExportFormat(
        "github-smaller",
        "github-action-benchmark, customSmallerIsBetter",
        "github_benchmark",
        (".smaller.json",),
        function="write_smaller",
    ),
    ExportFormat(
        "github-bigger",
        "github-action-benchmark, customBiggerIsBetter",
        "github_benchmark",
        (".bigger.json",),
        function="write_bigger",
    ),
    ExportFormat("junit", "JUnit XML, a test case for each run", "junit", (".xml",)),
    ExportFormat("markdown", "a table for a pull request", "markdown", (".md",)),
    ExportFormat("openmetrics", "OpenMetrics text", "openmetrics", (".prom", ".om")),
    ExportFormat(
        "mlperf",
        "the logs of MLPerf's LoadGen, for runs that used it",
        "mlperf",
        kind=ExportKind.DIRECTORY,
        function="copy",
    ),
)
"""All formats; a test compares the table in docs/export.md with this list."""


def named_format(name: str) -> ExportFormat:
    """The format with this name.

    Raises:
        UsageError: the name is unknown.
    """
    for known in FORMATS:
        if known.name == name:
            return known
    error = UsageError(
        f"unknown format {name!r}; known: {', '.join(known.name for known in FORMATS)}"
    )
    of_suffix = [known.name for known in FORMATS if f".{name.lower()}" in known.suffixes]
    raise with_meant(error, of_suffix[0] if of_suffix else name, [known.name for known in FORMATS])


def format_of_file(file_name: str) -> ExportFormat:
    """The format selected by the suffix of a file name.

    Raises:
        UsageError: the suffix selects no format, or several formats (for example `.json`).
    """
    lower = file_name.lower()
    for known in FORMATS:
        if lower.endswith(known.suffixes):
            return known
    suffixes = [suffix for known in FORMATS for suffix in known.suffixes]
    if lower.endswith(".json"):
        suffixes = [suffix for suffix in suffixes if suffix.endswith(".json")]
        text = f"several formats are JSON: {file_name!r} must end in one of {', '.join(suffixes)}"
        error = UsageError(text)
        error.meant = f"--json > {shlex.quote(file_name)}"  # the document of the command itself
        raise error
    raise UsageError(f"no format for the file name {file_name!r}; known: {', '.join(suffixes)}")
