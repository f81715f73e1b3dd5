"""Streaming firmware: MLPerf Tiny's streaming dialect, its runner, and our bridge."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.firmware_damage import INTERESTING, edited, structure_words
from support.firmware_process import (
    LEAVE,
    MODEL_BEGIN,
    MODEL_COMMIT,
    MODEL_DATA,
    Line,
    built,
    emulated,
    frame,
    running,
)
from support.reference_kernels import BUILT_IN, MODELS, Reference
from support.tools import ROOT_OF_CHECKOUT, need_runtime, need_shared, need_tool
from support.wake_words import (
    DETECTION_ABOVE,
    FRAMES,
    STRIDE,
    features,
    sound,
    wake_model,
    wav,
)

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.detection import known_board
from edgebench.firmware_bridge.exchange import BoardTiming
from edgebench.firmware_bridge.generate import generate
from edgebench.firmware_bridge.listening import FRAME_NS, ListeningBoard
from edgebench.firmware_bridge.transports.child import ChildProcess
from edgebench.protocol.errors import BoardRefusal

PATIENT = BoardTiming(answer_s=60.0, resync_s=(60.0,) * 3, quiet_s=0.05, frame_s=20.0)
"""Longer than a board takes on a machine under any load."""
FRAME_S = FRAME_NS / 1e9
SOUND_FRAMES = 45
"""Frames of the sound: more than the model's window has."""
SOUND = sound(SOUND_FRAMES)


@pytest.fixture(scope="module")
def binary() -> Path:
    """The firmware with AddressSanitizer and UBSan: whatever they detect ends it."""
    return built("posix-checked", "gcc")


@pytest.fixture(scope="module")
def blob_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the shape of sww01."""
    path = tmp_path_factory.mktemp("wake") / "wake.blob"
    path.write_bytes(generate(wake_model(), model_id="sww01").data)
    return path


@pytest.fixture(scope="module")
def wav_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sound as a file."""
    path = tmp_path_factory.mktemp("wake") / "sound.wav"
    path.write_bytes(wav(SOUND))
    return path


@contextmanager
def listening(binary: Path, blob: Path, *options: str) -> Iterator[Line]:
    """A line to streaming firmware that has the model."""
    with running(binary, "--streaming", "--model", str(blob), *options) as line:
        line.timeout_s = 60
        yield line


def wait_for_samples(line: Line, count: int) -> None:
    """Wait until the firmware has processed exactly `count` samples."""
    deadline_s = time.monotonic() + 60
    while not line.command("state")[1].endswith(f"g_int16s_read={count}"):
        assert time.monotonic() < deadline_s
        time.sleep(FRAME_S)


def transcript(binary: Path, sent: str, *options: str) -> str:
    """Output of the device from its reset on."""
    command = [str(binary), "--stdio", *options]
    result = subprocess.run(command, input=sent.encode(), capture_output=True, check=False)
    assert (result.returncode, result.stderr) == (0, b"")
    return result.stdout.decode()


