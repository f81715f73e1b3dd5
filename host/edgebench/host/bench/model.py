"""A model file on the host."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.protocol.errors import (
    FileChanged,
    ModelNotFetched,
    NoSuchModel,
    NotAModel,
    UsageError,
    os_error_as,
)
from edgebench.protocol.text import printable

OnBytes = Callable[[int, int], None]
"""Called with the number of bytes done, and the total."""
QUIET_S = 1.0
"""Time after which hashing reports progress."""
_BLOCK_BYTES = 1 << 20
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""First bytes of a file that Git LFS leaves in place of the content.

Source: git-lfs, docs/spec.md."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model file on the host, with its size and modification time when it was opened."""

    path: Path
    name: str
    size_bytes: int
    modified_ns: int
    """Time of the file's last modification."""
    is_on_device: bool = False
    """Whether the model is part of a device's firmware, and not a file."""

    @property
    def format(self) -> str:
        """File suffix without its dot: tflite or onnx."""
        return self.path.suffix.lower().lstrip(".")

    @property
    def sha256(self) -> str:
        """Digest of the content; the file is read at the first use."""
        return self.hashed()

    def hashed(self, on_bytes: OnBytes | None = None) -> str:
        """The digest, with progress reports if it takes long; empty for a model in firmware.

        Raises:
            UsageError: the file cannot be read.
            FileChanged: the file's size changed after it was opened.
        """
        if self.is_on_device:
            return ""
        if self not in _DIGESTS:
            digest, size_bytes, begin_s = hashlib.sha256(), 0, time.monotonic()
            with (
                os_error_as(UsageError, "model not readable", self.path),
                self.path.open("rb") as file,
            ):
                while block := file.read(_BLOCK_BYTES):
                    digest.update(block)
                    size_bytes += len(block)
                    if on_bytes and time.monotonic() - begin_s > QUIET_S:
                        on_bytes(size_bytes, self.size_bytes)
            if size_bytes != self.size_bytes:
                raise FileChanged(
                    f"model changed while it was read: {size_bytes} bytes, not {self.size_bytes}: "
                    f"{self.path}"
                )
            _DIGESTS[self] = digest.hexdigest()
        return _DIGESTS[self]

    def is_same_as(self, other: Model) -> bool:
        """Whether both have the same content; files of different sizes are not read."""
        return self.size_bytes == other.size_bytes and self.sha256 == other.sha256


_DIGESTS: dict[Model, str] = {}
"""Computed digests, so that a model of gigabytes is read only once for all its runs."""


def open_model(path: Path, name: str | None = None) -> Model:
    """Open a model file; only its first bytes are read, because a device may have no room for it.

    Raises:
        NoSuchModel: the file does not exist.
        NotAModel: the path is a directory or a device.
        ModelNotFetched: the file is a pointer of Git LFS.
        UsageError: the file cannot be read.
    """
    try:
        if path.exists() and not path.is_file():
            raise NotAModel(f"model is not a file: {path}")
        with path.open("rb") as file:
            facts = path.stat()
            if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
                raise ModelNotFetched(f"model is a pointer of Git LFS, not fetched: {path}")
    except FileNotFoundError as exc:
        raise NoSuchModel(f"no such model: {path}") from exc
    except OSError as exc:
        raise UsageError(f"model not readable: {exc.strerror}: {path}") from exc
    return Model(path, name or printable(path.name), facts.st_size, facts.st_mtime_ns)


def model_on_device(name: str) -> Model:
    """The model in a device's firmware, by the name that the device reports."""
    return Model(Path(name), printable(name), 0, 0, is_on_device=True)
