"""The firmware on a line: MLPerf Tiny's protocol to the letter, frames, and any other bytes."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import termios
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from support import int8_models
from support.firmware_damage import INTERESTING, edited, structure_words
from support.firmware_process import (
    ACK,
    INPUT_BEGIN,
    INPUT_DATA,
    LEAVE,
    MODEL_BEGIN,
    MODEL_COMMIT,
    MODEL_DATA,
    NAK,
    Line,
    Reply,
    built,
    cobs,
    frame,
    last_values,
    running,
    uncobs,
)
from support.reference_kernels import BUILT_IN

from edgebench.firmware_bridge.generate import ModelBlob, generate

BAD_FRAME, UNKNOWN_KIND, BAD_PAYLOAD, TOO_LARGE, BAD_OFFSET, NOT_BEGUN = range(1, 7)
INCOMPLETE, WRONG_CRC, REFUSED = range(7, 10)
FUZZ_S = float(os.environ.get("EDGEBENCH_FIRMWARE_FUZZ_S", "1"))
"""Duration of each of the two tests with drawn bytes: ten seconds in CI, minutes by hand."""


@pytest.fixture(scope="module")
def binary() -> Path:
    """The firmware with AddressSanitizer and UBSan: whatever they detect ends it."""
    return built("posix-checked", "gcc")


@pytest.fixture(scope="module")
def blob() -> ModelBlob:
    """A model of 64 bytes of input and 10 of output."""
    return generate(BUILT_IN.read_bytes(), model_id="digits")


@pytest.fixture
def line(binary: Path) -> Iterator[Line]:
    """A line to a device without a model."""
    with running(binary) as opened:
        yield opened


@pytest.fixture(scope="module")
def loaded(binary: Path, blob: ModelBlob) -> Iterator[Line]:
    """A line to a device with a model."""
    with running(binary) as opened:
        opened.load_model(blob.data)
        opened.timeout_s = 30
        yield opened


def transcript(binary: Path, sent: str, *options: str) -> str:
    """Output of the device from its reset on."""
    command = [str(binary), "--stdio", *options]
    result = subprocess.run(command, input=sent.encode(), capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    return re.sub(r"lap-us-\d+", "lap-us-N", result.stdout.decode())


BANNER = "m-timestamp-mode-performance\r\nm-lap-us-N\r\nm-init-done\r\nm-ready\r\n"
EXCHANGES = {
    "name%": "m-name-dut-[edgebench-posix]\r\n",
    "timestamp%": "m-lap-us-N\r\n",
    "profile%": "m-profile-[ULPMark for tinyML Firmware V0.0.1]\r\nm-model-[none]\r\n",
    "%": "e-[Empty command]\r\n",
    "  \r\n %": "e-[Empty command]\r\n",
    "\r\nname\r\n%": "m-name-dut-[edgebench-posix]\r\n",
    "name and more%": "m-name-dut-[edgebench-posix]\r\n",
    "NAME%": "e-[Unknown command: NAME]\r\n",
    "bogus words%": "e-[Unknown command: bogus]\r\n",
    "db%": "e-[Command 'db' requires a subcommand]\r\n",
    "db load%": "e-[Command 'db load' requires the # of bytes]\r\n",
    "db load 0%": "e-[Command 'db load' must be >0 bytes]\r\n",
    "db load -5%": "e-[Command 'db load' must be >0 bytes]\r\n",
    "db load x%": "e-[Command 'db load' must be >0 bytes]\r\n",
    "db load 99999999%": ("e-[Supplied buffer size 99999999 exceeds maximum of 16777216]\r\n"),
    "db 00%": "e-[No 'db load' before 'db']\r\n",
    "db print%": "",
    "x-crc%": "m-crc-[00000000,0]\r\n",
    "db load 10%": "m-[Expecting 10 bytes]\r\n",
    "db 0aFf1%": "e-[Insufficent number of hex digits]\r\n",
    "db 0aFf%": "",
    "db 02zz04%": "e-[Invalid hex digit 'zz']\r\n",
    "db   03 04%": "",
    "db print 3 1%": "m-buffer-0a-ff-02-03-00-00-00-00\r\nm-buffer-00-00\r\n\r\n",
    "db 040506070809ffzz%": "m-load-done\r\n",
    "db 00%%": "e-[More bytes than 'db load' announced]\r\nm-ready\r\ne-[Empty command]\r\n",
    "db  print  1%": "m-buffer-0a-ff-02-03-04-05-06-07\r\nm-buffer-08-09\r\n\r\n",
    "x-crc %": f"m-crc-[{zlib.crc32(bytes([10, 255, *range(2, 10)])):08x},10]\r\n",
    "infer 0%": "e-[Inference iterations must be >0]\r\n",
    "infer 1 -1%": "e-[Inference warmup must be >=0]\r\n",
    "infer%": "e-[No model]\r\n",
    "results%": "m-results-[]\r\n",
    "x-crc model%": "e-[No model]\r\n",
    "x-out%": "e-[No inference]\r\n",
    "x-cycles%": "m-cycles-[100000000,0,0]\r\n",
    "x-profile%": "e-[No profile]\r\n",
    "x-profile 0%": "e-[Inference iterations must be >0]\r\n",
    "x-profile 1%": "e-[No model]\r\n",
    "x-state hold%": "e-[Unknown state: hold]\r\n",
    "x-state keep%": "m-state-[keep]\r\n",
    "x-state%": "m-state-[keep]\r\n",
    "x-state reset%": "m-state-[reset]\r\n",
    "x-mode slow%": "e-[Unknown mode: slow]\r\n",
    "x-mode%": "m-timestamp-mode-performance\r\n",
    "x-mode energy%": "m-timestamp-mode-energy\r\n",
    "timestamp %": "",
    "x-mode performance%": "m-timestamp-mode-performance\r\n",
    f"{'y' * 1031}%": f"e-[Unknown command: {'y' * 80}]\r\n",
    f"{'y' * 1032}%": "e-[Command longer than 1031 characters]\r\n",
    "name \x80\xff%": "m-name-dut-[edgebench-posix]\r\n",
}


def test_transcript_is_that_of_the_protocol(binary: Path) -> None:
    """Otherwise a host of MLPerf Tiny's would wait for a missing line, or confuse two."""
    sent = "".join(EXCHANGES)
    expected = BANNER + "".join(f"{reply}m-ready\r\n" for reply in EXCHANGES.values())
    assert transcript(binary, sent) == expected