ABSENT = "this firmware has no I2S input and no data to test with"
EXCHANGES = {
    "name%": "m-name-dut-[edgebench-posix]\r\n",
    "profile%": "m-profile-[ULPMark for tinyML Firmware V0.0.1]\r\nm-model-[sww01]\r\n",
    "timestamp%": "",
    "%": "Empty command (only a % read).  Type 'help%' for help\r\n",
    "NAME%": "Unrecognized command NAME\r\n",
    "infer 1 0%": "Unrecognized command infer\r\n",
    "state%": "g_i2s_state = 0, g_int16s_read=0\r\n",
    "stop%": "I2S is already idle.  Ignoring stop request\r\n",
    "start%": ("Error: No sound: this port has no input for it, and no samples are loaded\r\n"),
    "db%": (
        "Error: db requires a sub-command: 'db load <Nbytes>'; 'db print [Nbytes]', "
        "'db <hexstring>'\r\n"
    ),
    "db load%": (
        "Error: Transfer size () must be valid int; greater than 0.\r\nUsage: 'db load N'; N>0\r\n"
    ),
    "db load x%": (
        "Error: Transfer size (x) must be valid int; greater than 0.\r\nUsage: 'db load N'; N>0\r\n"
    ),
    "db 00%": "Error: Must issue db load <Nbytes> command before transmitting data.\r\n",
    "db load 6%": "Expecting 6 bytes\r\n",
    "db 010%": (
        "Error: number of hex digits in data string must be even. Received 3\r\n"
        "Still waiting for data\r\n"
    ),
    "db 0100ff%": "3 bytes received\r\n",
    "db 7fz0%": (
        "Error: Received non-hex digit in character pair 'z0' at location 4\r\n"
        "Canceling segment upload. Still waiting for data\r\n"
    ),
    "db getptr%": "m-buff-ptr-4\r\n",
    "db setptr 3%": "",
    "db setptr 7%": "Error: setptr: 7 is not within what db load announced\r\n",
    "db setptr%": "Error: setptr requires a numeric argument: 'db setptr 123%'\r\n",
    "db fF0080aa%": "m-load-done\r\n",
    "db print%": "m-buffer-01-00-ff-ff-00-80\r\n",
    "db  print 2%": "m-buffer-01-00\r\n",
    "db print_i16%": "[1, -1, -32768  \r\n]\r\n",
    "db print_i16 1%": "[1  \r\n]\r\n",
    "db put%": "Error: db: Unrecognized sub-command put\r\n",
    "extract_uart_stream%": "Error: 512 samples of 16 bits are needed: db load 1024\r\n",
    "run_model class0%": f"Error: run_model: {ABSENT}\r\n",
    "i2scap 100%": f"Error: i2scap: {ABSENT}\r\n",
    "proc_hi%": "",
    "proc_lo%": "",
    "x-detections%": "m-detections-[0,0]\r\n",
    "x-mode%": "m-timestamp-mode-streaming\r\n",
}


def test_tables_of_the_features_are_what_their_script_writes() -> None:
    """Otherwise a table could be edited by hand, and its next generation change the features."""
    script = ROOT_OF_CHECKOUT / "devtools/write_feature_tables.py"
    subprocess.run([sys.executable, str(script), "--check"], check=True)


def test_transcript_is_that_of_the_streaming_dialect(binary: Path, blob_file: Path) -> None:
    """Otherwise a host of streaming firmware would wait for a missing line, or mistake one."""
    said = transcript(binary, "".join(EXCHANGES), "--streaming", "--model", str(blob_file))
    banner = "m-timestamp-mode-energy\r\nm-init-done\r\nm-ready\r\n"
    assert said == banner + "".join(
        f"Received command: {sent.removesuffix('%')}\r\n{reply}m-ready\r\n"
        for sent, reply in EXCHANGES.items()
    )


def test_other_dialect_has_the_two_commands_for_a_model_that_listens(
    binary: Path, blob_file: Path, tmp_path: Path
) -> None:
    """Otherwise a runner that found sww01 by its profile would get an unknown command for start."""
    silent = "e-[No sound: this port has no input for it, and no samples are loaded]"
    said = transcript(binary, "stop%start%", "--model", str(blob_file)).splitlines()
    assert said[4:] == [
        "I2S is already idle.  Ignoring stop request", "m-ready", silent, "m-ready",
    ]  # fmt: skip
    (tmp_path / "blob").write_bytes(generate(BUILT_IN.read_bytes(), model_id="digits").data)
    said = transcript(binary, "start%", "--model", str(tmp_path / "blob")).splitlines()
    assert said[4:] == ["e-[Unknown command: start]", "m-ready"]
    answer = transcript(binary, "start%", "--streaming", "--model", str(tmp_path / "blob"))
    assert "Error: The model is none of 30 frames with 40 features" in answer


