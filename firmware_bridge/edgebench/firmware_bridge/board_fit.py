"""Computes from a model's blob and the packaged firmware which boards have space for both."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from importlib.resources import files

from edgebench.firmware_bridge.elf_segments import loaded_segments
from edgebench.firmware_bridge.generate import (
    BOARD_MEMORY,
    LINKED_MEMORY,
    BoardMemory,
    ModelBlob,
    generate,
    id_of_file,
)
from edgebench.protocol.bridge import BoardFit, ModelCheck
from edgebench.protocol.errors import BoardModelRefused, ModelRefused, unknown_name

_SCHEME = "qemu:"
_STACK_TOP_AT = {"riscv32-virt": 4, "rp2040-pico": 0x200}
"""Offset in flash of the word with the top of the stack; 0 for boards that are not listed."""


def check_model(data: bytes, name: str, boards: Sequence[str]) -> ModelCheck:
    """Compute the memory that a model needs, and the boards on which it fits.

    Args:
        data: Content of the model's .tflite file.
        name: Name of the file.
        boards: Names of boards, with or without `qemu:`. If empty, all boards with firmware in the
            package are checked.

    Raises:
        UsageError: a board is unknown.
        ModelRefused: the file is damaged.
    """
    names = [board.removeprefix(_SCHEME) for board in boards] or list(LINKED_MEMORY)
    for board in names:
        if board not in LINKED_MEMORY:
            raise unknown_name("board", board, tuple(LINKED_MEMORY))
    try:
        blob = generate(data, model_id=id_of_file(name))
    except BoardModelRefused as error:
        return ModelCheck(model=name, problem=str(error), missing_operators=error.missing_operators)
    return ModelCheck(
        model=name,
        flash_bytes=blob.flash_bytes,
        arena_bytes=blob.arena_bytes,
        input_bytes=blob.input_bytes,
        output_bytes=blob.output_bytes,
        ram_bytes=blob.ram_bytes,
        boards=tuple(_fit(board, blob) for board in names),
    )


def _fit(board: str, blob: ModelBlob) -> BoardFit:
    loaded, linked = BOARD_MEMORY[board], LINKED_MEMORY[board]
    is_loadable, is_linkable = (_is_fitting(blob, memory) for memory in (loaded, linked))
    memory = loaded if is_loadable or not is_linkable else linked
    flash_bytes, ram_bytes, stack_bytes = firmware_memory(board)
    return BoardFit(
        board=board,
        fits=is_loadable or is_linkable,
        is_linked=is_linkable and not is_loadable,
        flash_max_bytes=memory.flash_bytes,
        ram_max_bytes=memory.ram_bytes,
        firmware_flash_bytes=flash_bytes,
        firmware_ram_bytes=ram_bytes,
        stack_bytes=stack_bytes,
    )


def _is_fitting(blob: ModelBlob, memory: BoardMemory) -> bool:
    try:
        blob.check_fit(memory)
    except ModelRefused:
        return False
    return True


def firmware_memory(board: str) -> tuple[int, int, int]:
    """Sizes in bytes of the flash, RAM and stack of a board's firmware without a model.

    Source: Armv7-M Architecture Reference Manual, B1.5.3: the first word of the vector table is the
    top of the stack.
    """
    elf = (files("edgebench.firmware_bridge") / "elf" / f"{board}.elf").read_bytes()
    segments = loaded_segments(elf)
    (stack_top,) = struct.unpack_from("<I", segments[0].content, _STACK_TOP_AT.get(board, 0))
    data_end = max(segment.run_address + segment.memory_bytes for segment in segments)
    stack_bottom = (data_end + 255) // 256 * 256 + 256  # above the guard, as in sections.ld
    flash_bytes = sum(len(segment.content) for segment in segments)
    ram_bytes = sum(segment.memory_bytes for segment in segments if segment.is_writable)
    return flash_bytes, ram_bytes, stack_top - stack_bottom
