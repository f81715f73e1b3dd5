"""The rate of a meter by the arrival of its samples."""

from __future__ import annotations

import pytest

from edgebench.meters.arrival import ArrivalRate

SECOND_NS = 1_000_000_000
RATE_HZ = 1000.0
PACKET = 10
"""In samples."""


def rate_of(
    duration_s: float, *, fast_ppm: float = 0.0, late_from_s: float = 1e9, late_ns: int = 0
) -> ArrivalRate:
    """The rate of a meter whose host is late from a certain second on."""
    found = ArrivalRate(RATE_HZ)
    for count in range(PACKET, int(duration_s * RATE_HZ) + 1, PACKET):
        taken_s = count / RATE_HZ / (1 + fast_ppm * 1e-6)
        late = late_ns if taken_s >= late_from_s else 0
        found.add(round(taken_s * SECOND_NS) + late, count)
    return found


@pytest.mark.parametrize("duration_s", [4.1, 4.3, 4.45, 10.2])
def test_host_that_is_late_for_the_last_packets_is_no_error_of_the_meter(duration_s: float) -> None:
    """Otherwise a busy host would have its energy refused.

    This is the case if a recording ends soon after a second began.
    """
    found = rate_of(duration_s, late_from_s=int(duration_s), late_ns=9_000_000)
    assert found.error_ppm() == pytest.approx(0.0, abs=1.0)


@pytest.mark.parametrize("duration_s", [3.2, 4.0, 4.3, 4.7, 60.2])
@pytest.mark.parametrize("fast_ppm", [-900.0, 500.0])
def test_rate_is_found_however_long_the_last_second_is(duration_s: float, fast_ppm: float) -> None:
    """Otherwise the second before the last would count as the last, and the rate be too low."""
    found = rate_of(duration_s, fast_ppm=fast_ppm)
    assert found.error_ppm() == pytest.approx(fast_ppm, rel=0.01)
    assert found.span_s() is not None


def test_loss_before_the_last_second_is_seen() -> None:
    """Otherwise uncounted samples would be lost, and the energy of the rest be printed."""
    found = rate_of(5.2, late_from_s=2.5, late_ns=20_000_000)
    error_ppm = found.error_ppm()
    assert error_ppm is not None
    assert error_ppm < -4000


def test_two_seconds_are_too_short_to_tell() -> None:
    """Otherwise delays of milliseconds would look like errors of a thousand ppm."""
    assert rate_of(1.9).error_ppm() is None
    assert rate_of(2.3).error_ppm() is None


@pytest.mark.parametrize("late_at_s", [1, 2, 11, 12])
def test_one_late_stamp_is_no_error_of_the_rate(late_at_s: int) -> None:
    """Otherwise one wake-up in twelve that is 20 ms late would read -1802 ppm.

    The recording would be refused.
    """
    found = ArrivalRate(RATE_HZ, bin_s=1.0)
    for second in range(1, 13):
        late_ns = 20_000_000 if second == late_at_s else 0
        found.add(second * SECOND_NS + late_ns, int(second * RATE_HZ))
        # The samples after a stamp are held back until the next stamp.
        found.add(second * SECOND_NS + late_ns + 400_000_000, int(second * RATE_HZ))
    assert found.error_ppm() == pytest.approx(0.0, abs=1.0)


def test_rate_of_stamps_is_found_in_a_short_recording() -> None:
    """Otherwise a recording of four seconds would have no rate, or that of one stamp."""
    found = ArrivalRate(RATE_HZ, bin_s=1.0)
    for second in range(5):
        found.add(round(second * 1.0005 * SECOND_NS), int(second * RATE_HZ))
    assert found.error_ppm() == pytest.approx(-500.0, rel=0.01)
