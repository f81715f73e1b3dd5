"""Device profiles: the TOML schema, loaded and checked strictly.

A profile states what is expected of a board. Unknown keys are errors, so that a misspelt
expectation cannot pass as an absent one.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from edgebench.protocol.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCHEMA_VERSION = 1
_KEYS = {"schema", "id", "name", "class", "match"}
_CLASSES = {"linux-sbc", "linux-pc", "android", "mcu", "emulator"}


@dataclass(frozen=True, slots=True)
class Match:
    """Conditions that must all hold for a profile to fit; an empty one is not a condition."""

    arch: str | None = None
    dt_compatible: tuple[str, ...] = ()
    """Any of these among the root node's `compatible` entries."""

    @property
    def specificity(self) -> int:
        """Number of conditions; the most specific match wins."""
        return (self.arch is not None) + bool(self.dt_compatible)


@dataclass(frozen=True, slots=True)
class Profile:
    """One kind of device."""

    id: str
    name: str
    device_class: str
    matches: tuple[Match, ...]


@cache
def load_profiles() -> tuple[Profile, ...]:
    """Every profile that is shipped, by id.

    Raises:
        UsageError: a file breaks the schema.
    """
    folder = files("edgebench.device_profiles") / "profiles"
    texts = {path.name: path.read_text("utf-8") for path in folder.iterdir()}
    return tuple(parse_profile(texts[name], name) for name in sorted(texts))


def parse_profile(text: str, where: str) -> Profile:
    """The profile in a TOML text; `where` names it in errors.

    Raises:
        UsageError: not TOML, or against the schema.
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{where}: {exc}") from exc
    if unknown := sorted(set(table) - _KEYS):
        raise UsageError(f"{where}: unknown key {unknown[0]!r}")
    if table.get("schema") != SCHEMA_VERSION:
        raise UsageError(f"{where}: schema is {table.get('schema')}, expected {SCHEMA_VERSION}")
    device_class = _string(table, "class", where)
    if device_class not in _CLASSES:
        raise UsageError(f"{where}: class {device_class!r} is none of {sorted(_CLASSES)}")
    return Profile(
        id=_string(table, "id", where),
        name=_string(table, "name", where),
        device_class=device_class,
        matches=tuple(_match(block, where) for block in _list(table, "match", where)),
    )


def _match(block: object, where: str) -> Match:
    if not isinstance(block, dict):
        raise UsageError(f"{where}: match must be a [[match]] block, got {block!r}")
    if unknown := sorted(set(block) - {"arch", "dt_compatible"}):
        raise UsageError(f"{where}: unknown match key {unknown[0]!r}")
    entries = _list(block, "dt_compatible", where)
    if not all(isinstance(entry, str) for entry in entries):
        raise UsageError(f"{where}: dt_compatible must be a list of texts, got {entries!r}")
    arch = _string(block, "arch", where) if "arch" in block else None
    return Match(arch, tuple(entries))


def _list(table: dict[str, Any], key: str, where: str) -> list[Any]:
    value = table.get(key, [])
    if not isinstance(value, list):
        raise UsageError(f"{where}: {key} must be a list, got {value!r}")
    return value


def _string(table: dict[str, Any], key: str, where: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {key} must be a text, got {value!r}")
    return value
