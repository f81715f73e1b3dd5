"""Labelled data sets for `--accuracy`.

A data set is a .npz file with these arrays:

    x         the samples as real values, shape (n, …); the channels of images are last
    y         the labels, shape (n,)
    metric    the name of a metric; optional

The file is sent to the device. The device runs the model on `x`, and the host compares the outputs
with the labels.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.outputs import METRICS, NEED_BOTH_LABELS
from edgebench.host.arrays import read_array_file
from edgebench.protocol.errors import DatasetFileRefused, DatasetIncomplete, DatasetNotFinite
from edgebench.protocol.text import printable

MAX_LABEL = 1e100
"""Maximum absolute value of a label; the square of a larger label could overflow."""
BUILT_IN = "digits"
"""Name of the built-in data set, the held-out test set of the built-in models."""
_FOLDER = Path(str(files("edgebench.host") / "builtin_models"))
_NEEDS_SAMPLES = "reconstruction_auc"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A labelled data set in a file on the host."""

    name: str
    path: Path
    sha256: str
    size_bytes: int
    metric: str
    labels: dict[str, NDArray[Any]]
    """Arrays that are stored with a run: `y`, and `x` if the metric needs it."""


def open_dataset(text: str) -> Dataset:
    """Open the data set at this path, or the built-in data set `digits`.

    Raises:
        UsageError: the file does not exist.
        DatasetFileRefused: the file does not contain a valid data set.
    """
    if text == BUILT_IN and not os.path.exists(text):
        # Write the built-in test set as a data set; the bytes of the file are always the same.
        manifest = json.loads((_FOLDER / "manifest.json").read_text())
        with np.load(_FOLDER / manifest["test_set"]["file"]) as file:
            images, labels = file["images"], file["labels"]
        divisor = manifest["models"][0]["input_divisor"]
        folder = Path(tempfile.mkdtemp(prefix="edgebench-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = folder / f"{BUILT_IN}.npz"
        np.savez(path, x=images.astype(np.float32) / divisor, y=labels.astype(np.int64))
        return _open(path, BUILT_IN)
    return _open(Path(text), printable(Path(text).name))


def _open(path: Path, name: str) -> Dataset:
    file = read_array_file(path, "data set")
    arrays = file.arrays
    labels = _labels(arrays, path)
    metric = _metric(arrays, labels, path)
    # Check that the labels are in the range of the metric.
    if metric == "top1" and (np.any(labels < 0) or np.any(labels != np.floor(labels))):
        raise DatasetFileRefused(
            f"data set needs class numbers from 0 in y for the metric top1: {path}"
        )
    if np.any(np.abs(labels.astype(np.float64)) > MAX_LABEL):
        raise DatasetFileRefused(f"data set has labels above {MAX_LABEL:g} in y: {path}")
    kept = {"y": labels} | ({"x": arrays["x"]} if metric == _NEEDS_SAMPLES else {})
    return Dataset(name, path, file.sha256, file.size_bytes, metric, kept)


def _labels(arrays: dict[str, NDArray[Any]], path: Path) -> NDArray[Any]:
    if "x" not in arrays or "y" not in arrays:
        raise DatasetFileRefused(
            f"data set needs the arrays x and y, got {', '.join(arrays)}: {path}"
        )
    samples, labels = arrays["x"], arrays["y"]
    shapes = f"x has shape {list(samples.shape)}, y has {list(labels.shape)}: {path}"
    if not samples.size or not labels.size:
        raise DatasetIncomplete(f"data set is empty: {shapes}")
    if samples.ndim > 1 and labels.ndim == 1 and samples.shape[:2] == (1, len(labels)) != (1, 1):
        raise DatasetIncomplete(
            f"data set has a batch dimension before the sample dimension: {shapes}"
        )
    if samples.ndim < 1 or labels.ndim != 1 or len(samples) != len(labels):
        raise DatasetIncomplete(f"data set needs one label per sample: {shapes}")
    for name, array in (("x", samples), ("y", labels)):
        if array.dtype.kind not in "biuf":
            raise DatasetFileRefused(
                f"data set needs numbers in {name}, got type {array.dtype}: {path}"
            )
        if count := array.size - int(np.isfinite(array).sum()):
            raise DatasetNotFinite(
                f"data set needs finite numbers in {name}: {count} of {array.size} are NaN or "
                f"infinite: {path}"
            )
    return labels


def _metric(arrays: dict[str, NDArray[Any]], labels: NDArray[Any], path: Path) -> str:
    """The file's metric; by default `top1` for integer labels, `mean_abs_error` for others."""
    if "metric" not in arrays:
        return "top1" if labels.dtype.kind in "biu" else "mean_abs_error"
    metric = str(arrays["metric"])
    if metric not in METRICS:
        raise DatasetFileRefused(
            f"unknown metric {metric[:40]!r}, expected {', '.join(METRICS)}: {path}"
        )
    if metric in NEED_BOTH_LABELS and len(np.unique(labels > 0)) < 2:
        raise DatasetFileRefused(
            f"data set needs samples of both labels for the metric {metric}: {path}"
        )
    return metric
