"""A run with changed values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

_Whole = TypeVar("_Whole")


def changed(whole: _Whole, values: Mapping[str, object]) -> _Whole:
    """A dataclass with other values at these places, as `{"metrics.latency_ns.p50": 5}`.

    Names are those of the attributes; a missing place fails the test.
    """
    found: Any = whole
    for path, value in values.items():
        found = _replaced(found, path.split("."), value)
    made: _Whole = found
    return made


def _replaced(part: Any, names: list[str], value: object) -> Any:
    name, *rest = names
    inner = _replaced(getattr(part, name), rest, value) if rest else value
    return replace(part, **{name: inner})
