"""Answers of a device through a shell, as typed values: the one place that reads its JSON."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.plain import from_plain
from edgebench.protocol.text import one_line, printable

_T = TypeVar("_T")


def parse_answer(text: str, kind: type[_T], *, source: str) -> _T:
    """A device's answer in JSON, as a dataclass whose texts are printable lines.

    Args:
        text: The answer.
        kind: A dataclass; fields that it does not have are ignored.
        source: Step and device, for the error.

    Raises:
        RemoteProtocolError: it is not JSON, or not of this kind; the error quotes it.
    """
    try:
        plain = _harmless(json.loads(text))
        if not isinstance(plain, dict):  # a list could pass for a dataclass that needs no field
            raise ValueError
        return from_plain(plain, kind)
    except (ValueError, RecursionError, RemoteProtocolError) as exc:
        raise RemoteProtocolError(
            f"{source}: answer is not a {kind.__name__}: {one_line(text)!r}"
        ) from exc


def _harmless(plain: Any) -> Any:
    """Without what a terminal would obey: JSON can spell it out in plain letters."""
    if isinstance(plain, str):
        return printable(plain.replace("\n", " "))
    if isinstance(plain, list):
        return [_harmless(value) for value in plain]
    if isinstance(plain, dict):
        return {str(key): _harmless(value) for key, value in plain.items()}
    return plain
