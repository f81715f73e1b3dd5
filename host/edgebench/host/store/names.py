"""Names of stored runs for command-line completion, from the index of a store.

For fast completion, this module imports no slow module and does not refresh the index: a slightly
outdated list is acceptable. Errors give an empty list.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from edgebench.system.paths import user_paths

INDEX_FILE = "index.sqlite"
STORE_VARIABLE = "EDGEBENCH_STORE"
MAX_NAMES = 200
"""Number of newest runs whose names are offered."""
_COLUMNS = "run_id, set_id, tags, comparison_id"
_NEWEST = f"SELECT {_COLUMNS} FROM runs ORDER BY run_id DESC LIMIT {MAX_NAMES}"


def default_root() -> Path:
    """Directory of this user's store: $EDGEBENCH_STORE, or else in the XDG data directory."""
    given = os.environ.get(STORE_VARIABLE)
    return Path(given) if given else Path(user_paths(os.environ).data)


def run_names(root: Path) -> list[str]:
    """Tags, sets, comparisons and ids of the newest runs in the index of a store."""
    rows = _rows(root, _NEWEST)
    tags = [tag for row in rows for tag in str(row[2] or "").split()]
    sets = [str(row[1] or row[3]) for row in rows if row[1] or row[3]]
    return list(dict.fromkeys(["last", *tags, *sets, *(str(row[0]) for row in rows)]))


def values_of(root: Path, column: str) -> list[str]:
    """Distinct values of a column of the index, such as `tags`."""
    rows = _rows(root, f"SELECT DISTINCT {column} FROM runs LIMIT {MAX_NAMES}")
    return list(dict.fromkeys(word for row in rows for word in str(row[0] or "").split()))


def _rows(root: Path, query: str) -> list[tuple[object, ...]]:
    path = root.absolute() / INDEX_FILE
    if path.is_file():
        with (
            suppress(sqlite3.Error),
            closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0.1)) as index,
        ):
            return index.execute(query).fetchall()
    return []
