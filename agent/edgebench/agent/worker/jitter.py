"""Random idle gaps in the timed loop, for a meter that samples instants by its own clock.

Theory of operation. If an inference takes as long as some intervals of the meter, every sample
falls on the same few moments of an inference, and the energy is wrong by what these moments differ
from the others. After a gap of random length, the samples fall on other moments. So the loop makes
a gap from time to time, of a length that is uniform up to a sample interval:

    inferences   |----|----|----|    |----|----|----|  |----|----|----|
    samples      '         '         '         '         '         '

The gaps lie between two queries, so they belong to no latency, and their energy is subtracted. They
decorrelate only the loop from the samples, not other activity of the device, such as its ticks.

Source: I. Bilinskis & A. Mikelsons, Randomized Signal Processing (1992), for samples at random
moments; they do not alias.
"""

from __future__ import annotations

from random import Random

from edgebench.agent.worker.loop import Pauses
from edgebench.protocol.spec import RunSpec

STRETCH_GAPS = 50
"""Time between two gaps, in longest gaps: the gaps take 1 % of the time on average."""
STRETCH_QUERIES = 20
"""Least number of queries between two gaps: the first query after a gap may find a cold cache."""


def jitter_for(spec: RunSpec, run_id: str, inference_ns: int) -> Pauses | None:
    """Random gaps of the timed loop; None if the run has none.

    Args:
        spec: Settings of the run.
        run_id: Id of the run, which is the seed.
        inference_ns: Typical duration of an inference.
    """
    if not spec.jitter_s:
        return None
    longest_ns = round(1e9 * spec.jitter_s)
    every_ns = max(STRETCH_GAPS * longest_ns, STRETCH_QUERIES * inference_ns)
    return Pauses(every_ns, longest_ns, Random(run_id))
