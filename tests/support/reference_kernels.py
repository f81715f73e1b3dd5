"""LiteRT's and TensorFlow Lite Micro's reference kernels as the oracles of the firmware's."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.firmware_bridge.generate import ModelBlob
from edgebench.firmware_bridge.tflite import read_model
from support.tools import ROOT_OF_CHECKOUT, SHARED

MODELS = {
    "kws01": "mlperf_tiny/models/kws_ref_model.tflite",
    "vww01": "mlperf_tiny/models/vww_96_int8.tflite",
    "ic01": "mlperf_tiny/models/pretrainedResnet_quant.tflite",
    "ic02": "mlperf_tiny/models/pretrainedResnet_large_int8.tflite",
    "ad01": "mlperf_tiny/models/ad01_int8.tflite",
    "sww01": "mlperf_tiny/models/str_ww_ref_model.tflite",
    "hello_world": "suite/01_hello_world/hello_world_int8.tflite",
    "digits_cnn": "suite/02_digits/digits_cnn_int8.tflite",
    "micro_speech": "suite/04_micro_speech/micro_speech_int8.tflite",
    "mobilenet_v1": "suite/05_mobilenet_v1_0.25_224/mobilenet_v1_0.25_224_ptq_int8.tflite",
}
"""int8 models of ../shared/models, by the ID that the firmware gets."""
BUILT_IN = ROOT_OF_CHECKOUT / "host/edgebench/host/builtin_models/digits_int8.tflite"


_ARENA_BYTES = 4 << 20
"""More than any of these models needs."""
_SHAPE_INPUTS = {"tflm_transpose_conv0": struct.pack("<4i", 1, 3, 12, 64)}
"""Inputs that are the shape of an output, to which the reference sizes it."""


def model_files() -> dict[str, Path]:
    """Every model that is here."""
    files = {name: SHARED / "models" / path for name, path in MODELS.items()}
    return {name: path for name, path in files.items() if path.exists()} | {"digits": BUILT_IN}


def board_files() -> dict[str, Path]:
    """Models that people run on microcontrollers, of ../shared/models/boards, if they are here."""
    return {path.stem: path for path in sorted((SHARED / "models/boards").glob("*.tflite"))}


class Reference:
    """A model on LiteRT's reference kernels (`BUILTIN_REF`)."""

    def __init__(self, data: bytes) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        self._interpreter = Interpreter(
            model_content=data, experimental_op_resolver_type=OpResolverType.BUILTIN_REF
        )
        self._interpreter.allocate_tensors()
        self.input: dict[str, Any] = self._interpreter.get_input_details()[0]
        self.output: dict[str, Any] = self._interpreter.get_output_details()[0]

    def outputs(self, values: NDArray[Any]) -> bytes:
        """Bytes of all outputs for one input, or for several, one after the other."""
        details = self._interpreter.get_input_details()
        for detail, tensor in zip(details, _separated(values, details), strict=True):
            self._interpreter.set_tensor(detail["index"], tensor)
        self._interpreter.invoke()
        details = self._interpreter.get_output_details()
        return b"".join(self._interpreter.get_tensor(one["index"]).tobytes() for one in details)


class MicroReference:
    """A model on TensorFlow Lite Micro's reference kernels, from its own wheel."""

    def __init__(self, data: bytes) -> None:
        from tflite_micro import runtime

        self._interpreter = runtime.Interpreter.from_bytes(data, arena_size=_ARENA_BYTES)
        graph = read_model(data)
        self._inputs = [self._interpreter.get_input_details(n) for n in range(len(graph.inputs))]
        self._output_count = len(graph.outputs)

    def outputs(self, values: NDArray[Any]) -> bytes:
        """Bytes of all outputs for one input, or for several, one after the other."""
        for number, tensor in enumerate(_separated(values, self._inputs)):
            self._interpreter.set_input(tensor, number)
        self._interpreter.invoke()
        outputs = (self._interpreter.get_output(n) for n in range(self._output_count))
        return b"".join(output.tobytes() for output in outputs)


