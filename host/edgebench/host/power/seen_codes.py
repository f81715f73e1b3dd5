"""Searches a trace for the load codes of a run one by one, if the pair is not found.

A trace that begins late or ends early contains only one of a run's two load codes. In a trace with
lost samples, the time between the two codes differs from the time between them in the run. In a
trace with a wrong unit of time or a wrong rate, both codes are longer or shorter by the same
factor. So the first code is tried with many lengths. The lengths differ so little that with one of
them, the code's last chip (shortest step) is off by less than half a chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.analysis.energy.sync.find_codes import CodeSearch
from edgebench.host.analysis.energy.sync.load_code import MIN_CORRELATION, Cumulative
from edgebench.host.analysis.energy.windows import CODES_OF_RUN
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import alignment as reasons
from edgebench.protocol.record import LoadCode

MAX_FACTOR = 20.0
"""A code is tried with lengths that are up to this many times longer, or shorter, than in the
run."""
FACTOR_STEP = 1.02
"""Ratio of one tried length of a code to the next shorter one. The true length is within 1 % of a
tried one; over the 31 chips (steps) of a code, this is a third of a chip."""
MAX_SEARCHED_STEPS = 1 << 18
"""Largest number of positions at which a code is tried in a trace. Lengths of the code that need
more positions are skipped."""


def seen_codes(
    codes: Sequence[LoadCode], cumulative: Cumulative, span_ns: tuple[int, int]
) -> Reason | None:
    """Describe where the codes are in the trace; None if no code is found.

    Args:
        codes: Codes of the run, before the warm-up and after the loop.
        cumulative: Energy of the trace.
        span_ns: First and last time of the trace.
    """
    if len(codes) != CODES_OF_RUN:
        return None
    begins_s = [_begin_s(code, cumulative, span_ns) for code in codes]
    apart_s = (codes[1].edges_ns[0] - codes[0].edges_ns[0]) / 1e9
    first_s, second_s = begins_s
    if first_s is not None and second_s is not None:
        return reasons.codes_far_apart(seen_s=second_s - first_s, played_s=apart_s)
    if first_s is not None:
        length_s = (span_ns[1] - span_ns[0]) / 1e9
        return reasons.second_code_absent(first_s=first_s, played_s=apart_s, trace_s=length_s)
    if second_s is not None:
        return reasons.first_code_absent(second_s=second_s, played_s=apart_s)
    factor = _factor(codes[0], cumulative, span_ns)
    return None if factor is None else reasons.code_at_other_rate(factor=factor)


def _begin_s(code: LoadCode, cumulative: Cumulative, span_ns: tuple[int, int]) -> float | None:
    """Time from the beginning of the trace to the code; None if the code is not found."""
    try:
        search = CodeSearch.of(code, cumulative, span_ns)
    except EnergyRefused:
        return None
    best = int(np.argmax(search.correlation))
    if search.correlation[best] < MIN_CORRELATION[1]:
        return None
    return best * search.step_ns / 1e9


def _factor(code: LoadCode, cumulative: Cumulative, span_ns: tuple[int, int]) -> float | None:
    """Factor by which the trace's times must be multiplied; None if the code is not found."""
    edges_ns = np.array(code.edges_ns, np.int64)
    count = round(np.log(MAX_FACTOR) / np.log(FACTOR_STEP))
    best, highest = None, MIN_CORRELATION[1]
    for factor in (FACTOR_STEP ** np.arange(-count, count + 1)).tolist():
        scaled_ns = edges_ns[0] + np.rint((edges_ns - edges_ns[0]) / factor).astype(np.int64)
        steps = (span_ns[1] - span_ns[0]) / np.median(np.diff(scaled_ns))
        if steps > MAX_SEARCHED_STEPS:
            continue
        try:
            scaled = replace(code, edges_ns=tuple(scaled_ns.tolist()))
            correlation = float(CodeSearch.of(scaled, cumulative, span_ns).correlation.max())
        except EnergyRefused:
            continue
        if correlation > highest:
            best, highest = factor, correlation
    return best
