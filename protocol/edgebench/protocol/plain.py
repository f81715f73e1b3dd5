"""Strict conversion between dataclasses and plain values.

cattrs turns "5" into 5 and "abc" into ("a", "b", "c"); whoever sends or writes the wrong type has
a bug that must be seen.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal, TypeVar, get_args, get_origin

from cattrs import Converter, IterableValidationError, IterableValidationNote
from cattrs.errors import BaseValidationError

from edgebench.protocol.errors import EdgebenchError, RemoteProtocolError
from edgebench.protocol.pem import Pem
from edgebench.protocol.text import one_line, printable

_T = TypeVar("_T")


def to_plain(value: Any) -> Any:
    """Dataclasses as maps and lists of plain values, ready for msgpack or JSON."""
    return _converter.unstructure(value)


def from_plain(value: Any, kind: type[_T]) -> _T:
    """The dataclass `kind` from plain values; unknown fields are ignored.

    Raises:
        RemoteProtocolError: a field is missing or of the wrong type.
    """
    return _structured(_converter, value, kind)


def from_outside(value: Any, kind: type[_T]) -> _T:
    """As `from_plain`, with texts made printable: of a file that others, or older versions, wrote.

    Raises:
        RemoteProtocolError: a field is missing or of the wrong type.
    """
    return _structured(_wire_converter, value, kind)


def _structured(converter: Converter, value: Any, kind: type[_T]) -> _T:
    try:
        return converter.structure(value, kind)
    except _STRUCTURE_ERRORS as exc:
        raise RemoteProtocolError(f"not a valid {kind.__name__}: {one_line(exc)}") from exc


def make_strict(converter: Converter) -> Converter:
    """Teach a converter to take every type as it is; numbers without a point are floats too."""
    for kind in (int, str, bool, bytes):
        converter.register_structure_hook(kind, _strict(kind))
    converter.register_structure_hook(float, _structure_float)
    converter.register_structure_hook_func(_is_literal, _structure_literal)
    converter.register_structure_hook_func(_is_tuple, _strict_tuple(converter))
    # Enums must not derive from str, or its hook takes them.
    converter.register_unstructure_hook(Enum, lambda value: value.value)
    return converter


def make_printable(converter: Converter) -> Converter:
    """Make a strict converter replace control characters in texts, which come from a peer."""
    take = _strict(str)

    def structure_text(value: Any, kind: Any) -> str:
        if type(value) is str and value.isprintable():  # as nearly every one of hundreds
            return value
        return printable(take(value, kind))

    converter.register_structure_hook(str, structure_text)
    converter.register_structure_hook(Pem, take)
    return converter


def _strict(kind: type[_T]) -> Any:
    def structure(value: Any, _: Any) -> _T:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")
        return value

    return structure


def _structure_float(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    return float(value)


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
    """An item of a list; its error says which one it was."""
    try:
        return converter.structure(value, kind)
    except Exception as exc:  # whatever cattrs, or the constructor of one of ours, raises
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
_converter = make_strict(Converter(detailed_validation=False))
_wire_converter = make_printable(make_strict(Converter(detailed_validation=False)))
