"""Converts a .tflite file to a model blob, and computes the memory that the model needs.

python -I -m edgebench.firmware_bridge.generate model.tflite --id kws01 --output kws01.blob

If the output file ends in `.c`, it contains the blob as C source, to be linked into the firmware.
"""

from __future__ import annotations

import argparse
import re
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from edgebench.firmware_bridge.arena import Lifetime, aligned, plan
from edgebench.firmware_bridge.blob import (
    MAX_ID,
    MAX_OPERATORS,
    MAX_OUTPUTS,
    MAX_TENSORS,
    SPARE_BYTES,
    BlobHeader,
    OperatorSource,
    pack,
)
from edgebench.firmware_bridge.folding import folded, is_of_uint8, shifted
from edgebench.firmware_bridge.lowering import Lowering
from edgebench.firmware_bridge.movement import join_inputs
from edgebench.firmware_bridge.operators import lower, refuse_missing, to_uint8
from edgebench.firmware_bridge.tflite import INT8, UINT8, TfliteGraph, read_model
from edgebench.protocol.errors import BoardModelRefused, EdgebenchError
from edgebench.protocol.flatbuffer import FlatbufferError

InputEncoding: TypeAlias = Literal["int8", "uint8", "float32"]
Rounding: TypeAlias = Literal["litert", "tflm"]
_INPUT_ENCODINGS = {"int8": 0, "uint8": 1, "float32": 2}
_ROUNDINGS = {"litert": 0, "tflm": 1}
MLPERF_TINY_ENCODINGS: dict[str, InputEncoding] = {
    "vww01": "uint8",
    "ic01": "uint8",
    "ic02": "uint8",
    "ad01": "float32",
}
"""Maps MLPerf Tiny's models to the encodings of their inputs on the line.

Other models use int8.
"""
_MLPERF_TINY_FILES = {
    "kws_ref_model": "kws01",
    "vww_96_int8": "vww01",
    "pretrainedResnet_quant": "ic01",
    "pretrainedResnet_large_int8": "ic02",
    "ad01_int8": "ad01",
    "str_ww_ref_model": "sww01",
    "strm_ww_int8": "sww01",
}
"""Maps the names of model files to the IDs by which MLPerf Tiny's runner selects a test.

Source: mlcommons/tiny, `benchmark/training/*/trained_models` and `benchmark/runner/tests.yaml`.
"""
_SQUARED_ERROR = {"ad01"}
"""Models whose firmware returns the mean squared error of the reconstruction if inputs are
floats."""


_DAMAGES = (IndexError, KeyError, ValueError, ArithmeticError, struct.error, FlatbufferError)
"""Exceptions that a file with invalid shapes or numbers can cause."""


@dataclass(frozen=True, slots=True)
class BoardMemory:
    """Sizes of the memory that a board provides for a model."""

    flash_bytes: int
    """Space for the blob."""
    ram_bytes: int
    """Space for the arena and the input."""