def test_inference_has_the_lines_of_the_protocol(
    binary: Path, blob: ModelBlob, tmp_path: Path
) -> None:
    """Otherwise a runner would find no timestamps, or no results."""
    path = tmp_path / "blob"
    path.write_bytes(blob.data)
    data = bytes(range(64)).hex()
    sent = f"infer 1 0%db load 64%infer%db {data[:62]}%db {data[62:]}%infer 3 2%infer 2%"
    sent += "db load 3%db 000000%infer%"
    said = transcript(binary, sent, "--model", str(path)).removeprefix(BANNER).split("m-ready\r\n")
    results = r"m-results-\[(-?\d\.\d{3},){9}-?\d\.\d{3}\]\r\n"
    timed = "m-lap-us-N\r\nm-lap-us-N\r\nm-infer-done\r\n"
    zeros = r"m-\[No input loaded: zeros\]\r\n"
    patterns = [
        f"{zeros}m-warmup-start-0\r\nm-warmup-done\r\nm-infer-start-1\r\n{timed}{results}",
        r"m-\[Expecting 64 bytes\]\r\n",
        r"e-\[Input has 0 bytes, expected 64\]\r\n",
        "",
        "m-load-done\r\n",
        f"m-warmup-start-2\r\nm-warmup-done\r\nm-infer-start-3\r\n{timed}{results}",
        f"m-warmup-start-10\r\nm-warmup-done\r\nm-infer-start-2\r\n{timed}{results}",
        r"m-\[Expecting 3 bytes\]\r\n",
        "m-load-done\r\n",
        r"e-\[Input has 3 bytes, expected 64\]\r\n",
        "",
    ]
    assert len(said) == len(patterns)
    for text, pattern in zip(said, patterns, strict=True):
        assert re.fullmatch(pattern, text), (pattern, text)


