"""Whether a recording of a meter can be trusted; no energy is reported from one that cannot.

    complete      nothing ended the recording early
    calibration   every constant comes from the meter
    loss          at most 0.1 % of the samples are missing; if the meter cannot count them, the
                  sample rate must show that no more are missing, because a hidden loss shifts all
                  later samples in time
    rate          the sample rate is within 200 ppm of the nominal rate by the host's clock, plus
                  the error from arrivals that may be 2 ms late
    saturation    no sample is at the end of the meter's range. Samples right before samples in a
                  higher range are excepted: they add to the uncertainty, and may be at most 0.1 %
    direction     no power flows back from the device

Source: our own limits: 0.1 % is below any meter's gain error; the crystals of instruments and
hosts are within 100 ppm each.
"""

from __future__ import annotations

from edgebench.host.result.energy import MeterCheck
from edgebench.meters.base import Flag, Header, LossReport
from edgebench.meters.cable import BACKWARDS_W

LOSS_LIMIT_RATIO = 1e-3
RATE_LIMIT_PPM = 200.0
ARRIVAL_S = 2e-3
"""Maximum delay of an arrival: USB polls once per millisecond, and a busy host adds to it."""
CALIBRATION_TOLD = "is_calibration_told"
"""Fact of a header; false if the calibration of the meter behind a file is unknown."""


def check_recording(
    header: Header, loss: LossReport, flags: int, power_w_mean: float | None = None
) -> tuple[MeterCheck, ...]:
    """All checks, in the order above.

    Args:
        header: Description of the meter.
        loss: Completeness of the recording.
        flags: All flags that any sample has.
        power_w_mean: Mean power of the whole recording; None: skip the direction check.
    """
    if loss.trouble is not None:
        complete = MeterCheck("complete", False, loss.trouble)
    elif not loss.received_count:
        complete = MeterCheck("complete", False, "no sample was received")
    else:
        text = _counted(loss.received_count, "sample")
        if loss.torn_bytes:
            # The missing samples would follow the last sample, and no window extends beyond it.
            text += f"; cut off as by a crash: the last {loss.torn_bytes} bytes are no whole packet"
        complete = MeterCheck("complete", True, text)
    rate = _rate(header, loss)
    text = f"{_counted(loss.saturated_count, 'sample')} at the end of the range"
    if loss.bounded_count:
        text += f", {loss.bounded_count} of them right before a higher range"
    is_few = loss.bounded_count <= LOSS_LIMIT_RATIO * loss.received_count
    checks = (
        complete,
        _calibration(header, Flag(flags)),
        _loss(header, loss, rate),
        rate,
        MeterCheck("saturation", is_few and loss.saturated_count <= loss.bounded_count, text),
    )
    if power_w_mean is None:
        return checks
    text = f"{power_w_mean:.3g} W on average"
    is_forwards = power_w_mean >= -BACKWARDS_W
    if not is_forwards:
        text += ": the meter's wires are the other way round"
    return (*checks, MeterCheck("direction", is_forwards, text))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _calibration(header: Header, flags: Flag) -> MeterCheck:
    if Flag.UNCALIBRATED in flags:
        names = header.facts.get("defaulted")
        shown = f": {', '.join(map(str, names))}" if isinstance(names, (list, tuple)) else ""
        return MeterCheck("calibration", False, f"the meter did not give all constants{shown}")
    if header.facts.get(CALIBRATION_TOLD, True) is False:
        return MeterCheck("calibration", None, "the file does not tell")
    return MeterCheck("calibration", True, "the meter's own")


def _loss(header: Header, loss: LossReport, rate: MeterCheck) -> MeterCheck:
    # An imported file may mark single samples as missing without detecting other losses.
    is_seen = loss.lost_count or loss.desync_count or loss.is_ambiguous
    if header.capability.loss_detection == "none" and not is_seen:
        return MeterCheck("loss", None, "this meter shows no loss")
    more = " at least" if loss.is_ambiguous else ""
    text = (
        f"{_counted(loss.lost_count, 'sample')}{more} in {_counted(len(loss.gaps), 'gap')}, "
        f"{loss.lost_ratio:.3%}, limit {LOSS_LIMIT_RATIO:.1%}"
    )
    if loss.desync_count:
        text += f"; framing lost {_counted(loss.desync_count, 'time')}"
    is_passed = loss.lost_ratio <= LOSS_LIMIT_RATIO
    if loss.is_ambiguous:
        is_passed &= rate.is_passed is True
        would = "does not show" if rate.is_passed else "cannot rule out"
        text += f"; the rate {would} more"
    return MeterCheck("loss", is_passed, text)


def _rate(header: Header, loss: LossReport) -> MeterCheck:
    if not header.capability.is_uniform:
        return MeterCheck("rate", None, "samples have times of their own")
    if header.facts.get(CALIBRATION_TOLD, True) is False and loss.rate_error_ppm is None:
        return MeterCheck("rate", None, "the file does not tell")
    if loss.rate_error_ppm is None or not loss.rate_span_s:
        return MeterCheck("rate", None, "too short to compare the meter's clock with the host's")
    limit_ppm = RATE_LIMIT_PPM + 1e6 * ARRIVAL_S / loss.rate_span_s
    text = (
        f"{loss.rate_error_ppm:+.0f} ppm of the host's clock in {loss.rate_span_s:.1f} s, "
        f"limit {limit_ppm:.0f}"
    )
    return MeterCheck("rate", abs(loss.rate_error_ppm) <= limit_ppm, text)