BOARD_MEMORY = {
    "posix": BoardMemory(8 << 20, 16 << 20),
    "mps2-an385": BoardMemory(3 << 20, 3 << 20),
    "mps2-an386": BoardMemory(3 << 20, 3 << 20),
    "mps2-an500": BoardMemory(3 << 20, 3 << 20),
    "mps3-an547": BoardMemory(2 << 20, 2 << 20),
    "riscv32-virt": BoardMemory(3 << 20, 3 << 20),
    "nucleo-l4r5zi": BoardMemory(384 << 10, 208 << 10),
    "nucleo-l476rg": BoardMemory(48 << 10, 48 << 10),
    "nucleo-f446re": BoardMemory(40 << 10, 40 << 10),
    "nucleo-f767zi": BoardMemory(288 << 10, 176 << 10),
    "nucleo-h743zi": BoardMemory(320 << 10, 192 << 10),
    "nrf52840-dk": BoardMemory(112 << 10, 96 << 10),
    "arduino-nano-33-ble": BoardMemory(112 << 10, 96 << 10),
    "rp2040-pico": BoardMemory(112 << 10, 104 << 10),
    "pico2": BoardMemory(320 << 10, 144 << 10),
}
"""Maps each board to the memory that it provides for an uploaded model, as reported by `x-info`
(`model_max`, `ram_max`). On real boards, this model is in RAM, because the firmware does not write
flash."""
_FIRMWARE_BYTES = 64 << 10
"""Flash that is reserved for the firmware itself; the linker script enforces this limit."""
_SOFT_FLOAT_FIRMWARE_BYTES = 96 << 10
LINKED_MEMORY = {
    "mps2-an385": BoardMemory((1 << 20) - _FIRMWARE_BYTES, 3 << 20),
    "mps2-an386": BoardMemory((1 << 20) - _FIRMWARE_BYTES, 3 << 20),
    "mps2-an500": BoardMemory((1 << 20) - _FIRMWARE_BYTES, 3 << 20),
    "mps3-an547": BoardMemory((512 << 10) - _FIRMWARE_BYTES, 2 << 20),
    "riscv32-virt": BoardMemory((1 << 20) - _SOFT_FLOAT_FIRMWARE_BYTES, 3 << 20),
    "nucleo-l4r5zi": BoardMemory((2 << 20) - _FIRMWARE_BYTES, 592 << 10),
    "nucleo-l476rg": BoardMemory((1 << 20) - _FIRMWARE_BYTES, 96 << 10),
    "nucleo-f446re": BoardMemory((512 << 10) - _FIRMWARE_BYTES, 80 << 10),
    "nucleo-f767zi": BoardMemory((2 << 20) - _FIRMWARE_BYTES, 464 << 10),
    "nucleo-h743zi": BoardMemory((2 << 20) - _FIRMWARE_BYTES, 512 << 10),
    "nrf52840-dk": BoardMemory((1 << 20) - _FIRMWARE_BYTES, 208 << 10),
    "arduino-nano-33-ble": BoardMemory((960 << 10) - _FIRMWARE_BYTES, 208 << 10),
    "rp2040-pico": BoardMemory((2 << 20) - _SOFT_FLOAT_FIRMWARE_BYTES, 216 << 10),
    "pico2": BoardMemory((4 << 20) - _FIRMWARE_BYTES, 464 << 10),
}
"""Maps each board to its memory for a model that is linked into the firmware. Source: the linker
scripts of `firmware/ports/`."""


@dataclass(frozen=True, slots=True)
class ModelBlob:
    """A model in the binary format that edgebench's firmware runs."""

    model_id: str
    data: bytes
    arena_bytes: int
    input_bytes: int
    """Size of an input in bytes, in the encoding in which hosts send it."""
    output_bytes: int
    input_encoding: InputEncoding
    rounding: Rounding
    is_stateful: bool = False
    """Whether the model has variables, which a new input resets."""
    operators: tuple[OperatorSource | None, ...] = ()
    """The model's operator for each operator that the firmware runs, in order of execution."""

    @property
    def flash_bytes(self) -> int:
        """Size in bytes of the constant data, which is the blob itself."""
        return len(self.data)

    @property
    def ram_bytes(self) -> int:
        """Size in bytes of the writable data, which is the arena and the input."""
        return aligned(self.arena_bytes) + self.input_bytes

    def check_fit(self, memory: BoardMemory) -> None:
        """Check that the model fits into the memory of a board.

        Raises:
            BoardModelRefused: the model needs more flash or RAM than the board has.
        """
        for kind, needed, there in (
            ("flash", self.flash_bytes, memory.flash_bytes),
            ("RAM", self.ram_bytes, memory.ram_bytes),
        ):
            if needed > there:
                raise BoardModelRefused(
                    f"model {self.model_id} needs {needed} bytes of {kind}, the board has {there}"
                )

    def c_source(self) -> str:
        """Format the blob as C source, which `devtools/build_firmware.py --model` links."""
        words = [f"0x{word:08x}u" for (word,) in struct.iter_unpack("<I", self.data)]
        lines = [", ".join(words[at : at + 8]) for at in range(0, len(words), 8)]
        return (
            "#include <stdint.h>\n\n"
            f"/* {self.model_id}: flash {self.flash_bytes} bytes, RAM {self.ram_bytes} bytes. */\n"
            f"const uint32_t linked_model_words[{len(words)}]\n"
            '\t__attribute__((section(".model"), used, aligned(16))) = {\n\t'
            + ",\n\t".join(lines)
            + "\n};\n"
        )


