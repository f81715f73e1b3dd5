"""A name stands for one class in the whole tree."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GRANDFATHERED: set[str] = set()
"""Names of two classes or more; this list may only become shorter."""


def places_of_classes() -> dict[str, list[str]]:
    """Where each public class of the product, its benchmarks and its build tools is defined."""
    places: dict[str, list[str]] = defaultdict(list)
    for pattern in ("*/edgebench/**/*.py", "benchmarks/*.py", "devtools/*.py"):
        for path in sorted(ROOT.glob(pattern)):
            for node in statements_in(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return places


def statements_in(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement at any depth; their expressions, which take most time, hold no class."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        children = getattr(node, name, ())
        for child in children if isinstance(children, list) else ():
            if isinstance(child, ast.stmt):
                yield child
            yield from statements_in(child)


def test_no_name_stands_for_two_classes() -> None:
    """Otherwise a reader or a search would confuse two classes of the same name."""
    places = places_of_classes()
    assert len(places) > 300, "the test looks at nothing"
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in GRANDFATHERED} == {}
    assert GRANDFATHERED - set(twice) == set(), "mended: take these names off the list"
