"""The digits that the carried models learn and answer, and which models these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

SEED = 0
"""Of the split, the initial weights and the order of the samples."""
TEST_COUNT = 360
"""Held-out samples, a fifth of the 1797."""
PIXEL_MAX = 16
"""A pixel counts the inked dots of a 4x4 block, so 0..16; the network takes pixel / 16."""
TEST_SET_FILE = "digits_test.npz"

Images = NDArray[np.uint8]
"""Shape (n, 8, 8, 1), values 0..16."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One of the files to build."""

    file: str
    format: Literal["tflite", "onnx"]
    precision: Literal["int8", "fp32"]
    input_layout: Literal["NHWC", "NCHW"]


MODELS = (
    ModelSpec("digits_int8.tflite", "tflite", "int8", "NHWC"),
    ModelSpec("digits_fp32.tflite", "tflite", "fp32", "NHWC"),
    ModelSpec("digits_int8.onnx", "onnx", "int8", "NCHW"),
    ModelSpec("digits_fp32.onnx", "onnx", "fp32", "NCHW"),
)


@dataclass(frozen=True, slots=True)
class Digits:
    """The data, split; `test_index` says which of scikit-learn's samples are held out."""

    train_images: Images
    train_labels: NDArray[np.uint8]
    test_images: Images
    test_labels: NDArray[np.uint8]
    test_index: NDArray[np.uint16]


def scaled(images: Images) -> NDArray[np.float32]:
    """Images as the network takes them, 0..1, same shape."""
    return images.astype(np.float32) / np.float32(PIXEL_MAX)


def load_data() -> Digits:
    """Split scikit-learn's digits; every class is held out in its own proportion."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    bunch = load_digits()
    images = bunch.images.astype(np.uint8)[..., np.newaxis]
    labels = bunch.target.astype(np.uint8)
    train, test = train_test_split(
        np.arange(len(labels)), test_size=TEST_COUNT, random_state=SEED, stratify=labels
    )
    train, test = np.sort(train), np.sort(test)
    return Digits(
        train_images=images[train],
        train_labels=labels[train],
        test_images=images[test],
        test_labels=labels[test],
        test_index=test.astype(np.uint16),
    )
