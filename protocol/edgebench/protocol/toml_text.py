"""TOML texts with a strict schema, read into dataclasses.

Unknown keys are errors, so that a misspelt setting is not ignored. An error names the file, the
line and the key.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar

from cattrs import (
    AttributeValidationNote,
    BaseValidationError,
    Converter,
    ForbiddenExtraKeysError,
    IterableValidationNote,
)

from edgebench.protocol.errors import UsageError
from edgebench.protocol.plain import make_strict
from edgebench.protocol.toml_positions import Path, line_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table = dict[str, Any]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Complaint:
    """A violation of the schema, and the path of the key that violates the schema."""

    path: Path
    what: str

    @property
    def key(self) -> str:
        """The path in readable form, such as `soc.cluster[0].cpus`."""
        text = ""
        for part in self.path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}"
        return text.lstrip(".")


@dataclass(frozen=True, slots=True)
class TomlText:
    """The content of a TOML file."""

    text: str
    name: str
    """File name for error texts."""

    def table(self, schema_version: int) -> Table:
        """Parse the text, which must contain `schema = N` with N equal to `schema_version`.

        Raises:
            UsageError: the text is not TOML, or its schema is not `schema_version`.
        """
        try:
            table = tomllib.loads(self.text)
        except RecursionError as exc:
            raise UsageError(f"{self.name}: nested too deeply") from exc
        except ValueError as exc:  # also an integer of thousands of digits
            raise UsageError(f"{self.name}: {exc}") from exc
        if "schema" not in table:
            what = f"is missing; the file must begin with schema = {schema_version}"
            raise self.error(Complaint(("schema",), what))
        if table["schema"] != schema_version:
            what = f"schema is {table['schema']!r}, expected {schema_version}"
            raise self.error(Complaint(("schema",), what))
        return table

    def structured(self, table: Table, kind: type[_T], converter: Converter) -> _T:
        """Convert the table to a dataclass, with a converter from `strict_converter`.

        Raises:
            UsageError: the table violates the schema.
        """
        try:
            return converter.structure(table, kind)
        except BaseValidationError as exc:
            raise self.error(_first(exc)) from exc

    def error(self, complaint: Complaint) -> UsageError:
        """Create the error for a complaint, with the line number of the key."""
        line = line_of(self.text, complaint.path)
        return UsageError(f"{self.name}:{line}: {complaint.key}: {complaint.what}")


def strict_converter() -> Converter:
    """Create a converter that rejects unknown keys and values of the wrong type."""
    return make_strict(Converter(detailed_validation=True, forbid_extra_keys=True))


def _first(exc: BaseException, path: Path = ()) -> Complaint:
    """Find the first violation in a validation error of cattrs."""
    if isinstance(exc, ForbiddenExtraKeysError):
        extra = min(exc.extra_fields)
        what = "no such key"
        if is_dataclass(exc.cl):
            what += f"; available: {', '.join(field.name for field in fields(exc.cl))}"
        return Complaint((*path, extra), what)
    if isinstance(exc, BaseValidationError):
        # A misspelt key is also a missing key; the error about the unknown key is more useful.
        inner = min(
            exc.exceptions, key=lambda exception: not isinstance(exception, ForbiddenExtraKeysError)
        )
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
