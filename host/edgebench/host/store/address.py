"""Find stored runs by name.

A name is any of these:

    an id or a part of an id
    `last`
    a set, or the pairs of a comparison
    a tag
    a directory, or a bundle
    any of these names in a bundle: `sent.zip#last`

`last` refers to all runs of the last command. If a single run is needed, `last` refers to the last
run of this command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.result.document import Document
from edgebench.host.result.facts import BASELINE, CANDIDATE, PAIRS_PREFIX, SET_PREFIX
from edgebench.host.result.run import Run
from edgebench.host.store.annotations import Annotations, read_annotations
from edgebench.host.store.bundle_file import MARK, BundleStore, open_bundle, split_name
from edgebench.host.store.index import RunFilter, RunSummary, list_runs, stored_summary
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.protocol.errors import NoSuchRun, RunDamaged, UsageError
from edgebench.system.paths import MODEL_SUFFIXES

SHORT_LENGTH = 4
"""Minimum length of a short name, not counting a prefix such as `set-`."""
LAST = "last"
_ID_CUTOFF = 0.9
"""Smallest similarity, as difflib defines it, at which a name counts as a misspelled id. One wrong
character of twelve is accepted."""


class RunElsewhere(Store):
    """Store made from the directory of a single run; the directory may have any name."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory.absolute().parent)
        self._directory = directory.absolute()

    @property
    def runs(self) -> Path:
        """Parent directory of the run's directory."""
        return self.root

    def directory(self, run_id: str) -> Path:
        """Directory of the only run."""
        del run_id
        return self._directory


@dataclass(frozen=True, slots=True)
class Address:
    """A run and the store that it is in."""

    store: Store
    run_id: str

    @property
    def directory(self) -> Path:
        """Directory of the run; in a bundle, all files of the run are unpacked first."""
        return self.store.directory(self.run_id)

    @property
    def place(self) -> str:
        """The run's directory, or its name in a bundle, for messages."""
        return self.name if isinstance(self.store, BundleStore) else str(self.directory)

    @property
    def prefix(self) -> str:
        """Prefix of run names in a bundle, such as `sent.zip#`; empty without a bundle."""
        return f"{self.store.place}{MARK}" if isinstance(self.store, BundleStore) else ""

    @property
    def name(self) -> str:
        """Name that commands accept for the run, made of `prefix` and the id."""
        return f"{self.prefix}{self.run_id}"

    def run(self) -> Run:
        """Read the stored run.

        Raises:
            StoreError: the run is not readable.
        """
        try:
            return self.store.run(self.run_id)
        except RunDamaged as exc:
            is_here = not isinstance(self.store, (BundleStore, RunElsewhere))
            exc.damaged_id = self.run_id if is_here else None
            raise

    def annotations(self) -> Annotations:
        """Tags and note of the run.

        Raises:
            StoreError: the run is not readable.
        """
        return read_annotations(self.store.document_path(self.run_id).parent)

    def document(self) -> Document:
        """Content of the run's run.json.

        Raises:
            RunDamaged: the document is not readable.
        """
        return self.store.document(self.run_id)


def find_run(store: Store, name: str) -> Address:
    """The only run that a name refers to.

    Raises:
        NoSuchRun: the name refers to no run, or to several runs.
        StoreError: the name is a directory or a bundle whose run cannot be read.
        BundleRefused: the name is the path of a file that is not a bundle.
    """
    if name.startswith((SET_PREFIX, PAIRS_PREFIX)) or not (addresses := find_runs(store, name)):
        raise NoSuchRun(f"not the name of a single run: {name!r}")
    if len(addresses) > 1 and LAST in (name, (split_name(name) or ("", ""))[1]):
        return addresses[-1]
    if len(addresses) > 1:
        some = ", ".join(address.run_id for address in addresses[:4])
        is_bundled = isinstance(addresses[0].store, BundleStore)
        raise NoSuchRun(
            f"{name!r} names {len(addresses)} runs: {some} …",
            bundle=addresses[0].store.place if is_bundled else None,
        )
    return addresses[0]


def find_runs(store: Store, name: str) -> list[Address]:
    """The runs that a name refers to, oldest first; a set, pairs, a tag or a bundle has several.

    A name is tried as an id, a directory, a bundle, a part of an id, and a set, comparison, side or
    tag, in this order.

    Raises:
        NoSuchRun: the name refers to no run, or is a part of several ids.
        StoreError: the name is a directory or a bundle whose run cannot be read.
        BundleRefused: the name is the path of a file that is not a bundle.
    """
    if store.has(name):
        return [Address(store, name)]
    if is_run_directory(name):
        return [_elsewhere(Path(name))]
    if (bundled := split_name(name)) is not None:
        path, inside = bundled
        bundle = open_bundle(path)
        if inside:
            return _find_inside(bundle, inside)
        return [Address(bundle, run_id) for run_id in bundle.run_ids()]
    return _find_inside(store, name)


