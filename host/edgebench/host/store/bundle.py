"""Write stored runs into a bundle; `bundle_file` describes the format."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from edgebench.host.store.address import Address
from edgebench.host.store.bundle_file import (
    BUNDLE_VERSION,
    MANIFEST_FILE,
    RUNS,
    SUFFIX,
    fault_of_names,
)
from edgebench.host.store.index import stored_summary
from edgebench.host.store.layout import (
    ANNOTATIONS_FILE,
    EXPECTED_FILE,
    regular_files,
    require_files,
)
from edgebench.protocol.errors import FileExists, RunDamaged, StoreError, UsageError
from edgebench.system.whole_files import whole_file

_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""Fixed date of all files in a bundle, as the real dates would differ between copies of a run.
Source: APPNOTE.TXT, 4.4.6."""
_UNIX = 3
"""Code for Unix, the system that defines the file modes; source: APPNOTE.TXT, 4.4.2.2."""
_BLOCK_BYTES = 1 << 20


def default_name(runs: Sequence[Address]) -> str:
    """Default file name, which is the id of the only run, or of the runs' set or comparison.

    If the runs do not share a set or comparison, the name consists of the id of the first run and
    the number of further runs.
    """
    if len(runs) == 1:
        return f"{runs[0].run_id}{SUFFIX}"
    rows = [stored_summary(run.store, run.run_id) for run in runs]
    group_ids = {row.set_id or row.comparison_id for row in rows}
    [group_id] = group_ids if len(group_ids) == 1 else [None]
    return f"{group_id or f'{runs[0].run_id}-and-{len(runs) - 1}-more'}{SUFFIX}"


def write_bundle(path: Path, runs: Sequence[Address], *, is_annotated: bool = True) -> list[str]:
    """Write runs into a new file, which gets its name once it is complete.

    Args:
        path: File to write, which must not exist.
        runs: The runs; a run that is named twice is written once.
        is_annotated: Whether to include tags and notes.

    Returns:
        Ids of the runs, oldest first.

    Raises:
        UsageError: the file exists or has another suffix, two runs with the same id differ, or
            there are too many files.
        StoreError: a run cannot be read, or the file cannot be written.
    """
    if path.suffix.lower() != SUFFIX:
        raise UsageError(f"a bundle is a {SUFFIX} file, got {str(path)!r}")
    if os.path.lexists(path):
        raise FileExists(f"file exists: {path}")
    addresses: dict[str, Address] = {}
    for run in runs:
        first = addresses.setdefault(run.run_id, run)
        if first is not run and first.document() != run.document():
            raise UsageError(f"run {run.run_id} is named twice with different content: {run.place}")
    # Files of the runs by their names in a bundle, in the order of writing.
    left_out = {EXPECTED_FILE} | (set() if is_annotated else {ANNOTATIONS_FILE})
    sources: dict[str, Path] = {}
    for run_id, run in sorted(addresses.items()):
        require_files(run.directory)  # otherwise pipes and devices would be silently left out
        with suppress(RunDamaged):  # a damaged run may be bundled as it is
            run.document()
        names = {
            str(path.relative_to(run.directory)): path for path in regular_files(run.directory)
        }
        sources |= {
            f"{RUNS}/{run_id}/{name}": names[name] for name in sorted(names) if name not in left_out
        }
    if fault := fault_of_names(sources):
        raise UsageError(f"runs do not fit into a bundle: {fault}")
    try:
        with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
            digests = {name: _add(archive, name, source) for name, source in sources.items()}
            manifest = {"bundle_version": BUNDLE_VERSION, "files": digests}
            text = json.dumps(manifest, indent=1) + "\n"
            archive.writestr(_entry(MANIFEST_FILE), text)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        where = exc.filename if exc.filename in map(str, sources.values()) else path
        raise StoreError(f"bundle not written: {reason}: {where}") from exc
    return sorted({name.split("/")[1] for name in sources})


def _add(archive: zipfile.ZipFile, name: str, source: Path) -> str:
    """Write a file into the archive and return its SHA-256."""
    entry, digest = _entry(name), hashlib.sha256()
    with source.open("rb") as file:
        # The size decides between a 32-bit and a 64-bit header.
        entry.file_size = os.fstat(file.fileno()).st_size
        with archive.open(entry, "w") as target:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                target.write(block)
    return digest.hexdigest()


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _EARLIEST)
    entry.create_system = _UNIX
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    return entry
