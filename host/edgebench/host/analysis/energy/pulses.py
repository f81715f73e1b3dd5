"""Energy of a board by the pulses of its timestamp pin alone, without any clock of the board.

Theory of operation. In MLPerf Tiny's energy mode a board pulls a pin low before the first and after
the last inference of an `infer`, and the pin is a digital input of the meter. So the ends of each
window are on the meter's own clock, and nothing has to be aligned: energy between two edges over
the number of inferences. Other pulses come before (one when the board starts, one for each
`timestamp`), so which edges are which windows is found by the bridge's clock, roughly: the windows
of a recording are edges in a row whose distances are those of the lines that the bridge read. Lines
may come seconds late on a busy machine; a window is ten seconds long.

The reported energy is that of the median window, as the benchmark's rules ask: five windows, ten
seconds each or more.

Source: MLPerf Tiny, benchmark/runner (energy between the last two events over the count, median of
five) and its rules; edges that the meter samples: a sample's interval on either side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgebench.host.analysis.energy.checks import check_recording
from edgebench.host.analysis.energy.in_step import refuse_few_instants
from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.site import Site, site_in
from edgebench.host.analysis.energy.sync.alignment import Alignment, ClockLine
from edgebench.host.analysis.energy.uncertainty import MeterErrors, UncertainValue
from edgebench.host.analysis.energy.windows import AlignedTrace, in_words
from edgebench.host.result.energy import SyncMethod
from edgebench.protocol.errors import MeasurementError

RULE_WINDOWS = 5
RULE_WINDOW_S = 10.0
"""MLPerf Tiny's rules: the median of five windows, of ten seconds each or more."""
LATE_S = 2.0
"""Lateness of a line, beside the edge that it belongs to, on a machine that is busy."""
LATE_RATIO = 0.2
"""Share of a window by which the lines of short ones may be late at most."""
CLEAR_FACTOR = 2.0
"""Another place for the windows has to be worse by this; else nobody knows which one is right."""
MAX_STARTS = 10_000
"""Most inferences whose starts are laid out evenly, to see whether a meter is in step with them."""


@dataclass(frozen=True, slots=True)
class PulsedWindow:
    """Window of inferences whose ends are pulses, as the bridge knows it."""

    count: int
    """Inferences in it."""
    began_ns: int
    """When the line before its first pulse came, bridge clock."""
    ended_ns: int
    """When the line behind its second pulse came, bridge clock."""


@dataclass(frozen=True, slots=True)
class PulsedEnergy:
    """Energy of one window."""

    window: PulsedWindow
    edges_ns: tuple[int, int]
    """Its ends, meter clock."""
    energy_j_per_inference: UncertainValue
    power_w: UncertainValue

    @property
    def duration_s(self) -> float:
        """Time between its edges, by the meter."""
        return (self.edges_ns[1] - self.edges_ns[0]) / 1e9


