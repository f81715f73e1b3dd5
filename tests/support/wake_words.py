"""Sound, features and a model for the streaming wake-word firmware.

The features are written from MLPerf Tiny's training script, with NumPy's transform in double
precision: a second reading of what core/features.c computes. Source: mlcommons/tiny,
benchmark/training/streaming_wakeword/get_dataset.py (lfbe).
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support import tflite_bytes as tb
from support.tflite_bytes import Graph, Operator, Tensor, model

STRIDE, FRAME, BANDS, FRAMES = 512, 1024, 40, 30
RATE_HZ = 16_000
DETECTION_ABOVE = 115


def wake_model() -> bytes:
    """A model of the shape of sww01: one convolution over all 30 frames."""
    generator = np.random.default_rng(7)
    weights = generator.integers(-127, 128, (3, FRAMES, 1, BANDS)).astype(np.int8)
    scale, weight_scale = float(np.float32(1 / 255)), 0.004
    return model(
        Graph(
            (
                Tensor("x", tb.INT8, (1, FRAMES, 1, BANDS), scales=(scale,), zero_point=-128),
                Tensor("w", tb.INT8, weights.shape, weights.tobytes(), (weight_scale,) * 3, axis=0),
                Tensor("b", tb.INT32, (3,), bytes(12), (scale * weight_scale,) * 3),
                Tensor("y", tb.INT8, (1, 1, 1, 3), scales=(0.05,), zero_point=0),
            ),
            (Operator(tb.CONV_2D, "x w b", "y", {0: 1, 1: 1, 2: 1, 4: 1, 5: 1}),),
        )
    )


def sound(frame_count: int, seed: int = 1) -> NDArray[np.int16]:
    """Tones that come and go over noise, from silence to the bounds."""
    generator = np.random.default_rng(seed)
    time_s = np.arange(frame_count * STRIDE) / RATE_HZ
    made = generator.normal(0, 300, time_s.size)
    for frequency_hz in (180.0, 440.0, 1250.0, 3900.0, 7000.0):
        pace_hz = generator.uniform(0.4, 2.5)
        made += 9000 * np.sin(2 * np.pi * frequency_hz * time_s) * np.sin(pace_hz * time_s) ** 2
    made[: 2 * STRIDE] = 0
    samples: NDArray[np.int16] = np.clip(np.round(made), -32768, 32767).astype(np.int16)
    return samples


def wav(samples: NDArray[np.int16]) -> bytes:
    """A WAV file of one channel."""
    data = samples.astype("<i2").tobytes()
    head = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1,
                       RATE_HZ, 2 * RATE_HZ, 2, 16)  # fmt: skip
    return head + struct.pack("<4sI", b"data", len(data)) + data


def _mel_weights() -> NDArray[np.float64]:
    """Weights of the bands, shape (513, 40): triangles on the mel scale."""

    def mel(frequency_hz: Any) -> Any:
        return 1127.0 * np.log(1.0 + frequency_hz / 700.0)

    bins = mel(np.linspace(0, RATE_HZ / 2, FRAME // 2 + 1))[:, None]
    edges = np.linspace(0, mel(RATE_HZ / 2), BANDS + 2)
    lower, center, upper = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - lower) / (center - lower), (upper - bins) / (upper - center)
    weights: NDArray[np.float64] = np.maximum(0, np.minimum(rising, falling))
    weights[0] = 0
    return weights


def features(samples: NDArray[np.int16], scale: float) -> NDArray[np.float64]:
    """Features of each frame on the scale of the model's input, before they are cut off to int8."""
    padded = np.concatenate([np.zeros(FRAME - STRIDE + 1), samples / 32768.0])
    emphasised = padded[1:] - 0.96875 * padded[:-1]
    count = samples.size // STRIDE
    frames = np.stack([emphasised[at * STRIDE : at * STRIDE + FRAME] for at in range(count)])
    power = np.abs(np.fft.rfft(frames * np.hamming(FRAME))) ** 2 / FRAME
    bands = np.maximum(power @ _mel_weights(), 1e-30)
    exact: NDArray[np.float64] = np.clip((10 * np.log10(bands) + 52) / 64, 0, 1) / scale - 128
    return exact
