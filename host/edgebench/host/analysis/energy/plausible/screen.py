"""All checks whether a recording can be true, and removal of samples that cannot be true.

Theory of operation. Every source, live or a file, passes these checks before any energy is
computed. Samples that cannot be true are left out, and count as missing. Up to 0.1 % of such
samples add to the uncertainty. If there are more, the recording or the window that contains them is
refused. If an error cannot be bounded that way, such as a wrong unit, the energy is refused. A
check is listed only if it found something, so a recording without listed checks is plausible.

    plausible     power that no board can draw, values that are stuck, a counter that is dead
    saturation    samples at the end of a range that the driver does not declare
    redundancy    voltage times current, compared with power
    direction     power that flows back from a device under load
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from edgebench.host.analysis.energy.checks import LOSS_LIMIT_RATIO, reversed_reason
from edgebench.host.analysis.energy.integrate import Nanoseconds
from edgebench.host.analysis.energy.plausible.bounds import peak_w
from edgebench.host.analysis.energy.plausible.idle import far_below_idle, standing_still
from edgebench.host.analysis.energy.plausible.loop import standing_still_in_loop
from edgebench.host.analysis.energy.plausible.repeats import LONG_REPEAT, clipped_in, held_in
from edgebench.host.analysis.energy.power_trace import PowerTrace, TracePiece
from edgebench.host.analysis.energy.site import mean_power_w, site_in
from edgebench.host.result.energy import MeterCheck
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import plausible as reasons
from edgebench.meters.base import Capability, Channel
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.thermal import ExpectedPower

PRODUCT_RATIO = 3.0
"""Largest ratio, in either direction, between power and the product of voltage and current. A
converter that reads the three quantities in succession, or in whole milliamperes, deviates by less
than this ratio; a wrong unit deviates by more."""
LEAST_POWER_FACTOR = 0.02
"""Minimum power factor, power / (voltage · current), if the current may alternate. In standby, the
filter of a device draws mostly reactive power. Even such a device is assumed to be above this
ratio, and a wrong unit is assumed to be below this ratio."""
_ALTERNATING = ("wall", "not stated")
"""Boundaries whose current may alternate."""
_REVERSED_RATIO = 3.0
"""A recording counts as reversed if its largest negative power is more than this multiple of its
highest power."""
_PROCESSOR_BOUNDARIES = ("package", "platform")
"""Boundaries that contain the processor which reads the counter, so their power is never 0 W."""


TraceT = TypeVar("TraceT", bound=PowerTrace)


@dataclass(frozen=True, slots=True)
class Screening(Generic[TraceT]):
    """A recording, without the samples that cannot be true."""

    power: TraceT
    checks: tuple[MeterCheck, ...] = ()
    """Checks with a remark; empty if there is none."""
    left_out: tuple[Reason, ...] = ()
    """Reasons why samples were left out. They are stated if a window is refused because too many
    samples are missing."""


def screen(
    power: TraceT, board: ExpectedPower | None = None, *, is_loaded: bool = False
) -> Screening[TraceT]:
    """Check a recording, without the times of a run.

    Args:
        power: The recording.
        board: Possible powers of the device; None if they are unknown.
        is_loaded: Whether the recording contains idle time and a running model. If so, the power
            must change, and rise under load.

    Raises:
        RunDamaged: the samples cannot be read.
    """
    capability = power.header.capability
    limit_w = peak_w(capability, board)
    times_ns: dict[str, Nanoseconds] = {}
    left_out: list[Reason] = []
    clipped: list[Reason] = []
    checks: list[MeterCheck] = []
    sample_count = clipped_count = left_out_count = 0
    for channel in capability.channels:
        pieces = power.pieces(channel.name)
        sample_count += sum(piece.sample_count for piece in pieces)
        implausible = _Implausible()
        implausible.look_for_peaks(pieces, limit_w)
        implausible.look_for_held(pieces)
        left_out_count += len(implausible)
        left_out += implausible.reasons
        at_end_ns, reason = (
            _clipped(pieces) if _may_be_clipped(capability) else (np.zeros(0, np.int64), None)
        )
        if reason is not None:
            clipped.append(reason)
            clipped_count += len(at_end_ns)
        if len(gone_ns := np.union1d(implausible.times_ns, at_end_ns)):
            times_ns[channel.name] = gone_ns
        disagreement = _disagreement(pieces, channel)
        if disagreement is not None:
            checks.append(MeterCheck("redundancy", False, (disagreement,)))
    if left_out:
        checks.append(_share("plausible", left_out_count, sample_count, left_out))
    if clipped:
        checks.append(_share("saturation", clipped_count, sample_count, clipped))
    screened = power.without(times_ns) if times_ns else power
    checks += _of_site(screened, is_loaded=is_loaded)
    return Screening(screened, tuple(checks), (*left_out, *clipped))


def without_contradictions(
    screening: Screening[TraceT],
    channels: Sequence[str],
    idles_ns: Sequence[tuple[int, int]],
    loop_ns: tuple[int, int],
) -> Screening[TraceT]:
    """The recording of a run without the samples that contradict the phases of the run.

    These are samples far below the idle power, and parts of the timed loop that are stuck at a
    value.

    Args:
        screening: The recording, screened.
        channels: Channels of the device.
        idles_ns: Idle windows on the meter's clock; may be empty.
        loop_ns: Timed loop on the meter's clock.

    Raises:
        RunDamaged: the samples cannot be read.
    """
    power, left_out = screening.power, list(screening.left_out)
    times_ns: dict[str, Nanoseconds] = {}
    end_ns = max([loop_ns[1], *(end_ns for _, end_ns in idles_ns)])
    for channel in channels:
        low_ns, idle_w = far_below_idle(power, channel, idles_ns, end_ns)
        if len(low_ns):
            times_ns[channel] = low_ns
            lowest_w = min(piece.lowest_w for piece in power.pieces(channel))
            reason = reasons.below_idle(
                sample_count=len(low_ns), power_w=lowest_w, power_w_idle=idle_w
            )
            left_out.append(reason)
        still_ns, still_w = standing_still_in_loop(power, channel, loop_ns)
        if len(still_ns := np.setdiff1d(still_ns, low_ns)):
            times_ns[channel] = np.union1d(low_ns, still_ns)
            left_out.append(reasons.still_in_loop(sample_count=len(still_ns), power_w=still_w))
    if not times_ns:
        return screening
    return replace(screening, power=power.without(times_ns), left_out=tuple(left_out))


@dataclass(slots=True)
class _Implausible:
    """Samples of a channel that cannot be true."""

    times_ns: Nanoseconds
    reasons: list[Reason]

    def __init__(self) -> None:
        self.times_ns, self.reasons = np.zeros(0, np.int64), []

    def __len__(self) -> int:
        return len(self.times_ns)

    def look_for_peaks(self, pieces: Sequence[TracePiece], limit_w: float) -> None:
        """Find samples whose power, positive or negative, no board can draw."""
        count, highest_w = 0, 0.0
        for piece in pieces:
            if max(abs(piece.lowest_w), abs(piece.highest_w)) > limit_w:
                rows = piece.read()
                is_peak = np.abs(rows.power_w) > limit_w
                self.times_ns = np.union1d(self.times_ns, rows.time_ns[is_peak])
                count += int(np.count_nonzero(is_peak))
                highest_w = max(highest_w, float(np.abs(rows.power_w).max()))
        if count:
            peaks = reasons.peaks_impossible(sample_count=count, power_w=highest_w, limit_w=limit_w)
            self.reasons.append(peaks)

    def look_for_held(self, pieces: Sequence[TracePiece]) -> None:
        """Find values that are stuck, in a source that has noise."""
        count, longest_count = 0, 0
        for place, piece in enumerate(pieces):
            if piece.texture.longest_repeat >= LONG_REPEAT:
                rows = piece.read()
                is_held = held_in(rows, is_end=place == len(pieces) - 1)
                if is_held.any():
                    self.times_ns = np.union1d(self.times_ns, rows.time_ns[is_held])
                    count += int(np.count_nonzero(is_held))
                    longest_count = max(longest_count, piece.texture.longest_repeat)
        if count:
            self.reasons.append(
                reasons.values_held(sample_count=count, longest_count=longest_count)
            )


def _may_be_clipped(capability: Capability) -> bool:
    """Whether repeated highest values show the end of the instrument's range.

    A counter has no range, and has less noise under load. For an instrument with several ranges,
    the end of each range is known, and a higher range has larger steps than the range that shows
    the noise.
    """
    has_ranges = any(limit.range is not None for limit in capability.current_limits)
    return not capability.is_counter and not has_ranges


def _clipped(pieces: Sequence[TracePiece]) -> tuple[Nanoseconds, Reason | None]:
    """Times of the samples at the end of the instrument's range, and the reason to report."""
    nothing = np.zeros(0, np.int64)
    highest = max((piece.texture.highest for piece in pieces), default=0.0)
    suspicious = [piece for piece in pieces if piece.texture.highest == highest]
    if sum(piece.texture.at_highest_count for piece in suspicious) < LONG_REPEAT:
        return nothing, None
    # The first part shows the noise if the loop fills all others.
    parts = [
        piece.read() for piece in {id(piece): piece for piece in (pieces[0], *suspicious)}.values()
    ]
    at_end = clipped_in(parts)
    times_ns = np.concatenate(
        [rows.time_ns[is_at] for rows, is_at in zip(parts, at_end, strict=True)]
    )
    if not len(times_ns):
        return nothing, None
    power_w = max(float(rows.power_w.max()) for rows in parts)
    return times_ns, reasons.values_clipped(sample_count=len(times_ns), power_w=power_w)


