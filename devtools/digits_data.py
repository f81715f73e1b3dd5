"""The data set of digits for the built-in models, and the list of these models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

SEED = 0
"""Seed of the split, of the initial weights and of the order of the samples."""
TEST_COUNT = 360
"""Number of held-out samples, a fifth of all 1797 samples."""
PIXEL_MAX = 16
"""Largest value of a pixel, which is the number of black dots in a block of 4x4. The input of the
network is pixel / 16."""
TEST_SET_FILE = "digits_test.npz"

Images = NDArray[np.uint8]
"""Shape (n, 8, 8, 1), values 0..16."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model file to build."""

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
    """The split data set; `test_index` has scikit-learn's indices of the held-out samples."""

    train_images: Images
    train_labels: NDArray[np.uint8]
    test_images: Images
    test_labels: NDArray[np.uint8]
    test_index: NDArray[np.uint16]


def scaled(images: Images) -> NDArray[np.float32]:
    """Images scaled to 0..1, as inputs of the network; the shape is the same."""
    return images.astype(np.float32) / np.float32(PIXEL_MAX)


def load_data() -> Digits:
    """Load and split scikit-learn's digits; each class has the same share in both parts."""
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
