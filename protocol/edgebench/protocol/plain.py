"""Strict conversion between dataclasses and plain values.

By default, cattrs converts "5" into 5 and "abc" into ("a", "b", "c"). In this module, a value of
the wrong type is an error. The only possible cause of such a value is a bug in the program that
sent or wrote the value. Numbers are checked against the bounds of their unit (`bounds`) when a
dataclass is created from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from cattrs import Converter, IterableValidationError, IterableValidationNote
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from edgebench.protocol.bounds import Bounds, bounds_of
from edgebench.protocol.errors import EdgebenchError, RemoteProtocolError
from edgebench.protocol.pem import Pem
from edgebench.protocol.text import one_line, printable

_T = TypeVar("_T")


def to_plain(value: Any) -> Any:
    """Convert dataclasses to maps and lists of plain values for msgpack or JSON."""
    return _converter.unstructure(value)


def from_plain(value: Any, kind: type[_T]) -> _T:
    """Create a dataclass of type `kind` from plain values; unknown fields are ignored.

    Raises:
        RemoteProtocolError: a field is missing, of the wrong type, or beyond its bounds.
    """
    return _structured(_converter, value, kind)


def from_outside(value: Any, kind: type[_T]) -> _T:
    """Like `from_plain`, but make texts printable, for data from a peer or from another version.

    Raises:
        RemoteProtocolError: a field is missing, of the wrong type, or beyond its bounds.
    """
    return _structured(_wire_converter, value, kind)


def _structured(converter: Converter, value: Any, kind: type[_T]) -> _T:
    try:
        return converter.structure(value, kind)
    except _STRUCTURE_ERRORS as exc:
        raise RemoteProtocolError(f"not a valid {kind.__name__}: {one_line(exc)}") from exc


def make_strict(converter: Converter) -> Converter:
    """Make a converter accept only values of the exact type; an integer is accepted as a float."""
    for kind in (int, str, bool, bytes):
        converter.register_structure_hook(kind, _strict(kind))
    converter.register_structure_hook(float, _structure_float)
    converter.register_structure_hook_func(_is_literal, _structure_literal)
    converter.register_structure_hook_func(_is_tuple, _strict_tuple(converter))
    # Enums must not derive from str: the converter would use the hook of str for them.
    converter.register_unstructure_hook(Enum, lambda value: value.value)
    return converter


def make_printable(converter: Converter) -> Converter:
    """Make a strict converter replace control characters in the texts of a peer."""
    take = _strict(str)

    def structure_text(value: Any, kind: Any) -> str:
        if type(value) is str and value.isprintable():  # true for almost all texts
            return value
        return printable(take(value, kind))

    converter.register_structure_hook(str, structure_text)
    converter.register_structure_hook(Pem, take)
    return converter


def make_bounded(converter: Converter) -> Converter:
    """Make a strict converter check the numbers of dataclasses against the bounds of their unit.

    If a hook for a particular dataclass is registered later, that hook must apply `number_hooks`
    itself. The hooks are cached here. cattrs also has a cache, but clears this cache whenever it
    makes the hook of a list or a map, and would then make most hooks several times.
    """

    @cache
    def reader(kind: Any) -> Any:
        hooks = number_hooks(converter, kind)
        overrides: dict[str, Any] = {
            name: override(struct_hook=hook) for name, hook in hooks.items()
        }
        return make_dict_structure_fn(
            kind,
            converter,
            _cattrs_detailed_validation=converter.detailed_validation,
            **overrides,
        )

    @cache
    def writer(kind: Any) -> Any:
        return make_dict_unstructure_fn(kind, converter)

    def has_fields(kind: Any) -> bool:
        return is_dataclass(get_origin(kind) or kind)

    converter.register_structure_hook_factory(has_fields, reader)
    converter.register_unstructure_hook_factory(has_fields, writer)
    return converter


def number_hooks(converter: Converter, kind: Any) -> dict[str, Callable[[Any, Any], Any]]:
    """Map the name of each numeric field of a dataclass to a cattrs hook that checks its bounds."""
    origin = get_origin(kind) or kind
    types = get_type_hints(origin)
    return {
        field.name: _bounded(converter, field.name, types[field.name])
        for field in fields(origin)
        if field.init and _number_kinds(types[field.name])
    }


def _number_kinds(kind: Any) -> set[type]:
    """Number types in a field's type, including types inside a union, a tuple or a map."""
    if kind in (int, float):
        return {kind}
    if get_origin(kind) is Literal:
        return set()
    return set().union(*(_number_kinds(part) for part in get_args(kind)))


