"""Windows (groups of inferences) of a target that timed itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSummary:
    """Windows of successive inferences; each window is timed as a whole.

    Normally the target times the windows. A target in energy mode reports no time; then a meter
    times the windows by the edges of the target's pin. Without times from the target or a meter,
    the times are None.
    With streaming firmware, an interface board times single inferences, which gives a resolution
    but no window times.
    """

    count: int
    inference_count: int
    """Total number of inferences in all windows."""
    warmup_count: int
    """Number of inferences before each window."""
    shortest_s: float | None
    """Duration of the shortest window on the target's counter; virtual time if the target is
    emulated."""
    duration_ns_per_inference: float | None
    """Time per inference, median over the windows; not the latency of a single inference. Virtual
    time if the target is emulated."""
    range_ratio: float | None
    """Range of the time per inference over the windows, divided by its median."""
    resolution_ratio: float | None
    """Two ticks of the target's counter, divided by the duration of the shortest window (or
    shortest inference, if single inferences are timed). Differences below this ratio are not
    significant. None if neither the target nor an interface board timed anything."""
    clock_ratio: float | None = None
    """Duration of the windows by the target's counter, divided by their duration by the clock of
    the connected machine. None if the target is emulated or reports no time."""
    is_timed_by_meter: bool = False
    """Whether a meter measured the times, from the edges of the target's pin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMemoryBytes:
    """Memory of the model and the firmware on the target, bytes; None if it is not reported."""

    flash: int | None
    """Flash memory of the model."""
    ram: int | None
    """RAM for the arena and the input of the model."""
    arena: int | None
    flash_total: int | None = None
    """Flash memory of model and firmware together."""
    ram_total: int | None = None
    """RAM for arena, input, firmware, and the largest stack."""
    firmware_flash: int | None = None
    firmware_ram: int | None = None
    """RAM of the firmware without stack, arena and input."""
    stack: int | None = None
    """RAM reserved for the stack."""
    stack_peak: int | None = None
    """Largest use of the stack since the model was loaded, including the windows of the run."""