def streamed(line: Line, samples: NDArray[np.int16]) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Features and outputs of each frame, sent one by one over the line."""
    newest: list[list[int]] = []
    outputs: list[list[int]] = []
    for at in range(0, samples.size, STRIDE):
        line.command(f"db load {2 * STRIDE}")
        data = samples[at : at + STRIDE].astype("<i2").tobytes()
        for place in range(0, len(data), 256):
            line.command(f"db {data[place : place + 256].hex()}")
        _, first, second = line.command("extract_uart_stream")
        for text, name, into in ((first, "features", newest), (second, "activations", outputs)):
            match = re.fullmatch(rf"m-{name}-\[( ?[+-]\d+(?:,  ?[+-]\d+)*)\]", text)
            assert match is not None, text
            into.append([int(value) for value in match[1].split(",")])
    return np.array(newest, np.int8), np.array(outputs, np.int8)


def activations_of(lines: list[str]) -> list[int]:
    """What MLPerf Tiny's runner reads from the reply to `stop`: array_from_strings, rewritten."""
    match = re.search(r"target activations:\s*(\[.*?\])\s*m-ready", "".join([*lines, "m-ready"]))
    assert match is not None, lines
    return [int(value) for value in match[1].strip("[]").split(",")]


def test_features_are_those_of_the_training_and_outputs_those_of_litert(
    binary: Path, blob_file: Path
) -> None:
    """Otherwise wrong features would keep the model from detecting a wake word that it knows."""
    need_runtime("ai-edge-litert")
    with listening(binary, blob_file) as line:
        newest, outputs = streamed(line, SOUND)
    exact = features(SOUND, scale=1 / 255)
    cut = np.clip(np.trunc(exact), -128, 127)
    near_edge = np.abs(exact - np.round(exact)) < 0.02
    assert np.all((newest == cut) | near_edge), "single precision moves no feature by more"
    assert np.max(np.abs(newest - cut)) <= 1
    assert np.unique(newest).size > 150, "the sound takes the features through their range"
    reference = Reference(wake_model())
    window = np.zeros((FRAMES, 1, newest.shape[1]), np.int8)
    for new, found in zip(newest, outputs, strict=True):
        window = np.concatenate([window[1:], new[None, None]])
        assert reference.outputs(window[None]) == found.tobytes()


def test_runner_plays_a_sound_and_reads_its_activations(
    binary: Path, blob_file: Path, wav_file: Path, tmp_path: Path
) -> None:
    """Otherwise a runner's streaming script would find no activations, no detections or no pulses.

    Steps: mlcommons/tiny, benchmark/runner, script.py (_ScriptStreamStep); the file that is played
    and the times of the pins are the interface board's.
    """
    pin, edges = tmp_path / "pin", tmp_path / "edges"
    options = ["--sound", str(wav_file), "--pin", str(pin), "--edges", str(edges)]
    with listening(binary, blob_file) as line:
        expected = streamed(line, SOUND)[1][:, 0].tolist()
    with running(binary, "--model", str(blob_file), *options) as line:
        line.timeout_s = 60
        assert "m-model-[sww01]" in line.command("profile")
        for _ in range(2):
            pin.write_bytes(b"")
            edges.write_bytes(b"")
            line.command("stop")
            begin_s = time.monotonic()
            line.command("start")
            assert line.command("start") == ["I2S Rx currently in progress. Ignoring request"]
            assert line.command("infer 1") == ["e-[Listening: stop first]"]
            assert line.command("db load 4") == ["e-[Listening: stop first]"]
            assert line.command("x-frames") == ["e-[Listening: stop first]"]
            while edges.read_text().count("processing 0") < SOUND_FRAMES + 1:
                time.sleep(0.05)
            assert time.monotonic() - begin_s >= SOUND_FRAMES * FRAME_S, "not faster than the sound"
            time.sleep(0.25)
            assert activations_of(line.command("stop")) == expected
            times = [int(text) for text in pin.read_text().split()]
            assert len(times) == 2, "one at the start, one at the stop"
            found = [text.split() for text in edges.read_text().splitlines()]
            high = [int(at) for name, level, at in found if (name, level) == ("processing", "1")]
            low = [int(at) for name, level, at in found if (name, level) == ("processing", "0")]
            assert len(high) == len(low) == SOUND_FRAMES + 1, "one pulse aligns the pins"
            assert all(begin < end for begin, end in zip(high, low, strict=True))
            is_detected = [
                frame == 0 or one > DETECTION_ABOVE for frame, one in enumerate(expected)
            ]
            assert 1 < sum(is_detected) < SOUND_FRAMES
            detected = [int(at) for name, _, at in found if name == "detection"]
            head, *rows = line.command("x-detections")
            assert head == f"m-detections-[{sum(is_detected)},{sum(is_detected)}]"
            assert len(detected) == sum(is_detected)
            numbers = [[int(n) for n in row[13:-1].split(",")] for row in rows]
            assert [frame for frame, _ in numbers] == list(np.flatnonzero(is_detected))
            for (frame, after_us), at in zip(numbers, detected, strict=True):
                assert after_us >= (frame + 1) * FRAME_S * 1e6
                assert abs(after_us * 1000 - (at - times[0])) < 50e6
            assert len(line.durations()) == SOUND_FRAMES


