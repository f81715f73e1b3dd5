"""The streaming wake-word firmware: windows of audio frames, over a line that damages it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.board_double import InterfaceDouble, LineFaults, StreamingDouble, VirtualLine
from support.terminal_board import TerminalBoard

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.listening import FRAME_NS, ListeningBoard
from edgebench.firmware_bridge.transports.serial_port import SerialLine
from edgebench.protocol.errors import BoardRefusal, LineDamaged, TargetError
from edgebench.protocol.traces import CONSOLE_FILE

SOUND, FRAMES = "short.wav", 40
TICKS = tuple(250 + number % 3 for number in range(FRAMES))


def behind_interface(**changes: object) -> VirtualLine:
    """A line to an interface board that has a sound, with streaming firmware behind it."""
    double = InterfaceDouble(StreamingDouble(), sounds={SOUND: FRAMES}, **changes)  # type: ignore[arg-type]
    return VirtualLine(double)


def listening(
    line: VirtualLine, sound: str = SOUND, directory: Path = Path("/nonexistent")
) -> ListeningBoard:
    """The board at the end of a line, open."""
    board = Board(line)
    board.connect()
    return ListeningBoard(board, directory, sound)


def double_of(line: VirtualLine) -> StreamingDouble:
    """The firmware at the end of a line."""
    board = line.board.board if isinstance(line.board, InterfaceDouble) else line.board
    assert isinstance(board, StreamingDouble)
    return board


def test_sound_is_a_window_of_its_frames_between_two_pulses() -> None:
    """Otherwise a sound's frames would be guessed by its length, or the pulses be others."""
    line = behind_interface()
    board = listening(line)
    before = len(line.pulses_ns)
    timed = board.window(FRAMES, warmup_count=0)
    assert timed.window.count == FRAMES
    assert timed.inference_ticks == TICKS
    assert not timed.is_repeated
    begin_ns, end_ns = line.pulses_ns[before:]
    assert timed.window.begin_ns <= begin_ns < end_ns <= timed.window.end_ns
    assert board.output_bytes() == bytes([FRAMES - 128 - 1 + 256])
    assert line.board.commands[-6:] == [
        "record_detections",
        f"play {SOUND}",
        "dut stop",
        "print_detections",
        *["print_dutycycle"] * 2,
    ]


def test_interface_board_before_july_2025_plays_too() -> None:
    """Otherwise a user would have to flash the interface board before a board can be measured."""
    timed = listening(behind_interface(is_today=False)).window(FRAMES, warmup_count=0)
    assert (timed.window.count, timed.inference_ticks) == (FRAMES, TICKS)


def test_board_that_is_too_slow_for_real_time_keeps_its_times() -> None:
    """Otherwise the times that show it would be discarded as inconsistent edges."""
    timed = listening(behind_interface(frame_ticks=4100)).window(FRAMES, warmup_count=0)
    assert set(timed.inference_ticks) == {4100, 4101, 4102}


def test_sound_is_played_as_often_as_a_window_takes() -> None:
    """Otherwise a window would be as long as the card's file, or a fast clock would replay it."""
    board = listening(behind_interface())
    assert board.window(2 * FRAMES + 4, warmup_count=0).window.count == 3 * FRAMES
    assert board.window(2 * FRAMES + 1, warmup_count=0).window.count == 2 * FRAMES


@pytest.mark.parametrize("changes", [{"has_timer": False}, {"edge_limit": FRAMES - 1}])
def test_single_inferences_have_the_times_that_there_are(changes: dict[str, object]) -> None:
    """Otherwise an interface board that is older, or keeps few edges, would cost the window."""
    timed = listening(behind_interface(**changes)).window(FRAMES, warmup_count=0)
    assert timed.window.count == FRAMES
    assert timed.inference_ticks == (TICKS[:-1] if "edge_limit" in changes else ())


def test_board_with_a_microphone_listens_for_as_long_as_requested(tmp_path: Path) -> None:
    """Otherwise a board whose sound comes from another source could not be measured."""
    double = StreamingDouble()
    line = VirtualLine(double)
    double.clock_ns = line.now_ns
    board = listening(line, "", tmp_path)
    timed = board.window(100, warmup_count=0)
    assert abs(timed.window.count - 100) <= 1
    assert (timed.inference_ticks, board.firmware.tick_rate_hz) == ((), None)
    board.close()
    assert b"Streaming stopped" in (tmp_path / CONSOLE_FILE).read_bytes()


def test_window_of_a_board_with_a_fast_clock_is_accepted() -> None:
    """Otherwise a window of 20 minutes with a frame too many would be taken for damaged."""
    double = StreamingDouble()
    line = VirtualLine(double)
    double.clock_ns = lambda: round(1.015 * line.now_ns())
    count = listening(line, "").window(3000, warmup_count=0).window.count
    assert count == pytest.approx(1.015 * 3000, abs=2)


def test_board_that_receives_no_sound_is_refused() -> None:
    """Otherwise a window without an inference would be a division by zero."""
    line = behind_interface()
    with pytest.raises(BoardRefusal, match=r"received no frame of sound in 1\.\d s: no sound"):
        listening(line, "").window(1, warmup_count=0)


def test_sound_that_is_not_there_is_refused() -> None:
    """Otherwise a window of silence would be measured for an hour."""
    for is_today, text in (
        (True, r"play none\.wav: Error playing file\. Check that the file exists"),
        (False, r"the interface board does not play none\.wav"),
    ):
        line = behind_interface(is_today=is_today)
        board = listening(line, "none.wav")
        with pytest.raises(BoardRefusal, match=text):
            board.window(1, warmup_count=0)
        assert not double_of(line).is_listening, "a board that is given up is stopped"
    with pytest.raises(BoardRefusal, match=r"no interface board, which is needed to play a\.wav"):
        listening(VirtualLine(StreamingDouble()), "a.wav")


