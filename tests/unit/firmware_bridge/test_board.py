"""A board that is driven by the bridge, over a line that does whatever a line may do."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.board_double import (
    BoardDouble,
    BoardHabits,
    InterfaceDouble,
    LineFaults,
    StreamingDouble,
    VirtualLine,
)
from support.reference_kernels import BUILT_IN

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.board_model import sent_model
from edgebench.firmware_bridge.dialects.events import Quirk
from edgebench.firmware_bridge.driver import BoardDriver, BoardWithModel, connected
from edgebench.firmware_bridge.exchange import BoardExchange
from edgebench.firmware_bridge.facts import ReadBack, TimestampKind
from edgebench.firmware_bridge.frames import FrameReader
from edgebench.firmware_bridge.generate import generate
from edgebench.firmware_bridge.transports.base import ReceivedBytes
from edgebench.protocol.errors import (
    BoardFault,
    BoardLost,
    BoardRefusal,
    BoardRestarted,
    BoardSilent,
    LineDamaged,
    ModelRefused,
    OtherBoard,
    TargetError,
    UsageError,
)
from edgebench.protocol.traces import CONSOLE_FILE

INPUT = bytes(range(200, 249))
OUTPUTS = (0.0, 0.125, 0.875)


def line_to(habits: BoardHabits | None = None, **faults: Any) -> VirtualLine:
    """A line to a board with these habits."""
    return VirtualLine(BoardDouble(habits or BoardHabits()), LineFaults(**faults))


def double_of(line: VirtualLine) -> BoardDouble:
    """The board at the end of a line."""
    board = line.board.board if isinstance(line.board, InterfaceDouble) else line.board
    assert board is not None
    return board


def measured(line: VirtualLine) -> Board:
    """Everything that a run does, checked against what the double knows."""
    board = Board(line)
    board.connect()
    board.load_input(INPUT)
    window = board.window(70, warmup_count=10)
    double = double_of(line)
    assert double.ran_on == INPUT
    assert (double.ran_count, window.count) == (70, 70)
    assert window.outputs is None, "those of an input that was overwritten"
    assert board.outputs() == OUTPUTS[::-1]
    return board


def test_board_is_measured() -> None:
    """Otherwise nothing would work at all."""
    line = line_to()
    board = measured(line)
    facts = board.facts
    assert (facts.name, facts.model_name, facts.dialect) == ("unspecified", "kws01", "mlperf_tiny")
    assert facts.timestamps is TimestampKind.LAP
    assert (facts.quirks, facts.firmware) == ((), None)
    window = board.window(20)
    assert window.ticks == 20 * 1500
    assert window.tick_rate_hz == 1_000_000
    assert window.inferences is None, "nobody timed a single one"
    assert window.clock_ratio == pytest.approx(1.0, abs=0.05)
    assert window.issued_ns < window.began_ns < window.ended_ns
    assert double_of(line).violations == []


def test_input_is_read_back() -> None:
    """Otherwise a bit that changed on its way would be measured with everything else."""
    line = line_to()
    board = Board(line)
    board.connect()
    assert board.load_input(INPUT) is ReadBack.PRINTED
    assert board.load_input(INPUT, read_back=False) is ReadBack.NONE
    printed = [command for command in double_of(line).commands if command == "db print"]
    assert len(printed) == 1


@pytest.mark.parametrize(
    ("habits", "quirk"),
    [
        (BoardHabits(is_echoing=True), Quirk.ECHO),
        (BoardHabits(has_prefix=False), Quirk.NO_PREFIX),
        (BoardHabits(has_trailing_comma=True), Quirk.TRAILING_COMMA),
        (BoardHabits(name_line="m-name-mine"), Quirk.NAME_FORMAT),
        (BoardHabits(line_end="\n"), None),
        (BoardHabits(line_end="\r"), None),
        (BoardHabits(line_end="\n\r"), None),
        (BoardHabits(greeting="Initialized\nheap 12 KB, ready"), None),
        (BoardHabits(greeting="*** Booting Zephyr OS build v2.7 ***\nError: no SD card"), None),
        (BoardHabits(greeting="m-name-dut-[unspecified]\nm-model-[kws01]"), None),
        (BoardHabits(outputs=("0", "0.125000", "0.875")), None),
        (BoardHabits(window_text="layer 3"), Quirk.TEXT_IN_WINDOW),
        (BoardHabits(window_text="Mean squared error: 0.123"), Quirk.TEXT_IN_WINDOW),
        (BoardHabits(window_text="status: no error"), Quirk.TEXT_IN_WINDOW),
        (BoardHabits(outputs=(".0", "1.25E-01", "0.875")), None),
        (BoardHabits(lap_fraction=".250"), None),
    ],
)
def test_deviations_of_firmware_are_survived_and_named(
    habits: BoardHabits, quirk: Quirk | None
) -> None:
    """Otherwise a board that differs in a comma could not be used, without a reason."""
    line = line_to(habits)
    board = measured(line)
    assert set(board.facts.quirks) == ({quirk} if quirk else set())


@pytest.mark.parametrize("unknown_reply", ["error", "ready", "nothing"])
@pytest.mark.parametrize(
    ("print_bytes", "read_back"),
    [(None, ReadBack.PRINTED), (16, ReadBack.PRINTED), (0, ReadBack.NONE)],
)
def test_firmware_with_fewer_commands_is_measured(
    unknown_reply: Literal["error", "ready", "nothing"],
    print_bytes: int | None,
    read_back: ReadBack,
) -> None:
    """Otherwise a board silent to `x-info`, or printing 16 bytes of its input, would be useless."""
    line = line_to(BoardHabits(unknown_reply=unknown_reply, print_bytes=print_bytes))
    board = measured(line)
    assert board.load_input(INPUT) is read_back
    assert board.facts.firmware is None
    assert double_of(line).violations == []


@pytest.mark.parametrize("unknown_reply", ["ready", "nothing"])
def test_rest_of_a_frame_does_not_hide_the_name(
    unknown_reply: Literal["ready", "nothing"],
) -> None:
    """Otherwise the end of a frame mode that a board lacks would precede each later `name`."""
    line = line_to(
        BoardHabits(unknown_reply=unknown_reply),
        lost_to_board=frozenset([4]),  # the end of the first `name`
        is_started_by_open=False,
    )
    measured(line)


def test_board_that_prints_another_input_is_refused_however_much_it_prints() -> None:
    """Otherwise the first 16 bytes would be compared, and the others taken for right."""
    line = line_to(BoardHabits(print_bytes=16))
    board = Board(line)
    board.connect()
    double_of(line).damaged_at = 20
    with pytest.raises(LineDamaged, match="input on the board differs"):
        board.load_input(INPUT)


@pytest.mark.parametrize(
    "text",
    [
        "e-[Fault]",
        "Guru Meditation Error: Core 0 panic'ed (LoadProhibited).",
        "[00:00:03.000,000] <err> os: ***** BUS FAULT *****",
    ],
)
def test_fault_in_an_upload_is_named(text: str) -> None:
    """Otherwise the bridge would send a model to a stopped board until the last timeout."""
    line = line_to(is_started_by_open=False, before=b"\x03\xff\x85\r\n" + text.encode() + b"\r\n")
    exchange, reader = BoardExchange(line), FrameReader()
    assert exchange.frames(reader, 1.0) == []
    with pytest.raises(BoardFault, match=f"stopped during an upload: {re.escape(text)}$"):
        exchange.frames(reader, 1.0)


def test_results_that_are_no_numbers_are_confirmed() -> None:
    """Otherwise a faulty model's nan, which is not even equal to itself, would go unnoticed."""
    board = Board(line_to(BoardHabits(outputs=("nan", "NAN", "-inf"))))
    board.connect()
    board.load_input(INPUT)
    board.window(1)
    outputs = board.outputs()
    assert [math.isnan(output) for output in outputs] == [True, True, False]


