"""Change of a stored run: of all its files in one step.

The document of a run has the digests of its files. So a copy of its directory is changed, and takes
the place of the run by one system call: a kill or a power cut leaves either of the two.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgebench.host.store.annotations import locked_annotations
from edgebench.host.store.layout import Store, regular_files
from edgebench.system.whole_files import exchange, sync_tree


@contextmanager
def changed_run(store: Store, run_id: str, copy: Path) -> Iterator[None]:
    """Copy a run's directory; the copy takes the place of the run when the block ends well.

    Files in the copy must be replaced, not written into: they are links to those of the run.

    Args:
        store: The store.
        run_id: The run.
        copy: Directory for the copy, which does not exist, in the same file system. Afterwards it
            has the old files, or the failed copy, and the caller removes it.

    Raises:
        OSError: the store cannot be written; the run is as it was.
    """
    directory = store.directory(run_id)
    with locked_annotations(directory):
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
