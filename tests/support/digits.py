"""The built-in digit models, as tests of all runtimes run them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.agent.runtimes.registry import BUILT_IN, find_runtime
from edgebench.protocol.runtime import LoadedModel, LoadOptions, Runtime

FOLDER = Path(str(files("edgebench.host") / "builtin_models"))
MANIFEST = json.loads((FOLDER / "manifest.json").read_text())
PACKAGES = {"litert": "ai-edge-litert", "tflite": "tflite-runtime", "onnx": "onnxruntime"}
ONE_THREAD = LoadOptions(threads=1)


@dataclass(frozen=True)
class Case:
    """A built-in model on a runtime."""

    runtime: str
    entry: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.entry['file']}-{self.runtime}"

    @property
    def path(self) -> str:
        """The model file."""
        return str(FOLDER / self.entry["file"])

    def load(self, options: LoadOptions = ONE_THREAD) -> LoadedModel:
        """The model on its runtime."""
        return imported(self.runtime).load(self.path, options)


CASES = [
    Case(kind().name, entry)
    for kind in BUILT_IN
    for entry in MANIFEST["models"]
    if entry["format"] in kind().formats
]


def imported(name: str) -> Runtime:
    """The driver, with its library imported."""
    driver = find_runtime(name)
    driver.import_library()
    return driver


def a_model_for(runtime: Runtime) -> str:
    """A float model that this runtime loads."""
    (suffix,) = runtime.formats
    return str(FOLDER / f"digits_fp32.{suffix}")


def images(entry: dict[str, Any]) -> tuple[list[NDArray[Any]], NDArray[Any]]:
    """The held-out digits as inputs of this model, and their labels."""
    with np.load(FOLDER / MANIFEST["test_set"]["file"]) as held_out:
        pixels, labels = held_out["images"], held_out["labels"]
    scaled = pixels.astype(np.float32).reshape(-1, 8, 8) / entry["input_divisor"]
    takes = entry["input"]
    if takes["scale"] is not None:
        bounds = np.iinfo(takes["dtype"])
        steps = np.round(scaled / takes["scale"]) + takes["zero_point"]
        scaled = np.clip(steps, bounds.min, bounds.max)
    shaped = scaled.astype(takes["dtype"]).reshape(-1, *takes["shape"])
    return list(shaped), labels
