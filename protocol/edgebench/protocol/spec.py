"""What to run: the run specification and its presets."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from edgebench.protocol.errors import UsageError


class Scenario(Enum):
    """How queries are issued; the names are MLPerf's.

    Source: mlcommons/inference, loadgen/test_settings.h, `TestScenario`.
    """

    SINGLE_STREAM = "single_stream"
    """One sample at a time; the next is issued when the previous one is complete."""


MIN_MEMORY_BYTES = 128 * 2**20
"""With less, Python and a runtime hardly start, and fail in odd places."""
MAX_MEMORY_BYTES = 2**44


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on a worker, so that a hostile or broken model cannot take the device down."""

    memory_bytes: int | None = None
    """Private memory of the worker; None: derived from the size of the model file."""
    load_timeout_s: float = 60.0
    """Import, load and the first inference together."""
    measure_timeout_s: float | None = None
    """Warm-up and timed loop; None: derived from the first inference and the duration."""

    def __post_init__(self) -> None:
        _require(
            self.memory_bytes is None or MIN_MEMORY_BYTES <= self.memory_bytes <= MAX_MEMORY_BYTES,
            f"memory limit must be {MIN_MEMORY_BYTES >> 20} MiB to {MAX_MEMORY_BYTES >> 40} TiB, "
            "a runtime alone takes some 100 MiB",
        )
        _require(_positive(self.load_timeout_s), "load_timeout_s must be > 0")
        _require(
            self.measure_timeout_s is None or _positive(self.measure_timeout_s),
            "measure_timeout_s must be > 0",
        )


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One run: how a model is loaded, how long it is measured, and within which limits."""

    runtime: str
    """Name of the runtime driver on the device: tflite, litert, onnx."""
    scenario: Scenario = Scenario.SINGLE_STREAM
    preset: str = "default"
    """Name of the preset that the durations started from; informative."""
    duration_s: float = 60.0
    """The timed loop runs at least this long …"""
    min_query_count: int = 1024
    """… and at least this many queries …"""
    max_query_count: int = 4_000_000
    """… and never more than this many (16 bytes of memory each on the device)."""
    warmup_query_count: int = 10
    """Queries before the timed loop; both this and the duration must be met."""
    warmup_duration_s: float = 1.0
    threads: int = 1
    delegate: str | None = None
    """Delegate or execution provider asked for; None: the runtime's own default."""
    seed: int = 0
    """Seed of the generated input data."""
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        _require(_positive(self.duration_s), f"duration must be > 0 s, got {self.duration_s}")
        _require(
            1 <= self.min_query_count <= self.max_query_count,
            f"min queries must be 1..{self.max_query_count}, got {self.min_query_count}",
        )
        _require(
            0 <= self.warmup_query_count <= MAX_WARMUP_QUERIES,
            f"warm-up queries must be 0..{MAX_WARMUP_QUERIES}, got {self.warmup_query_count}",
        )
        _require(
            math.isfinite(self.warmup_duration_s) and self.warmup_duration_s >= 0,
            "warm-up duration must be >= 0 s",
        )
        _require(1 <= self.threads <= MAX_THREADS, f"threads must be 1..{MAX_THREADS}")
        _require(0 <= self.seed < 2**63, f"seed must be 0..2^63-1, got {self.seed}")


MAX_WARMUP_QUERIES = 2**40
MAX_THREADS = 256
"""More threads than this is a typing mistake on any device in scope."""

DEFAULT_PRESET = "default"

PRESETS: dict[str, dict[str, Any]] = {
    # MLPerf Mobile's single-stream minimum: 1024 queries and 60 s.
    # Source: mlcommons/mobile_open, submission rules 3.0.
    "default": {"duration_s": 60.0, "min_query_count": 1024},
    # For a first look: long enough for a p90 with an interval, short enough to wait for.
    "quick": {"duration_s": 10.0, "min_query_count": 128, "warmup_duration_s": 0.5},
}
"""Field values of `RunSpec` by preset name."""


def from_preset(preset: str, *, runtime: str, **overrides: Any) -> RunSpec:
    """The run specification of a preset, with the given fields changed.

    Raises:
        UsageError: unknown preset, or a value out of bounds.
    """
    if preset not in PRESETS:
        raise UsageError(f"unknown preset {preset!r}: there are {', '.join(sorted(PRESETS))}")
    given = {name: value for name, value in overrides.items() if value is not None}
    unknown = given.keys() - RunSpec.__dataclass_fields__.keys()
    if unknown:
        known = ", ".join(RunSpec.__dataclass_fields__)
        raise UsageError(f"unknown setting {', '.join(sorted(unknown))}: there are {known}")
    return replace(RunSpec(runtime=runtime, preset=preset), **(PRESETS[preset] | given))


def _positive(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise UsageError(text)
