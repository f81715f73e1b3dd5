"""Writes runs into a file or a directory: the whole of it, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.registry import ExportFormat, ExportKind
from edgebench.protocol.errors import FileNotWritten


def export_runs(runs: Sequence[ExportedRun], form: ExportFormat, path: Path) -> None:
    """Write runs in a format; a file that was there is replaced when the new one is whole.

    Args:
        runs: The runs, in the order in which they are written.
        form: The format.
        path: A file; for MLPerf's logs a directory, which may exist.

    Raises:
        FileNotWritten: the file cannot be written.
        RunDamaged: a file of a run is not readable.
        NoLoadgenLog: MLPerf's logs are wanted, and a run has none.
    """
    part = path.with_name(f".{path.name}.part")
    is_special = path.exists() and not path.is_file()  # a pipe, or /dev/stdout
    try:
        if form.kind is ExportKind.DIRECTORY:
            form.load()(runs, path)
            return
        try:
            with (path if is_special else part).open("wb") as out:
                form.load()(runs, out)
            if not is_special:
                part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as exc:
        raise FileNotWritten(f"file not writable: {exc.strerror or exc}: {path}") from exc
