"""The JSON Schema of run.json, generated from the types.

devtools/write_schema.py writes the schema to `run.schema.json` in this directory, and a test
compares the file with the types. Keys with a default are optional; unlisted keys are allowed,
because a newer version may add some.

Source: https://json-schema.org/draft/2020-12/json-schema-core
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from edgebench.host.result.keys import key_of
from edgebench.host.result.run import SCHEMA_VERSION, Run

Schema = dict[str, Any]
"""A JSON Schema, or a part of it."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_FILE = "run.schema.json"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def run_schema() -> Schema:
    """The schema of the documents that this version writes."""
    parts: dict[str, Schema] = {}
    top = _dataclass(Run, parts)
    return {
        "$schema": DIALECT,
        "title": f"edgebench run.json, schema_version {SCHEMA_VERSION}",
        **top,
        "$defs": dict(sorted(parts.items())),
    }


def _schema_of(kind: Any, parts: dict[str, Schema]) -> Schema:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if origin in (Union, UnionType):
        schemas = [_schema_of(argument, parts) for argument in arguments]
        # Plain types share one `type`.
        if all(schema.keys() == {"type"} for schema in schemas):
            names = dict.fromkeys(schema["type"] for schema in schemas)
            return {"type": list(names)}
        return {"anyOf": schemas}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        if arguments[-1] is Ellipsis:
            return {"type": "array", "items": _schema_of(arguments[0], parts)}
        items = [_schema_of(argument, parts) for argument in arguments]
        count = len(items)
        return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1], parts)}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if isinstance(kind, type) and is_dataclass(kind):
        if kind.__name__ not in parts:
            parts[kind.__name__] = {}  # ends the recursion of a type that contains itself
            parts[kind.__name__] = _dataclass(kind, parts)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    raise TypeError(f"no schema for {kind!r}")


def _dataclass(kind: Any, parts: dict[str, Schema]) -> Schema:
    hints, texts = get_type_hints(kind), _field_docstrings(kind)
    listed = [(key_of(field.metadata, field.name), field) for field in fields(kind)]
    schema: Schema = {"type": "object"}
    if kind.__doc__:
        first = inspect.cleandoc(kind.__doc__).partition("\n\n")[0]
        schema["description"] = " ".join(first.split())
    schema["properties"] = {
        key: _schema_of(hints[field.name], parts)
        | ({"description": texts[field.name]} if field.name in texts else {})
        for key, field in listed
        if key
    }
    required = [key for key, field in listed if key and _is_required(field)]
    return schema | ({"required": required} if required else {})


def _is_required(field: Field[Any]) -> bool:
    return field.init and field.default is MISSING and field.default_factory is MISSING


def _field_docstrings(kind: type) -> dict[str, str]:
    """Docstring of each field of a dataclass, including inherited fields."""
    docstrings: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not is_dataclass(base):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
        for field, text in pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                docstrings[field.target.id] = " ".join(str(text.value.value).split())
    return docstrings