@dataclass(frozen=True)
class RunnerHabits:
    """Commands that a runner sends, and in which order."""

    greeting: tuple[str, ...]
    chunk_bytes: int
    infer: str
    digits: str = "02x"
    end: str = "%"


RUNNERS = {
    "mlcommons": RunnerHabits(("name", "profile", "profile"), 31, "infer 20 5"),
    "mlcommons with a meter": RunnerHabits(("name", "profile", "profile"), 26, "infer 20 0"),
    "EnergyRunner": RunnerHabits(("name", "profile", "timestamp"), 31, "infer 20 1"),
    "a script": RunnerHabits(("help", "help"), 36, "infer 1 0"),
    "a terminal": RunnerHabits(("", "name"), 8, "infer", digits="02X", end="%\r\n"),
}


@pytest.mark.parametrize("runner", RUNNERS)
def test_runner_of_mlperf_tiny_gets_what_it_parses(loaded: Line, runner: str) -> None:
    """Otherwise a runner unaware of this firmware would find no name, no throughput, or no results.

    Their steps, chunks and patterns: mlcommons/tiny, benchmark/runner (device_under_test.py,
    script.py); session logs of EnergyRunner 3.0.10 in mlcommons/tiny_results_v1.0 and _v1.1.
    """
    habits = RUNNERS[runner]
    patterns = {
        "": [r"e-\[Empty command\]"],
        "name": [r"m-name-dut-\[[^]]+]"],
        "profile": [r"m-profile-\[[^]]+]", r"m-model-\[[^]]+]"],
        "timestamp": [r"m-lap-us-[0-9]+"],
    }

    def command(text: str) -> list[str]:
        loaded.send((text + habits.end).encode())
        return loaded.lines()

    for text in habits.greeting:
        said = command(text)
        expected = patterns.get(text, [r"(?!m-|e-).*"] * len(said))
        assert len(said) == len(expected)
        assert all(map(re.fullmatch, expected, said)), said
    data = bytes(range(64))
    for _ in range(2):
        assert command(f"db load {len(data)}") == [f"m-[Expecting {len(data)} bytes]"]
        for at in range(0, len(data), habits.chunk_bytes):
            part = data[at : at + habits.chunk_bytes]
            replies = command(f"db {''.join(format(byte, habits.digits) for byte in part)}")
        assert replies == ["m-load-done"]
        *_, begin, first, last, end, results = command(habits.infer)  # as scripts count lines
        assert (begin.rpartition("-")[0], end) == ("m-infer-start", "m-infer-done")
        laps = [int(line.removeprefix("m-lap-us-")) for line in (first, last)]
        assert laps[1] > laps[0]
        assert len(last_values([results])) == 10


def test_energy_mode_pulses_instead_of_printing(
    binary: Path, blob: ModelBlob, tmp_path: Path
) -> None:
    """Otherwise a power analyser would find no window, or the line be busy during it."""
    (tmp_path / "blob").write_bytes(blob.data)
    pin = tmp_path / "pin"
    options = ("--model", str(tmp_path / "blob"), "--energy", "--pin", str(pin))
    said = transcript(binary, "timestamp%infer 3 1%", *options)
    assert said.startswith("m-timestamp-mode-energy\r\nm-init-done\r\nm-ready\r\nm-ready\r\n")
    assert "lap" not in said
    edges = [int(text) for text in pin.read_text().split()]
    assert len(edges) == 4, "reset, timestamp, and two of infer"
    assert edges == sorted(set(edges))


