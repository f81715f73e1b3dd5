"""The allowed range of each number of a profile.

A typing error must not disable a safety limit. For example, a maximum temperature of NaN is never
reached, and a loop that waits until a time limit of NaN has passed never ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from edgebench.device_profiles.schema import (
    Cluster,
    Cooldown,
    DeviceLimits,
    Indicator,
    Memory,
    RuntimeSupport,
    Zone,
)
from edgebench.protocol.toml_positions import Path

_BITS = (0, 2**32 - 1)
_THRESHOLD_C = (0, 200)
_RANGES: dict[tuple[type, str], tuple[float, float]] = {
    (Cluster, "policy"): (0, 1023),
    (Cluster, "capacity"): (0, 1024),
    (Cooldown, "delta_c"): (0, 50),
    (Cooldown, "max_c"): (-40, 125),
    (Cooldown, "poll_s"): (0.1, 600),
    (Cooldown, "slope_c_per_min_max"): (0, 100),
    (Cooldown, "stable_s"): (0, 3600),
    (Cooldown, "timeout_s"): (0, 86400),
    (Indicator, "power_now"): _BITS,
    (Indicator, "power_sticky"): _BITS,
    (Indicator, "rate_hz_max"): (0.001, 1000),
    (Indicator, "thermal_now"): _BITS,
    (Indicator, "thermal_sticky"): _BITS,
    (DeviceLimits, "abort_c"): (30, 150),
    (DeviceLimits, "min_free_bytes"): (0, 2**60),
    (Memory, "variants_bytes"): (1, 2**60),
    (RuntimeSupport, "threads_default"): (1, 1024),
    (RuntimeSupport, "threads_max"): (1, 1024),
    (Zone, "critical_c"): _THRESHOLD_C,
    (Zone, "hard_c"): _THRESHOLD_C,
    (Zone, "throttle_c"): _THRESHOLD_C,
}
"""Lowest and highest allowed value; applies to each item if the field is a list."""
_ANY = (-math.inf, math.inf)


def out_of_range(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Find the numbers of a profile that are out of range; yields the key and fault of each."""
    if is_dataclass(value):
        for field in fields(value):
            inner, inner_path = getattr(value, field.name), (*path, field.name)
            low, high = _RANGES.get((type(value), field.name), _ANY)
            for found_path, number in _numbers(inner, inner_path):
                if not math.isfinite(number):
                    yield found_path, f"must be a finite number, is {number}"
                elif not low <= number <= high:
                    yield found_path, f"must be {low:g} to {high:g}, is {number:g}"
            yield from out_of_range(inner, inner_path)
    elif isinstance(value, (tuple, dict)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from out_of_range(item, (*path, key))


def _numbers(value: Any, path: Path) -> Iterator[tuple[Path, float]]:
    """The value itself, or the numbers of a list."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _numbers(item, (*path, index))
