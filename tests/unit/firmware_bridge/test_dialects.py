"""What boards send, to the letter: conversations as data, each line with its meaning."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.conversations import DIALECTS

from edgebench.firmware_bridge.dialects import events
from edgebench.firmware_bridge.dialects.events import BoardEvent, Dialect, Quirk
from edgebench.firmware_bridge.dialects.interface_board import PassthroughDialect
from edgebench.firmware_bridge.dialects.lines import LineDialect
from edgebench.firmware_bridge.dialects.mlperf_tiny import mlperf_tiny
from edgebench.protocol.errors import LocalProtocolError

Conversation = list[tuple[str | None, str, list[BoardEvent]]]
"""Command, or None where the board sends first; its bytes; what they mean."""

READY = events.ReplyEnd()
PERFORMANCE: Conversation = [
    (
        None,
        "m-timestamp-mode-performance\r\nm-lap-us-14\r\nInitialized\r\nm-init-done\r\nm-ready\r\n",
        [
            events.TimestampMode(is_energy=False),
            events.LapTime(14),
            events.OtherText("Initialized"),
            events.InitEnd(),
            READY,
        ],
    ),
    (
        "name",
        "m-name-dut-[unspecified]\r\nm-ready\r\n",
        [events.BoardName("unspecified"), READY],
    ),
    (
        "profile",
        "m-profile-[ULPMark for tinyML Firmware V0.0.1]\r\nm-model-[kws01]\r\nm-ready\r\n",
        [
            events.FirmwareProfile("ULPMark for tinyML Firmware V0.0.1"),
            events.ModelName("kws01"),
            READY,
        ],
    ),
    ("timestamp", "m-lap-us-4294967295\r\nm-ready\r\n", [events.LapTime(4294967295), READY]),
    ("timestamp", "m-lap-us--2147483296\r\nm-ready\r\n", [events.LapTime(-2147483296), READY]),
    ("db load 10", "m-[Expecting 10 bytes]\r\nm-ready\r\n", [events.ExpectedSize(10), READY]),
    ("db 0001020304", "m-ready\r\n", [READY]),
    ("db 05060708FF", "m-load-done\r\nm-ready\r\n", [events.LoadEnd(), READY]),
    (
        "db print",
        "m-buffer-00-01-02-03-04-05-06-07\r\nm-buffer-08-ff\r\n\r\nm-ready\r\n",
        [events.BufferBytes(bytes(range(8))), events.BufferBytes(b"\x08\xff"), READY],
    ),
    (
        "infer 70 10",
        "m-warmup-start-10\r\nm-warmup-done\r\nm-infer-start-70\r\nm-lap-us-4005\r\n"
        "m-lap-us-809005\r\nm-infer-done\r\n"
        "m-results-[0.000,0.996,0.000,-1.500]\r\nm-ready\r\n",
        [
            events.WarmupBegin(10),
            events.WarmupEnd(),
            events.InferenceBegin(70),
            events.LapTime(4005),
            events.LapTime(809005),
            events.InferenceEnd(),
            events.ModelOutputs((0.0, 0.996, 0.0, -1.5)),
            READY,
        ],
    ),
    (
        "results",
        "m-results-[10.265]\r\nm-ready\r\n",
        [events.ModelOutputs((10.265,)), READY],
    ),
    (
        "help",
        "ULPMark for tinyML Firmware V0.0.1\r\n\r\nhelp         : Print this information\r\n"
        "timestsamp   : Generate a timetsamp\r\nm-ready\r\n",
        [
            events.OtherText("ULPMark for tinyML Firmware V0.0.1"),
            events.OtherText("help         : Print this information"),
            events.OtherText("timestsamp   : Generate a timetsamp"),
            READY,
        ],
    ),
]
ERRORS: Conversation = [
    (
        "db",
        "e-[Command 'db' requires a subcommand]\r\nm-ready\r\n",
        [events.ErrorReply("Command 'db' requires a subcommand"), READY],
    ),
    (
        "db load",
        "e-[Command 'db load' requires the # of bytes]\r\nm-ready\r\n",
        [events.ErrorReply("Command 'db load' requires the # of bytes"), READY],
    ),
    (
        "db load 0",
        "e-[Command 'db load' must be >0 bytes]\r\nm-ready\r\n",
        [events.ErrorReply("Command 'db load' must be >0 bytes"), READY],
    ),
    (
        "db load 999999",
        "Supplied buffer size 999999 exceeds maximum of 27648\nm-ready\r\n",
        [events.InputMismatch("Supplied buffer size 999999 exceeds maximum of 27648"), READY],
    ),
    (
        "db 000",
        "e-[Insufficent number of hex digits]\r\nm-ready\r\n",
        [events.ErrorReply("Insufficent number of hex digits"), READY],
    ),
    (
        "db 0x",
        "e-[Invalid hex digit '0x']\r\nm-ready\r\n",
        [events.ErrorReply("Invalid hex digit '0x'"), READY],
    ),
    (
        "infer 0",
        "e-[Inference iterations must be >0]\r\nm-ready\r\n",
        [events.ErrorReply("Inference iterations must be >0"), READY],
    ),
    (
        "infer 1 -1",
        "e-[Inference warmup must be >=0]\r\nm-ready\r\n",
        [events.ErrorReply("Inference warmup must be >=0"), READY],
    ),
    (
        "infer 1 0",
        "Input db has 3072 elemented, expected 490\nm-warmup-start-0\r\nm-warmup-done\r\n"
        "m-infer-start-1\r\nm-lap-us-1\r\nm-lap-us-2\r\nm-infer-done\r\n"
        "m-results-[0.969,0.031,]\r\nm-ready\r\n",
        [
            events.InputMismatch("Input db has 3072 elemented, expected 490"),
            events.WarmupBegin(0),
            events.WarmupEnd(),
            events.InferenceBegin(1),
            events.LapTime(1),
            events.LapTime(2),
            events.InferenceEnd(),
            events.ModelOutputs((0.969, 0.031)),
            READY,
        ],
    ),
    (
        "nonsense with words",
        "e-[Unknown command: nonsense]\r\nm-ready\r\n",
        [events.ErrorReply("Unknown command: nonsense"), READY],
    ),
]
ENERGY: Conversation = [
    (
        None,
        "m-timestamp-mode-energy\r\nm-init-done\r\nm-ready\r\n",
        [events.TimestampMode(is_energy=True), events.InitEnd(), READY],
    ),
    ("timestamp", "m-ready\r\n", [READY]),
    (
        "infer 5 0",
        "m-warmup-start-0\r\nm-warmup-done\r\nm-infer-start-5\r\nm-infer-done\r\n"
        "m-results-[1.000]\r\nm-ready\r\n",
        [
            events.WarmupBegin(0),
            events.WarmupEnd(),
            events.InferenceBegin(5),
            events.InferenceEnd(),
            events.ModelOutputs((1.0,)),
            READY,
        ],
    ),
]
OURS: Conversation = [
    (
        "x-info",
        "m-info-firmware-[edgebench]\r\nm-info-line_max-[1031]\r\nm-ready\r\n",
        [events.InfoItem("firmware", "edgebench"), events.InfoItem("line_max", "1031"), READY],
    ),
    (
        "x-crc model",
        "m-crc-[cbf43926,9]\r\nm-ready\r\n",
        [events.BufferCrc(0xCBF43926, 9), READY],
    ),
    ("x-out", "m-out-[80ff00]\r\nm-ready\r\n", [events.OutputBytes(b"\x80\xff\0"), READY]),
    (
        "x-cycles",
        "m-cycles-[25000000,3,2]\r\nm-cycle-[17785043,4294967295]\r\nm-ready\r\n",
        [events.CyclesHead(25_000_000, 3, 2), events.CyclesPart((17785043, 4294967295)), READY],
    ),
    (
        "x-profile",
        "m-operators-[25000000,2,5,2]\r\nm-operator-[CONV,38]\r\nm-operator-[MAX_POOL,7]\r\n"
        "m-ready\r\n",
        [
            events.OperatorsHead(25_000_000, 2, 5, 2),
            events.OperatorTicks("CONV", 38),
            events.OperatorTicks("MAX_POOL", 7),
            READY,
        ],
    ),
    ("x-frames", "m-frames-[512,4]\r\nm-ready\r\n", [events.FrameModeReply(512, 4), READY]),
    (
        "infer 1 0",
        "m-[No input loaded: zeros]\r\n",
        [events.InputMismatch("No input loaded: zeros")],
    ),
]
INTERFACE: Conversation = [
    (
        "name",
        "m-dut-passthrough(name)\r\nm-ready\r\n[dut]: m-name-dut-[unspecified]\r\n"
        "[dut]: m-ready\r\n",
        [events.BoardName("unspecified"), READY],
    ),
    (
        "infer 2 0",
        "m-dut-passthrough(infer 2 0)\r\nm-ready\r\n[dut]: m-warmup-start-0\r\n"
        "[dut]: m-warmup-done\r\n[dut]: m-infer-start-2\r\n[dut]: m-infer-done\r\n"
        "[dut]: m-results-[0.969,0.031,]\r\n[dut]: m-ready\r\n",
        [
            events.WarmupBegin(0),
            events.WarmupEnd(),
            events.InferenceBegin(2),
            events.InferenceEnd(),
            events.ModelOutputs((0.969, 0.031)),
            READY,
        ],
    ),
    (
        "nonsense",
        "m-dut-passthrough(nonsense)\r\nm-ready\r\n"
        "[dut]: e-[Unknown command: nonsense]\r\n[dut]: m-ready\r\n",
        [events.ErrorReply("Unknown command: nonsense"), READY],
    ),
]
STREAMING: Conversation = [
    (
        "name",
        "Received command: name\r\nm-name-dut-[unspecified]\r\nm-ready\r\n",
        [events.CommandEcho("name"), events.BoardName("unspecified"), READY],
    ),
    (
        "db load 1024",
        "Received command: db load 1024\r\nExpecting 1024 bytes\r\nm-ready\r\n",
        [events.CommandEcho("db load 1024"), events.ExpectedSize(1024), READY],
    ),
    (
        "db 0011",
        "Received command: db 0011\r\n2 bytes received\r\nm-ready\r\n",
        [events.CommandEcho("db 0011"), events.LoadProgress(2), READY],
    ),
    (
        "db ff",
        "Received command: db ff\r\n"
        "Error: Must issue db load <Nbytes> command before transmitting data.\r\nm-ready\r\n",
        [
            events.CommandEcho("db ff"),
            events.ErrorReply("Must issue db load <Nbytes> command before transmitting data."),
            READY,
        ],
    ),
    (
        "x-info",
        "Received command: x-info\r\nUnrecognized command x-info\r\nm-ready\r\n",
        [events.CommandEcho("x-info"), events.ErrorReply("Unrecognized command x-info"), READY],
    ),
    (
        "extract_uart_stream",
        "Received command: extract_uart_stream\r\nm-features-[ -1,  +2]\r\n"
        "m-activations-[-12, +34, +56]\r\nm-ready\r\n",
        [
            events.CommandEcho("extract_uart_stream"),
            events.OtherText("m-features-[ -1,  +2]"),
            events.ModelOutputs((-12.0, 34.0, 56.0)),
            READY,
        ],
    ),
    (
        "run_model",
        "Received command: run_model\r\nIn run_model. about to run model\r\n"
        "Output = [-128, 01, 127, ]\r\nm-ready\r\n",
        [
            events.CommandEcho("run_model"),
            events.OtherText("In run_model. about to run model"),
            events.ModelOutputs((-128.0, 1.0, 127.0)),
            READY,
        ],
    ),
    (
        "help",
        "Received command: help\r\nhelp        -- Print this help message\r\n%m-ready\r\n",
        [
            events.CommandEcho("help"),
            events.OtherText("help        -- Print this help message"),
            events.OtherText("%"),
            READY,
        ],
    ),
    (
        "start",
        "Received command: start\r\nListening for I2S data ... \r\nDMA receive initiated.\r\n"
        "m-ready\r\n",
        [
            events.CommandEcho("start"),
            events.ListeningBegin(),
            events.OtherText("DMA receive initiated."),
            READY,
        ],
    ),
    (
        "start",
        "Received command: start\r\nI2S Rx currently in progress. Ignoring request\r\nm-ready\r\n",
        [
            events.CommandEcho("start"),
            events.ErrorReply("I2S Rx currently in progress. Ignoring request"),
            READY,
        ],
    ),
    (
        "stop",
        "Received command: stop\r\nStreaming stopped.\r\ntarget activations: \r\n"
        "[-128, -7, \r\n127  \r\n]\r\n]\r\n==== Done ====\r\nm-ready\r\n",
        [
            events.CommandEcho("stop"),
            events.ListeningEnd(),
            events.ActivationsHead(),
            events.NumberList((-128, -7)),
            events.NumberList((127,)),
            *[events.NumberList(())] * 3,
            READY,
        ],
    ),
]
SOUND: Conversation = [
    (
        "play long.wav",
        "Playing long.wav\nm-ready\r\n",
        [events.SoundBegin("long.wav"), READY],
    ),
    (
        "record_detections",
        "Now recording detections\r\nm-ready\r\n",
        [events.RecordBegin(), READY],
    ),
    (
        "print_detections",
        "Detection Timestamps (ms)\r\n12,\r\n1044,\r\nm-ready\r\n",
        [events.DetectionsHead(), events.NumberList((12,)), events.NumberList((1044,)), READY],
    ),
    (
        "print_dutycycle",
        "Duty cycle start times (s)\r\n100, 3300, Duty cycle stop times (s)\r\n350, 3555, "
        "m-ready\r\n",
        [
            events.ProcessingHead(is_end=False),
            events.NumberList((100, 3300)),
            events.ProcessingHead(is_end=True),
            events.NumberList((350, 3555)),
            READY,
        ],
    ),
]
MAKERS: Conversation = [
    (  # a real-time system's greeting, and a name before the first line of the protocol
        None,
        "*** Booting Zephyr OS build v2.7 ***\r\nm-name-dut-[board]\r\nm-model-[ic01]\r\n"
        "m-timestamp-mode-performance\r\nm-lap-us-9\r\nm-init-done\r\nm-ready\r\n",
        [
            events.OtherText("*** Booting Zephyr OS build v2.7 ***"),
            events.BoardName("board"),
            events.ModelName("ic01"),
            events.TimestampMode(is_energy=False),
            events.LapTime(9),
            events.InitEnd(),
            READY,
        ],
    ),
    (  # counters of a processor behind the results, time since 1970, six digits
        "infer 2 0",
        "m-warmup-start-0\r\nm-warmup-done\r\nm-infer-start-2\r\nm-lap-us-1754725300000000\r\n"
        "m-lap-us-1754725300000007\r\nm-infer-done\r\nm-results-[0.992188,1,-0]\r\n"
        "m-cycles-count-48388\r\nm-latency-us-3.50\r\nm-ready\r\n",
        [
            events.WarmupBegin(0),
            events.WarmupEnd(),
            events.InferenceBegin(2),
            events.LapTime(1754725300000000),
            events.LapTime(1754725300000007),
            events.InferenceEnd(),
            events.ModelOutputs((0.992188, 1.0, -0.0)),
            events.OtherText("m-cycles-count-48388"),
            events.OtherText("m-latency-us-3.50"),
            READY,
        ],
    ),
    (  # text without an end of its line, and failures in the maker's own words
        "infer 1 0",
        "Input count is 2 > 1, not supportedm-warmup-start-0\r\nm-warmup-done\r\n"
        "m-infer-start-1\r\nm-lap-us-1\r\nInvoke failed.\r\nerror: no ack from dsp\n"
        "...m-lap-us-2\r\nm-infer-done\r\nm-results-[]\r\nm-ready\r\n",
        [
            events.OtherText("Input count is 2 > 1, not supported"),
            events.WarmupBegin(0),
            events.WarmupEnd(),
            events.InferenceBegin(1),
            events.LapTime(1),
            events.FailureText("Invoke failed."),
            events.FailureText("error: no ack from dsp"),
            events.OtherText("..."),
            events.LapTime(2),
            events.InferenceEnd(),
            events.OtherText("m-results-[]"),
            READY,
        ],
    ),
    ("name", "m-name-io-[manager]\r\nm-ready\r\n", [events.InterfaceName("manager"), READY]),
    ("name", "m-name-iot-[sensor]\r\nm-ready\r\n", [events.BoardName("iot-[sensor]"), READY]),
]
"""Lines of firmware in mlcommons/tiny_results_v0.7 to v1.3, and of other ports of the reference."""
IO_MANAGER: Conversation = [
    (
        "timestamp",
        "m-dut-passthrough(timestamp)\r\nm-ready\r\nm-lap-us-28797336\r\n[dut]: m-ready\r\n",
        [READY],
    ),
    (
        "infer 3 1",
        "m-dut-passthrough(infer 3 1)\r\nm-ready\r\n[dut]: m-warmup-start-1\r\n"
        "[dut]: m-warmup-done\r\nm-lap-us-32508672\r\n[dut]: m-infer-start-3\r\n"
        "m-lap-us-45728576\r\n[dut]: m-infer-done\r\n[dut]: m-results-[0.902,0.095]\r\n"
        "[dut]: m-ready\r\n",
        [
            events.WarmupBegin(1),
            events.WarmupEnd(),
            events.InferenceBegin(3),
            events.InferenceEnd(),
            events.ModelOutputs((0.902, 0.095)),
            READY,
        ],
    ),
    (  # the board is switched on behind it
        None,
        "[dut]: NDP main\r\n[dut]: \r\n[dut]: m-timestamp-mode-energy\r\n"
        "[dut]: m-init-done\r\n[dut]: m-ready\r\n",
        [
            events.OtherText("NDP main"),
            events.TimestampMode(is_energy=True),
            events.InitEnd(),
            READY,
        ],
    ),
]
"""EEMBC's interface board with its timer switched on."""
CONVERSATIONS: dict[str, Conversation] = {
    "performance": PERFORMANCE,
    "errors": ERRORS,
    "energy": ENERGY,
    "ours": OURS,
    "streaming": STREAMING,
    "sound": SOUND,
    "interface": INTERFACE,
    "io_manager": IO_MANAGER,
    "makers": MAKERS,
}


