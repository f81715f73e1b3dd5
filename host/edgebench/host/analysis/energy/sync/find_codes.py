"""Possible positions of a run's two load codes in a trace whose clock is unknown.

Theory of operation. The times in a file of another instrument may count from 1970 or from the first
sample, or be wall-clock times. So each code is searched in the whole file, by the correlation of
its chips (elements of the code) with the mean powers at every quarter of a chip. Two codes have the
same distance in the file as on the device, within the error of two clocks. Pairs with another
distance are rejected. The chips are drawn from the id of the run, so the codes of other runs do not
fit. Runs of older agents all played the same chips, so several positions may remain if a file
contains several such runs. Then the codes of the other runs decide: they must be found where the
right position predicts them.

The result is only the first guess for `align_code`, which applies its own limits.

Source: Golomb, Shift Register Sequences (1967), for the autocorrelation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Floats
from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.analysis.energy.sync.load_code import STEPS_PER_CHIP, Cumulative
from edgebench.host.analysis.energy.windows import CODES_OF_RUN
from edgebench.host.result.reasons import alignment as reasons
from edgebench.protocol.errors import CodesNotFound
from edgebench.protocol.record import LoadCode

MAX_STEPS = 1 << 23
"""Maximum number of positions in a file, 40 bytes each, enough for 11 h with chips of 20 ms."""
RATE_LIMIT = 1e-3
"""Maximum rate difference between file clock and device clock. Two crystals differ by at most 2e-4,
and a time server slews the clock of a computer by at most 5e-4 (adjtime, ntpd)."""
MIN_EACH = 0.5
MIN_MEAN = 0.75
"""Minimum correlation of each code (`MIN_EACH`), and minimum mean of the two (`MIN_MEAN`). The
correlation of 31 chips with noise has a standard deviation of 0.18, and the mean of two such
correlations 0.13. A mean of 0.75 is 5.9 of its standard deviations; noise exceeds this mean at one
of a hundred million positions."""
RIVAL_PLACE_RATIO = 0.8
"""A position is a candidate if its correlation is at least this share of the best correlation."""
MAX_PLACES = 64


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Position in the file where both codes of a run are found."""

    line: ClockLine
    """Line from the device's clock to the file's, exact to about a quarter of a code element."""
    correlation: float