def _share(name: str, count: int, sample_count: int, found: Sequence[Reason]) -> MeterCheck:
    """A check that fails if too many samples are left out."""
    ratio = count / sample_count
    share = reasons.too_many_left_out(left_out_ratio=ratio, limit_ratio=LOSS_LIMIT_RATIO)
    return MeterCheck(name, ratio <= LOSS_LIMIT_RATIO, (*found, share))


def _disagreement(pieces: Sequence[TracePiece], channel: Channel) -> Reason | None:
    """Reason why power and voltage times current disagree; None if they agree or are unknown."""
    power_w = product_w = 0.0
    sample_count = sum(piece.sample_count for piece in pieces)
    for piece in pieces:
        if piece.texture.product_w is not None:
            share = piece.sample_count / sample_count
            power_w += share * piece.texture.power_w
            product_w += share * piece.texture.product_w
    if not power_w or not product_w:
        return None
    may_alternate = channel.boundary in _ALTERNATING
    lowest_ratio = LEAST_POWER_FACTOR if may_alternate else 1 / PRODUCT_RATIO
    if lowest_ratio <= abs(power_w / product_w) <= PRODUCT_RATIO:
        return None
    return reasons.product_disagrees(channel=channel.name, power_w=power_w, product_w=product_w)


def _of_site(power: PowerTrace, *, is_loaded: bool) -> list[MeterCheck]:
    """Check the whole device's power: its direction, and whether it is stuck or always 0 W."""
    try:
        site = site_in(power)
    except MeasurementError:  # no value, or no sum: each channel is reported separately
        return []
    pieces = [piece for name in site.channels for piece in power.pieces(name)]
    lowest_w = min((piece.lowest_w for piece in pieces), default=0.0)
    highest_w = max((piece.highest_w for piece in pieces), default=0.0)
    if lowest_w == highest_w == 0 and pieces and site.boundary in _PROCESSOR_BOUNDARIES:
        count = sum(piece.sample_count for piece in pieces)
        dead = reasons.processor_without_power(sample_count=count)
        return [MeterCheck("plausible", False, (dead,))]
    if is_loaded and (still := standing_still(power, site.channels)) is not None:
        return [MeterCheck("plausible", False, (still,))]
    # A load raises the power: if it lowers the power, the meter is connected in reverse. A negative
    # offset of the meter does not grow with the load.
    if is_loaded and -lowest_w > _REVERSED_RATIO * max(highest_w, 0.0):
        mean_w = sum(mean_power_w(power, name) for name in site.channels)
        if mean_w < 0:
            return [MeterCheck("direction", False, (reversed_reason(power.header, mean_w),))]
    return []