def test_sound_that_is_loaded_is_played(binary: Path, blob_file: Path) -> None:
    """Otherwise a port without an input for sound could not run the script at all."""
    with listening(binary, blob_file) as line:
        outputs = streamed(line, SOUND[: 8 * STRIDE])[1]
    with listening(binary, blob_file) as line:
        line.load_input(SOUND[: 8 * STRIDE].astype("<i2").tobytes())
        line.command("start")
        wait_for_samples(line, 8 * STRIDE)
        assert line.command("state")[1:] == [f"g_i2s_state = 2, g_int16s_read={8 * STRIDE}"]
        assert activations_of(line.command("stop")) == outputs[:, 0].tolist()
        line.command("start")
        assert line.command("stop")[-2:] == ["target activations: ", "[]"], "no sound is left"


@pytest.mark.parametrize(
    ("place", "layout", "value", "text"),
    [
        (20, "<H", 3, "format 3, the model needs 1"),
        (22, "<H", 2, "channels 2, the model needs 1"),
        (24, "<I", 44100, "Hz 44100, the model needs 16000"),
        (34, "<H", 24, "bits 24, the model needs 16"),
        (12, "<I", 0, "is a WAV file without samples"),
    ],
)
def test_sound_in_another_format_is_refused(
    binary: Path, tmp_path: Path, place: int, layout: str, value: int, text: str
) -> None:
    """Otherwise stereo of 44.1 kHz would be processed as other sound, without an error."""
    data = bytearray(wav(SOUND[:STRIDE]))
    struct.pack_into(layout, data, place, value)
    path = tmp_path / "other.wav"
    path.write_bytes(data)
    run = subprocess.run(
        [str(binary), "--sound", str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert text in run.stderr


def test_chunks_around_the_samples_are_not_processed(
    binary: Path, blob_file: Path, tmp_path: Path
) -> None:
    """Otherwise a recorder's remarks in the file would be processed as noise."""
    samples, path = SOUND[: 6 * STRIDE], tmp_path / "remarks.wav"
    plain = wav(samples)
    remark = struct.pack("<4sI", b"LIST", 2 * STRIDE) + bytes(range(256)) * (2 * STRIDE // 256)
    path.write_bytes(plain[:36] + remark + plain[36:] + remark)
    with listening(binary, blob_file) as line:
        expected = streamed(line, samples)[1][:, 0].tolist()
    with listening(binary, blob_file, "--sound", str(path)) as line:
        line.command("start")
        wait_for_samples(line, 6 * STRIDE)
        time.sleep(3 * FRAME_S)  # in which frames of the second remark would follow
        assert activations_of(line.command("stop")) == expected


def test_fifo_is_processed_as_it_is_written(binary: Path, blob_file: Path, tmp_path: Path) -> None:
    """Otherwise only a file that exists at the process's start could be played to it."""
    fifo = tmp_path / "sound"
    os.mkfifo(fifo)
    with listening(binary, blob_file) as line:
        expected = streamed(line, SOUND[: 6 * STRIDE])[1][:, 0].tolist()
    with listening(binary, blob_file, "--sound", str(fifo)) as line:
        line.command("start")
        data = SOUND[: 6 * STRIDE].astype("<i2").tobytes()
        with fifo.open("wb", buffering=0) as player:
            for place in range(0, len(data), 1023):
                player.write(data[place : place + 1023])
                time.sleep(FRAME_S)
        wait_for_samples(line, 6 * STRIDE)
        assert activations_of(line.command("stop")) == expected


@pytest.mark.parametrize("board", ["mps2-an385", "mps3-an547"])
def test_activations_of_boards_are_those_of_the_process(
    board: str, binary: Path, blob_file: Path
) -> None:
    """Otherwise a board's features could differ, or it could lose sound between interrupts."""
    need_tool("qemu-system-arm", "arm-none-eabi-gcc")
    samples = SOUND[2 * STRIDE : 10 * STRIDE]
    with listening(binary, blob_file) as line:
        expected = streamed(line, samples)
    counted = ("-icount", "shift=3,sleep=off")
    with emulated(board, built(board, "arm-none-eabi-gcc"), *counted, blob=blob_file) as line:
        line.lines()
        assert line.command("x-mode streaming") == ["m-timestamp-mode-streaming"]
        assert all(
            np.array_equal(found, wanted)
            for found, wanted in zip(streamed(line, samples), expected, strict=True)
        )
    with emulated(board, built(board, "arm-none-eabi-gcc"), *counted, blob=blob_file) as line:
        line.lines()
        line.load_input(samples.astype("<i2").tobytes())
        line.command("start")
        deadline = time.monotonic() + 60
        while len(line.durations()) < 8:
            assert time.monotonic() < deadline
        assert activations_of(line.command("stop")) == expected[1][:, 0].tolist()


def test_bridge_measures_our_own_streaming_firmware(blob_file: Path, tmp_path: Path) -> None:
    """Otherwise the bridge and the firmware could interpret the streaming protocol differently."""
    path = tmp_path / "long.raw"
    path.write_bytes(sound(400).astype("<i2").tobytes())
    command = [str(built("posix", "gcc")), "--stdio", "--streaming", "--model", str(blob_file)]
    with closing(Board(ChildProcess([*command, "--sound", str(path)]), timing=PATIENT)) as board:
        board.connect()
        assert board.facts.dialect == "mlperf_tiny_streaming"
        assert (board.facts.model_name, board.facts.timestamps) == ("sww01", None)
        assert board.facts.firmware is not None, "x-info says what it is"
        assert not known_board(board.facts).takes_models, "it is offered with its own model"
        streaming = ListeningBoard(board, tmp_path, "")
        for _ in range(2):
            timed = streaming.window(40, warmup_count=0)
            assert 38 <= timed.window.count <= 44
            assert len(timed.inference_ticks) == timed.window.count, "the firmware times each"
            assert streaming.firmware.tick_rate_hz is not None
            longest_s = max(timed.inference_ticks) / streaming.firmware.tick_rate_hz
            assert 0 < longest_s < (timed.window.end_ns - timed.window.begin_ns) / 1e9
            assert timed.window.end_ns - timed.window.begin_ns >= timed.window.count * FRAME_NS
    with closing(Board(ChildProcess(command), timing=PATIENT)) as board:
        board.connect()
        with pytest.raises(BoardRefusal, match="does not start streaming: No sound"):
            ListeningBoard(board, tmp_path, "").window(1, warmup_count=0)


def test_wake_words_of_the_real_model_are_litert_s(binary: Path, tmp_path: Path) -> None:
    """Otherwise sww01 itself might not fit, or its input have other scales than the test model."""
    need_runtime("ai-edge-litert")
    file = need_shared("models") / MODELS["sww01"]
    (tmp_path / "blob").write_bytes(generate(file.read_bytes(), model_id="sww01").data)
    with listening(binary, tmp_path / "blob") as line:
        newest, outputs = streamed(line, SOUND)
    reference = Reference(file.read_bytes())
    exact = features(SOUND, scale=reference.input["quantization"][0])
    assert np.max(np.abs(newest - np.clip(np.trunc(exact), -128, 127))) <= 1
    window = np.zeros((FRAMES, 1, newest.shape[1]), np.int8)
    for new, found in zip(newest, outputs, strict=True):
        window = np.concatenate([window[1:], new[None, None]])
        assert reference.outputs(window[None]) == found.tobytes()


WORDS = st.sampled_from(
    [
        *("start", "stop", "state", "extract_uart_stream", "db load 1024", "db load 5"),
        *(
            "db setptr 2",
            "db setptr 1024",
            "db setptr 4294967295",
            "db print",
            "db print_i16 3",
            "x-mode energy",
        ),
        *("x-mode streaming", "x-detections", "x-cycles", "infer 1 0", "proc_hi", "x-frames"),
    ]
)
BYTES = st.binary(max_size=24).map(lambda data: f"db {data.hex()}")
NOISE = st.lists((WORDS | BYTES).map(lambda text: text.encode() + b"%") | st.binary(max_size=20))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(noise=NOISE)
def test_any_bytes_leave_streaming_firmware_that_says_its_name(
    loaded: Line, noise: list[bytes]
) -> None:
    """Otherwise a host of another protocol, or a lost byte, would block the board until a reset."""
    loaded.send(b"".join(noise) + b"%\0" + frame(LEAVE, 1) + b"%x-mode streaming%stop%the-end%")
    loaded.until(b"command the-end\r\n")
    assert loaded.lines() == []
    assert loaded.command("name") == [
        "Received command: name", "m-name-dut-[edgebench-posix]",
    ]  # fmt: skip


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_blob_that_listens_stays_within_its_memory(
    loaded: Line, blob_file: Path, data: st.DataObject
) -> None:
    """Otherwise a damaged model of this shape would have its features overwrite the firmware."""
    whole = blob_file.read_bytes()
    words = st.integers(0, structure_words(whole) - 1)
    values = st.sampled_from(INTERESTING) | st.integers(0, 2**32 - 1)
    edits = data.draw(st.lists(st.tuples(words, values), min_size=1, max_size=3))
    damaged = edited(whole, edits)
    loaded.command("x-frames")
    loaded.exchange(MODEL_BEGIN, 0, struct.pack("<II", len(damaged), zlib.crc32(damaged)))
    for offset in range(0, len(damaged), 1024):
        part = struct.pack("<I", offset) + damaged[offset : offset + 1024]
        loaded.exchange(MODEL_DATA, 0, part)
    loaded.exchange(MODEL_COMMIT)
    loaded.leave()
    loaded.command("db load 1024")
    loaded.command("db setptr 1024")
    for command in ("extract_uart_stream", "start", "stop", "x-out"):
        loaded.command(command)
    assert loaded.command("name")[1:] == ["m-name-dut-[edgebench-posix]"]


@pytest.fixture(scope="module")
def loaded(binary: Path, blob_file: Path) -> Iterator[Line]:
    """A line to streaming firmware, for many tests."""
    with listening(binary, blob_file) as line:
        yield line
