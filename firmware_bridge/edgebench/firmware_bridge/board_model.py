"""Facts about the model on a board, whether it was sent to it or built into its firmware.

A model that is compiled into somebody's firmware has a name, if the board says it, and nothing
else: no file, no hash. For the models of MLPerf Tiny the name tells what the firmware expects.

Source: mlcommons/tiny, benchmark/api and benchmark/training (sizes of inputs and outputs).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from edgebench.firmware_bridge.facts import BoardFacts, FirmwareInfo
from edgebench.firmware_bridge.generate import ModelBlob
from edgebench.firmware_bridge.tflite import ModelTensor, read_model
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import TargetMemory, TensorSpec

_ITEM_BYTES = {"int8": 1, "uint8": 1, "float32": 4}
"""Size of an input's value, by the encoding that `x-info` names."""
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
"""Input and results of MLPerf Tiny's models, as its firmware takes and prints them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardModel:
    """What is known of the model on a board."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    memory: TargetMemory
    precision: str | None
    input_encoding: str = ""
    """How the board takes its input, where that is not the type of `inputs`; empty: it is."""
    own_name: str | None = None
    """Name of a model that is part of the firmware; None: it was sent."""


def sent_model(data: bytes, blob: ModelBlob) -> BoardModel:
    """A model that is put onto a board.

    Args:
        data: Its file.
        blob: What is sent; the firmware has int8 kernels alone.
    """
    model = read_model(data)
    return BoardModel(
        inputs=tuple(_spec(model.tensors[number]) for number in model.inputs),
        outputs=tuple(_spec(model.tensors[number]) for number in model.outputs),
        memory=TargetMemory(
            flash_bytes=blob.flash_bytes, ram_bytes=blob.ram_bytes, arena_bytes=blob.arena_bytes
        ),
        precision="int8",
        input_encoding="" if blob.input_encoding == "int8" else blob.input_encoding,
    )


def encoded_input(data: bytes, model: BoardModel) -> bytes:
    """An input as the board takes it, which makes these bytes of the tensor from it.

    Source: docs/firmware-protocol.md: uint8 is int8 + 128, float32 is scale · (int8 - zero point).
    """
    if model.input_encoding == "uint8":
        return bytes(value ^ 0x80 for value in data)
    if model.input_encoding == "float32":
        spec = model.inputs[0]
        scale, zero_point = spec.scale or 1.0, spec.zero_point or 0
        values = struct.unpack(f"<{len(data)}b", data)
        return struct.pack(f"<{len(data)}f", *(scale * (one - zero_point) for one in values))
    return data


def own_model(facts: BoardFacts) -> BoardModel:
    """The model in the firmware of a board.

    Raises:
        ModelRefused: there is none, or nobody knows what inputs it takes.
    """
    name, info = facts.model_name, facts.firmware
    if name is None:
        raise ModelRefused(f"{facts.name} does not say which model it has")
    memory = TargetMemory(
        flash_bytes=info.model_bytes if info else None,
        ram_bytes=None,
        arena_bytes=info.arena_bytes if info else None,
    )
    if info is not None:
        inputs, outputs = _by_info(info)
        precision = "int8"
    elif (known := _KNOWN.get(name.lower())) is not None:
        (inputs, outputs), precision = known, None
    else:
        raise ModelRefused(
            f"{facts.name} has model {name[:40]!r}, and nobody knows what inputs it takes; known "
            f"are {', '.join(_KNOWN)}"
        )
    return BoardModel(
        inputs=(inputs,), outputs=(outputs,), memory=memory, precision=precision, own_name=name
    )


def _by_info(info: FirmwareInfo) -> tuple[TensorSpec, TensorSpec]:
    """Input and output as our own firmware says them."""
    item_bytes = _ITEM_BYTES.get(info.input_encoding or "")
    if item_bytes is None or not info.input_bytes or not info.output_bytes:
        raise ModelRefused(f"the firmware of {info.board} does not say what inputs its model takes")
    return (
        TensorSpec("input", (1, info.input_bytes // item_bytes), info.input_encoding or ""),
        TensorSpec("output", (1, info.output_bytes), "int8"),
    )


def result_count(model: BoardModel) -> int:
    """Values of all outputs together."""
    return sum(math.prod(one.shape) for one in model.outputs)


def _spec(tensor: ModelTensor) -> TensorSpec:
    is_quantized = len(tensor.scales) == 1
    return TensorSpec(
        tensor.name,
        tensor.shape,
        tensor.type,
        scale=tensor.scale if is_quantized else None,
        zero_point=tensor.zero_point if is_quantized else None,
    )
