"""Facts about a model that was sent to a board, or is built into the board's firmware.

If a model is part of firmware that is not edgebench's, at most the model's name is known, because
there is no file to hash.
For the models of MLPerf Tiny, the name determines the inputs that the firmware expects.

Source: mlcommons/tiny, benchmark/api and benchmark/training (sizes of inputs and outputs).
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from dataclasses import dataclass, replace

from edgebench.firmware_bridge.arena import aligned
from edgebench.firmware_bridge.blob import OperatorSource
from edgebench.firmware_bridge.facts import BoardFacts, FirmwareInfo
from edgebench.firmware_bridge.generate import ModelBlob
from edgebench.firmware_bridge.tflite import (
    INT8,
    INT16,
    UINT8,
    ModelTensor,
    TfliteCode,
    TfliteGraph,
    read_model,
)
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import TargetMemory, TensorSpec

_ITEM_BYTES = {"int8": 1, "uint8": 1, "float32": 4}
"""Maps the encoding that `x-info` reports to the number of bytes of an input value."""
_WEIGHTED = {
    TfliteCode.CONV_2D: 0,
    TfliteCode.DEPTHWISE_CONV_2D: 0,
    TfliteCode.FULLY_CONNECTED: 0,
    TfliteCode.SVDF: 0,
    TfliteCode.TRANSPOSE_CONV: 2,
    TfliteCode.UNIDIRECTIONAL_SEQUENCE_LSTM: 0,
}
"""Maps each operator that multiplies by weights to the index of its input with activations."""
_INTEGERS = (INT8, UINT8, INT16)
_RESULTS = "results"
_KNOWN: dict[str, tuple[TensorSpec, TensorSpec]] = {
    name: (TensorSpec("input", shape, encoding), TensorSpec(_RESULTS, (1, count), "float32"))
    for name, encoding, shape, count in (
        ("kws01", "int8", (1, 49, 10, 1), 12),
        ("vww01", "uint8", (1, 96, 96, 3), 2),
        ("ic01", "uint8", (1, 32, 32, 3), 10),
        ("ic02", "uint8", (1, 32, 32, 3), 10),
        ("ad01", "float32", (1, 640), 1),
    )
}
"""Maps each MLPerf Tiny model to its input and its results, as MLPerf Tiny's firmware encodes
them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardModel:
    """Facts about the model on a board."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    memory: TargetMemory
    precision: str | None
    input_encoding: str = ""
    """Encoding in which the input is sent to the board; empty if it is the type in `inputs`."""
    is_stateful: bool = False
    """Whether the model has variables. False if this is unknown, as for a model in firmware that is
    not edgebench's."""
    operators: tuple[OperatorSource | None, ...] = ()
    """Operators of the model, as in `ModelBlob`; empty if they are unknown."""
    own_name: str | None = None
    """Name of a model that is part of the firmware; None if the model was sent to the board."""


def sent_model(data: bytes, blob: ModelBlob) -> BoardModel:
    """Facts about a model that is sent to a board.

    Args:
        data: Content of the model's .tflite file.
        blob: The blob that is sent.
    """
    model = read_model(data)
    return BoardModel(
        inputs=tuple(_spec(model.tensors[number]) for number in model.inputs),
        outputs=tuple(_spec(model.tensors[number]) for number in model.outputs),
        memory=TargetMemory(
            flash_bytes=blob.flash_bytes, ram_bytes=blob.ram_bytes, arena_bytes=blob.arena_bytes
        ),
        precision=_precision(model),
        input_encoding="" if blob.input_encoding == "int8" else blob.input_encoding,
        is_stateful=blob.is_stateful,
        operators=blob.operators,
    )


def with_firmware(memory: TargetMemory, info: FirmwareInfo | None) -> TargetMemory:
    """Add the memory use that the firmware reports for itself to the memory use of a model."""
    if info is None:
        return memory
    return replace(
        memory,
        firmware_flash_bytes=info.code_bytes,
        firmware_ram_bytes=info.data_bytes,
        stack_bytes=info.stack_max,
    )


