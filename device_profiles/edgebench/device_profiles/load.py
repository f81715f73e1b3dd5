"""Profiles from TOML texts: inheritance, a strict schema, and checks of sense.

Unknown keys are errors, so that a misspelt expectation cannot pass for an absent one. An error
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
    """The table, completed with the values of its ancestors."""
    seen = [name]
    while (extended := table.get("extends")) is not None:
        found = parent(extended)
        seen.append(extended)
        if found is None or len(seen) > MAX_GENERATIONS:
            what = f"extends {' → '.join(seen[1:])}: " + (
                "there is no such profile" if found is None else "a circle"
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


_converter = strict_converter()
_converter.register_structure_hook(
    Profile, make_dict_structure_fn(Profile, _converter, device_class=override(rename="class"))
)