class InterruptedLine(VirtualLine):
    """A line on which the wait for the end of a window is interrupted."""

    def read(self, timeout_s: float) -> ReceivedBytes:
        """Read as usual, until the board is in its window."""
        received = super().read(timeout_s)
        if b"m-infer-start" in received.data:
            raise KeyboardInterrupt
        return received


@pytest.mark.parametrize("is_emulated", [False, True])
def test_window_that_was_cut_off_ends_before_the_board_is_let_go(is_emulated: bool) -> None:
    """Otherwise the next run would find a silent board, or wait for an emulator that ends."""
    line = InterruptedLine(BoardDouble(BoardHabits(inference_us=1_000_000)))
    line.is_emulated = is_emulated
    board = Board(line)
    board.connect()
    board.load_input(INPUT)
    begin_ns = line.time_ns
    with pytest.raises(KeyboardInterrupt):
        board.window(200, silence_s=300.0)
    assert board.busy_s == pytest.approx(0.0 if is_emulated else 300.0, abs=1.0)
    board.close()
    assert line.is_closed
    if is_emulated:
        assert line.time_ns - begin_ns < 1e9
        return
    assert 200 <= (line.time_ns - begin_ns) / 1e9 < 201
    assert list(board.console.entries())[-1].data.endswith(b"m-ready\r\n")
    board.close()