def model_id_of(name: str) -> str:
    """Make an ID from the name of a file, with only the characters that the protocol allows."""
    return re.sub(r"[^0-9A-Za-z._-]", "-", name)[:MAX_ID] or "model"


def id_of_file(name: str) -> str:
    """Default ID of a model file.

    A model file of MLPerf Tiny gets MLPerf Tiny's ID. Any other ID is made from the file's name.

    >>> id_of_file("kws_ref_model.tflite"), id_of_file("my model.tflite")
    ('kws01', 'my-model')
    """
    stem = Path(name).stem
    return _MLPERF_TINY_FILES.get(stem) or model_id_of(stem)


def generate(
    data: bytes,
    *,
    model_id: str,
    input_encoding: InputEncoding | None = None,
    rounding: Rounding = "litert",
) -> ModelBlob:
    """Convert a .tflite file to a blob.

    Args:
        data: Bytes of the file.
        model_id: Name that the firmware reports, at most 31 characters of `[0-9A-Za-z._-]`.
        input_encoding: Encoding in which hosts send inputs. If it is None, an int8 model with the
            ID and shapes of an MLPerf Tiny model gets MLPerf Tiny's encoding. Any other model gets
            the type of its input.
        rounding: Library with the reference kernels. The blob must reproduce their outputs bit for
            bit.

    Raises:
        BoardModelRefused: the firmware cannot run the model.
    """
    if model_id != model_id_of(model_id):
        raise BoardModelRefused(f"model ID {model_id!r} is not 1 to {MAX_ID} of [0-9A-Za-z._-]")
    model = read_model(data)
    if not all(0 <= number < len(model.tensors) for number in (*model.inputs, *model.outputs)):
        raise BoardModelRefused("an input or output of the model does not exist")
    try:
        graph = folded(shifted(model) if is_of_uint8(model) else model)
        refuse_missing(graph)
        if not model.inputs or not 1 <= len(model.outputs) <= MAX_OUTPUTS:
            raise BoardModelRefused(
                f"the model has {len(model.inputs)} inputs and {len(model.outputs)} outputs, not 1 "
                f"or more inputs and 1 to {MAX_OUTPUTS} outputs"
            )
        encoding = input_encoding or _encoding_of(model_id, model)
        lowering = Lowering(graph, rounding == "tflm", is_of_uint8(model))
        first = _add_input(lowering, encoding)
        lower(lowering)
        outputs = tuple(
            _add_output(lowering, number, model.tensors[number].type) for number in model.outputs
        )
        arena_bytes = _place(lowering, first, outputs)
    except _DAMAGES as error:
        # The file is not verified: its shapes and numbers may be invalid.
        raise BoardModelRefused("the model's tensors do not fit its operators") from error
    if len(lowering.tensors) > MAX_TENSORS or len(lowering.operators) > MAX_OPERATORS:
        raise BoardModelRefused(
            f"the model has {len(lowering.operators)} operators, the limit is {MAX_OPERATORS}"
        )
    if any(lowering.tensors[number].content for number in (first, *outputs)):
        raise BoardModelRefused("an input or output of the model is constant")
    header = BlobHeader(
        model_id,
        arena_bytes,
        first,
        outputs,
        _INPUT_ENCODINGS[encoding],
        int(model_id in _SQUARED_ERROR and encoding == "float32"),
        _ROUNDINGS[rounding],
    )
    try:
        blob = pack(header, lowering.tensors, lowering.operators)
    except struct.error as error:
        raise BoardModelRefused("a value in the model is too large for a blob") from error
    output_bytes = sum(lowering.tensors[number].size_bytes for number in outputs)
    input_bytes = lowering.tensors[first].size_bytes * (4 if encoding == "float32" else 1)
    return ModelBlob(
        model_id,
        blob,
        arena_bytes,
        input_bytes,
        output_bytes,
        encoding,
        rounding,
        is_stateful=bool(lowering.states),
        operators=tuple(
            operator.source for operator in lowering.operators if not operator.is_reset
        ),
    )


def _add_input(lowering: Lowering, encoding: InputEncoding) -> int:
    """Add the input that hosts send, which is the concatenation of all inputs of the model.

    Raises:
        BoardModelRefused: an input has a type that cannot be sent in this encoding.
    """
    numbers = lowering.model.inputs
    sources = [lowering.tensor(number) for number in numbers]
    for source in sources:
        if encoding != "int8" and source.type != INT8:
            raise BoardModelRefused(f"input {source.name!r} has type {source.type}, not int8")
    if len(sources) == 1:
        return lowering.view(numbers[0])
    if encoding == "float32":
        raise BoardModelRefused(f"encoding float32 requires 1 input, the model has {len(sources)}")
    return join_inputs(lowering)


