"""Numbers from a target (such as a microcontroller) that timed windows of inferences itself.

Theory of operation. A window has two timestamps of the target's own counter, and a count of
inferences between them. Time divided by count is a mean; percentiles require firmware that times
each inference.

The counter of an emulator that counts instructions advances by a fixed virtual time per
instruction, regardless of the machine that runs the emulator. So the time of a window divided by
the time of an instruction is a number of instructions, to within a tick at either end. It is not
the time of any real processor.

Source: EEMBC, MLPerf Tiny run rules: the throughput of a window is its count divided by its time,
and the result is the median of five windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.latency.summary import summarize
from edgebench.host.analysis.outputs import OutputQuality
from edgebench.host.result.latency import LatencySummary
from edgebench.host.result.windows import WindowSummary
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import TargetRecord, Window

EDGE_TICKS = 2
"""Possible difference, in ticks, between equal windows: a tick at either end of a window."""


@dataclass(frozen=True, slots=True)
class WindowMeasurement:
    """Numbers of the windows of a run."""

    summary: WindowSummary
    throughput_per_s: float | None
    """Median over the windows; None if the target is emulated, because its time is virtual."""
    instructions_per_inference: float | None
    """Median over the windows; None if instructions are not counted."""
    latency: LatencySummary | None
    """Latency of single inferences; None if they were not timed, or the target is emulated."""
    duration_s: float | None
    """Sum of the windows' times; None if they were not timed."""
    inference_ns: float | None = None
    """Median time of an inference, or virtual time if the target is emulated. None if no inference
    was timed."""
    quality: OutputQuality = field(default_factory=OutputQuality)


def measure_windows(
    target: TargetRecord, metered_s: Sequence[float] | None = None
) -> WindowMeasurement:
    """Compute the numbers of the windows.

    Args:
        target: The target's record of the run.
        metered_s: Durations of the windows of a target that reports no time, shape (windows,). They
            come from edges in a meter's recording. None without such edges.

    Raises:
        MeasurementError: the record has no window, or an impossible window.
    """
    for window in target.windows:
        _check(window)
    if not target.windows:
        raise MeasurementError("the target recorded no window")
    counts = np.array([window.count for window in target.windows])
    ticks = [window.ticks for window in target.windows if window.ticks is not None]
    if len(ticks) < len(target.windows):
        return _metered(target, counts, metered_s)
    times_s = np.array([window.duration_s for window in target.windows], np.float64)
    each_ns = times_s / counts * 1e9
    median_ns = float(np.median(each_ns))
    emulator = target.firmware.emulator
    inference_ns = inference_times_ns(target)
    resolution_ratio = EDGE_TICKS / min(ticks)
    if inference_ns is not None:
        resolution_ratio = EDGE_TICKS / min(target.inference_ticks)
    instruction_ns = emulator.instruction_ns if emulator else None
    # A window includes the line of text that is output at its start; an inference does not.
    counted_ns = median_ns if inference_ns is None else float(np.median(inference_ns))
    return WindowMeasurement(
        summary=WindowSummary(
            count=len(target.windows),
            inference_count=int(counts.sum()),
            warmup_count=target.warmup_count,
            shortest_s=float(times_s.min()),
            duration_ns_per_inference=median_ns,
            range_ratio=float(np.ptp(each_ns)) / median_ns,
            resolution_ratio=resolution_ratio,
            clock_ratio=None if emulator else _clock_ratio(target.windows, times_s),
        ),
        throughput_per_s=None if emulator else 1e9 / median_ns,
        instructions_per_inference=counted_ns / instruction_ns if instruction_ns else None,
        latency=None if emulator or inference_ns is None else summarize(inference_ns),
        duration_s=float(times_s.sum()),
        inference_ns=counted_ns,
    )


def _metered(
    target: TargetRecord, counts: NDArray[np.int64], metered_s: Sequence[float] | None
) -> WindowMeasurement:
    """Numbers of a target that reports no time, computed from the recording of a meter.

    An interface board may time each inference of streaming firmware. A window is then as long as
    its audio, regardless of how long an inference takes.
    """
    inference_ns = inference_times_ns(target)
    latency = None if inference_ns is None else summarize(inference_ns)
    summary = WindowSummary(
        count=len(counts),
        inference_count=int(counts.sum()),
        warmup_count=target.warmup_count,
        shortest_s=None,
        duration_ns_per_inference=None,
        range_ratio=None,
        resolution_ratio=EDGE_TICKS / min(target.inference_ticks) if latency else None,
    )
    if metered_s is None:
        windows_s = sum(window.end_ns - window.begin_ns for window in target.windows) / 1e9
        return WindowMeasurement(summary, None, None, latency, windows_s if latency else None)
    times_s = np.array(metered_s)
    each_ns = times_s / counts * 1e9
    median_ns = float(np.median(each_ns))
    summary = replace(
        summary,
        shortest_s=float(times_s.min()),
        duration_ns_per_inference=median_ns,
        # The audio sets the length of the windows, so their range is not a property of the board.
        range_ratio=None if target.pace_ns is not None else float(np.ptp(each_ns)) / median_ns,
        is_timed_by_meter=True,
    )
    throughput_per_s = 1e9 / median_ns if target.pace_ns is None else None
    return WindowMeasurement(summary, throughput_per_s, None, latency, float(times_s.sum()))


def _check(window: Window) -> None:
    ticks, rate_hz = window.ticks, window.tick_rate_hz
    if ticks is None or rate_hz is None:
        is_true = ticks is rate_hz
    else:
        is_true = ticks >= 1 and 0 < rate_hz < 1e12
    if window.count < 1 or not is_true:
        raise MeasurementError(
            f"window of {window.count} inferences took {ticks} ticks at {rate_hz} Hz"
        )
    if window.end_ns < window.begin_ns:  # an emulator's two lines may come in one read
        raise MeasurementError(
            f"window ends {(window.begin_ns - window.end_ns) / 1e9:.3g} s before it begins"
        )


def _clock_ratio(windows: tuple[Window, ...], times_s: NDArray[np.float64]) -> float:
    """Time on the target's counter, divided by the time on the clock of the connected machine.

    It is computed over all windows together, because the arrival of each line is uncertain by
    milliseconds.
    """
    windows_ns = sum(window.end_ns - window.begin_ns for window in windows)
    if not windows_ns:
        raise MeasurementError(
            "the windows took no time according to the clock of the connected machine"
        )
    return float(times_s.sum() * 1e9 / windows_ns)


def inference_times_ns(target: TargetRecord) -> NDArray[np.int64] | None:
    """Times of single inferences, shape (n,); None if they were not timed.

    Raises:
        MeasurementError: the counter's rate or its counts are impossible.
    """
    tick_rate_hz = target.firmware.tick_rate_hz
    if not target.inference_ticks or tick_rate_hz is None:
        return None
    if min(target.inference_ticks) < 1 or not 0 < tick_rate_hz < 1e12:
        raise MeasurementError(
            f"an inference took {min(target.inference_ticks)} ticks of a counter of "
            f"{tick_rate_hz:g} Hz"
        )
    times_ns = np.array(target.inference_ticks, np.float64) / tick_rate_hz * 1e9
    rounded: NDArray[np.int64] = np.rint(times_ns).astype(np.int64)
    return rounded