def _separated(values: NDArray[Any], details: Sequence[Mapping[str, Any]]) -> list[NDArray[Any]]:
    """The inputs whose bytes are these, one after the other."""
    data, tensors = values.tobytes(), []
    for detail in details:
        shape = tuple(int(size) for size in detail["shape"])
        size = int(np.prod(shape)) * np.dtype(detail["dtype"]).itemsize
        tensors.append(np.frombuffer(data[:size], detail["dtype"]).reshape(shape))
        data = data[size:]
    assert not data
    return tensors


REFERENCES: dict[str, type[Reference] | type[MicroReference]] = {
    "litert": Reference,
    "tflm": MicroReference,
}
"""Whose outputs a blob of this rounding has."""
CRASHES = {"litert": {"tflm_keyword_scrambled_8bit"}, "tflm": set[str]()}
"""Models at which the reference crashes: LiteRT has no SVDF with a state of int8."""


def inputs(shape: tuple[int, ...], count: int, seed: int = 0) -> list[NDArray[np.int8]]:
    """Inputs of int8: noise and smooth shapes in turn, the first two at the bounds."""
    generator = np.random.default_rng(seed)
    made: list[NDArray[np.int8]] = []
    size = int(np.prod(shape))
    for number in range(count):
        if number % 2 == 0:
            values = generator.integers(-128, 128, size)
        else:
            steps = np.cumsum(generator.normal(0, generator.uniform(0.5, 8), size))
            values = np.clip(np.round(steps - np.median(steps)), -128, 127)
        made.append(values.astype(np.int8).reshape(shape))
    return made


def samples(
    name: str, data: bytes, blob: ModelBlob, count: int, seed: int = 0
) -> list[tuple[bytes, NDArray[Any]]]:
    """Inputs of a model: as a host sends them, and as the reference takes them."""
    graph = read_model(data)
    source = graph.tensors[graph.inputs[0]]
    if source.type == "int8" and blob.input_encoding != "int8":
        drawn = inputs(source.shape, count, seed)
        scale, zero_point = source.scale, source.zero_point
        return [(as_sent(one, blob.input_encoding, scale, zero_point), one) for one in drawn]
    is_real = source.type == "float32"
    drawn = inputs((blob.input_bytes // (4 if is_real else 1),), count, seed)
    head = np.frombuffer(_SHAPE_INPUTS.get(name, b""), np.int8)
    made: list[tuple[bytes, NDArray[Any]]] = []
    for values in drawn:
        values[: len(head)] = head
        sent = values.astype(np.float32) / 64 if is_real else values
        made.append((sent.tobytes(), sent))
    return made


def expected(
    data: bytes,
    drawn: Sequence[tuple[bytes, NDArray[Any]]],
    rounding: str,
    blob: ModelBlob,
    times: int,
) -> list[tuple[bytes, list[bytes]]]:
    """Each input as a host sends it, and the reference's outputs of so many inferences on it.

    Raises:
        RuntimeError: the reference kernels do not run the model.
        ValueError: they do not load it.
    """
    reference = REFERENCES[rounding](data)
    pairs: list[tuple[bytes, list[bytes]]] = []
    for sent, values in drawn:
        if blob.is_stateful and pairs:
            reference = REFERENCES[rounding](data)
        pairs.append((sent, [reference.outputs(values) for _ in range(times)]))
    return pairs


def as_sent(values: NDArray[np.int8], encoding: str, scale: float, zero_point: int) -> bytes:
    """The input as a host sends it, so that the device gets these int8."""
    if encoding == "uint8":
        return (values.astype(np.int16) + 128).astype(np.uint8).tobytes()
    if encoding == "float32":
        return ((values.astype(np.float32) - zero_point) * np.float32(scale)).tobytes()
    return values.tobytes()
