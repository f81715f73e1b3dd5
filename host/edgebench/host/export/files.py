"""Writes an export to a file or a directory atomically: all of it, or nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.registry import ExportFormat, ExportKind
from edgebench.protocol.errors import FileNotWritten


def export_runs(runs: Sequence[ExportedRun], form: ExportFormat, path: Path) -> None:
    """Write runs in a format; an existing file is replaced once the new one is complete.

    Args:
        runs: The runs, in the order in which they are written.
        form: The format.
        path: File to write; for MLPerf's logs a directory, which may exist.

    Raises:
        FileNotWritten: the file cannot be written.
        RunDamaged: a file of a run is not readable.
        NoLoadgenLog: MLPerf's logs were requested, and a run has none.
    """
    # Not derived from the file's name, which may already have the maximum length; the process id
    # keeps two exports into the same file apart.
    part = path.with_name(f".edgebench-export-{os.getpid()}.part")
    is_special = path.exists() and not path.is_file()  # a pipe, or /dev/stdout
    try:
        if form.kind is ExportKind.DIRECTORY:
            form.load()(runs, path)
            return
        try:
            if is_special:
                with path.open("wb") as out:
                    form.load()(runs, out)
                return
            with part.open("xb") as out:  # "x" never follows a link planted by another user
                form.load()(runs, out)
            part.replace(path)
        finally:
            with suppress(OSError):
                part.unlink()
    except OSError as exc:
        raise FileNotWritten(f"file not writable: {exc.strerror or exc}: {path}") from exc
