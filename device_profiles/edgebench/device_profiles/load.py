"""Profiles from TOML texts: inheritance, a strict schema, and consistency checks.

Unknown keys are errors, because a misspelt expectation would otherwise count as absent. An error
names the file and the line.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from cattrs.gen import make_dict_structure_fn, override

from edgebench.device_profiles.checks import check
from edgebench.device_profiles.schema import SCHEMA_VERSION, Profile
from edgebench.protocol.toml_text import Complaint, Table, TomlText, strict_converter

MAX_GENERATIONS = 8
_NOT_INHERITED = ("id", "name", "extends", "match")

FindText = Callable[[str], str | None]
"""Function that returns the text of the profile with an id; None: no such profile."""


@cache
def load_profiles() -> tuple[Profile, ...]:
    """All shipped profiles, sorted by id.

    Raises:
        UsageError: a file violates the schema.
    """
    folder = files("edgebench.device_profiles") / "profiles"
    texts = {
        path.name.removesuffix(".toml"): path.read_text("utf-8")
        for path in folder.iterdir()
        if path.name.endswith(".toml")
    }
    return tuple(parse_profile(texts[name], name, texts.get) for name in sorted(texts))


def find_profile(profile_id: str) -> Profile | None:
    """The shipped profile with this id; None: no such profile."""
    return next((profile for profile in load_profiles() if profile.id == profile_id), None)


def parse_profile(text: str, name: str, parent: FindText | None = None) -> Profile:
    """Parse a profile from its TOML text.

    Args:
        text: Content of the file.
        name: File name without its suffix. The id in the file must be equal to this name.
        parent: Function that returns the text of the profile to extend. None if no profile can be
            extended.

    Raises:
        UsageError: the text is not TOML, violates the schema, or is inconsistent.
    """
    source = _source(text, name)
    profile = source.structured(
        _inherited(_parsed(source), source, name, parent or (lambda _: None)), Profile, _converter
    )
    if complaint := next(check(profile, name), None):
        raise source.error(complaint)
    return profile


def _source(text: str, name: str) -> TomlText:
    return TomlText(text, f"{name}.toml")


def _parsed(source: TomlText) -> Table:
    table = source.table(SCHEMA_VERSION)
    extended = table.get("extends")
    if extended is not None and not isinstance(extended, str):
        what = f"expected str, got {type(extended).__name__}"
        raise source.error(Complaint(("extends",), what))
    return table


def _inherited(table: Table, source: TomlText, name: str, parent: FindText) -> Table:
    """The table of a profile, completed with the values of the profiles that it extends."""
    seen = [name]
    while (extended := table.get("extends")) is not None:
        found = parent(extended)
        seen.append(extended)
        if found is None or len(seen) > MAX_GENERATIONS:
            what = f"extends {' → '.join(seen[1:])}: " + (
                "no such profile" if found is None else "a circular chain"
            )
            raise source.error(Complaint(("extends",), what))
        above = _parsed(_source(found, extended))
        further = above.get("extends")
        kept = {key: value for key, value in above.items() if key not in _NOT_INHERITED}
        table = _merged(kept, table)
        table["extends"] = further
    table = {key: value for key, value in table.items() if key != "extends"}
    return table | ({"extends": seen[1]} if len(seen) > 1 else {})


def _merged(above: Table, below: Table) -> Table:
    """Merge two tables; values of `below` replace those of `above`, and facts are merged by key."""
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
    """Key of a fact; None if missing or not a string (the schema check reports this later)."""
    key = fact.get("key") if isinstance(fact, dict) else None
    return key if isinstance(key, str) else None


_converter = strict_converter()
_converter.register_structure_hook(
    Profile, make_dict_structure_fn(Profile, _converter, device_class=override(rename="class"))
)