def find_each(store: Store, names: Iterable[str]) -> list[Address]:
    """The runs that the names refer to, in order; an id that occurs again is left out.

    Raises:
        NoSuchRun: a name is unknown, or a part of several ids.
        StoreError: a directory or a bundle cannot be read.
        BundleRefused: a name is the path of a file that is not a bundle.
    """
    found: dict[str, Address] = {}
    for name in names:
        for run in find_runs(store, name):
            found.setdefault(run.run_id, run)
    return list(found.values())


def _find_inside(store: Store, name: str) -> list[Address]:
    """The runs of a store that a name refers to; the name is not a path."""
    if name == LAST and (last := _last_command(store)):
        return [Address(store, row.run_id) for row in last]
    if name.startswith((SET_PREFIX, PAIRS_PREFIX)):
        what = "set" if name.startswith(SET_PREFIX) else "comparison"
        error = NoSuchRun(f"no {what} {name!r} in {store.place}")
    else:
        try:
            return [Address(store, store.resolve(name))]
        except NoSuchRun as exc:
            error = exc
    if found := _find_group(store, name):
        return found
    path = name.partition(MARK)[0]
    if path.endswith(".zip"):
        raise NoSuchRun(f"no such bundle or run: {path}")
    if isinstance(store, BundleStore):
        error.bundle = str(store.place)
    elif name.endswith(MODEL_SUFFIXES):
        error.model = name
    error.meant = _similar_name(store, name)
    raise error


def _last_command(store: Store) -> list[RunSummary]:
    """The runs of the command that made the newest run, oldest first; empty without runs.

    Runs of campaigns and of older versions have no command. If the newest run is such a run, the
    runs of its set or comparison are returned.
    """
    if not (rows := list_runs(store)):
        return []
    newest = rows[-1]
    for ids in ("command_id", "set_id", "comparison_id"):
        if (own := getattr(newest, ids)) is not None:
            return [row for row in rows if getattr(row, ids) == own]
    return [newest]


def _find_group(store: Store, name: str) -> list[Address]:
    """The runs of the set, comparison, side or tag with this name; empty if there is none."""
    rows = list_runs(store)
    found = [row for row in rows if name in (row.set_id, row.comparison_id, *row.tags)]
    if not found and (whole := _whole_group(rows, name)) is not None:
        found = [row for row in rows if whole in (row.set_id, row.comparison_id)]
    if found:
        return [Address(store, row.run_id) for row in found]
    begin, _, side = name.rpartition("-")
    if side not in (BASELINE, CANDIDATE):
        return []
    comparison_id = _whole_group(rows, begin) or begin
    runs = [Address(store, row.run_id) for row in rows if row.comparison_id == comparison_id]
    return [run for run in runs if (pair := run.run().pair) and pair.side == side]


def _whole_group(rows: Sequence[RunSummary], name: str) -> str | None:
    """Id of the only set or comparison whose id begins with a name; None if there is none.

    Like a short name, the name must have at least `SHORT_LENGTH` characters after the prefix.
    """
    prefix = next(
        (prefix for prefix in (SET_PREFIX, PAIRS_PREFIX) if name.startswith(prefix)), None
    )
    if prefix is None or len(name) < len(prefix) + SHORT_LENGTH:
        return None
    ids = {group_id for row in rows for group_id in (row.set_id, row.comparison_id) if group_id}
    found = [group_id for group_id in ids if group_id.startswith(name)]
    return found[0] if len(found) == 1 else None


