"""The code of work and rest that a meter sees."""

from __future__ import annotations

import signal
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from edgebench.agent.worker.load_code import (
    BUSY_COUNTS,
    CHIP_COUNT,
    MAX_SHIFT_CHIPS,
    MAX_SIDE_LOBE,
    chips_of,
    code_s,
    play,
    shifts_of,
)
from edgebench.agent.worker.stop import StopRequested, StopSwitch
from edgebench.protocol.record import LoadCode

CHIP_NS = 20_000_000
RUN_ID = "20260102-030405-0123abcd"
CHIPS = chips_of(RUN_ID, 0)
EVEN = (0.0,) * (CHIP_COUNT + 1)
"""Shifts of a code with equal chips."""
LATE_NS = 150_000
"""By which a sleep ends late."""
LOOK_NS = 500


class Time:
    """A clock that advances during each sleep and at each look."""

    def __init__(self) -> None:
        self.now_ns = 7_000_000_000
        self.slept: list[tuple[int, int]] = []

    def clock(self) -> int:
        self.now_ns += LOOK_NS
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        begin_ns = self.now_ns
        self.now_ns += round(seconds * 1e9) + LATE_NS
        self.slept.append((begin_ns, self.now_ns))


@pytest.fixture
def time() -> Time:
    return Time()


def played(time: Time) -> LoadCode:
    """The code, played on a clock of its own."""
    return play(CHIPS, EVEN, CHIP_NS / 1e9, clock=time.clock, sleep=time.sleep)


def signs_of(run_id: str, number: int) -> NDArray[np.float64]:
    return np.where(chips_of(run_id, number), 1.0, -1.0)


def test_code_does_not_resemble_a_shifted_copy_of_itself() -> None:
    """Otherwise a host would find the code in several places of the trace, and take a wrong one."""
    assert (CHIP_COUNT, BUSY_COUNTS, MAX_SIDE_LOBE) == (31, (15, 16, 17), 6)
    for run in range(200):
        signs = signs_of(f"run-{run}", run % 2)
        lobes = np.correlate(signs, signs, "full")
        assert lobes.max() == 31
        assert np.abs(np.delete(lobes, 30)).max() <= 6
        assert 15 <= (signs > 0).sum() <= 17
        assert signs[0] == signs[-1] == 1
        assert (signs[1:] != signs[:-1]).sum() >= 14


def test_codes_belong_to_their_run() -> None:
    """Otherwise the recording of another run would give this run its energy."""
    runs = [(signs_of(f"run-{run}", 0), signs_of(f"run-{run}", 1)) for run in range(60)]
    for one, other in combinations(runs, 2):
        # Mean correlation of both codes at equal shifts, as the host searches them.
        both = [np.correlate(a, b, "full") / 31 for a, b in zip(one, other, strict=True)]
        assert np.mean(both, axis=0).max() < 0.65


def test_code_is_the_same_in_every_process() -> None:
    """Otherwise a run that is repeated by another agent would have other chips."""
    shown = "".join("X" if is_busy else "." for is_busy in CHIPS)
    assert shown == "X...X.XXXXXX..X..X....XX.X...XX"
    assert chips_of("20260102-030405-0123abcd", 1) != CHIPS


def test_code_begins_and_ends_with_work_between_two_rests(time: Time) -> None:
    """Otherwise the first or the last edge would be lost in whatever is done before or after."""
    code = played(time)
    assert code.is_busy[0]
    assert code.is_busy[-1]
    (first_begin, first_end), (last_begin, last_end) = time.slept[0], time.slept[-1]
    assert first_end - first_begin >= CHIP_NS
    assert first_end <= code.edges_ns[0] < first_end + 3 * LOOK_NS
    assert code.edges_ns[-1] <= last_begin < code.edges_ns[-1] + 3 * LOOK_NS
    assert last_end - last_begin >= CHIP_NS - LATE_NS


def test_edges_are_what_was_done_and_do_not_drift(time: Time) -> None:
    """Otherwise a late sleep would delay the rest of the code, or the edges state what was due."""
    edges_ns = played(time).edges_ns
    assert len(edges_ns) == len(CHIPS) + 1
    assert all(begin < end for begin, end in pairwise(edges_ns))
    late_ns = [
        edge - edges_ns[0] - index * CHIP_NS + LATE_NS for index, edge in enumerate(edges_ns)
    ]
    assert all(0 <= late < LATE_NS + 5 * LOOK_NS for late in late_ns)
    for late, was_busy in zip(late_ns[1:], CHIPS, strict=True):
        assert (late >= LATE_NS) != was_busy


def test_edges_are_shifted_by_the_run(time: Time) -> None:
    """Otherwise all edges might fall on one moment between two samples of a meter."""
    shifts = shifts_of(RUN_ID, 0)
    code = play(CHIPS, shifts, CHIP_NS / 1e9, clock=time.clock, sleep=time.sleep)
    shifted_ns = [
        edge - code.edges_ns[0] - index * CHIP_NS for index, edge in enumerate(code.edges_ns)
    ]
    for late_ns, shift in zip(shifted_ns, shifts, strict=True):
        assert abs(late_ns - shift * CHIP_NS) <= LATE_NS + 5 * LOOK_NS
    assert max(map(abs, shifts)) <= MAX_SHIFT_CHIPS == 1 / 16
    # Moments within an eighth of a chip, the interval of the slowest meter, are spread.
    phases = np.exp(2j * np.pi * 8 * (np.arange(CHIP_COUNT + 1) + shifts)[1:-1])
    assert abs(phases.mean()) < 0.5
    assert shifts == shifts_of(RUN_ID, 0) != shifts_of(RUN_ID, 1)


def test_device_rests_just_in_the_chips_of_rest(time: Time) -> None:
    """Otherwise the power would not follow the code that the record states."""
    code = played(time)
    for begin, end, is_busy in zip(code.edges_ns, code.edges_ns[1:], code.is_busy, strict=False):
        slept_ns = sum(to - since for since, to in time.slept if begin <= since < end)
        assert (slept_ns == 0) if is_busy else (slept_ns > 0.9 * CHIP_NS)


def test_length_is_told_beforehand(time: Time) -> None:
    """Otherwise a host that waits for a device would take it for lost while it plays."""
    begin_ns = time.now_ns
    played(time)
    assert time.now_ns - begin_ns == pytest.approx(code_s(CHIP_NS / 1e9) * 1e9, rel=1e-3)


def test_stop_ends_the_code(time: Time) -> None:
    """Otherwise Ctrl-C would wait for a code of five minutes."""

    def stopped(seconds: float) -> None:
        time.sleep(seconds)
        if len(time.slept) == 3:
            signal.raise_signal(signal.SIGTERM)

    before, switch = signal.getsignal(signal.SIGTERM), StopSwitch()
    switch.install()
    try:
        with pytest.raises(StopRequested), switch.armed():
            play(CHIPS, EVEN, CHIP_NS / 1e9, clock=time.clock, sleep=stopped)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(time.slept) == 3
