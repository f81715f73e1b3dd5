#!/usr/bin/env python3
"""Write the tables of the wake-word features: firmware_bridge/firmware/core/feature_tables.c.

    python devtools/write_feature_tables.py           # write the file
    python devtools/write_feature_tables.py --check   # exit with 1 if the file is out of date

Source: mlcommons/tiny, benchmark/training/streaming_wakeword/get_dataset.py (lfbe): frames of 1024
samples at 16 kHz, a symmetric Hamming window, and 40 mel bands from 0 to 8000 Hz. The bands are
those of tf.signal.linear_to_mel_weight_matrix: triangles on the mel scale, without the bin of 0 Hz.
"""

from __future__ import annotations

import argparse
import math
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

OUTPUT = Path(__file__).resolve().parents[1] / "firmware_bridge/firmware/core/feature_tables.c"
FRAME, BINS, BANDS, RATE_HZ = 1024, 513, 40, 16_000
VALUES_A_LINE = 8


def _mel(frequency_hz: float) -> float:
    """Frequency in mel, with the constants of TensorFlow: 1127 ln(1 + f / 700)."""
    return 1127.0 * math.log(1.0 + frequency_hz / 700.0)


def hamming() -> list[float]:
    """First half of the Hamming window; the second half is its mirror image."""
    return [0.54 - 0.46 * math.cos(2 * math.pi * i / (FRAME - 1)) for i in range(FRAME // 2)]


def cosines() -> list[float]:
    """Cosine over a quarter of a period, in steps of 1/1024 period."""
    return [math.cos(2 * math.pi * i / FRAME) for i in range(FRAME // 4 + 1)]


def places() -> list[float]:
    """Position of each bin on the scale on which the band edges are the integers 0 to 41.

    The fractional part of the position is the weight of the bin in the band that rises there; 1
    minus this part is its weight in the band that falls there.
    """
    step = _mel(RATE_HZ / 2) / (BANDS + 1)
    return [_mel(k * RATE_HZ / FRAME) / step for k in range(BINS)]


def _float32(value: float) -> str:
    """Shortest C literal of the float32 that is nearest to a value."""
    (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    texts = (f"{rounded:.{digits}g}" for digits in range(1, 10))
    text = next(one for one in texts if struct.pack("<f", float(one)) == struct.pack("<f", rounded))
    return f"{text if set(text) & set('.e') else text + '.0'}f"


def _table(name: str, values: Sequence[float]) -> str:
    texts = [_float32(value) for value in values]
    lines = [
        "\t" + ", ".join(texts[at : at + VALUES_A_LINE]) + ","
        for at in range(0, len(texts), VALUES_A_LINE)
    ]
    return "\n".join([f"const float {name}[{len(values)}] = {{", *lines, "};"])


def source() -> str:
    """Content of the file."""
    return "\n\n".join(
        [
            '/* Written by devtools/write_feature_tables.py. */\n#include "core/features.h"',
            _table("feature_window", hamming()),
            _table("feature_cosines", cosines()),
            _table("feature_places", places()) + "\n",
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="write the tables of the wake-word features")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    if not parser.parse_args().check:
        OUTPUT.write_text(source(), "utf-8")
        return 0
    if OUTPUT.read_text("utf-8") == source():
        return 0
    print(f"error: {OUTPUT} is not what this script writes", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
