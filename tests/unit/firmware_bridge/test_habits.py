"""Bad habits of boards on pseudo-terminals: the right count, or a refusal with its reason."""

from __future__ import annotations

import re
import time

import pytest
from support.board_habits import COUNT, HABITS, INPUT, OUTPUTS, Habit, HabitBoard

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.facts import BoardWindow
from edgebench.firmware_bridge.transports.serial_port import SerialLine
from edgebench.firmware_bridge.usb_ids import DEFAULT_BAUD_RATES
from edgebench.host.analysis.verdict.target import CLOCK_LIMIT_RATIO
from edgebench.protocol.errors import TargetError


def measured(device: HabitBoard, taken_s: list[float]) -> tuple[BoardWindow, tuple[float, ...]]:
    """A window with its outputs; `taken_s` gets the time of the window, or of its refusal."""
    habit = device.habit
    board = Board(SerialLine(device.path, DEFAULT_BAUD_RATES[0]), timing=habit.timing)
    device.opened.set()
    try:
        board.connect(DEFAULT_BAUD_RATES if habit.baud_rate else ())
        board.load_input(INPUT)
        begin_s = time.monotonic()
        try:
            window = board.window(COUNT, warmup_count=1, silence_s=habit.silence_s)
        finally:
            taken_s.append(time.monotonic() - begin_s)
        return window, window.outputs or board.outputs()
    finally:
        board.close()


@pytest.mark.parametrize("habit", HABITS, ids=[habit.name for habit in HABITS])
def test_habit_has_the_right_count_or_a_refusal(habit: Habit) -> None:
    """Otherwise a number of a board with this habit would be wrong, or its run hang."""
    taken_s: list[float] = []
    with HabitBoard(habit) as device:
        if habit.refusal:
            with pytest.raises(TargetError) as refused:
                measured(device, taken_s)
            assert re.search(habit.refusal, str(refused.value)), refused.value
            assert sum(taken_s) < habit.within_s
            return
        window, outputs = measured(device, taken_s)
        assert sum(taken_s) < habit.within_s
    assert (window.count, device.double.ran_count) == (COUNT, COUNT)
    assert device.double.ran_on == INPUT
    assert outputs == OUTPUTS
    assert habit.is_off or window.ticks == habit.ticks
    if habit.is_off:
        assert window.ticks is not None
        ratio = window.ticks * 1000 / (window.ended_ns - window.began_ns)
        assert abs(ratio - 1) > CLOCK_LIMIT_RATIO
    assert device.double.violations == []


def test_habits_are_distinct_and_many() -> None:
    """Otherwise two rows of one name would count as two habits."""
    assert len({habit.name for habit in HABITS}) == len(HABITS) >= 58
