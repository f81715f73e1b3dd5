"""Atomic change of all files of a stored run.

The document of a run contains the digests of the run's files, so all files must change together.
Therefore a copy of the run's directory is changed, and a single system call exchanges the copy with
the original. So a kill or a power cut leaves either the old or the new state.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.host.store.layout import Store, locked_run, regular_files
from edgebench.system.whole_files import exchange, sync_tree


@contextmanager
def changed_run(store: Store, run_id: str, copy: Path) -> Iterator[None]:
    """Copy a run's directory; the copy replaces the run if the block succeeds.

    Files in the copy must be replaced, not modified: they are hard links to the run's files.

    Args:
        store: The store.
        run_id: The run.
        copy: Directory for the copy, on the same file system; it must not exist. Afterwards it
            contains the old files, or the failed copy, and the caller must remove it.

    Raises:
        OSError: the store cannot be written; the run is unchanged.
    """
    directory = store.directory(run_id)
    with locked_run(directory):
        for path in regular_files(directory):
            target = copy / path.relative_to(directory)
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, target)
            except OSError:  # a file system without links
                shutil.copyfile(path, target)
        yield
        sync_tree(copy)
        exchange(copy, directory)
