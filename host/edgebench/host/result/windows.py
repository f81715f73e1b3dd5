"""Windows of a target that timed itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSummary:
    """Windows of inferences in a row, each timed as a whole.

    Normally the target times them. A target in energy mode reports no time; then a meter times
    them by the edges of the target's pin. If neither did, the times are None. With streaming
    firmware, an interface board times single inferences, which gives a resolution but no window
    times.
    """

    count: int
    inference_count: int
    """Total number of inferences in all windows."""
    warmup_count: int
    """Number of inferences before each window."""
    shortest_s: float | None
    """Shortest window on the target's counter; virtual time if the target is emulated."""
    duration_ns_per_inference: float | None
    """Median over the windows of time per inference; not the latency of a single inference. Virtual
    time if the target is emulated."""
    range_ratio: float | None
    """Range of these times divided by their median."""
    resolution_ratio: float | None
    """Two ticks of the target's counter divided by the shortest window, or the shortest inference
    if single inferences are timed; smaller differences are not significant. None if neither the
    target nor an interface board timed anything."""
    clock_ratio: float | None = None
    """Time on the target's counter divided by time on the clock of the machine that it is attached
    to; None if the target is emulated or reports no time."""
    is_timed_by_meter: bool = False
    """Whether a meter measured the times, by the edges of the target's pin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMemoryBytes:
    """Memory of model and firmware on the target, bytes; None if it is not reported."""

    flash: int | None
    """Of the model."""
    ram: int | None
    """Of arena and input of the model."""
    arena: int | None
    flash_total: int | None = None
    """Of model and firmware."""
    ram_total: int | None = None
    """Of arena, input, firmware, and the largest stack."""
    firmware_flash: int | None = None
    firmware_ram: int | None = None
    """Of the firmware without stack, arena and input."""
    stack: int | None = None
    """Memory for the stack."""
    stack_peak: int | None = None
    """Largest stack since the model was loaded, with the windows of the run."""