def _bounded(converter: Converter, name: str, kind: Any) -> Callable[[Any, Any], Any]:
    """Create the hook of a numeric field; it calls the converter's own hook, then checks bounds."""
    bounds = bounds_of(name, is_whole=float not in _number_kinds(kind))
    for number in (int, float):
        if kind is number:
            return _bounded_number(number, name, bounds)
        if set(get_args(kind)) == {number, type(None)}:  # most of the other fields
            take = _bounded_number(number, name, bounds)
            return lambda value, _: None if value is None else take(value, number)

    def structure(value: Any, field_type: Any) -> Any:
        field_value = converter.structure(value, field_type)
        _check(bounds, name, field_value)
        return field_value

    return structure


def _bounded_number(kind: type, name: str, bounds: Bounds) -> Callable[[Any, Any], Any]:
    take = _strict(int) if kind is int else _structure_float
    low, high = bounds.low, bounds.high

    def structure(value: Any, _: Any) -> Any:
        is_of_kind = type(value) is kind
        if is_of_kind and low <= value <= high:  # true for almost all numbers
            return value
        number = take(value, kind)
        bounds.check(name, number)
        return number

    return structure


def _check(bounds: Bounds, name: str, value: Any) -> None:
    """Check every number in a field; in a map, the unit at the end of a key selects the bounds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        bounds.check(name, value)
    elif isinstance(value, tuple):
        for item in value:
            _check(bounds, name, item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            is_named = isinstance(key, str) and isinstance(item, float)
            _check(bounds_of(key, is_whole=False) if is_named else bounds, str(key), item)


def _strict(kind: type[_T]) -> Any:
    def structure(value: Any, _: Any) -> _T:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return structure


def _structure_float(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:  # a whole number of more than 308 digits
        raise ValueError("a number is beyond the range of a double") from None


def _is_literal(wanted: Any) -> bool:
    return get_origin(wanted) is Literal


def _structure_literal(value: Any, wanted: Any) -> Any:
    if value not in get_args(wanted):
        raise ValueError(f"expected one of {', '.join(get_args(wanted))}, got {value!r}")
    return value


def _is_tuple(wanted: Any) -> bool:
    return get_origin(wanted) is tuple


def _strict_tuple(converter: Converter) -> Any:
    def structure(value: Any, wanted: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"expected a list, got {type(value).__name__}")
        kinds = get_args(wanted)
        if kinds[-1] is Ellipsis:
            if not converter.detailed_validation:
                take = converter.get_structure_hook(kinds[0])
                return tuple([take(item, kinds[0]) for item in value])
            kinds = kinds[:1] * len(value)
        pairs = zip(value, kinds, strict=True)
        if converter.detailed_validation:
            return tuple(_noted(converter, item, kind, i) for i, (item, kind) in enumerate(pairs))
        return tuple(converter.structure(item, kind) for item, kind in pairs)

    return structure


def _noted(converter: Converter, value: Any, kind: Any, index: int) -> Any:
    """Convert an item of a list; if this fails, add the index of the item to the error."""
    try:
        return converter.structure(value, kind)
    except Exception as exc:  # any error of cattrs, or of a constructor of edgebench
        note = IterableValidationNote(f"item {index}", index, kind)
        exc.__notes__ = [*getattr(exc, "__notes__", []), note]
        # cattrs' own third argument is unknown to the stub of ExceptionGroup.__new__.
        raise IterableValidationError("a list", [exc], tuple) from exc  # pyright: ignore[reportCallIssue]


_STRUCTURE_ERRORS = (
    BaseValidationError,
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    OverflowError,
    EdgebenchError,
)
_converter = make_bounded(make_strict(Converter(detailed_validation=False)))
_wire_converter = make_bounded(make_printable(make_strict(Converter(detailed_validation=False))))
