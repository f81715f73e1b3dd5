"""Parts of a timed loop in which a source is stuck at a value, although it has noise elsewhere.

Theory of operation. A loop repeats the same inference, so its power is constant, or has levels that
recur with each inference. The source did not measure in a part of the loop under two conditions:

- the values scatter in most of the loop, but are all equal in this part
- the power of this part never occurs elsewhere in the loop

The possible causes: the instrument was at the end of its range, a counter stopped, or a program
repeated the last value of the idle time. A change of the load, such as a lower clock, has noise at
the new level, too.

A source whose values do not scatter in the loop, such as a plug with steps of 0.1 W, shows no
difference between such a part and another load.
"""

from __future__ import annotations

import numpy as np

from edgebench.host.analysis.energy.integrate import Nanoseconds
from edgebench.host.analysis.energy.plausible.repeats import noise_of
from edgebench.host.analysis.energy.plausible.texture import runs_in
from edgebench.host.analysis.energy.power_trace import PowerTrace

_STILL = 3
"""Minimum number of equal samples in a row for a stuck part. Three samples with noise of two steps
are equal once in 400 cases. A single sample is examined as a spike instead (see
`values.loop_spikes`)."""
_MAX_PARTS = 3
"""Maximum number of stuck parts of a loop; more such parts are rather pauses between inferences."""
_LEAST_COUNT = 8
"""Minimum number of differences, and of different values, from which the noise of the loop outside
a stuck part is judged."""
_BEYOND_SIGMAS = 4.0
"""Minimum distance between a stuck value and all other values of the loop, in standard
deviations."""


def standing_still_in_loop(
    power: PowerTrace, channel: str, loop_ns: tuple[int, int]
) -> tuple[Nanoseconds, float]:
    """Times of the samples in stuck parts of the loop, and the power of the longest such part.

    Args:
        power: The recording.
        channel: Channel of the device.
        loop_ns: Begin and end of the timed loop on the meter's clock.
    """
    time_ns, power_w = power.samples(channel, *loop_ns)
    is_known = np.isfinite(power_w)
    time_ns, power_w = time_ns[is_known], power_w[is_known]
    nothing = np.zeros(0, np.int64), 0.0
    if len(power_w) <= _STILL:
        return nothing
    starts, ends = runs_in(np.diff(power_w) == 0)
    lengths = ends - starts + 1
    is_loose = np.repeat(lengths < _STILL, lengths)
    noise = noise_of(power_w, is_loose)
    if not noise.is_seen_in(_LEAST_COUNT, _LEAST_COUNT):
        return nothing
    loose_w = power_w[is_loose]
    margin_w = _BEYOND_SIGMAS * noise.sigma
    levels_w = power_w[starts]
    is_beyond = (levels_w > loose_w.max() + margin_w) | (levels_w < loose_w.min() - margin_w)
    is_still = (lengths >= _STILL) & is_beyond
    if not 0 < np.count_nonzero(is_still) <= _MAX_PARTS:
        return nothing
    longest = int(np.argmax(np.where(is_still, lengths, 0)))
    return time_ns[np.repeat(is_still, lengths)], float(levels_w[longest])
