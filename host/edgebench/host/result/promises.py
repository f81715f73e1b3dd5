"""Keys that every run of a version has, so that `verify` detects removed keys.

`promised_keys.json` in this directory lists them by the version that introduced them. Keys of an
unreleased version are not listed, so a new key or rule needs no entry;
devtools/write_promised_keys.py adds them when the version is released. If the commit that raised
the version also added a key, every run of the version has the key. A key that was added later is
guaranteed from the next version onwards. `*` stands for any key of a mapping, such as
`environment.packages`.

Source of the keys of versions 1 to 6: tests/fixtures/runs/README.md, which lists the commit of
every key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from edgebench.host.result.keys import key_of

PROMISES_FILE = "promised_keys.json"
ANY_KEY = "*"


def is_promised(place: str, version: int) -> bool:
    """Whether every run of a version has the key at a position."""
    since = _since().get(place)
    return since is not None and since <= version


def place_of(path: str, key: str) -> str:
    """Position of a key below a path, in the notation of `PROMISES_FILE`."""
    below_any = f"{path}.{ANY_KEY}".lstrip(".")
    return below_any if below_any in _since() else f"{path}.{key}".lstrip(".")


def key_paths(kind: Any, path: str = "", inside: tuple[type, ...] = ()) -> Iterator[str]:
    """Position of every key in documents of a type.

    Args:
        kind: Type of the values.
        path: Position of the value in the document.
        inside: Types that contain the value. The search stops at a type that contains itself.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType, tuple):
        for argument in arguments:
            yield from key_paths(argument, path, inside)
    elif origin in (dict, Mapping):
        yield f"{path}.{ANY_KEY}"
        yield from key_paths(arguments[1], f"{path}.{ANY_KEY}", inside)
    elif isinstance(kind, type) and is_dataclass(kind) and kind not in inside:
        hints = get_type_hints(kind)
        for field in fields(kind):
            if key := key_of(field.metadata, field.name):
                place = f"{path}.{key}".lstrip(".")
                yield place
                yield from key_paths(hints[field.name], place, (*inside, kind))


@cache
def _since() -> Mapping[str, int]:
    """The version that introduced each promised key."""
    listed = json.loads((files("edgebench.host.result") / PROMISES_FILE).read_bytes())
    return {place: int(version) for version, places in listed.items() for place in places}