def _precision(model: TfliteGraph) -> str:
    """Precision of the arithmetic for most weights; without weights, the type of most tensors.

    Source: docs/measurement.md.
    """
    counts: Counter[str] = Counter()
    for operator in model.operators:
        if operator.code in _WEIGHTED:
            source = model.tensors[operator.inputs[_WEIGHTED[TfliteCode(operator.code)]]]
            counts["int16x8" if source.type == INT16 else source.type] += sum(
                len(model.tensors[number].content)
                for number in operator.inputs
                if number >= 0 and model.tensors[number].type in _INTEGERS
            )
    if not counts:
        counts.update(tensor.type for tensor in model.tensors if tensor.type in _INTEGERS)
    return max(counts, key=lambda name: counts[name], default=INT8)


def encoded_input(data: bytes, model: BoardModel) -> bytes:
    """Encode an input as the board expects; the board decodes the result to the given bytes.

    Source: docs/firmware-protocol.md: uint8 is int8 + 128, float32 is scale · (int8 - zero point).
    """
    if model.input_encoding == model.inputs[0].dtype:
        return data
    if model.input_encoding == "uint8":
        return bytes(value ^ 0x80 for value in data)
    if model.input_encoding == "float32":
        spec = model.inputs[0]
        scale, zero_point = spec.scale or 1.0, spec.zero_point or 0
        values = struct.unpack(f"<{len(data)}b", data)
        return struct.pack(f"<{len(data)}f", *(scale * (value - zero_point) for value in values))
    return data


def own_model(facts: BoardFacts) -> BoardModel:
    """Facts about the model in the firmware of a board.

    Raises:
        ModelRefused: the board reports no model, or the model's inputs are unknown.
    """
    name, info = facts.model_name, facts.firmware
    if name is None:
        raise ModelRefused(f"{facts.name} does not report its model")
    memory = TargetMemory(
        flash_bytes=info.model_bytes if info else None,
        ram_bytes=aligned(info.arena_bytes) + info.input_bytes
        if info and info.arena_bytes is not None and info.input_bytes is not None
        else None,
        arena_bytes=info.arena_bytes if info else None,
    )
    if info is not None:
        inputs, outputs = _by_info(info)
        precision = "int8"
    elif (known := _KNOWN.get(name.lower())) is not None:
        (inputs, outputs), precision = known, None
    else:
        raise ModelRefused(
            f"{facts.name} has model {name[:40]!r}, whose inputs are unknown; known models: "
            f"{', '.join(_KNOWN)}"
        )
    return BoardModel(
        inputs=(inputs,), outputs=(outputs,), memory=memory, precision=precision, own_name=name
    )


def _by_info(info: FirmwareInfo) -> tuple[TensorSpec, TensorSpec]:
    """Input and output of the model, as edgebench's firmware reports them."""
    item_bytes = _ITEM_BYTES.get(info.input_encoding or "")
    if item_bytes is None or not info.input_bytes or not info.output_bytes:
        raise ModelRefused(f"the firmware of {info.board} does not report the inputs of its model")
    return (
        TensorSpec("input", (1, info.input_bytes // item_bytes), info.input_encoding or ""),
        TensorSpec("output", (1, info.output_bytes), "int8"),
    )


def result_count(model: BoardModel) -> int:
    """Total number of values of all outputs of a model."""
    return sum(math.prod(output.shape) for output in model.outputs)


def _spec(tensor: ModelTensor) -> TensorSpec:
    is_quantized = len(tensor.scales) == 1
    return TensorSpec(
        tensor.name,
        tensor.shape,
        tensor.type,
        scale=tensor.scale if is_quantized else None,
        zero_point=tensor.zero_point if is_quantized else None,
    )
