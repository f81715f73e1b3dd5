"""The formats that runs are exported in: an explicit list, which needs nothing to be loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module

from edgebench.protocol.errors import UsageError


class ExportKind(Enum):
    """What a format makes."""

    TEXT = "text"
    BYTES = "bytes"
    """A file that no terminal shows."""
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class ExportFormat:
    """One format; its module has `write(runs, out)`, or `copy(runs, directory)`."""

    name: str
    about: str
    module: str
    """Module of this package."""
    suffixes: tuple[str, ...] = ()
    """Ends of file names that mean this format."""
    kind: ExportKind = ExportKind.TEXT
    function: str = "write"

    def load(self) -> Callable[..., None]:
        """The function that writes it; imports what it needs."""
        module = import_module(f"edgebench.host.export.{self.module}")
        made: Callable[..., None] = getattr(module, self.function)
        return made


FORMATS = (
    ExportFormat("csv", "a row for each run, all metrics", "csv_file", (".csv",)),
    ExportFormat(
        "parquet",
        "the same columns, and the latencies of each run",
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
    ExportFormat("chrome", "the same trace as Chrome's JSON", "chrome", (".chrome.json",)),
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
        "the logs of MLPerf's LoadGen, where it ran",
        "mlperf",
        kind=ExportKind.DIRECTORY,
        function="copy",
    ),
)
"""Every format; docs/export.md has a table of them, which a test compares with this list."""


def named_format(name: str) -> ExportFormat:
    """The format of this name.

    Raises:
        UsageError: there is none.
    """
    for one in FORMATS:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in FORMATS)
    raise UsageError(f"unknown format {name!r}; known: {known}")


def format_of_file(file_name: str) -> ExportFormat:
    """The format that the end of a file's name means.

    Raises:
        UsageError: it means none, or several, as `.json`.
    """
    lower = file_name.lower()
    for one in FORMATS:
        if lower.endswith(one.suffixes):
            return one
    ends = [end for one in FORMATS for end in one.suffixes]
    if lower.endswith(".json"):
        ends = [end for end in ends if end.endswith(".json")]
        raise UsageError(f"several formats are JSON: let {file_name!r} end in {', '.join(ends)}")
    raise UsageError(f"the end of {file_name!r} means no format; known: {', '.join(ends)}")
