#!/usr/bin/env python3
"""Measures uploads to the firmware over a line of 115200 baud, in hex and in frames.

    python tests/system/firmware_upload.py [--bytes 27648] [--baud 115200]

The line is a pseudo-terminal, on which each byte takes as long as it would on a real line.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.firmware_process import ACK, INPUT_BEGIN, INPUT_DATA, Line, built, frame, running

HEX_BYTES = 514
"""Bytes of a command of 1031 characters."""
FRAME_BYTES = 1024


def in_hex(line: Line, data: bytes) -> float:
    """Seconds of an upload in hex."""
    started = time.monotonic()
    line.command(f"db load {len(data)}")
    for offset in range(0, len(data), HEX_BYTES):
        replies = line.command(f"db {data[offset : offset + HEX_BYTES].hex()}")
    assert replies == ["m-load-done"]
    return time.monotonic() - started


def in_frames(line: Line, data: bytes) -> float:
    """Seconds of an upload in frames, two of them in flight."""
    started = time.monotonic()
    line.command("x-frames")
    assert line.exchange(INPUT_BEGIN, 0, struct.pack("<I", len(data))).kind == ACK
    waiting = 0
    for offset in range(0, len(data), FRAME_BYTES):
        part = struct.pack("<I", offset) + data[offset : offset + FRAME_BYTES]
        line.send(frame(INPUT_DATA, 0, part))
        waiting += 1
        if waiting == 2:
            assert line.reply().kind == ACK
            waiting -= 1
    while waiting:
        assert line.reply().kind == ACK
        waiting -= 1
    line.leave()
    return time.monotonic() - started


def main() -> int:
    parser = argparse.ArgumentParser(description="measure uploads to the firmware")
    parser.add_argument("--bytes", type=int, default=27648)
    parser.add_argument("--baud", type=int, default=115200)
    options = parser.parse_args()
    data = bytes(index * 37 % 256 for index in range(options.bytes))
    limit_s = len(data) * 2 * 10 / options.baud
    with running(built("posix", "gcc"), "--baud", str(options.baud)) as line:
        hex_s, frames_s = in_hex(line, data), in_frames(line, data)
    print(f"hex {hex_s:.3f} s, {hex_s / limit_s:.3f} of two digits for each byte ({limit_s:.3f} s)")
    print(f"frames {frames_s:.3f} s, {hex_s / frames_s:.3f} times as fast")
    return 0 if hex_s <= 1.1 * limit_s and hex_s >= 1.9 * frames_s else 1


if __name__ == "__main__":
    sys.exit(main())
