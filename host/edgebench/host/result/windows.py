"""Windows of a target that timed itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSummary:
    """Windows of inferences in a row, each timed as a whole.

    The target times them; one in energy mode tells no time, and a meter that sees the edges of its
    pin does. Where neither did, the times are None. Of streaming firmware, an interface board
    times single inferences: a resolution then, and no time of windows.
    """

    count: int
    inference_count: int
    """Inferences in all windows together."""
    warmup_count: int
    """Inferences before each window."""
    shortest_s: float | None
    """Shortest window on the target's counter; virtual time where the target is emulated."""
    duration_ns_per_inference: float | None
    """Median over the windows of their time by their count; virtual time where the target is
    emulated: no latency, and never the time of a single inference."""
    range_ratio: float | None
    """Longest less shortest of these times, over the median."""
    resolution_ratio: float | None
    """Two ticks of the target's counter over the shortest window, or over the shortest inference
    where single ones are timed: no smaller difference is one. None where neither the target nor
    an interface board timed anything."""
    clock_ratio: float | None = None
    """Time on the target's counter over that on the clock of the machine beside it; None where the
    target is emulated, or tells no time."""
    is_timed_by_meter: bool = False
    """Whether the times are those of a meter that saw the edges of the target's pin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMemoryBytes:
    """What model and firmware take on the target, bytes; None where it is not reported."""

    flash: int | None
    ram: int | None
    arena: int | None
