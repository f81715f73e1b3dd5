"""Which stored runs a name means: an id, a part of one, `last`, a set, a tag, or a directory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.result.document import Document
from edgebench.host.result.facts import SET_PREFIX
from edgebench.host.result.run import Run
from edgebench.host.store.index import RunFilter, list_runs
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.protocol.errors import NoSuchRun, RunDamaged, UsageError


class RunElsewhere(Store):
    """The store around one run's directory, which may be a copy, and have any name."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory.absolute().parent)
        self._directory = directory.absolute()

    @property
    def runs(self) -> Path:
        """Directory that the run's directory is in."""
        return self.root

    def directory(self, run_id: str) -> Path:
        """The only directory."""
        del run_id
        return self._directory


@dataclass(frozen=True, slots=True)
class Address:
    """A run and the store that it is in."""

    store: Store
    run_id: str

    @property
    def directory(self) -> Path:
        """Directory of the run."""
        return self.store.directory(self.run_id)

    def run(self) -> Run:
        """Run as it is stored.

        Raises:
            StoreError: it is not readable.
        """
        return self.store.run(self.run_id)

    def document(self) -> Document:
        """Content of its run.json.

        Raises:
            RunDamaged: it is not readable.
        """
        return self.store.document(self.run_id)


def find_run(store: Store, name: str) -> Address:
    """The only run that a name means.

    Raises:
        NoSuchRun: no such run, or several.
        StoreError: it is a directory whose run cannot be read.
    """
    if name.startswith(SET_PREFIX) or not (found := find_runs(store, name)):
        raise NoSuchRun(f"not the name of one run: {name!r}")
    if len(found) > 1:
        some = ", ".join(one.run_id for one in found[:4])
        raise NoSuchRun(f"{len(found)} runs have the tag {name!r}: {some} …")
    return found[0]


def find_runs(store: Store, name: str) -> list[Address]:
    """The runs that a name means, oldest first: of a set and of a tag, all.

    An id comes first, then a directory, a part of an id, and a tag.

    Raises:
        NoSuchRun: no such run or set, or a part of several ids.
        StoreError: it is a directory whose run cannot be read.
    """
    if name.startswith(SET_PREFIX):
        rows = [row for row in list_runs(store) if row.set_id == name]
        if not rows:
            raise NoSuchRun(f"no set {name!r} in {store.root}")
        return [Address(store, row.run_id) for row in rows]
    if store.has(name):
        return [Address(store, name)]
    if is_run_directory(name):
        return [_elsewhere(Path(name))]
    try:
        return [Address(store, store.resolve(name))]
    except NoSuchRun:
        if tagged := list_runs(store, RunFilter(tag=name)):
            return [Address(store, row.run_id) for row in tagged]
        raise


def find_in_store(store: Store, names: Iterable[str]) -> list[str]:
    """Ids of the runs of this store that the names mean, each once, in their order.

    Raises:
        NoSuchRun: a name is unknown, or a part of several ids.
        UsageError: a name is a directory elsewhere, which is not ours to change.
    """
    found = [one for name in names for one in find_runs(store, name)]
    for one in found:
        if one.store is not store and one.directory.parent != store.runs:
            raise UsageError(f"not a run of the store {store.root}: {one.directory}")
    return list(dict.fromkeys(one.directory.name for one in found))


def is_run_directory(name: str) -> bool:
    """Whether a name is the path of a directory with a run in it."""
    is_path = os.sep in name or name in (os.curdir, os.pardir)
    return is_path and (Path(name) / RUN_FILE).exists()


def _elsewhere(directory: Path) -> Address:
    found = RunElsewhere(directory)
    run_id = found.document("").get("run_id")
    if not isinstance(run_id, str):
        raise RunDamaged(f"run is damaged: run_id is {run_id!r}: {directory / RUN_FILE}")
    return Address(found, run_id)
