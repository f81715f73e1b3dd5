"""Whether a recording is trusted, by what is known to be missing in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.energy import header
from support.ppk2 import CALIBRATION, words_for

from edgebench.host.analysis.energy.checks import check_recording
from edgebench.host.result.energy import MeterCheck
from edgebench.meters.base import Gap, LossReport, Packet
from edgebench.meters.ppk2.decoder import Ppk2Decoder, Ppk2Settings

GAP = Gap(0, 1, 3, "words lost")


def loss_check(loss: LossReport, **capability: Any) -> MeterCheck:
    """Return the check of the losses."""
    checks = check_recording(header(**capability), loss, 0)
    (found,) = [check for check in checks if check.id == "loss"]
    return found


def lost(
    rate_error_ppm: float | None, *, desync_count: int = 0, is_ambiguous: bool = True
) -> LossReport:
    """Return a loss of three samples in a million, or of a multiple of 64 more."""
    return LossReport(
        received_count=1_000_000,
        lost_count=3,
        is_ambiguous=is_ambiguous,
        desync_count=desync_count,
        gaps=(GAP,),
        rate_error_ppm=rate_error_ppm,
        rate_span_s=None if rate_error_ppm is None else 10.0,
    )


@pytest.mark.parametrize(
    ("rate_error_ppm", "is_passed", "said"),
    [
        (10.0, True, "; the sample rate shows no further lost samples"),
        (-5000.0, False, "; the sample rate cannot rule out further lost samples"),
        (None, False, "; the sample rate cannot rule out further lost samples"),
    ],
)
def test_loss_that_may_be_larger_needs_the_rate(
    rate_error_ppm: float | None, is_passed: bool, said: str
) -> None:
    """Otherwise a counter that wrapped a hundred times would show 0.000 % of loss.

    Each window would be that of a later time.
    """
    check = loss_check(lost(rate_error_ppm))
    assert check.is_passed is is_passed
    assert check.detail == f"3 samples at least in 1 gap, 0.000 %, limit 0.1 %{said}"


def test_loss_of_known_size_needs_no_rate() -> None:
    """Otherwise a short recording with a lost packet would be refused, though the loss is known."""
    check = loss_check(lost(None, is_ambiguous=False, desync_count=2))
    assert check.is_passed is True
    assert check.detail.endswith("limit 0.1 %; framing lost 2 times")


def test_meter_without_a_counter_is_not_silent_about_framing() -> None:
    """Otherwise damaged bytes would be ignored, as the meter counts nothing."""
    assert loss_check(LossReport(received_count=9), loss_detection="none").is_passed is None
    damaged = LossReport(received_count=9, desync_count=1, is_ambiguous=True)
    assert loss_check(damaged, loss_detection="none").is_passed is False


def test_framing_that_a_ppk2_lost_is_ambiguous_even_where_its_counter_fits() -> None:
    """Otherwise nothing would seem to be missing.

    64 words are lost, the last of them by half, and the counter goes on.
    """
    decoder = Ppk2Decoder(Ppk2Settings(calibration=CALIBRATION, supply_v=3.3, is_source=False))
    data = words_for(np.full(1000, 2e-3), np.zeros(1000, np.uint8)).tobytes()
    decoder.feed(Packet(0, 0, data[: 400 * 4] + data[464 * 4 - 2 :]))
    decoder.finish()
    loss = decoder.loss()
    assert loss.desync_count == 1
    assert loss.is_ambiguous


@pytest.mark.parametrize(
    ("power_w", "is_passed"), [(1.0, True), (-1e-6, True), (-0.0099, True), (-0.02, False)]
)
def test_power_that_flows_back_is_no_energy_of_a_device(power_w: float, is_passed: bool) -> None:
    """Otherwise a meter with swapped wires would give negative joules, and pass all checks."""
    [*_, check] = check_recording(header(), LossReport(received_count=9), 0, power_w)
    assert (check.id, check.is_passed) == ("direction", is_passed)
    assert ("are reversed" in check.detail) is not is_passed


@pytest.mark.parametrize(
    ("saturated_count", "bounded_count", "is_passed", "said"),
    [
        (0, 0, True, "0 samples at the end of the meter's range"),
        (1, 0, True, "1 sample at the end of the meter's range"),
        (101, 0, False, "101 samples at the end of the meter's range"),
        (3, 3, True, "3 samples at the end of the meter's range, 3 of them right before a"),
        (3, 2, True, "3 samples at the end of the meter's range, 2 of them right before a"),
        (101, 101, False, "101 samples at the end of the meter's range, 101 of them right before"),
    ],
)
def test_few_saturated_samples_are_allowed(
    saturated_count: int, bounded_count: int, is_passed: bool, said: str
) -> None:
    """Otherwise a single sample of 300,000 would refuse a recording, or clipped peaks pass."""
    loss = LossReport(
        received_count=100_000, saturated_count=saturated_count, bounded_count=bounded_count
    )
    (check,) = [one for one in check_recording(header(), loss, 0) if one.id == "saturation"]
    assert check.is_passed is is_passed
    assert check.detail.startswith(said)
