"""Errors of every kind, with something in each of their fields."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, cast

from edgebench.protocol import errors
from edgebench.protocol.errors import EdgebenchError, Permission

ALL = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, EdgebenchError)
]
LEAVES = [kind for kind in ALL if not kind.__subclasses__()]
_FIELDS = {"permission": Permission.SERIAL_PORT, "enough_s": 0.5, "keys": ["os"]}


def parameters(kind: type[EdgebenchError]) -> list[str]:
    """Parameters of an error's constructor."""
    given = signature(kind.__init__).parameters.values()
    return [p.name for p in given if p.kind is p.POSITIONAL_OR_KEYWORD and p.name != "self"]


def made(kind: type[EdgebenchError]) -> EdgebenchError:
    """An error of this kind."""
    make = cast(Callable[..., EdgebenchError], kind)
    given: list[Any] = [_FIELDS.get(name, name) for name in parameters(kind) or ["text"]]
    return make(*given)