def test_model_and_input_travel_in_frames(loaded: Line, blob: ModelBlob) -> None:
    """Otherwise the commands would use other data than what was uploaded in frames."""
    data = bytes(range(64))
    loaded.load_input(data)
    assert loaded.command("x-crc") == [f"m-crc-[{zlib.crc32(data):08x},64]"]
    assert loaded.command("x-crc model") == [
        f"m-crc-[{zlib.crc32(blob.data):08x},{len(blob.data)}]"
    ]
    info = loaded.info()
    assert (info["model_state"], info["model"]) == ("ready", "digits")
    assert int(info["input_bytes"]) == blob.input_bytes
    assert int(info["arena_bytes"]) == blob.arena_bytes
    values = last_values(loaded.command("infer 2 0"))
    outputs = loaded.outputs()
    assert len(outputs) == len(values) == blob.output_bytes


def test_ring_keeps_the_last_inferences(loaded: Line) -> None:
    """Otherwise durations of a long window would be those of its beginning, or of the warm-up."""
    loaded.load_input(bytes(64))
    loaded.command("infer 3 1")
    assert loaded.command("x-cycles")[0] == "m-cycles-[100000000,3,3]"
    assert len(loaded.durations()) == 3
    assert all(ticks > 0 for ticks in loaded.durations())


def test_profile_has_the_ticks_of_every_operator_and_stays(loaded: Line) -> None:
    """Otherwise a lost line of a profile could not be read again, or be that of another run."""
    loaded.load_input(bytes(64))
    outputs = loaded.command("infer 1 0")[-1]
    head, *operators = loaded.command("x-profile 3")
    found = re.fullmatch(r"m-operators-\[100000000,3,(\d+),(\d+)\]", head)
    assert found is not None, head
    assert int(found[2]) == len(operators) == int(loaded.info()["operators"])
    assert all(re.fullmatch(r"m-operator-\[[A-Z_]+,\d+\]", line) for line in operators)
    assert loaded.command("x-profile") == [head, *operators]
    assert loaded.command("x-cycles") == ["m-cycles-[100000000,0,0]"]
    assert loaded.command("results") == [outputs]
    loaded.command("infer 1 0")
    assert loaded.command("x-profile") == ["e-[No profile]"]


def test_frames_are_refused_with_the_reason(line: Line, blob: ModelBlob) -> None:
    """Otherwise a host would not know what to send again."""

    def said(kind: int, payload: bytes = b"") -> tuple[int, int, int]:
        reply = line.exchange(kind, 5, payload)
        assert reply.sequence == 5
        assert (reply.kind == NAK) == (reply.error > 0)
        return reply.error, reply.detail, reply.received

    def data(offset: int, content: bytes) -> bytes:
        return struct.pack("<I", offset) + content

    line.command("x-frames")
    assert said(0x55) == (UNKNOWN_KIND, 0, 0)
    assert said(INPUT_DATA, data(0, b"abc")) == (NOT_BEGUN, 0, 0)
    assert said(INPUT_BEGIN, b"123") == (BAD_PAYLOAD, 0, 0)
    assert said(INPUT_BEGIN, struct.pack("<I", 0)) == (TOO_LARGE, 0, 0)
    assert said(INPUT_BEGIN, struct.pack("<I", 2**31)) == (TOO_LARGE, 0, 0)
    assert said(INPUT_BEGIN, struct.pack("<I", 8)) == (0, 0, 0)
    assert said(INPUT_DATA, data(0, b"")) == (BAD_PAYLOAD, 0, 0)
    assert said(INPUT_DATA, data(0, b"abc")) == (0, 0, 3)
    assert said(INPUT_DATA, data(0, b"abc")) == (0, 0, 3), "a repeated frame"
    assert said(INPUT_DATA, data(1, b"abc")) == (BAD_OFFSET, 0, 3)
    assert said(INPUT_DATA, data(4, b"abc")) == (BAD_OFFSET, 0, 3)
    assert said(INPUT_DATA, data(3, b"abcdef")) == (TOO_LARGE, 0, 3)
    assert said(INPUT_DATA, data(2**32 - 1, b"ab")) == (TOO_LARGE, 0, 3)
    assert said(INPUT_DATA, data(3, b"\0\0def")) == (0, 0, 8)
    damaged = bytearray(frame(INPUT_DATA, 5, data(0, b"abc")))
    damaged[3] ^= 0x40
    line.send(bytes(damaged))
    assert line.reply() == Reply(NAK, 0, BAD_FRAME, 0, 0)
    line.send(b"\0\0\0" + b"x" * 2000 + b"\0")
    assert line.reply() == Reply(NAK, 0, BAD_FRAME, 0, 0)
    assert said(MODEL_COMMIT) == (NOT_BEGUN, 0, 0)
    assert said(MODEL_BEGIN, struct.pack("<II", 2**30, 0)) == (TOO_LARGE, 0, 0)
    head = struct.pack("<II", len(blob.data), zlib.crc32(blob.data))
    assert said(MODEL_BEGIN, head) == (0, 0, 0)
    assert said(MODEL_DATA, data(0, blob.data[:1024])) == (0, 0, 1024)
    assert said(MODEL_COMMIT) == (INCOMPLETE, 0, 1024)
    assert said(MODEL_BEGIN, struct.pack("<II", 40, 1)) == (0, 0, 0)
    assert said(MODEL_DATA, data(0, blob.data[:40])) == (0, 0, 40)
    assert said(MODEL_COMMIT) == (WRONG_CRC, 0, 40)
    short = struct.pack("<II", 200, zlib.crc32(blob.data[:200]))
    assert said(MODEL_BEGIN, short) == (0, 0, 0)
    assert said(MODEL_DATA, data(0, blob.data[:200])) == (0, 0, 200)
    assert said(MODEL_COMMIT) == (REFUSED, 2, 200)
    line.leave()
    assert line.info()["model_state"] == "bad_header"


