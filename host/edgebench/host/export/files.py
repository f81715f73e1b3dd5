"""Writes an export atomically to a file or a directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.registry import ExportFormat, ExportKind
from edgebench.protocol.errors import FileNotWritten
from edgebench.system.whole_files import whole_file


def export_runs(runs: Sequence[ExportedRun], form: ExportFormat, path: Path) -> None:
    """Write runs in a format; an existing file is replaced once the new file is complete.

    Args:
        runs: The runs, in the order in which they are written.
        form: The format.
        path: File to write. For MLPerf's logs, the path is a directory, which may exist.

    Raises:
        FileNotWritten: the file cannot be written.
        RunDamaged: a file of a run is not readable.
        NoLoadgenLog: MLPerf's logs were requested, and a run has no logs or is invalid.
    """
    is_special = path.exists() and not path.is_file()  # a pipe, or /dev/stdout
    try:
        if form.kind is ExportKind.DIRECTORY:
            form.load()(runs, path)
            return
        with path.open("wb") if is_special else whole_file(path) as out:
            form.load()(runs, out)
    except OSError as exc:
        raise FileNotWritten(f"file not writable: {exc.strerror or exc}: {path}") from exc
