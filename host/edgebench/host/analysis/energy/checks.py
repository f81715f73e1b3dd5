"""Checks whether a recording of a meter can be trusted; if not, no energy is reported.

    complete      nothing ended the recording early
    calibration   every calibration constant is read from the meter
    loss          at most 0.1 % of the samples are missing. If the meter cannot count the missing
                  samples, the sample rate must show that no more are missing. A hidden loss would
                  shift all later samples in time
    rate          by the host's clock, the sample rate is within 200 ppm of the nominal rate. The
                  limit is wider by the error from samples that may arrive 2 ms late
    saturation    at most 0.1 % of the samples are at the end of the meter's range. These samples
                  add to the uncertainty
    direction     no power flows back from the device

Source: our own. The limit of 0.1 % is below any meter's gain error, and the crystals of instruments
and hosts are within 100 ppm each.
"""

from __future__ import annotations

from edgebench.host.result.energy import MeterCheck
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import recording
from edgebench.host.result.reasons.energy import stated
from edgebench.host.result.reasons.plausible import reversed_columns
from edgebench.meters.base import Flag, Header, LossReport
from edgebench.meters.cable import BACKWARDS_W

LOSS_LIMIT_RATIO = 1e-3
RATE_LIMIT_PPM = 200.0
ARRIVAL_S = 2e-3
"""Maximum delay with which samples arrive. USB polls once per millisecond, and a busy host adds to
this delay."""
COMPLETE = "complete"
"""Id of the check that fails if the recording ended early."""
COLUMNS = "columns"
"""Key in a header's facts: the column of each quantity in an imported table."""
IS_CALIBRATION_STATED = "is_calibration_told"
"""Key in a header's facts: false if the calibration of a file's meter is unknown."""


def check_recording(
    header: Header, loss: LossReport, flags: int, power_w_mean: float | None = None
) -> tuple[MeterCheck, ...]:
    """All checks, in the order of the table at the top of this module.

    Args:
        header: Description of the meter.
        loss: Completeness of the recording.
        flags: All flags that any sample has.
        power_w_mean: Mean power of the whole recording; if None, the direction is not checked.
    """
    rate = _rate(header, loss)
    is_few = loss.saturated_count <= LOSS_LIMIT_RATIO * loss.received_count
    at_end = recording.samples_at_range_end(
        sample_count=loss.saturated_count, bounded_count=loss.bounded_count
    )
    checks = (
        _complete(loss),
        _calibration(header, Flag(flags)),
        _loss(header, loss, rate),
        rate,
        MeterCheck("saturation", is_few, (at_end,)),
    )
    if power_w_mean is None:
        return checks
    is_forwards = power_w_mean >= -BACKWARDS_W
    power = recording.mean_power(power_w_mean=power_w_mean)
    reason = power if is_forwards else reversed_reason(header, power_w_mean)
    return (*checks, MeterCheck("direction", is_forwards, (reason,)))


def reversed_reason(header: Header, power_w_mean: float) -> Reason:
    """Likely reason for a negative power: swapped leads, or the wrong sign of a table's column."""
    columns = header.facts.get(COLUMNS)
    if not isinstance(columns, dict):
        return recording.reversed_power(power_w_mean=power_w_mean)
    names = [repr(columns[quantity]) for quantity in ("power", "current") if quantity in columns]
    return reversed_columns(power_w_mean=power_w_mean, columns=f"column {' or '.join(names)}")


def _complete(loss: LossReport) -> MeterCheck:
    if loss.trouble is not None:
        return MeterCheck(COMPLETE, False, (stated(text=loss.trouble),))
    if not loss.received_count:
        return MeterCheck(COMPLETE, False, (recording.no_samples(),))
    reasons = [recording.samples_received(sample_count=loss.received_count)]
    if loss.torn_bytes:
        # The missing samples would follow the last sample, and no window extends beyond it.
        reasons.append(recording.torn_end(torn_bytes=loss.torn_bytes))
    return MeterCheck(COMPLETE, True, tuple(reasons))


def _calibration(header: Header, flags: Flag) -> MeterCheck:
    if Flag.UNCALIBRATED in flags:
        names = header.facts.get("defaulted")
        shown = ", ".join(map(str, names)) if isinstance(names, (list, tuple)) else ""
        return MeterCheck("calibration", False, (recording.constants_missing(names=shown),))
    if header.facts.get(IS_CALIBRATION_STATED, True) is False:
        return MeterCheck("calibration", None, (recording.not_in_file(),))
    return MeterCheck("calibration", True, (recording.own_constants(),))


def _loss(header: Header, loss: LossReport, rate: MeterCheck) -> MeterCheck:
    # An imported file may mark single samples as missing without detecting other losses.
    is_seen = loss.lost_count or loss.desync_count or loss.is_ambiguous
    if header.capability.loss_detection == "none" and not is_seen:
        return MeterCheck("loss", None, (recording.losses_not_reported(),))
    reasons = [
        recording.samples_lost(
            lost_count=loss.lost_count,
            is_least=loss.is_ambiguous,
            gap_count=len(loss.gaps),
            lost_ratio=loss.lost_ratio,
            limit_ratio=LOSS_LIMIT_RATIO,
        )
    ]
    if loss.desync_count:
        reasons.append(recording.framing_lost(desync_count=loss.desync_count))
    is_passed = loss.lost_ratio <= LOSS_LIMIT_RATIO
    if loss.is_ambiguous:
        is_passed &= rate.is_passed is True
        excludes = recording.rate_shows_no_more
        more = excludes if rate.is_passed else recording.rate_cannot_exclude_more
        reasons.append(more())
    return MeterCheck("loss", is_passed, tuple(reasons))


def _rate(header: Header, loss: LossReport) -> MeterCheck:
    if not header.capability.is_uniform:
        return MeterCheck("rate", None, (recording.own_timestamps(),))
    if header.facts.get(IS_CALIBRATION_STATED, True) is False and loss.rate_error_ppm is None:
        return MeterCheck("rate", None, (recording.not_in_file(),))
    if loss.rate_error_ppm is None or not loss.rate_span_s:
        return MeterCheck("rate", None, (recording.too_short_for_rate(),))
    limit_ppm = RATE_LIMIT_PPM + 1e6 * ARRIVAL_S / loss.rate_span_s
    error = recording.rate_error(
        error_ppm=loss.rate_error_ppm, duration_s=loss.rate_span_s, limit_ppm=limit_ppm
    )
    return MeterCheck("rate", abs(loss.rate_error_ppm) <= limit_ppm, (error,))
