"""Profiles from TOML texts: inheritance, a strict schema, and checks of sense.

Unknown keys are errors, so that a misspelt expectation cannot pass for an absent one. An error
names the file and the line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from edgebench.device_profiles.checks import Complaint, check
from edgebench.device_profiles.positions import Path, line_of
from edgebench.device_profiles.schema import SCHEMA_VERSION, Profile
from edgebench.protocol.errors import UsageError
from edgebench.protocol.plain import make_strict

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_GENERATIONS = 8
_NOT_INHERITED = ("id", "name", "extends", "match")

Table = dict[str, Any]
FindText = Callable[[str], str | None]
"""Function that returns the text of the profile with an id."""


@cache
def load_profiles() -> tuple[Profile, ...]:
    """Every profile that is shipped, by id.

    Raises:
        UsageError: a file breaks the schema.
    """
    folder = files("edgebench.device_profiles") / "profiles"
    texts = {
        path.name.removesuffix(".toml"): path.read_text("utf-8")
        for path in folder.iterdir()
        if path.name.endswith(".toml")
    }
    return tuple(parse_profile(texts[name], name, texts.get) for name in sorted(texts))


def find_profile(profile_id: str) -> Profile | None:
    """The shipped profile with this id."""
    return next((profile for profile in load_profiles() if profile.id == profile_id), None)


def parse_profile(text: str, name: str, parent: FindText | None = None) -> Profile:
    """The profile in a TOML text.

    Args:
        text: The file's content.
        name: The file's name without its suffix; the id must be the same.
        parent: Finds the profiles that it extends; none, unless given.

    Raises:
        UsageError: not TOML, against the schema, or senseless.
    """
    table = _parsed(text, name)
    whole = _inherited(table, text, name, parent or (lambda _: None))
    try:
        profile = _converter.structure(whole, Profile)
    except BaseValidationError as exc:
        raise _error(text, name, _first(exc)) from exc
    if complaint := next(check(profile, name), None):
        raise _error(text, name, complaint)
    return profile


def _parsed(text: str, name: str) -> Table:
    try:
        table = tomllib.loads(text)
    except RecursionError as exc:
        raise UsageError(f"{name}.toml: nested too deeply") from exc
    except ValueError as exc:  # also an integer of thousands of digits
        raise UsageError(f"{name}.toml: {exc}") from exc
    if table.get("schema") != SCHEMA_VERSION:
        what = f"schema is {table.get('schema')!r}, expected {SCHEMA_VERSION}"
        raise _error(text, name, Complaint(("schema",), what))
    extended = table.get("extends")
    if extended is not None and not isinstance(extended, str):
        what = f"expected str, got {type(extended).__name__}"
        raise _error(text, name, Complaint(("extends",), what))
    return table


def _inherited(table: Table, text: str, name: str, parent: FindText) -> Table:
    """The table, completed with the values of its ancestors."""
    seen = [name]
    while (extended := table.get("extends")) is not None:
        found = parent(extended)
        seen.append(extended)
        if found is None or len(seen) > MAX_GENERATIONS:
            what = f"extends {' → '.join(seen[1:])}: " + (
                "there is no such profile" if found is None else "a circle"
            )
            raise _error(text, name, Complaint(("extends",), what))
        above = _parsed(found, extended)
        further = above.get("extends")
        kept = {key: value for key, value in above.items() if key not in _NOT_INHERITED}
        table = _merged(kept, table)
        table["extends"] = further
    table = {key: value for key, value in table.items() if key != "extends"}
    return table | ({"extends": seen[1]} if len(seen) > 1 else {})


def _merged(above: Table, below: Table) -> Table:
    """Tables are merged, lists replaced; facts add up."""
    result = dict(above)
    for key, value in below.items():
        inherited = above.get(key)
        if isinstance(value, dict) and isinstance(inherited, dict):
            result[key] = _merged(inherited, value)
        elif key == "fact" and isinstance(inherited, list) and isinstance(value, list):
            own = {_fact_key(fact) for fact in value} - {None}
            result[key] = [fact for fact in inherited if _fact_key(fact) not in own] + value
        else:
            result[key] = value
    return result


def _fact_key(fact: Any) -> str | None:
    """Key of a fact; None where it is absent or not a text, which the schema reports later."""
    key = fact.get("key") if isinstance(fact, dict) else None
    return key if isinstance(key, str) else None


def _error(text: str, name: str, complaint: Complaint) -> UsageError:
    line = line_of(text, complaint.path)
    return UsageError(f"{name}.toml:{line}: {complaint.key}: {complaint.what}")


def _first(exc: BaseException, path: Path = ()) -> Complaint:
    """The first complaint."""
    if isinstance(exc, ForbiddenExtraKeysError):
        extra = min(exc.extra_fields)
        return Complaint((*path, extra), "no such key")
    if isinstance(exc, BaseValidationError):
        # A misspelt key is missing, too; the unknown key says more.
        inner = min(exc.exceptions, key=lambda one: not isinstance(one, ForbiddenExtraKeysError))
        return _first(inner, (*path, *_step(inner)))
    if isinstance(exc, KeyError):
        return Complaint(path, "is missing")
    return Complaint(path, str(exc) or type(exc).__name__)


def _step(exc: BaseException) -> Path:
    for note in getattr(exc, "__notes__", ()):
        if isinstance(note, AttributeValidationNote):
            return ("class" if note.name == "device_class" else note.name,)
        if isinstance(note, IterableValidationNote):
            return (note.index,)
    return ()


_converter = make_strict(Converter(detailed_validation=True, forbid_extra_keys=True))
_converter.register_structure_hook(
    Profile, make_dict_structure_fn(Profile, _converter, device_class=override(rename="class"))
)
