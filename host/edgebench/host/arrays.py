"""Reading of arrays from a .npz file of unknown origin."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.protocol.errors import UsageError
from edgebench.system.file_kinds import fault_of_file


@dataclass(frozen=True, slots=True)
class ArrayFile:
    """Contents of a .npz file given by the user."""

    arrays: dict[str, NDArray[Any]]
    sha256: str
    size_bytes: int


def read_array_file(path: Path, kind: str) -> ArrayFile:
    """Read a .npz file given by the user.

    Args:
        path: The file.
        kind: Kind of the file, such as `data set`; error messages begin with it.

    Raises:
        UsageError: the file does not exist, or is not a .npz file of numbers.
    """
    if (fault := fault_of_file(path)) is not None:
        raise UsageError(f"{kind} not readable: {fault}: {path}")
    try:
        content = path.read_bytes()
        arrays = load_arrays(content, is_compression_allowed=True)
    except OSError as exc:
        raise UsageError(f"{kind} not readable: {exc.strerror or exc}: {path}") from exc
    except ValueError as exc:
        raise UsageError(f"{kind} is not a .npz file of numbers: {path}") from exc
    return ArrayFile(arrays, hashlib.sha256(content).hexdigest(), len(content))


def load_arrays(content: bytes, *, is_compression_allowed: bool) -> dict[str, NDArray[Any]]:
    """Read the arrays of a .npz file; pickled objects are rejected, so no code is executed.

    Args:
        content: Content of the file.
        is_compression_allowed: Whether to accept a compressed file; such a file of unknown origin
            may unpack to any size.

    Raises:
        ValueError: the file is damaged, is not a .npz file, or contains anything but arrays.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            is_larger = any(item.file_size > item.compress_size for item in archive.infolist())
        if is_larger and not is_compression_allowed:
            raise ValueError("the file is compressed, so its unpacked size has no limit")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
    except Exception as exc:  # zipfile and numpy raise a dozen kinds, MemoryError among them
        raise ValueError(f"not a .npz file of numbers: {exc}") from exc
    others = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
    if others:
        raise ValueError(f"not a .npz file of numbers: {others[0][:40]!r} is not an array")
    return arrays