@dataclass(frozen=True, slots=True)
class PulsedResult:
    """Energy of several windows of one model."""

    site: Site
    input_number: int
    """Digital input that has the pulses."""
    windows: tuple[PulsedEnergy, ...]
    """In order of time."""

    @property
    def median(self) -> PulsedEnergy:
        """Window with the median energy per inference; of an even number, the lower one."""
        ranked = sorted(self.windows, key=lambda one: one.energy_j_per_inference.value)
        return ranked[(len(ranked) - 1) // 2]

    @property
    def is_by_rule(self) -> bool:
        """Whether there are as many windows as the benchmark asks for, and each is long enough."""
        is_long = all(one.duration_s >= RULE_WINDOW_S for one in self.windows)
        return is_long and len(self.windows) >= RULE_WINDOWS


def pulsed_energy(power: PowerTrace, windows: Sequence[PulsedWindow]) -> PulsedResult:
    """Energy per inference of each window, by the meter's own edges.

    Args:
        power: Recording with a digital input.
        windows: Windows in order of time.

    Raises:
        MeasurementError: the recording cannot be trusted, no input has the pulses, or a window has
            no energy.
    """
    checks = check_recording(power.header, power.loss, power.flags)
    if failed := [check for check in checks if check.is_passed is False]:
        raise MeasurementError(f"{failed[0].id}: {failed[0].detail}")
    refuse_few_instants(power.header.capability)
    site = site_in(power)
    number, edges_ns = find_edges(windows, power.falling_edges())
    period_ns = 1e9 / power.header.capability.rate_hz
    # Windows and trace are of one clock: all that is open is where in a sample an edge was.
    same = Alignment(SyncMethod.EDGE, ClockLine(0, 0.0), period_ns, mark_count=edges_ns.size)
    trace = AlignedTrace(power, site, same)
    errors = MeterErrors(power.header.uncertainty)
    energies: list[PulsedEnergy] = []
    for window, (begin, end) in zip(windows, edges_ns.tolist(), strict=True):
        measured = trace.window(begin, end)
        starts = np.linspace(begin, end, min(window.count, MAX_STARTS), endpoint=False)
        in_step_j = trace.in_step_j(starts.astype(np.int64), (begin, end))
        measured = replace(measured, in_step_j=math.hypot(measured.in_step_j, in_step_j))
        gross = errors.gross_per_inference(measured, window.count)
        if gross.value + gross.u95_absolute < 0:
            raise MeasurementError(
                f"energy is negative, {gross.value:.3g} J per inference: the meter's wires are the "
                "other way round"
            )
        energies.append(PulsedEnergy(window, (begin, end), gross, errors.mean_power(measured)))
    return PulsedResult(site, number, tuple(energies))


def find_edges(
    windows: Sequence[PulsedWindow], edges: Mapping[int, Nanoseconds]
) -> tuple[int, Nanoseconds]:
    """Digital input that has the pulses, and the edges of the windows, shape (windows, 2).

    Args:
        windows: Windows in order of time.
        edges: Falling edges by digital input, meter clock, ascending.

    Raises:
        MeasurementError: no input has them, or they may be in two places.
    """
    if not windows:
        raise MeasurementError("there was no window with pulses")
    ends_s = np.array([(one.began_ns, one.ended_ns) for one in windows]).reshape(-1) / 1e9
    shortest_s = float(np.min(ends_s[1::2] - ends_s[::2]))
    allowed_s = min(LATE_S, LATE_RATIO * shortest_s)
    places = sorted(
        (float(off_s), number, first)
        for number, times in edges.items()
        for first, off_s in enumerate(_off_s(ends_s, times))
    )
    if not places or places[0][0] > allowed_s:
        seen = ", ".join(f"input {number}: {len(times)}" for number, times in edges.items())
        best = (
            f", the best by {in_words(places[0][0])}, limit {in_words(allowed_s)}" if places else ""
        )
        raise MeasurementError(
            f"no digital input has the {len(ends_s)} pulses of {len(windows)} windows{best} "
            f"(falling edges: {seen or 'none'})"
        )
    off_s, number, first = places[0]
    # An input that is wired to the same pin has the same edges, and is no other place.
    rivals = [one for one in places[1:] if one[1] == number]
    if rivals and rivals[0][0] < min(allowed_s, CLEAR_FACTOR * max(off_s, 1e-3)):
        raise MeasurementError(
            f"the pulses of {len(windows)} windows fit input {number} in two places: windows and "
            "the time between them are alike"
        )
    return number, edges[number][first : first + len(ends_s)].reshape(-1, 2)


def _off_s(ends_s: Floats, edges_ns: Nanoseconds) -> Floats:
    """Largest difference in a distance between two ends, for each first edge in a row, shape (k,).

    Differences of one sign are no difference: one line may be late, and all others then seem early.
    So it is half of what the offsets of the ends span.
    """
    if len(edges_ns) < len(ends_s):
        return np.zeros(0)
    rows = np.lib.stride_tricks.sliding_window_view(edges_ns / 1e9, len(ends_s))
    offsets_s = rows - ends_s
    spans_s: Floats = (offsets_s.max(axis=1) - offsets_s.min(axis=1)) / 2
    return spans_s