@dataclass
class OtherFileDouble(InterfaceDouble):
    """An interface board that receives another name in the first commands to play a file."""

    other: str = ""
    other_count: int = 0

    def _own(self, command: str) -> list[tuple[int, bytes]]:
        if command == f"play {SOUND}" and self.other_count:
            self.other_count -= 1
            command = f"play {self.other}"
        return InterfaceDouble._own(self, command)


@pytest.mark.parametrize("other", [f"not-{SOUND}", "other.wav"])
def test_window_of_another_file_is_repeated_or_refused(other: str) -> None:
    """Otherwise a window would have the activations of another sound."""

    def streaming(count: int) -> ListeningBoard:
        double = OtherFileDouble(
            StreamingDouble(), sounds={SOUND: FRAMES, other: FRAMES}, other=other, other_count=count
        )
        return listening(VirtualLine(double))

    repeated = streaming(2).window(FRAMES, warmup_count=0)
    assert (repeated.window.count, repeated.is_repeated) == (FRAMES, True)
    with pytest.raises(LineDamaged, match=rf"plays {other} instead of {SOUND}"):
        streaming(1000).window(FRAMES, warmup_count=0)


def test_board_that_was_left_listening_is_stopped_first() -> None:
    """Otherwise a run that was killed would make every later run fail."""
    line = behind_interface()
    double_of(line).hear(b"start%")
    assert listening(line).window(FRAMES, warmup_count=0).window.count == FRAMES


def test_edges_of_a_long_sound_are_kept() -> None:
    """Otherwise 20 minutes of edges, one long line of the interface board, would be dropped."""
    double = InterfaceDouble(StreamingDouble(), sounds={SOUND: 8000})
    timed = listening(VirtualLine(double, LineFaults(pieces=(4096,)))).window(1, warmup_count=0)
    assert timed.window.count == len(timed.inference_ticks) == 8000


@pytest.mark.parametrize("is_today", [True, False])
def test_three_boards_are_played_to_at_the_same_time(is_today: bool, tmp_path: Path) -> None:
    """Otherwise streaming would only work on a line of its own clock, and never on a real port."""
    doubles = [
        InterfaceDouble(StreamingDouble(), sounds={SOUND: FRAMES}, is_today=is_today)
        for _ in range(3)
    ]
    with ExitStack() as ports:
        boards = [ports.enter_context(TerminalBoard(board=double)) for double in doubles]

        def measured(board: TerminalBoard) -> tuple[int, tuple[int, ...]]:
            line = Board(SerialLine(board.path, 115_200))
            line.connect()
            streaming = ListeningBoard(line, tmp_path / str(boards.index(board)), SOUND)
            try:
                timed = streaming.window(FRAMES, warmup_count=0)
            finally:
                streaming.close()
            return timed.window.count, timed.inference_ticks

        with ThreadPoolExecutor(3) as threads:
            assert list(threads.map(measured, boards)) == [(FRAMES, TICKS)] * 3


class CutLine(VirtualLine):
    """A line on which the wait for the end of a sound is interrupted."""

    is_cut = False

    def read(self, timeout_s: float) -> object:  # type: ignore[override]
        """Interrupt the first long wait."""
        if timeout_s > 100 and self.is_cut:
            self.is_cut = False
            raise KeyboardInterrupt
        return VirtualLine.read(self, timeout_s)


def test_sound_that_was_cut_off_ends_before_the_board_is_let_go() -> None:
    """Otherwise the next run would find an interface board that plays, or wait for an hour."""
    line = CutLine(InterfaceDouble(StreamingDouble(), sounds={SOUND: FRAMES}))
    board = listening(line)
    line.is_cut = True
    with pytest.raises(KeyboardInterrupt):
        board.window(FRAMES, warmup_count=0)
    assert board.busy_s > 0
    before_ns = line.time_ns
    board.close()
    assert line.time_ns - before_ns <= 2 * FRAMES * FRAME_NS
    assert not double_of(line).is_listening


@settings(max_examples=40, deadline=None)
@given(
    lost_to_board=st.frozensets(st.integers(60, 540), max_size=4),
    lost_to_host=st.frozensets(st.integers(400, 7400), max_size=6),
    pieces=st.lists(st.integers(1, 80), min_size=1, max_size=3),
    is_behind=st.booleans(),
)
def test_damaged_line_costs_a_window_or_nothing(
    lost_to_board: frozenset[int],
    lost_to_host: frozenset[int],
    pieces: list[int],
    is_behind: bool,
) -> None:
    """Otherwise a lost byte would cause another count, or unknown pulses."""
    double = StreamingDouble()
    faults = LineFaults(
        lost_to_board=lost_to_board, lost_to_host=lost_to_host, pieces=tuple(pieces)
    )
    far = InterfaceDouble(double, sounds={SOUND: FRAMES}) if is_behind else double
    line = VirtualLine(far, faults)
    if not is_behind:
        double.clock_ns = line.now_ns
    try:
        board = listening(line, SOUND if is_behind else "")
        before = len(line.pulses_ns)
        timed = board.window(FRAMES, warmup_count=0)
    except TargetError:
        assert lost_to_board or lost_to_host, "whole lines give a window"
        return
    assert timed.window.count == double.heard_count
    assert timed.is_repeated or len(line.pulses_ns) - before == 2
    assert not timed.inference_ticks or set(timed.inference_ticks) <= {250, 251, 252}
    assert double.violations == []