def _add_output(lowering: Lowering, number: int, type_name: str) -> int:
    """Add an output to the blob, with the type that it has in the model."""
    view = lowering.view(number)
    if type_name != UINT8 or lowering.tensor(number).type == UINT8:
        return view
    return to_uint8(lowering, number, view)


def _encoding_of(model_id: str, model: TfliteGraph) -> InputEncoding:
    """Default encoding of inputs; if ID and tensors match an MLPerf Tiny model, the model's own."""
    source = model.tensors[model.inputs[0]]
    if is_of_uint8(model):
        return "uint8"
    sizes = [model.tensors[number].size for number in model.outputs]
    if source.type != INT8 or (model_id in _SQUARED_ERROR and sizes != [source.size]):
        return "int8"
    return MLPERF_TINY_ENCODINGS.get(model_id, "int8")


def _place(lowering: Lowering, first: int, outputs: tuple[int, ...]) -> int:
    """Place every tensor and scratch area in the arena; return the size of the arena in bytes.

    The input is never overwritten, so that an inference can be repeated without loading the input
    again.
    """
    end = len(lowering.operators)
    sizes: dict[int, int] = {}
    used: dict[int, list[int]] = {}
    uses = [
        (number, index)
        for index, operator in enumerate(lowering.operators)
        for number in (*operator.inputs, operator.output)
    ]
    for storage in lowering.states.values():
        used[storage] = [-1, end]
    for number, moment in [
        (first, -1),
        (first, end),
        *uses,
        *((output, end) for output in outputs),
    ]:
        tensor = lowering.tensors[number]
        if not tensor.content:
            used.setdefault(tensor.storage, []).append(moment)
            sizes[tensor.storage] = tensor.size_bytes
    storages = list(used)
    pieces = [
        Lifetime(sizes[storage], min(used[storage]), max(used[storage])) for storage in storages
    ]
    pieces += [
        Lifetime(operator.scratch_bytes, index, index)
        for index, operator in enumerate(lowering.operators)
    ]
    places, total = plan(pieces)
    by_storage = dict(zip(storages, places, strict=False))
    for tensor in lowering.tensors:
        if not tensor.content:
            tensor.place = by_storage[tensor.storage]
    for operator, place in zip(lowering.operators, places[len(storages) :], strict=True):
        operator.scratch_place = place
    return total + SPARE_BYTES


def main() -> int:
    """Write the blob of a model, and print the memory that the model needs."""
    parser = argparse.ArgumentParser(description="create a model blob for the firmware")
    parser.add_argument("model", type=Path)
    parser.add_argument(
        "--output",
        type=Path,
        help="file to write: C source if its suffix is .c, otherwise the blob; default: only print "
        "sizes",
    )
    parser.add_argument(
        "--id",
        help="model name that the firmware reports; default: the model's name in MLPerf Tiny, or "
        "else the name of the file",
    )
    parser.add_argument("--encoding", choices=_INPUT_ENCODINGS, help="encoding of the sent inputs")
    parser.add_argument("--rounding", choices=_ROUNDINGS, default="litert")
    parser.add_argument(
        "--board", choices=BOARD_MEMORY, help="fail if the model does not fit this board"
    )
    options = parser.parse_args()
    try:
        blob = generate(
            options.model.read_bytes(),
            model_id=options.id or id_of_file(options.model.name),
            input_encoding=options.encoding,
            rounding=options.rounding,
        )
        print(
            f"{blob.model_id}: flash {blob.flash_bytes} bytes, RAM {blob.ram_bytes} bytes", end=""
        )
        print(f" (arena {blob.arena_bytes}, input {blob.input_bytes})")
        output: Path | None = options.output
        is_linked = output is not None and output.suffix == ".c"
        if options.board:
            blob.check_fit((LINKED_MEMORY if is_linked else BOARD_MEMORY)[options.board])
        if output is not None:
            output.write_bytes(blob.c_source().encode() if is_linked else blob.data)
    except (EdgebenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
