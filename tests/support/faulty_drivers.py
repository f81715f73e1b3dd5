"""Drivers with a planted fault in the calls of the timed loop; the rest is that of real drivers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.agent.runtimes.onnx import OnnxRuntime
from edgebench.agent.runtimes.tflite import TfliteRuntime
from edgebench.protocol.runtime import LoadOptions, Runtime, UsableRuntime

LIBRARY_VARIABLE = "OV_TEST_LIBRARY"
"""Variable with the file of the library of `UnconfinableRuntime`; workers get those of OpenVINO."""


class FaultyModel:
    """A model of a real driver, whose methods a fault replaces."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class ZerosTimed(FaultyModel):
    """`prepare` copies zeros."""

    def prepare(self, samples: Sequence[Sequence[Any]]) -> list[Callable[[], Any]]:
        setters: list[Callable[[], Any]] = self.model.prepare(
            [[np.zeros_like(part) for part in sample] for sample in samples]
        )
        return setters


class PreviousOutput(FaultyModel):
    """`reader` returns the outputs of the inference before the last."""

    def reader(self) -> Callable[[], Any]:
        read = self.model.reader()
        kept: list[Any] = [read(), None]

        def read_late() -> Any:
            kept[:] = kept[1] if kept[1] is not None else kept[0], read()
            return kept[0]

        return read_late


class EverySecondSkipped(FaultyModel):
    """The timed `invoker` runs every second inference."""

    def invoker(self) -> Callable[[], Any]:
        invoke = self.model.invoker()
        count = 0

        def invoke_sometimes() -> None:
            nonlocal count
            count += 1
            if count % 2:
                invoke()

        return invoke_sometimes


class EverySecondSkippedInAllCalls(FaultyModel):
    """Every second inference of the model is skipped, whichever call requests it."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.count = 0

    def invoker(self) -> Callable[[], Any]:
        invoke = self.model.invoker()

        def invoke_sometimes() -> None:
            self.count += 1
            if self.count % 2:
                invoke()

        return invoke_sometimes


class StaleBuffer(FaultyModel):
    """`reader` returns a buffer that no inference writes to any more."""

    def reader(self) -> Callable[[], Any]:
        buffer = self.model.reader()()
        return lambda: buffer


class WrongShape(FaultyModel):
    """`reader` returns the outputs without their first dimension."""

    def reader(self) -> Callable[[], Any]:
        read = self.model.reader()

        def read_flat() -> list[Any]:
            values = read()
            return [value[0] for value in (values if isinstance(values, list) else [values])]

        return read_flat


class Aliasing(FaultyModel):
    """`reader` and `read_outputs` return the same memory each time."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.memory: list[Any] = []

    def read_outputs(self) -> list[Any]:
        outputs = self.model.read_outputs()
        self.memory = self.memory or [output.copy() for output in outputs]
        for kept, output in zip(self.memory, outputs, strict=True):
            kept[...] = output
        return self.memory

    def reader(self) -> Callable[[], Any]:
        return self.read_outputs


class PreparedOnce(FaultyModel):
    """A second `prepare` keeps the samples of the first."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.setters: list[Callable[[], Any]] = []

    def prepare(self, samples: Sequence[Sequence[Any]]) -> list[Callable[[], Any]]:
        self.setters = self.setters or self.model.prepare(samples)
        return self.setters


class SamplesWritten(FaultyModel):
    """`prepare` normalises the samples in place."""

    def prepare(self, samples: Sequence[Sequence[Any]]) -> list[Callable[[], Any]]:
        setters: list[Callable[[], Any]] = self.model.prepare(
            [[part.copy() for part in sample] for sample in samples]
        )
        for sample in samples:
            sample[0][...] = 0
        return setters


class WithState(FaultyModel):
    """The outputs depend on the number of inferences, which `reset` does not restore."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.count = 0

    def invoker(self) -> Callable[[], Any]:
        invoke = self.model.invoker()

        def invoke_and_count() -> None:
            self.count += 1
            invoke()

        return invoke_and_count

    def read_outputs(self) -> list[Any]:
        return [output + self.count for output in self.model.read_outputs()]


