"""A limit is defined once: no two modules of the analysis have a constant of one name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import edgebench.host.analysis

[ROOT] = edgebench.host.analysis.__path__


def constants_of(path: Path) -> Iterator[str]:
    """Yield the names in capitals that a module assigns at its top."""
    for node in ast.parse(path.read_text()).body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        for target in targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            yield from (
                name.id for name in names if isinstance(name, ast.Name) and name.id.isupper()
            )


def test_constant_stands_in_one_module() -> None:
    """Otherwise a limit would be changed in one place, and remain in the other."""
    places: dict[str, list[str]] = {}
    for path in sorted(Path(ROOT).rglob("*.py")):
        for name in set(constants_of(path)) - {"TYPE_CHECKING"}:
            places.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert places.keys() >= {"LEVEL", "MIN_RUNS", "RULES"}
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
