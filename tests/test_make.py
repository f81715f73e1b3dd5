"""`make test` runs every test."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_tests_that_run_alone_are_where_make_looks_for_them() -> None:
    """A test is marked, and nothing runs it any more."""
    (folders,) = re.findall(r"-m alone ((?:tests/\S+ )+)", (ROOT / "Makefile").read_text())
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "mark.alone" in path.read_text() and path != Path(__file__)
    }
    assert marked
    assert [path for path in sorted(marked) if not path.startswith(tuple(folders.split()))] == []