def short_ids(run_ids: Sequence[str], groups: Iterable[str]) -> dict[str, str]:
    """Short names of runs and of groups, which commands accept in place of the ids.

    The short name of a run is the beginning of the last part of its id; the short name of a group
    is the beginning of its id.

    Args:
        run_ids: Ids of all runs of a store.
        groups: Ids of all sets and comparisons of the store.

    >>> short_ids(["20260102-030405-0123abcd", "20260102-030406-0123ab00"], ["set-1f2e3d4c"])
    {'20260102-030405-0123abcd': '0123abc', '20260102-030406-0123ab00': '0123ab0', \
'set-1f2e3d4c': 'set-1f2e'}
    """
    from collections import Counter
    from itertools import chain

    short: dict[str, str] = {}
    for length in range(SHORT_LENGTH, max(map(len, run_ids), default=0) + 1):
        left = [run_id for run_id in run_ids if run_id not in short]
        if not left:
            break
        parts = Counter(
            part
            for run_id in run_ids
            for part in {run_id[at : at + length] for at in range(len(run_id) - length + 1)}
        )
        for run_id in left:
            begin = run_id.rpartition("-")[2][:length]
            if len(begin) == length and parts[begin] == 1:
                short[run_id] = begin
    begins = {
        name: [
            name[:end] for end in range(len(name.partition("-")[0]) + 1 + SHORT_LENGTH, len(name))
        ]
        for name in groups
    }
    counts = Counter(chain.from_iterable(begins.values()))
    for name, choices in begins.items():
        # A whole id is found before a part, so it needs no count.
        short[name] = next((begin for begin in choices if counts[begin] == 1), name)
    return {name: short.get(name, name) for name in (*run_ids, *begins)}


def _similar_name(store: Store, name: str) -> str | None:
    """Existing name that is similar to a mistyped name; None if no name is close.

    Even unrelated ids have half of their characters in common, so an id must be more similar than a
    word.
    """
    from difflib import get_close_matches  # here: correct commands do not need it

    rows = list_runs(store)
    if not rows or store.matching(name):
        return None
    words = [LAST, *sorted({tag for row in rows for tag in row.tags})]
    groups = {group_id for row in rows for group_id in (row.set_id, row.comparison_id) if group_id}
    ids = [*sorted(groups), *(row.run_id for row in rows)]
    found = get_close_matches(name, words, 1) or get_close_matches(name, ids, 1, _ID_CUTOFF)
    inside = f"{store.place}{MARK}" if isinstance(store, BundleStore) else ""
    return f"{inside}{found[0]}" if found else None


def names_set(store: Store, name: str) -> bool:
    """Whether a name refers to a single set of runs.

    Such a name is the id of a set, or it is `last` or a bundle whose runs are all in the same set.

    Raises:
        StoreError: the name is a bundle whose runs cannot be read.
        BundleRefused: the name is the path of a file that is not a bundle.
    """
    bundled = split_name(name)
    path, inside = (None, name) if bundled is None else bundled
    if inside and inside != LAST:
        return _is_set_id(inside)
    named = store if path is None else open_bundle(path)
    rows = _last_command(named) if inside else list_runs(named)
    set_ids = [row.set_id for row in rows]
    return len(set_ids) > 1 and set_ids[0] is not None and len(set(set_ids)) == 1


def _is_set_id(name: str) -> bool:
    is_side = name.startswith(PAIRS_PREFIX) and name.endswith((f"-{BASELINE}", f"-{CANDIDATE}"))
    return is_side or name.startswith(SET_PREFIX)


def list_named(
    store: Store, names: Iterable[str], wanted: RunFilter | None = None
) -> list[RunSummary]:
    """Summaries of the named runs that the filter selects, ordered by id, without duplicates.

    Raises:
        NoSuchRun: a name is unknown, or a part of several ids.
        StoreError: a directory or a bundle cannot be read.
        BundleRefused: a name is the path of a file that is not a bundle.
    """
    addresses = sorted(find_each(store, names), key=lambda address: address.run_id)
    rows = [stored_summary(address.store, address.run_id) for address in addresses]
    return wanted.chosen(rows) if wanted else rows


def find_in_store(store: Store, names: Iterable[str]) -> list[str]:
    """Ids of the runs of this store that the names refer to, in order, without duplicates.

    Raises:
        NoSuchRun: a name is unknown, or a part of several ids.
        UsageError: a name refers to a run outside of this store.
    """
    addresses = [address for name in names for address in find_runs(store, name)]
    for address in addresses:
        # The check for a bundle comes first: `directory` of a bundle unpacks the run.
        is_bundled = isinstance(address.store, BundleStore)
        if address.store is not store and (is_bundled or address.directory.parent != store.runs):
            raise UsageError(f"not a run of the store {store.root}: {address.place}")
    return list(dict.fromkeys(address.directory.name for address in addresses))


def is_run_directory(name: str) -> bool:
    """Whether a name is the path of a directory with a run in it."""
    is_path = os.sep in name or name in (os.curdir, os.pardir)
    return is_path and (Path(name) / RUN_FILE).exists()


def _elsewhere(directory: Path) -> Address:
    store = RunElsewhere(directory)
    run_id = store.document("").get("run_id")
    if not isinstance(run_id, str):
        raise RunDamaged(f"run is damaged: run_id is {run_id!r}: {directory / RUN_FILE}")
    return Address(store, run_id)
