"""Hypothesis strategies made from the types of the protocol, so that no field is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from edgebench.protocol.bounds import bounds_of
from edgebench.protocol.pem import Pem
from edgebench.protocol.spec import (
    MAX_ARRIVALS,
    MAX_CPUS,
    MAX_LENGTH_S,
    MAX_MEMORY_BYTES,
    MAX_QPS,
    MAX_SAMPLES,
    MAX_THREADS,
    MAX_WARMUP_QUERIES,
    MIN_MEMORY_BYTES,
    MIN_QPS,
    Engine,
    Limits,
    Priority,
    RunSpec,
    Scenario,
)

POSITIVE_SECONDS = st.floats(min_value=1e-9, max_value=MAX_LENGTH_S)


def values_of(kind: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Any value of this type: dataclasses, enums, tuples, maps, optionals and plain values.

    Args:
        kind: The type.
        name: Field of the value, whose unit bounds its numbers.
    """
    if kind in (int, float):
        return _numbers(kind, name)
    special = _SPECIAL.get(kind)
    if special is not None:
        return special()
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return st.one_of(*(values_of(one, name) for one in arguments))
    if origin is tuple:
        return _tuples(arguments, name)
    if origin is dict:
        values = values_of(arguments[1], name)
        return st.dictionaries(values_of(arguments[0]), values, max_size=4)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(
            cast(Callable[..., Any], kind),
            **{field.name: values_of(hints[field.name], field.name) for field in fields(kind)},
        )
    assert issubclass(kind, Enum), f"no strategy for {kind}"
    return st.sampled_from(list(kind))


def _numbers(kind: type[Any], name: str) -> st.SearchStrategy[Any]:
    bounds = bounds_of(name, is_whole=kind is int)
    if kind is int:
        return st.integers(int(bounds.low), int(bounds.high))
    return st.floats(bounds.low, bounds.high)


def _tuples(arguments: tuple[Any, ...], name: str) -> st.SearchStrategy[Any]:
    if arguments[-1] is Ellipsis:
        return st.lists(values_of(arguments[0], name), max_size=4).map(tuple)
    return st.tuples(*(values_of(one, name) for one in arguments))


def _limits() -> st.SearchStrategy[Limits]:
    return st.builds(
        Limits,
        memory_bytes=st.none() | st.integers(MIN_MEMORY_BYTES, MAX_MEMORY_BYTES),
        load_timeout_s=POSITIVE_SECONDS,
        measure_timeout_s=st.none() | POSITIVE_SECONDS,
    )


@st.composite
def _run_specs(draw: st.DrawFn) -> RunSpec:
    """Any valid combination."""
    scenario = draw(st.sampled_from(Scenario))
    is_server = scenario is Scenario.SERVER
    low, high = sorted(draw(st.lists(st.integers(1, 2**40), min_size=2, max_size=2)))
    duration_s = draw(POSITIVE_SECONDS)
    if is_server:
        low = min(low, MAX_ARRIVALS)
        # So slow, or so short, that the arrivals stay below the limit.
        duration_s = min(duration_s, 0.99 * low / MIN_QPS)
    most_qps = min(MAX_QPS, max(MIN_QPS, 0.99 * low / duration_s))
    qps = draw(st.floats(MIN_QPS, most_qps)) if is_server else None
    is_single = scenario is Scenario.SINGLE_STREAM
    engine = draw(st.sampled_from([one for one in Engine if is_single or one is not Engine.TARGET]))
    is_optional = engine is Engine.NATIVE
    any_latency = st.none() | POSITIVE_SECONDS if is_optional else POSITIVE_SECONDS
    latency_s = draw(any_latency) if is_server else None
    return RunSpec(
        runtime=draw(st.text()),
        scenario=scenario,
        preset=draw(st.text()),
        engine=engine,
        duration_s=duration_s,
        min_query_count=low,
        max_query_count=high,
        warmup_query_count=draw(st.integers(0, MAX_WARMUP_QUERIES)),
        warmup_duration_s=draw(st.floats(0, 1e9)),
        samples_per_query=draw(st.integers(1, MAX_SAMPLES)),
        target_qps=qps,
        target_latency_s=latency_s,
        target_percentile=draw(st.floats(0, 1, exclude_min=True, exclude_max=True)),
        sample_count=draw(st.integers(1, MAX_SAMPLES)),
        threads=1 if engine is Engine.TARGET else draw(st.integers(1, MAX_THREADS)),
        delegate=draw(st.none() | st.text()),
        seed=draw(st.integers(0, 2**63 - 1)),
        cpus=tuple(draw(st.lists(st.integers(0, MAX_CPUS - 1), max_size=4))),
        priority=draw(st.sampled_from(Priority)),
        is_profiled=is_single and draw(st.booleans()),
        is_checked=draw(st.booleans()),
        dataset_sha256=draw(st.none() | st.text()),
        limits=draw(_limits()),
    )


_SPECIAL: dict[Any, Callable[[], st.SearchStrategy[Any]]] = {
    str: st.text,
    Pem: st.text,
    bool: st.booleans,
    NoneType: st.none,
    Limits: _limits,
    RunSpec: _run_specs,
}
