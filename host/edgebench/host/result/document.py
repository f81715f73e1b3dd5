"""Conversion between run.json and `Run`.

Documents of a newer schema are rejected, because numbers would be misread if a key has a new
meaning. Unknown keys of a supported schema are kept in `Run.unknown` and written back in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timezone
from functools import cache
from typing import Any, get_origin

from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from edgebench.host.result.keys import attributes_of, key_of
from edgebench.host.result.migrations import migrated
from edgebench.host.result.reason import Fact, Reason
from edgebench.host.result.run import SCHEMA_VERSION, Path, Run
from edgebench.host.result.run_set import RunSet
from edgebench.protocol.errors import EdgebenchError, RunDamaged, RunNewer
from edgebench.protocol.plain import make_bounded, make_printable, make_strict, number_hooks
from edgebench.protocol.text import one_line

Document = dict[str, Any]
"""Content of run.json."""
RUN_ID_TIME = "%Y%m%d-%H%M%S"
"""Format of the UTC time that every run id starts with."""


def to_document(run: Run) -> Document:
    """The content of run.json for a run, including its unknown keys."""
    document: Document = _converter.unstructure(run)
    for path, value in run.unknown:
        _put(document, path, value)
    return document


def set_to_document(run_set: RunSet) -> Document:
    """A set as JSON, without its runs: each run is a separate document."""
    document: Document = _converter.unstructure(run_set)
    return document


def from_document(document: Mapping[str, Any]) -> Run:
    """The run in a document of this schema version or an older version.

    Raises:
        RunDamaged: a key is missing, or has a value of the wrong type.
        RunNewer: the schema version is newer than `SCHEMA_VERSION`.
    """
    version = version_of(document)
    current: Document = {}
    try:
        current = dict(document)
        if version < SCHEMA_VERSION:
            current = migrated(deepcopy(current), version)
        run: Run = _converter.structure(current, Run)
    except _STRUCTURE_ERRORS as exc:
        raise RunDamaged(f"run is damaged: {_fault(current, exc)}") from exc
    unknown = _unknown(current, run, ())
    return replace(run, unknown=tuple(unknown)) if unknown else run


def version_of(document: Mapping[str, Any]) -> int:
    """Schema version of a document.

    Raises:
        RunDamaged: the document has no schema version.
        RunNewer: the schema version is newer than `SCHEMA_VERSION`.
    """
    version = document.get("schema_version")
    if type(version) is not int or version < 1:
        raise RunDamaged(f"run is damaged: its schema version is {str(version)[:40]!r}")
    if version > SCHEMA_VERSION:
        shown = version if version < 10**9 else "of many digits"
        raise RunNewer(f"run has schema version {shown}, this edgebench supports {SCHEMA_VERSION}")
    return version


def created_utc(run_id: str) -> str | None:
    """UTC time in a run id; None for a malformed id. The run may be stored much later."""
    try:
        created = datetime.strptime(run_id[:15], RUN_ID_TIME)
    except ValueError:
        return None
    return created.replace(tzinfo=timezone.utc).isoformat()


def _unknown(stored: object, known: Any, path: Path) -> list[tuple[Path, object]]:
    """Path and value of each key that matches no field; keys below it are part of its value.

    This function must be fast: it is called for every document that a list or a campaign reads, and
    a document has about a thousand values.
    """
    unknown: list[tuple[Path, object]] = []
    if isinstance(stored, dict):
        names = attributes_of(known.__class__)
        for key, value in stored.items():
            if names is not None and key not in names:
                unknown.append(((*path, key), deepcopy(value)))
            elif isinstance(value, (dict, list)):  # most are plain values
                if names is not None:
                    unknown += _unknown(value, getattr(known, names[key]), (*path, key))
                elif isinstance(known, dict):
                    unknown += _unknown(value, known.get(key), (*path, key))
    elif isinstance(stored, list) and isinstance(known, tuple):
        for number, (mine, other) in enumerate(zip(stored, known, strict=False)):
            if isinstance(mine, (dict, list)):
                unknown += _unknown(mine, other, (*path, number))
    return unknown


def _put(document: Any, path: Path, value: object) -> None:
    for step in path[:-1]:
        document = document[step]
    document[path[-1]] = value


def _fault(document: Document, exc: BaseException) -> str:
    """The first missing or wrong key of a document, and its error."""
    try:
        _make_converter(is_detailed=True).structure(document, Run)
    except BaseValidationError as detailed:
        text, _, place = transform_error(detailed, "", _fault_of_key)[0].rpartition(" @ ")
        return one_line(f"{place.lstrip('.') or 'document'} {text}")
    except _STRUCTURE_ERRORS:
        pass  # the error is reported without a key
    return f"{type(exc).__name__} {one_line(exc)}"


def _fault_of_key(exc: BaseException, _: Any) -> str:
    return "is missing" if isinstance(exc, KeyError) else f"is wrong: {one_line(exc)}"


_STRUCTURE_ERRORS = (
    BaseValidationError,
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
    EdgebenchError,
)


@cache
def _make_converter(*, is_detailed: bool = False) -> Converter:
    """The strict converter of the wire protocol, extended by keys that differ from field names.

    The converter is made once and not for each damaged run of a list, because compiling its hooks
    takes 0.1 s.
    """
    strict = make_strict(Converter(detailed_validation=is_detailed))
    converter = make_bounded(make_printable(strict))

    def has_own_keys(kind: Any) -> bool:
        return is_dataclass(get_origin(kind) or kind) and any(
            field.metadata or not field.init for field in fields(get_origin(kind) or kind)
        )

    @cache
    def reader(kind: Any) -> Any:
        return make_dict_structure_fn(
            kind,
            converter,
            _cattrs_detailed_validation=is_detailed,
            **_overrides(kind, number_hooks(converter, kind), is_written=False),
        )

    @cache
    def writer(kind: Any) -> Any:
        return make_dict_unstructure_fn(kind, converter, **_overrides(kind, {}, is_written=True))

    converter.register_structure_hook_factory(has_own_keys, reader)
    converter.register_unstructure_hook_factory(has_own_keys, writer)

    def structure_fact(value: Any, _: Any) -> Fact:
        if isinstance(value, str):
            return str(converter.structure(value, str))
        if value is None or isinstance(value, (int, float, bool)):
            return value
        reasons: tuple[Reason, ...] = converter.structure(value, tuple[Reason, ...])
        return reasons

    converter.register_structure_hook_func(lambda kind: kind == Fact, structure_fact)
    # A reason's numbers are only shown, so they have no bounds.
    converter.register_structure_hook(Reason, make_dict_structure_fn(Reason, converter))
    return converter


def _overrides(kind: Any, hooks: Mapping[str, Any], *, is_written: bool) -> dict[str, Any]:
    overrides: dict[str, Any] = {name: override(struct_hook=hook) for name, hook in hooks.items()}
    for field in fields(kind):
        name = key_of(field.metadata, field.name)
        if not name:
            overrides[field.name] = override(omit=True)
        elif not field.init:  # computed from the others
            overrides[field.name] = override(omit=not is_written)
        elif name != field.name:
            overrides[field.name] = override(rename=name, struct_hook=hooks.get(field.name))
    return overrides


_converter = _make_converter()
