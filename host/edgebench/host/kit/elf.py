"""ELF programs and libraries: read their dependencies, and change where a program finds them.

Source: System V ABI, chapters 4 and 5; ld.so(8), "RPATH" and "RUNPATH".
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO

TYPE_CHECKING = False  # importing typing takes a fifth of a second, which deploys avoid
if TYPE_CHECKING:
    import lief

MACHINES = {40: "armv7l", 62: "x86_64", 183: "aarch64"}
"""Names of the machines, as uname(1) prints them. Source: elf.h, EM_ARM, EM_X86_64, EM_AARCH64."""
MAGIC = b"\x7fELF"
PAGE_BYTES = {"aarch64": 16384, "armv7l": 4096, "x86_64": 4096}
"""Largest memory page of phones and of Android's emulator. Source: Android's developer
documentation, "Support 16 KB page sizes"."""


@dataclass(frozen=True, slots=True)
class ElfFile:
    """A program or a library."""

    machine: str
    """Machine, as uname(1) prints it; empty if kits do not support it."""
    interpreter: str
    """Path of the loader that a program names; empty for a library."""
    needed: tuple[str, ...]
    """Names of the libraries that the file depends on."""
    alignment_bytes: int
    """Largest page size with which every segment can be mapped."""
    has_executable_stack: bool
    symbol_versions: tuple[str, ...]
    """Versions that a library defines, such as GLIBC_2.36."""


def read_elf(data: bytes) -> ElfFile | None:
    """Properties of a file; None if it is neither a program nor a library."""
    binary = _parsed(data)
    if binary is None:
        return None

    import lief

    alignments: list[int] = []
    for segment in binary.segments:
        if segment.type == lief.ELF.Segment.TYPE.LOAD:
            # A segment can be mapped if its address and its offset agree modulo the page size.
            apart = abs(segment.virtual_address - segment.file_offset)
            is_aligned = apart % segment.alignment == 0
            alignments.append(segment.alignment if is_aligned else apart & -apart)
    return ElfFile(
        machine=MACHINES.get(binary.header.machine_type.value, ""),
        interpreter=binary.interpreter if binary.has_interpreter else "",
        needed=tuple(map(str, binary.libraries)),
        alignment_bytes=min(alignments, default=0),
        has_executable_stack=not binary.has_nx,
        symbol_versions=tuple(
            str(auxiliary.name)
            for definition in binary.symbols_version_definition
            for auxiliary in definition.auxiliary_symbols
        ),
    )


def relocated(
    program: bytes, *, interpreter: str, library_path: str, needed: tuple[str, ...]
) -> bytes:
    """The program, changed so that it runs from another directory.

    Args:
        program: Content of the program.
        interpreter: New path of its loader.
        library_path: Directories of its libraries; a directory may begin with $ORIGIN.
        needed: Libraries that the program loads in addition to its own. A library with a RUNPATH
            ignores the program's RPATH, and finds only libraries that are already loaded.

    Raises:
        ValueError: the data is not a dynamically linked program.
    """
    binary = _parsed(program)
    if binary is None or not binary.has_interpreter:
        raise ValueError("not a dynamically linked program")

    import lief

    binary.interpreter = interpreter
    binary.add(lief.ELF.DynamicEntryRpath(library_path))
    for name in needed:
        if name not in binary.libraries:
            binary.add_library(name)
    return bytes(binary.write_to_bytes())


def _parsed(data: bytes) -> lief.ELF.Binary | None:
    if not data.startswith(MAGIC):
        return None

    import lief

    lief.logging.disable()  # lief prints to standard error
    return lief.ELF.parse(BytesIO(data))
