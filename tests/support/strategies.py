"""Hypothesis strategies made from the types of the protocol, so that no field is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from edgebench.protocol.spec import (
    MAX_MEMORY_BYTES,
    MAX_THREADS,
    MIN_MEMORY_BYTES,
    Limits,
    RunSpec,
)

INTEGERS = st.integers(-(2**63), 2**64 - 1)
"""What MessagePack can carry."""
POSITIVE_SECONDS = st.floats(min_value=1e-9, max_value=1e9)


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of this type: dataclasses, enums, tuples, maps, optionals and plain values."""
    special = _SPECIAL.get(kind)
    if special is not None:
        return special()
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return st.one_of(*map(values_of, arguments))
    if origin is tuple:
        return _tuples(arguments)
    if origin is dict:
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=4)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(
            cast(Callable[..., Any], kind),
            **{field.name: values_of(hints[field.name]) for field in fields(kind)},
        )
    assert issubclass(kind, Enum), f"no strategy for {kind}"
    return st.sampled_from(list(kind))


def _tuples(arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0]), max_size=4).map(tuple)
    return st.tuples(*map(values_of, arguments))


def _limits() -> st.SearchStrategy[Limits]:
    return st.builds(
        Limits,
        memory_bytes=st.none() | st.integers(MIN_MEMORY_BYTES, MAX_MEMORY_BYTES),
        load_timeout_s=POSITIVE_SECONDS,
        measure_timeout_s=st.none() | POSITIVE_SECONDS,
    )


def _run_specs() -> st.SearchStrategy[RunSpec]:
    counts = st.lists(st.integers(1, 2**40), min_size=2, max_size=2).map(sorted)
    return counts.flatmap(
        lambda bounds: st.builds(
            RunSpec,
            runtime=st.text(),
            preset=st.text(),
            duration_s=POSITIVE_SECONDS,
            min_query_count=st.just(bounds[0]),
            max_query_count=st.just(bounds[1]),
            warmup_query_count=st.integers(0, 2**40),
            warmup_duration_s=st.floats(0, 1e9),
            threads=st.integers(1, MAX_THREADS),
            delegate=st.none() | st.text(),
            seed=st.integers(0, 2**63 - 1),
            limits=_limits(),
        )
    )


_SPECIAL: dict[Any, Callable[[], st.SearchStrategy[Any]]] = {
    int: lambda: INTEGERS,
    float: lambda: st.floats(allow_nan=False),
    str: st.text,
    bool: st.booleans,
    NoneType: st.none,
    Limits: _limits,
    RunSpec: _run_specs,
}