def test_board_that_does_not_end_its_window_is_left(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise a board that hangs would be waited for without an end."""
    line = InterruptedLine(BoardDouble(BoardHabits(inference_us=10_000_000)))
    board = Board(line)
    board.connect()
    board.load_input(INPUT)
    begin_ns = line.time_ns
    with pytest.raises(KeyboardInterrupt):
        board.window(200, silence_s=300.0)
    board.close()
    assert (line.time_ns - begin_ns) / 1e9 == pytest.approx(300.0, abs=1.0)
    assert "/dev/ttyFAKE is still busy" in caplog.text


def test_silence_grows_with_the_window(tmp_path: Path) -> None:
    """Otherwise a long window of a slow board would be given up after two minutes."""
    data = BUILT_IN.read_bytes()
    line = line_to(BoardHabits(input_bytes=64, inference_us=1_000_000))
    board = Board(line)
    board.connect()
    model = sent_model(data, generate(data, model_id="digits"))
    target = BoardWithModel(board, model, tmp_path)
    target.set_input(bytes(64))
    target.window(1, warmup_count=0)
    assert target.window(400, warmup_count=100).window.ticks == 400_000_000
    target.close()
    assert b"infer 400 100" in (tmp_path / CONSOLE_FILE).read_bytes()


def test_energy_mode_has_pulses_instead_of_laps() -> None:
    """Otherwise a window without a time would fail, or have a time that was never measured."""
    line = line_to(BoardHabits(is_energy=True))
    board = Board(line)
    assert board.connect().timestamps is TimestampKind.PULSE
    pulses = double_of(line).pulse_count
    board.load_input(INPUT)
    window = board.window(7)
    assert double_of(line).pulse_count - pulses == 2
    assert (window.laps, window.ticks, window.duration_ns) == (None, None, None)
    assert window.ended_ns - window.began_ns == pytest.approx(7 * 1500e3, rel=0.3)


def test_mode_is_asked_for_where_no_start_was_heard() -> None:
    """Otherwise a board that was on before the bridge came would have no known timestamps."""
    for is_energy, kind in ((False, TimestampKind.LAP), (True, TimestampKind.PULSE)):
        line = line_to(BoardHabits(is_energy=is_energy), is_started_by_open=False)
        assert Board(line).connect().timestamps is kind


def test_laps_are_used_also_where_nobody_said_that_there_are_any() -> None:
    """Otherwise firmware without `timestamp`, whose start was missed, would lack its times."""
    line = line_to(BoardHabits(has_timestamp=False), is_started_by_open=False)
    assert measured(line).window(3).ticks == 4500


def test_laps_across_a_wrap_of_the_counter() -> None:
    """Otherwise a window at the end of 71.6 minutes would be negative, or 71 minutes long."""
    board = measured(line_to(BoardHabits(lap_begin_us=(1 << 32) - 60_000)))
    windows = [board.window(10) for _ in range(4)]
    assert [one.ticks for one in windows] == [15_000] * 4
    slow = Board(line_to(BoardHabits(inference_us=100_000_000)))
    slow.connect()
    slow.load_input(INPUT)
    window = slow.window(100, silence_s=20_000)
    assert window.ticks == 100 * 100_000_000, "two whole turns of the counter"


def test_laps_wider_than_32_bits_do_not_wrap() -> None:
    """Otherwise firmware on a larger machine would seem to have run backwards."""
    board = measured(line_to(BoardHabits(lap_begin_us=(1 << 32) + 5, lap_bits=64)))
    assert board.window(10).ticks == 15_000


def test_board_behind_an_interface_board() -> None:
    """Otherwise the interface board's own `m-ready` would be taken for the board's."""
    line = VirtualLine(InterfaceDouble(BoardDouble(BoardHabits(is_energy=True))))
    board = measured(line)
    assert board.facts.dialect == "interface_board+mlperf_tiny"
    commands = line.sent.decode("latin-1").split("%")
    assert max(len(command) for command in commands) < 64
    assert double_of(line).violations == []


@pytest.mark.parametrize("name_line", ["tinyML Enhanced Interface Board", "m-name-io-[IO Manager]"])
def test_laps_of_an_interface_board_are_not_those_of_the_board(name_line: str) -> None:
    """Otherwise a window in energy mode would have an unknown clock's time, or never complete."""
    double = BoardDouble(BoardHabits(is_energy=True))
    board = measured(VirtualLine(InterfaceDouble(double, name_line=name_line, is_timing=True)))
    assert board.facts.timestamps is TimestampKind.PULSE
    window = board.window(20)
    assert (window.laps, window.ticks, window.attempt_count) == (None, None, 1)


@pytest.mark.parametrize(
    "text",
    [
        "Invoke failed",
        "error(th_infer): no interrupt",
        "fail to execute ret = 3",
        "E (5120) tflite: Invoke() failed",
        "E (5120) NN: Node CONV_2D (number 3f) failed to invoke with status 1",
        "[00:00:05.120,000] <err> main: th_infer failed: -5",
        "AllocateTensors() failed",
        "Inference error -22",
    ],
)
def test_inference_that_failed_is_refused(text: str) -> None:
    """Otherwise the results of the previous inference would count, with too short a time."""
    board = Board(line_to(BoardHabits(window_text=text)))
    board.connect()
    board.load_input(INPUT)
    with pytest.raises(BoardRefusal, match=rf"failed, the board reports: {re.escape(text)}$"):
        board.window(1)


LOG_LINES = [
    # ESP-IDF, with the time since the start and with that of the day
    "I (1234) wifi: disconnect reason, error code 0x0",
    "W (5120) wifi: failed to connect, retry 3",
    "E (14:02:11.120) esp-tls: [sock=48] delayed connect error: Connection reset by peer",
    "E (812) spi_flash: Detected size(4096k) smaller than the size in the header. Probe failed.",
    # arduino-esp32
    "[  5120][E][WiFiGeneric.cpp:1040] _eventCallback(): Reason: 201 - failed",
    # Zephyr
    "[00:00:01.234,567] <err> net_dhcpv4: Cannot send, error -11",
    "[00:00:05.120,000] <wrn> bt_hci_core: opcode 0x0c03 status 0x1f: failure",
    "uart:~$ error",
    # nRF5 SDK, Mbed, NuttX, FreeRTOS, RT-Thread
    "<error> app: ERROR 4 [NRF_ERROR_NO_MEM] at main.c:120",
    "[ERR ][wsni]: join failed, error 5",
    "[    5.120000] nsh: mount: mount failed: 19",
    "12 5120 [iot_thread] [ERROR] MQTT connect failed",
    "[E/wlan.mgnt] F:rt_wlan_connect L:1029 not find ap! ap_name:x, error",
]
"""Lines of tasks next to the inference, in the formats of their systems' logs."""


@pytest.mark.parametrize("text", LOG_LINES)
def test_log_of_another_task_ends_no_run(text: str) -> None:
    """Otherwise a board whose radio loses its network for a moment could not be measured."""
    board = Board(line_to(BoardHabits(window_text=text)))
    board.connect()
    board.load_input(INPUT)
    assert board.window(1).outputs is not None
    assert Quirk.TEXT_IN_WINDOW in board.facts.quirks


@pytest.mark.parametrize("text", LOG_LINES[:1])
def test_error_without_a_result_is_refused(text: str) -> None:
    """Otherwise an inference that the board gave up would have a time, but no error text."""
    board = Board(line_to(BoardHabits(window_text=text, has_results=False)))
    board.connect()
    board.load_input(INPUT)
    with pytest.raises(BoardRefusal, match=r"has no result; the board printed: I \(1234\) wifi"):
        board.window(1)


def test_interface_board_without_a_board() -> None:
    """Otherwise a user would look for the fault in the interface board, which responds."""
    board = Board(VirtualLine(InterfaceDouble(None)))
    with pytest.raises(BoardSilent, match="responds, but the board behind it does not"):
        board.connect()


@pytest.mark.parametrize("is_behind", [False, True])
def test_streaming_firmware_is_recognised(is_behind: bool) -> None:
    """Otherwise its echo would be taken for a response, and its errors for text."""
    double = StreamingDouble()
    line = VirtualLine(InterfaceDouble(double) if is_behind else double)
    board = Board(line)
    facts = board.connect()
    assert facts.dialect.endswith("mlperf_tiny_streaming")
    assert (facts.model_name, facts.timestamps) == ("sww01", None)
    assert board.load_input(INPUT) is ReadBack.PRINTED
    assert bytes(double.buffer) == INPUT
    with pytest.raises(UsageError, match="cannot run single inferences"):
        board.window(1)


def test_streaming_firmware_takes_no_model() -> None:
    """Otherwise a run would be admitted with a file that the board never runs."""
    with pytest.raises(ModelRefused, match="accepts no model: its streaming firmware contains"):
        connected(Board(VirtualLine(StreamingDouble())))


@pytest.mark.parametrize("model", [None, BUILT_IN])
def test_board_that_hears_nothing_refuses_a_sound(
    model: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the file that was named would silently never be played."""
    monkeypatch.setattr("edgebench.firmware_bridge.driver.open_line", lambda *_: line_to())
    with pytest.raises(UsageError, match=r"does not process sound: ,play=a\.wav is for streaming"):
        BoardDriver().open(
            "/dev/x,play=a.wav", model, tmp_path, model_name="a", on_bytes=lambda *_: None
        )


@pytest.mark.parametrize("model", [None, BUILT_IN])
def test_board_of_another_name_than_the_seat_is_refused(
    model: Path | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a run would be stored under the board whose place another one has taken."""
    line = line_to()
    monkeypatch.setattr("edgebench.firmware_bridge.driver.open_line", lambda *_: line)
    with pytest.raises(OtherBoard, match="identified as 'left', but now reports the name 'unspec"):
        BoardDriver().open(
            "/dev/x",
            model,
            tmp_path,
            model_name="a",
            on_bytes=lambda *_: None,
            reported_name="left",
        )
    assert line.is_closed
    assert double_of(line).buffer == b""


def test_input_that_is_too_large_is_refused_by_the_board() -> None:
    """Otherwise the reference would accept a size that it has no room for, and be written over."""
    line = line_to()
    board = Board(line)
    board.connect()
    with pytest.raises(BoardRefusal, match="rejects an input of 101 bytes: Supplied buffer size"):
        board.load_input(bytes(101))
    assert double_of(line).violations == []


def test_inference_on_another_input_than_expected_is_refused() -> None:
    """Otherwise the reference would run on the last input, with results like any others."""
    line = line_to()
    board = Board(line)
    board.connect()
    board.load_input(bytes(48))
    with pytest.raises(BoardRefusal, match="Input db has 48 elemented, expected 49"):
        board.window(1)


def test_board_that_is_gone_is_told() -> None:
    """Otherwise a pulled cable would be a timeout, or a traceback of pyserial."""
    line = line_to(gone_at=120)
    board = Board(line)
    board.connect()
    with pytest.raises(BoardLost, match=r"^the board at /dev/ttyFAKE was disconnected$"):
        board.load_input(INPUT)


def test_silent_board_is_told_with_its_speed() -> None:
    """Otherwise a user with the wrong speed would see nothing at all."""
    line = line_to(is_started_by_open=False)
    line.answers_at = 9600
    with pytest.raises(BoardSilent, match="no reply from /dev/ttyFAKE at 115200 baud"):
        Board(line).connect()


def test_speeds_are_tried_in_turn() -> None:
    """Otherwise a board in energy mode, at 9600 baud, would not be found."""
    line = line_to(is_started_by_open=False)
    line.answers_at = 9600
    assert Board(line).connect([115_200, 921_600, 9600]).baud_rate == 9600


def test_restart_in_a_window_is_an_error() -> None:
    """Otherwise the window of a board with a new, empty input would be kept."""
    line = line_to()
    board = measured(line)
    count = len(line.sent) + len("infer 7")
    line.faults = LineFaults(restarts_at=frozenset({count}))
    with pytest.raises(BoardRestarted, match=r"restarted during `infer 70 10`"):
        board.window(70, warmup_count=10)
    board.load_input(INPUT)
    assert board.window(70).count == 70, "it can be used again"


def test_command_that_lost_a_digit_is_not_believed() -> None:
    """Otherwise `infer 70` could arrive as `infer 7`, for a tenth of the throughput."""
    line = line_to()
    board = measured(line)
    line.faults = LineFaults(lost_to_board=frozenset({len(line.sent) + len("infer 7")}))
    window = board.window(70, warmup_count=10)
    assert (window.count, double_of(line).ran_count) == (70, 70)
    assert double_of(line).commands[-4:].count("infer 70 10") == 1


def test_rest_of_an_earlier_session_does_no_harm() -> None:
    """Otherwise half a command in the board's buffer would make the first command unknown."""
    line = line_to(before=b"00-01\r\nm-buffer-", is_started_by_open=False)
    line.write(b"db 00112")
    measured(line)


def test_log_has_every_byte() -> None:
    """Otherwise a fault on a line could not be found out afterwards."""
    line = line_to()
    board = measured(line)
    sent = b"".join(
        entry.data for entry in board.console.entries() if entry.direction.value == "sent"
    )
    assert sent == line.sent
    received = [
        entry.data for entry in board.console.entries() if entry.direction.value == "received"
    ]
    assert b"m-init-done" in b"".join(received)
    times = [entry.time_ns for entry in board.console.entries()]
    assert times == sorted(times)


to_boards = st.frozensets(st.integers(0, 500), max_size=3)
to_hosts = st.frozensets(st.integers(0, 1500), max_size=3)
habits_of_boards = st.builds(
    BoardHabits,
    is_energy=st.booleans(),
    is_echoing=st.booleans(),
    has_prefix=st.booleans(),
    has_trailing_comma=st.booleans(),
    line_end=st.sampled_from(["\r\n", "\n", "\r", "\n\r"]),
    greeting=st.sampled_from(["", "Initialized", "boot m-", "x" * 200]),
    unknown_reply=st.sampled_from(["error", "ready", "nothing"]),
    print_bytes=st.sampled_from([None, 16, 0]),
)
pieces_of_reads = st.lists(st.integers(1, 80), min_size=1, max_size=5).map(tuple)


def check_sent(line: VirtualLine) -> None:
    """No bare terminator was ever sent, and no command that the reference would cut."""
    *commands, rest = line.sent.split(b"%")
    assert rest in (b"", rest[rest.rfind(b"\0") :]), "half a command was sent"
    assert all(command.strip(b" ") for command in commands)
    own = [command.rpartition(b"\0")[2] for command in commands]
    assert max(len(command) for command in own) <= 79


@settings(max_examples=60)
@given(habits=habits_of_boards, pieces=pieces_of_reads, is_started=st.booleans())
def test_boards_with_any_habits_and_splits_are_measured(
    habits: BoardHabits, pieces: tuple[int, ...], is_started: bool
) -> None:
    """Otherwise two habits that are survived one by one would not be survived together."""
    line = line_to(habits, pieces=pieces, is_started_by_open=is_started)
    board = measured(line)
    check_sent(line)
    assert double_of(line).violations == []
    if not habits.is_energy:
        assert board.window(3).ticks == 4500


@settings(max_examples=80)
@given(habits=habits_of_boards, pieces=pieces_of_reads, to_board=to_boards, to_host=to_hosts)
def test_lost_bytes_cost_time_and_never_a_result(
    habits: BoardHabits,
    pieces: tuple[int, ...],
    to_board: frozenset[int],
    to_host: frozenset[int],
) -> None:
    """Otherwise a measurement on an unsent input, or with a wrong count, would look normal."""
    line = line_to(habits, pieces=pieces, lost_to_board=to_board, lost_to_host=to_host)
    measured(line)
    check_sent(line)


@settings(max_examples=60)
@given(
    changed=to_boards,
    restarts=st.frozensets(st.integers(0, 500), max_size=3),
    gone_at=st.none() | st.integers(0, 800),
    is_behind=st.booleans(),
)
def test_restarts_and_changed_bytes_end_in_a_result_or_a_clear_error(
    changed: frozenset[int], restarts: frozenset[int], gone_at: int | None, is_behind: bool
) -> None:
    """Otherwise a board that restarts would hang the bridge, or give results of a lost input."""
    double = BoardDouble()
    faults = LineFaults(changed_to_board=changed, restarts_at=restarts, gone_at=gone_at)
    line = VirtualLine(InterfaceDouble(double) if is_behind else double, faults)
    error: TargetError | None = None
    try:
        measured(line)
    except TargetError as exc:
        error = exc
    if error is not None:
        assert gone_at is not None or restarts or changed
        assert isinstance(
            error, (BoardLost, BoardRestarted, BoardSilent, BoardRefusal, LineDamaged)
        )
    check_sent(line)
