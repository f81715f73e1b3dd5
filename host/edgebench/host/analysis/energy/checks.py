"""Whether a recording of a meter can be trusted; a number from one that cannot is not printed.

    calibration   every constant is the meter's own
    loss          at most 0.1 % of the samples are missing; where the meter cannot tell how many
                  are, the rate must, as every later sample is of another time otherwise
    rate          the samples come as fast as they should, within 200 ppm of the host's clock, as
                  far as arrivals that may be 2 ms late can tell
    saturation    no sample is at the end of the meter's range
    complete      nothing ended the recording early
    direction     no power flows back from the device

Source: limits are our own: 0.1 % is below any meter's gain error; crystals of instruments
and of hosts are within 100 ppm each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from edgebench.meters.base import Flag, Header, LossReport
from edgebench.meters.cable import BACKWARDS_W

LOSS_LIMIT_RATIO = 1e-3
RATE_LIMIT_PPM = 200.0
ARRIVAL_S = 2e-3
"""USB asks once a millisecond; a busy host is late as well."""
CALIBRATION_TOLD = "is_calibration_told"
"""Fact of a header; false where nothing is known of the meter behind a file."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question."""

    id: str
    is_passed: bool | None
    """None: nobody can tell."""
    detail: str


def check_recording(
    header: Header, loss: LossReport, flags: int, power_w_mean: float | None = None
) -> tuple[Check, ...]:
    """All of them.

    Args:
        header: What the meter is.
        loss: How complete the recording is.
        flags: All flags that any sample has.
        power_w_mean: Of all of it; None: not looked at.
    """
    found = tuple(_checks(header, loss, Flag(flags)))
    return found if power_w_mean is None else (*found, _direction(power_w_mean))


def _direction(power_w_mean: float) -> Check:
    text = f"{power_w_mean:.3g} W on average"
    if power_w_mean >= -BACKWARDS_W:
        return Check("direction", True, text)
    return Check("direction", False, f"{text}: the meter's wires are the other way round")


def _checks(header: Header, loss: LossReport, flags: Flag) -> Iterator[Check]:
    if loss.trouble is not None:
        yield Check("complete", False, loss.trouble)
    elif not loss.received_count:
        yield Check("complete", False, "no sample was received")
    else:
        yield Check("complete", True, _received(loss))
    yield _calibration(header, flags)
    rate = _rate(header, loss)
    yield _loss(header, loss, rate)
    yield rate
    saturated = f"{_counted(loss.saturated_count, 'sample')} at the end of the range"
    yield Check("saturation", loss.saturated_count == 0, saturated)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _received(loss: LossReport) -> str:
    text = _counted(loss.received_count, "sample")
    if loss.torn_bytes:
        # What is missing there is behind the last sample, and no window reaches beyond that.
        text += f"; cut off as by a crash: the last {loss.torn_bytes} bytes are no whole packet"
    return text


def _calibration(header: Header, flags: Flag) -> Check:
    if Flag.UNCALIBRATED in flags:
        return Check("calibration", False, _defaulted(header))
    if header.facts.get(CALIBRATION_TOLD, True) is False:
        return Check("calibration", None, "the file does not tell")
    return Check("calibration", True, "the meter's own")


def _defaulted(header: Header) -> str:
    names = header.facts.get("defaulted")
    shown = f": {', '.join(map(str, names))}" if isinstance(names, (list, tuple)) else ""
    return f"the meter did not give all constants{shown}"


def _loss(header: Header, loss: LossReport, rate: Check) -> Check:
    # An imported file may say of single samples that they are missing, and of others nothing.
    is_seen = loss.lost_count or loss.desync_count or loss.is_ambiguous
    if header.capability.loss_detection == "none" and not is_seen:
        return Check("loss", None, "this meter shows no loss")
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
    return Check("loss", is_passed, text)


def _rate(header: Header, loss: LossReport) -> Check:
    if not header.capability.is_uniform:
        return Check("rate", None, "samples have times of their own")
    if loss.rate_error_ppm is None or not loss.rate_span_s:
        return Check("rate", None, "too short to hold the meter's clock against the host's")
    limit_ppm = RATE_LIMIT_PPM + 1e6 * ARRIVAL_S / loss.rate_span_s
    text = (
        f"{loss.rate_error_ppm:+.0f} ppm of the host's clock in {loss.rate_span_s:.1f} s, "
        f"limit {limit_ppm:.0f}"
    )
    return Check("rate", abs(loss.rate_error_ppm) <= limit_ppm, text)