def dialect_of(name: str) -> Dialect:
    """Dialect of a conversation."""
    names = {
        "interface": "passthrough",
        "io_manager": "passthrough",
        "sound": "interface_board",
        "streaming": "streaming",
    }
    return DIALECTS[names.get(name, "mlperf_tiny")]()


def heard(dialect: Dialect, data: bytes, cuts: list[int] | None = None) -> list[BoardEvent]:
    """Events of bytes that come in pieces."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts or ())})
    pieces = [data[one:other] for one, other in pairwise(edges)]
    return [
        one.event
        for number, piece in enumerate(pieces)
        for one in dialect.receive(piece, number * 1000)
    ]


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_conversation_means_what_it_says(name: str) -> None:
    """Otherwise a line of the protocol would be read as something else, or as nothing."""
    dialect = dialect_of(name)
    prefix = "dut " if name in ("interface", "io_manager") else ""
    for command, text, expected in CONVERSATIONS[name]:
        if command is not None and len(command) > 0:
            assert dialect.encode(command) == f"{prefix}{command}%".encode()
        assert heard(dialect, text.encode()) == expected, command


@pytest.mark.parametrize("name", CONVERSATIONS)
@given(
    cuts=st.lists(st.integers(0, 400), max_size=8), line_end=st.sampled_from(["\n", "\r", "\n\r"])
)
def test_conversation_in_pieces_and_with_other_line_ends(
    name: str, cuts: list[int], line_end: str
) -> None:
    """Otherwise a line split over two reads, or ending in a bare line feed, would be lost."""
    dialect = dialect_of(name)
    for command, text, expected in CONVERSATIONS[name]:
        if command is not None:
            dialect.encode(command)
        data = text.replace("\r\n", line_end).encode()
        assert heard(dialect, data, cuts) == expected, command


@pytest.mark.parametrize("name", ["performance", "energy", "errors", "ours"])
@pytest.mark.parametrize("echo_end", ["", "\r\n", "\n"])
def test_echo_of_commands_is_no_answer(name: str, echo_end: str) -> None:
    """Otherwise a board that echoes its commands would have a name that begins with `name%`."""
    dialect = mlperf_tiny()
    for command, text, expected in CONVERSATIONS[name]:
        if command is not None:
            text = dialect.encode(command).decode() + echo_end + text
        assert heard(dialect, text.encode()) == expected, command
    assert dialect.quirks >= {Quirk.ECHO}


@pytest.mark.parametrize("name", ["performance", "energy", "ours"])
def test_missing_prefixes_change_nothing(name: str) -> None:
    """Otherwise a board whose maker found `m-` superfluous would never be ready."""
    dialect = mlperf_tiny()
    for command, text, expected in CONVERSATIONS[name]:
        if command is not None:
            dialect.encode(command)
        bare = "".join(line.removeprefix("m-") for line in text.splitlines(keepends=True))
        assert heard(dialect, bare.encode()) == expected, command
    assert Quirk.NO_PREFIX in dialect.quirks


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m-lap-us-12m-lap-us-900\r\n", [events.LapTime(12), events.LapTime(900)]),
        ("m-results-[0.1,0.m-ready\r\n", [events.OtherText("m-results-[0.1,0."), READY]),
        (
            "m-bufm-timestamp-mode-energy\r\n",
            [events.OtherText("m-buf"), events.TimestampMode(True)],
        ),
        ("\0\0\xffm-ready\r\n", [READY]),
        ("\x1b[1;32mm-ready\x1b[0m\r\n", [READY]),
        ("\x1b[2K\x1bm-lap-us-7\r\n", [events.LapTime(7)]),
        ("m-name-board\r\n", [events.BoardName("board")]),
        ("m-name-dut-board\r\n", [events.BoardName("board")]),
        ("m-name-dut-[a board-1]\r\n", [events.BoardName("a board-1")]),
        ("m-results-[nan,-0.000]\r\n", None),
        ("tinyML Enhanced Interface Board\r\n", None),
        ("\r\n\n\r\n", []),
    ],
)
def test_damaged_and_unusual_lines(text: str, expected: list[BoardEvent] | None) -> None:
    """Otherwise the end of a line would be lost, and with it the line behind."""
    found = heard(mlperf_tiny(), text.encode("latin-1"))
    if expected is None:
        assert [type(one) for one in found] in ([events.ModelOutputs], [events.InterfaceName])
    else:
        assert found == expected


@pytest.mark.parametrize(
    "command", ["", " ", "   ", "name%", "name\r", "name\n", "näme", "db " + "0" * 77, "a\0b"]
)
def test_commands_that_harm_a_board_are_not_encoded(command: str) -> None:
    """A bare terminator crashes the reference; a long command is cut, and means something else."""
    for dialect in (mlperf_tiny(), PassthroughDialect(mlperf_tiny())):
        with pytest.raises(LocalProtocolError):
            dialect.encode(command)


def test_times_are_those_of_a_lines_own_bytes() -> None:
    """Otherwise a window would begin with the previous line, or end with the next command."""
    dialect = mlperf_tiny()
    assert dialect.receive(b"m-lap-", 100) == []
    first, second = dialect.receive(b"us-1\r\nm-lap-us-2\r\nm-la", 250)
    assert (first.first_ns, first.last_ns) == (100, 250)
    assert (second.first_ns, second.last_ns) == (250, 250)
    (third,) = dialect.receive(b"p-us-3\r\n", 400)
    assert (third.first_ns, third.last_ns) == (250, 400)


@given(st.binary(max_size=400), st.sampled_from(sorted(CONVERSATIONS)))
def test_no_bytes_end_a_dialect(data: bytes, name: str) -> None:
    """Otherwise a board at another speed, or a hostile board, would end the bridge."""
    dialect = dialect_of(name)
    dialect.encode("name")
    heard(dialect, data + b"\r\nm-ready\r\n")


def test_endless_line_takes_no_memory() -> None:
    """Otherwise a board that sends for ever would fill the memory of the bridge."""
    dialect = mlperf_tiny()
    for _ in range(40):
        dialect.receive(b"x" * 4096, 0)
    assert isinstance(dialect, LineDialect)
    assert heard(dialect, b"\r\nm-ready\r\n")[-1] == READY
