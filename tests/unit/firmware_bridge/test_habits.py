"""Bad habits of boards on pseudo-terminals: the right count, or a refusal with its reason."""

from __future__ import annotations

import re
import time

import pytest
from support.board_habits import COUNT, HABITS, INPUT, OUTPUTS, Habit, HabitBoard

from edgebench.firmware_bridge.board import INFERENCE_S, Board
from edgebench.firmware_bridge.facts import BoardWindow
from edgebench.firmware_bridge.transports.serial_port import SerialLine
from edgebench.firmware_bridge.usb_ids import DEFAULT_BAUD_RATES
from edgebench.host.analysis.verdict.target import CLOCK_LIMIT_RATIO
from edgebench.protocol.errors import TargetError

WITHIN_S = INFERENCE_S / 4
"""Limit of the time of a window or its refusal: a loaded machine takes less, a wait for the whole
silence takes more."""


def measured(device: HabitBoard, taken_s: list[float]) -> tuple[BoardWindow, tuple[float, ...]]:
    """A window, and the outputs of an inference; `taken_s` gets the time of window or refusal."""
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
        assert device.double.ran_count == window.count
        board.load_input(INPUT)  # which the inferences may have overwritten
        outputs = board.window(1, silence_s=habit.silence_s).outputs
        return window, outputs or board.outputs()
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
            assert sum(taken_s) < WITHIN_S
            return
        window, outputs = measured(device, taken_s)
        assert sum(taken_s) < WITHIN_S
    assert window.count == COUNT
    assert device.double.ran_on == INPUT
    assert outputs == OUTPUTS
    assert habit.is_off or window.ticks == habit.ticks
    if habit.is_off:
        assert window.ticks is not None
        ratio = window.ticks / (COUNT * habit.board.inference_us)
        assert abs(ratio - 1) > CLOCK_LIMIT_RATIO
    assert device.double.violations == []


def test_habits_are_distinct_and_many() -> None:
    """Otherwise two rows of one name would count as two habits."""
    assert len({habit.name for habit in HABITS}) == len(HABITS) >= 58