def test_two_frames_may_be_on_their_way(line: Line) -> None:
    """Otherwise the second frame would be lost while the first one is processed."""
    line.command("x-frames")
    data = [struct.pack("<I", 1024 * i) + bytes([i]) * 1024 for i in range(2)]
    line.send(frame(INPUT_BEGIN, 1, struct.pack("<I", 2048)))
    assert line.reply().kind == ACK
    line.send(frame(INPUT_DATA, 2, data[0]) + frame(INPUT_DATA, 3, data[1]))
    assert [line.reply(), line.reply()] == [Reply(ACK, 2, 0, 0, 1024), Reply(ACK, 3, 0, 0, 2048)]


def test_host_that_lost_the_state_gets_the_name(line: Line) -> None:
    """Otherwise a host that died in frame mode would leave a device that cannot be reached."""
    line.command("x-frames")
    line.send(b"name%" + b"\0" + frame(LEAVE, 1) + b"name%")
    assert line.reply().error == BAD_FRAME
    assert line.reply().kind == ACK
    assert line.lines() == []
    assert line.lines() == ["m-name-dut-[edgebench-posix]"]
    line.send(b"\0" + frame(LEAVE, 1) + b"name%name%")
    assert line.until(b"m-ready").startswith(b"e-[Unknown command: ")
    assert line.until(b"m-name-dut-[") == b"\r\n"
    line.lines()