@dataclass(frozen=True, slots=True, eq=False)
class CodeSearch:
    """Correlation of a trace with a load code, at every quarter of a chip."""

    first_ns: int
    step_ns: int
    correlation: Floats
    """Correlation with a code that begins at first_ns + index · step_ns, shape (n,)."""

    @classmethod
    def of(
        cls,
        code: LoadCode,
        cumulative: Cumulative,
        span_ns: tuple[int, int],
        step_ns: int | None = None,
    ) -> CodeSearch:
        """Correlate a whole trace with a code.

        Args:
            code: The code as it was played. The chips are evenly spaced, except for stalls and
                for shifts of the edges.
            cumulative: Energy of the trace.
            span_ns: First and last time of the trace.
            step_ns: Distance between the positions; None stands for a quarter of a chip.

        Raises:
            MeasurementError: the trace is shorter than the code, or has too many positions.
        """
        is_busy = np.array(code.is_busy, np.float64)
        half = max(1, len(code.is_busy) // 2)
        edges_ns = np.array(code.edges_ns, np.int64)
        chip_ns = float(np.median(edges_ns[half:] - edges_ns[:-half])) / half
        step_ns = step_ns or max(1, round(chip_ns / STEPS_PER_CHIP))
        count = (span_ns[1] - span_ns[0]) // step_ns
        span_s = (span_ns[1] - span_ns[0]) / 1e9
        if count <= STEPS_PER_CHIP * len(is_busy):
            code_s = chip_ns * len(is_busy) / 1e9
            raise EnergyRefused(reasons.trace_shorter_than_code(trace_s=span_s, code_s=code_s))
        if count > MAX_STEPS:
            raise EnergyRefused(reasons.trace_too_long(trace_s=span_s, chip_s=chip_ns / 1e9))
        energy_j = cumulative(span_ns[0] + np.arange(count, dtype=np.int64) * step_ns)
        chips_w = energy_j[STEPS_PER_CHIP:] - energy_j[:-STEPS_PER_CHIP]
        # Differences of a sum have the sum's rounding error: smaller changes count as constant
        # power.
        rounding_j = 16 * float(np.finfo(np.float64).eps * np.abs(energy_j).max())
        return cls(span_ns[0], step_ns, _correlation(chips_w, is_busy, rounding_j))

    def at(self, begin_ns: float, within_ns: float) -> float:
        """Highest correlation of a code that begins near this time; 0 outside the trace."""
        first = max(0, int((begin_ns - within_ns - self.first_ns) / self.step_ns))
        last = int((begin_ns + within_ns - self.first_ns) / self.step_ns) + 2
        return float(self.correlation[first : max(0, last)].max(initial=0.0))


def _correlation(chips_w: Floats, is_busy: NDArray[np.float64], least_w: float) -> Floats:
    """Correlation of the code with the chips from each position, shape (n,)."""
    count = len(chips_w) - STEPS_PER_CHIP * (len(is_busy) - 1)
    product, total, square = np.zeros(count), np.zeros(count), np.zeros(count)
    chips_w = chips_w - chips_w.mean()  # avoids cancellation in the squares
    for number, sign in enumerate(is_busy - is_busy.mean()):
        first = number * STEPS_PER_CHIP
        here = chips_w[first : first + count]
        product += sign * here
        total += here
        square += here**2
    variance = square - total**2 / len(is_busy)
    scale = np.sqrt(np.maximum(variance, 0.0) * float(((is_busy - is_busy.mean()) ** 2).sum()))
    correlation = np.zeros(count)
    is_flat = variance <= len(is_busy) * least_w**2
    np.divide(product, scale, out=correlation, where=~is_flat)
    return correlation


def find_codes(
    codes: Sequence[LoadCode], cumulative: Cumulative, span_ns: tuple[int, int]
) -> tuple[tuple[CodePlace, ...], CodeSearch]:
    """Positions where both codes are found, best first, and the search for the first code.

    Args:
        codes: Codes of the run, before the warm-up and after the loop.
        cumulative: Energy of the trace.
        span_ns: First and last time of the trace.

    Raises:
        CodesNotFound: there is no such position.
        MeasurementError: the run did not play both codes, or the trace is too short or too long.
    """
    # Imported here: few runs have a code.
    from scipy.ndimage import maximum_filter1d

    if len(codes) != CODES_OF_RUN:
        raise EnergyRefused(
            reasons.few_codes_played(played_count=len(codes), needed_count=CODES_OF_RUN)
        )
    search = CodeSearch.of(codes[0], cumulative, span_ns)
    are_same = codes[0].is_busy == codes[1].is_busy
    later = search if are_same else CodeSearch.of(codes[1], cumulative, span_ns, search.step_ns)
    begins_ns = [code.edges_ns[0] for code in codes]
    apart_ns = begins_ns[1] - begins_ns[0]
    apart = round(apart_ns / search.step_ns)
    reach = int(np.ceil(RATE_LIMIT * apart)) + 1
    first, after = search.correlation, later.correlation
    # The best second code within reach of its predicted position, for each first position.
    second = np.zeros(len(first))
    if apart < len(after):
        found = maximum_filter1d(after, 2 * reach + 1)[apart : apart + len(first)]
        second[: len(found)] = found
    both = np.where((first >= MIN_EACH) & (second >= MIN_EACH), (first + second) / 2, 0.0)
    places: list[CodePlace] = []
    while len(places) < MAX_PLACES and len(both):
        best = int(np.argmax(both))
        highest = float(both[best])
        if highest < MIN_MEAN or (places and highest < RIVAL_PLACE_RATIO * places[0].correlation):
            break
        low = max(0, best + apart - reach)
        other = low + int(np.argmax(after[low : best + apart + reach + 1]))
        slope = (other - best) * search.step_ns / apart_ns - 1
        if abs(slope) * apart_ns < search.step_ns:
            slope = 0.0  # below the resolution of the positions
        offset_ns = search.first_ns + best * search.step_ns - begins_ns[0]
        places.append(CodePlace(ClockLine(begins_ns[0], offset_ns, slope), highest))
        both[max(0, best - 2 * STEPS_PER_CHIP) : best + 2 * STEPS_PER_CHIP + 1] = 0.0
    if not places:
        highest = float(((first + second) / 2).max(initial=0.0))
        raise CodesNotFound(
            f"the run's two load codes are not in the trace: correlation {highest:.2f}, limit "
            f"{MIN_MEAN:g}"
        )
    return tuple(places), search


def choose_place(
    places: Sequence[CodePlace], search: CodeSearch, others: Sequence[LoadCode], twin_count: int = 0
) -> CodePlace:
    """Choose the position of this run, by the codes of other runs of the same device.

    Args:
        places: Positions where both codes of the run are found.
        search: The search that found them.
        others: Codes of other runs of the device with the same chips.
        twin_count: Number of other runs in this run's set whose codes have the same chips and the
            same distance. Such codes fit any of the positions.

    Raises:
        MeasurementError: several positions or several runs fit equally well.
    """
    if len(places) == 1 and not twin_count:
        return places[0]
    counts = [sum(_is_seen(search, place.line, code) for code in others) for place in places]
    best = max(counts)
    if len(places) == 1 and not best:
        raise EnergyRefused(reasons.several_runs_fit(run_count=twin_count + 1))
    if counts.count(best) > 1:
        at_s = [
            (place.line.to_meter(place.line.reference_ns) - search.first_ns) / 1e9
            for place in places
        ]
        shown = ", ".join(f"{time_s:.4g} s" for time_s in sorted(map(float, at_s))[:4])
        raise EnergyRefused(reasons.several_places_fit(place_count=len(places), places=shown))
    return places[counts.index(best)]


def are_alike(codes: Sequence[LoadCode], other: Sequence[LoadCode]) -> bool:
    """Whether the codes of two runs have equal chips and distance, and so look the same."""
    if [code.is_busy for code in codes] != [code.is_busy for code in other]:
        return False
    if not codes or not all(code.edges_ns for code in (*codes, *other)):
        return False
    mine_ns, other_ns = (pair[-1].edges_ns[0] - pair[0].edges_ns[0] for pair in (codes, other))
    chip_ns = float(np.median(np.diff(codes[0].edges_ns)))
    return abs(mine_ns - other_ns) <= RATE_LIMIT * mine_ns + chip_ns


def _is_seen(search: CodeSearch, line: ClockLine, code: LoadCode) -> bool:
    far_ns = abs(code.edges_ns[0] - line.reference_ns)
    within_ns = search.step_ns * STEPS_PER_CHIP / 2 + RATE_LIMIT * far_ns
    return search.at(float(line.to_meter(code.edges_ns[0])), within_ns) >= MIN_MEAN
