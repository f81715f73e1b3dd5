"""Random idle gaps in the timed loop, for a meter that takes instantaneous samples.

Theory of operation. The meter times its samples with its own clock. If the duration of an inference
is close to a multiple of the sample interval, all samples fall on the same few moments of an
inference. The energy is then wrong if the power at these moments differs from the mean power. After
a gap of random length, the samples fall on other moments. So the loop makes a gap from time to
time. The length of a gap is drawn uniformly from 0 to a sample interval:

    inferences   |----|----|----|    |----|----|----|  |----|----|----|
    samples      '         '         '         '         '         '

The gaps lie between two queries, so no latency includes a gap. The energy of the gaps is
subtracted. Gaps decorrelate the samples from the loop only, not from other activity of the device,
such as timer ticks.

Source: I. Bilinskis & A. Mikelsons, Randomized Signal Processing (1992): samples at random moments
do not alias.
"""

from __future__ import annotations

from random import Random

from edgebench.agent.worker.loop import Pauses
from edgebench.protocol.spec import RunSpec

STRETCH_GAPS = 50
"""Time between two gaps, as a multiple of the longest gap. On average, a gap is half as long as the
longest gap, so the gaps take 1 % of the time."""
STRETCH_QUERIES = 20
"""Least number of queries between two gaps. This number limits the share of queries that follow a
gap. Such queries may be slower, because their data may no longer be in the cache."""


def jitter_for(spec: RunSpec, run_id: str, inference_ns: int) -> Pauses | None:
    """Random gaps of the timed loop; None if the run has none.

    Args:
        spec: Settings of the run.
        run_id: Id of the run, which is the seed of the gaps.
        inference_ns: Typical duration of an inference.
    """
    if not spec.jitter_s:
        return None
    longest_ns = round(1e9 * spec.jitter_s)
    every_ns = max(STRETCH_GAPS * longest_ns, STRETCH_QUERIES * inference_ns)
    return Pauses(every_ns, longest_ns, Random(run_id))