def test_start_is_over_before_the_terminal_is_named(binary: Path) -> None:
    """Otherwise a runner would take the start for its first reply, and stay one reply behind."""
    for _ in range(3):
        process = subprocess.Popen([str(binary)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        file = os.open(process.stdout.readline().strip(), os.O_RDWR | os.O_NOCTTY)
        try:
            termios.tcflush(file, termios.TCIFLUSH)
            line = Line(file)
            line.timeout_s = 30
            assert line.command("name") == ["m-name-dut-[edgebench-posix]"]
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            os.close(file)


def test_board_that_resets_when_it_is_opened_says_its_banner_then(binary: Path) -> None:
    """Otherwise the bridge would not be tested with the boards that most users have."""
    command = [str(binary), "--reset-on-open"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    file = os.open(process.stdout.readline().strip(), os.O_RDWR | os.O_NOCTTY)
    try:
        line = Line(file)
        line.timeout_s = 30
        assert line.lines()[-1] == "m-init-done"
        assert line.command("name") == ["m-name-dut-[edgebench-posix]"]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(file)


@given(st.binary(max_size=2000))
def test_cobs_of_the_tests_is_its_own_inverse(data: bytes) -> None:
    """Otherwise the tests would send frames that are invalid."""
    wire = cobs(data)
    assert wire.endswith(b"\0")
    assert b"\0" not in wire[:-1]
    assert uncobs(wire[:-1]) == data


COMMANDS = st.sampled_from(
    [text.rstrip("%") for text in EXCHANGES] + ["help", "x-info", "x-frames"]
)
COMMAND_BYTES = COMMANDS.map(lambda text: text.encode("latin-1") + b"%")
FRAMES = st.builds(frame, st.integers(0, 16), st.integers(0, 255), st.binary(max_size=40))
NOISE = st.lists(COMMAND_BYTES | FRAMES | st.binary(max_size=30), max_size=12).map(b"".join)


Drawn = TypeVar("Drawn")


def fuzz(check: Callable[[Drawn], None], values: st.SearchStrategy[Drawn]) -> None:
    """Check drawn values until the time is over; the same values each time, as far as it gets."""
    quiet = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    end_s = time.monotonic() + FUZZ_S

    def check_in_time(value: Drawn) -> None:
        if time.monotonic() < end_s:  # some damaged models take seconds
            check(value)

    for round_number in count():
        seed(round_number)(quiet(given(values)(check_in_time)))()
        if time.monotonic() >= end_s:
            return


@pytest.mark.timeout(FUZZ_S + 180)
def test_any_bytes_leave_a_device_that_says_its_name(loaded: Line) -> None:
    """Otherwise a lost byte, or a host of another protocol, would block the board until a reset."""

    def check(noise: bytes) -> None:
        loaded.send(noise + b"%\0" + frame(LEAVE, 1) + b"%the-end%")
        loaded.until(b"e-[Unknown command: the-end]\r\n")
        assert loaded.lines() == []
        assert loaded.command("name") == ["m-name-dut-[edgebench-posix]"]

    fuzz(check, NOISE)


@pytest.mark.timeout(FUZZ_S + 180)
def test_any_blob_is_refused_or_run_within_its_memory(loaded: Line, blob: ModelBlob) -> None:
    """Otherwise a damaged or hostile model would overwrite the firmware."""
    kinds = {**int8_models.KINDS, "stream": int8_models.stream, "two": int8_models.two_inputs}
    kinds |= {"unsigned": int8_models.unsigned, "resized": int8_models.uint8_resize}
    kinds |= {"lstm": int8_models.lstm, "svdf": int8_models.svdf, "narrow": int8_models.narrow_svdf}
    small = [
        generate(make(np.random.default_rng(number)), model_id=name)
        for name, make in kinds.items()
        for number in range(3)
    ]
    blobs = [blob.data, *(made.data for made in small)]
    words, values = st.integers(0, 2**16), st.sampled_from(INTERESTING) | st.integers(0, 2**32 - 1)

    def check(drawn: tuple[bytes, list[tuple[int, int]]]) -> None:
        whole, edits = drawn
        count = structure_words(whole)
        damaged = edited(whole, [(place % count, value) for place, value in edits])
        loaded.command("x-frames")
        head = struct.pack("<II", len(damaged), zlib.crc32(damaged))
        loaded.exchange(MODEL_BEGIN, 0, head)
        for offset in range(0, len(damaged), 1024):
            part = struct.pack("<I", offset) + damaged[offset : offset + 1024]
            loaded.exchange(MODEL_DATA, 0, part)
        loaded.exchange(MODEL_COMMIT)
        loaded.leave()
        state = loaded.info()["model_state"]
        replies = loaded.command("infer 1 0")
        if state == "ready":
            assert replies[-1].startswith("m-results-[")
            loaded.command("x-out")
        else:
            assert replies == ["e-[No model]"]

    edits = st.lists(st.tuples(words, values), min_size=1, max_size=3)
    fuzz(check, st.tuples(st.sampled_from(blobs), edits))
