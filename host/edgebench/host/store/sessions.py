"""Lookup of the recordings of energy meters by name, and their directory in a store."""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.host.store.bundle_file import split_name
from edgebench.host.store.layout import POWER_FILE, RUN_FILE, Store
from edgebench.protocol.errors import StoreError, UsageError
from edgebench.protocol.traces import METER_FILE

SESSIONS = "sessions"
"""Directory in a store that is used for a recording if the user names no directory."""


def find_session(store: Store, name: str) -> Path | None:
    """Directory of the recording with this name; None if it is the name of a run.

    Raises:
        UsageError: the name is a path without a recording or run.
        StoreError: a file of the recording is not a regular file.
    """
    if split_name(name) is not None:
        return None
    kept = store.root / SESSIONS / name
    path = kept if os.sep not in name and kept.is_dir() else Path(name)
    files = [path / file for file in (METER_FILE, POWER_FILE) if (path / file).exists()]
    is_session = bool(files) and not (path / RUN_FILE).exists()
    for file in files:
        if is_session and not file.is_file():  # opening a pipe would block
            raise StoreError(f"not a file: {file}")
    is_path = os.sep in name or name in (os.curdir, os.pardir)
    if is_path and (path / RUN_FILE).exists():
        return None
    if is_path and not is_session:
        raise UsageError(f"neither a meter recording nor a run: {name}")
    return path if is_path or (is_session and not store.matching(name)) else None
