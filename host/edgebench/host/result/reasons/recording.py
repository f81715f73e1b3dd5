"""Reasons for the outcomes of the checks of a power recording."""

from __future__ import annotations

from edgebench.host.result.reason import ReasonKind
from edgebench.protocol.percent import format_percent


@ReasonKind
def samples_received(*, sample_count: int) -> str:
    return _counted(sample_count, "sample")


@ReasonKind
def no_samples() -> str:
    return "no sample was received"


@ReasonKind
def torn_end(*, torn_bytes: int) -> str:
    return f"cut off as by a crash: the last {torn_bytes} bytes are an incomplete packet"


@ReasonKind
def own_constants() -> str:
    return "the meter's own"


@ReasonKind
def constants_missing(*, names: str) -> str:
    missing = f": {names}" if names else ""
    return f"the meter did not send all constants{missing}"


@ReasonKind
def not_in_file() -> str:
    return "not stated in the file"


@ReasonKind
def losses_not_reported() -> str:
    return "this meter does not report lost samples"


@ReasonKind
def samples_lost(
    *, lost_count: int, is_least: bool, gap_count: int, lost_ratio: float, limit_ratio: float
) -> str:
    least = " at least" if is_least else ""
    gaps = f"{_counted(lost_count, 'sample')}{least} in {_counted(gap_count, 'gap')}"
    return f"{gaps}, {format_percent(lost_ratio, 3)}, limit {format_percent(limit_ratio, 1)}"


@ReasonKind
def framing_lost(*, desync_count: int) -> str:
    return f"framing lost {_counted(desync_count, 'time')}"


@ReasonKind
def rate_shows_no_more() -> str:
    return "the sample rate shows no further lost samples"


@ReasonKind
def rate_cannot_exclude_more() -> str:
    return "the sample rate cannot rule out further lost samples"


@ReasonKind
def own_timestamps() -> str:
    return "samples have their own timestamps"


@ReasonKind
def too_short_for_rate() -> str:
    return "the recording is too short to compare the meter's clock with the host's"


@ReasonKind
def rate_error(*, error_ppm: float, duration_s: float, limit_ppm: float) -> str:
    error = f"{error_ppm:+.0f} ppm against the host's clock over {duration_s:.1f} s"
    return f"{error}, limit {limit_ppm:.0f} ppm"


@ReasonKind
def samples_at_range_end(*, sample_count: int, bounded_count: int) -> str:
    before = f", {bounded_count} of them right before a switch to a higher range"
    samples = f"{_counted(sample_count, 'sample')} at the end of the meter's range"
    return f"{samples}{before}" if bounded_count else samples


@ReasonKind
def mean_power(*, power_w_mean: float) -> str:
    return f"{power_w_mean:.3g} W on average"


@ReasonKind
def reversed_power(*, power_w_mean: float) -> str:
    return f"{power_w_mean:.3g} W on average: the meter's wires are reversed"


@ReasonKind
def whole_left_out(*, whole: str, used: str) -> str:
    return f"{whole} is left out, because its power is below that of its part {used}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