class Restoring(FaultyModel):
    """A good model whose `reset` restores everything: it loads the model anew."""

    def __init__(self, load: Callable[[], Any]) -> None:
        super().__init__(load())
        self._load = load

    def reset(self) -> None:
        self.model = self._load()


class Threaded(FaultyModel):
    """An inference computes on two threads, whatever was requested."""

    def invoker(self) -> Callable[[], Any]:
        invoke = self.model.invoker()
        pool = ThreadPoolExecutor(1)

        def compute() -> None:
            sum(range(20_000))

        def invoke_with_help() -> None:
            helped = pool.submit(compute)
            compute()
            helped.result()
            invoke()

        return invoke_with_help


class OtherWeights(FaultyModel):
    """All calls run another model than that of the file: its outputs are in another order."""

    def read_outputs(self) -> list[Any]:
        return [np.roll(output, 1, axis=-1) for output in self.model.read_outputs()]

    def reader(self) -> Callable[[], Any]:
        return self.read_outputs


FAULTS: dict[str, type[FaultyModel]] = {
    "zeros": ZerosTimed,
    "previous": PreviousOutput,
    "skipped": EverySecondSkipped,
    "all-skipped": EverySecondSkippedInAllCalls,
    "stale": StaleBuffer,
    "shape": WrongShape,
}
UNTIMED_FAULTS: dict[str, tuple[type[FaultyModel], str]] = {
    "aliasing": (Aliasing, "copies"),
    "prepared-once": (PreparedOnce, "prepare again"),
    "samples-written": (SamplesWritten, "order"),
    "threaded": (Threaded, "threads"),
    "other-weights": (OtherWeights, "reference"),
}
"""Faults outside the calls of the timed loop, each with the conformance check that finds it."""
BASES: dict[str, Callable[[], Runtime]] = {"onnx": OnnxRuntime, "tflite": TfliteRuntime}
"""Real drivers below the faults."""


class FaultyRuntime:
    """A driver of somebody else's package, named after its base and its fault."""

    no_profiler = "it has no profiler"

    def __init__(self, base: str, fault: str) -> None:
        self._base = BASES[base]()
        self.name = f"{base}-{fault}"
        self.formats = self._base.formats
        self._fault = FAULTS[fault] if fault in FAULTS else UNTIMED_FAULTS[fault][0]

    def probe(self) -> UsableRuntime:
        """It works, says its author."""
        return UsableRuntime("1")

    def import_library(self) -> str:
        """Import the real library."""
        return self._base.import_library()

    def load(self, path: str, options: LoadOptions) -> Any:
        """Load a model with the fault."""
        return self._fault(self._base.load(path, options))


class RestoringRuntime(FaultyRuntime):
    """A driver without a fault, whose models have no history after `reset`."""

    def __init__(self) -> None:
        super().__init__("tflite", "stale")

    def load(self, path: str, options: LoadOptions) -> Any:
        """Load a model that can be loaded again."""
        return Restoring(partial(self._base.load, path, options))


class UnconfinableRuntime(FaultyRuntime):
    """A driver whose library lies where no worker may read."""

    def __init__(self) -> None:
        super().__init__("onnx", "stale")
        self.name = "unconfinable"
        self.formats = ()  # so that `--runtime all` does not try it

    def load(self, path: str, options: LoadOptions) -> Any:
        """Load a model after a part of the library."""
        Path(os.environ[LIBRARY_VARIABLE]).read_bytes()
        return self._base.load(path, options)


def __getattr__(name: str) -> Any:
    """The driver that an entry point names, such as `onnx_zeros`."""
    base, _, fault = name.partition("_")
    if base not in BASES:
        raise AttributeError(name)
    return lambda: FaultyRuntime(base, fault.replace("_", "-"))


def install(folder: Path) -> dict[str, str]:
    """Variables with which an agent finds the drivers."""
    info = folder / "faulty-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    names = [(base, fault) for base in BASES for fault in FAULTS]
    points = [
        f"{base}-{fault} = support.faulty_drivers:{base}_{fault.replace('-', '_')}"
        for base, fault in names
    ]
    points.append("unconfinable = support.faulty_drivers:UnconfinableRuntime")
    (info / "entry_points.txt").write_text("\n".join(("[edgebench.runtimes]", *points, "")))
    return {"PYTHONPATH": f"{folder}:{Path(__file__).parents[1]}"}
