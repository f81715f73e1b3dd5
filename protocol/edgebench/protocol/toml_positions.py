"""Line numbers of the keys of a TOML text, which the standard parser does not report.

Only headers and keys at the start of a line are found, which is sufficient for the files of
edgebench. For a key inside an inline table, the result is the line in which the table begins.
"""

from __future__ import annotations

import re
from collections import Counter

Path = tuple[str | int, ...]
"""Path of a key: names of tables and keys, and indices of list items."""

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def line_of(text: str, path: Path) -> int:
    """Line number of a key, or of the nearest enclosing key that is found; 1 if none is found."""
    lines = {found: number for number, found in reversed(_paths(text))}
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return 1


def _paths(text: str) -> list[tuple[int, Path]]:
    """Find every header and key of a text, with the line number."""
    found: list[tuple[int, Path]] = []
    arrays: Counter[Path] = Counter()
    table: Path = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = _within(_parts(header[2]), arrays)
            if header[1] == "[[":
                found.append((number, table))
                arrays[table] += 1
                table = (*table, arrays[table] - 1)
            found.append((number, table))
        elif key := _KEY.match(line):
            names = _parts(key[1])
            found += [(number, (*table, *names[:end])) for end in range(1, len(names) + 1)]
    return found


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(dotted))


def _within(names: tuple[str, ...], arrays: Counter[Path]) -> Path:
    """The path of a header; for example, a header `[a.b]` after `[[a]]` belongs to the last `a`."""
    path: Path = ()
    for name in names[:-1]:
        path = (*path, name)
        if arrays[path]:
            path = (*path, arrays[path] - 1)
    return (*path, names[-1])
