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
"""Callback for progress: receives the number of bytes processed so far, and the total number."""
QUIET_S = 1.0
"""Time after which the hashing of a file reports its progress."""
_BLOCK_BYTES = 1 << 20
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
"""First bytes of the pointer file that Git LFS leaves in place of a file's content.

Source: git-lfs, docs/spec.md."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model file on the host, or the model in a device's firmware.

    Size and modification time are read when the file is opened; both are 0 for a model in firmware.
    """

    path: Path
    name: str
    size_bytes: int
    modified_ns: int
    """Time of the file's last modification, in nanoseconds since the Unix epoch."""
    is_on_device: bool = False
    """Whether the model is part of a device's firmware instead of a file."""

    @property
    def format(self) -> str:
        """File suffix without its dot: tflite or onnx."""
        return self.path.suffix.lower().lstrip(".")

    @property
    def sha256(self) -> str:
        """SHA-256 of the content, in hexadecimal; the first access reads the whole file."""
        return self.hashed()

    def hashed(self, on_bytes: OnBytes | None = None) -> str:
        """Compute the SHA-256 of the content, once; an empty string for a model in firmware.

        `on_bytes` receives the progress if hashing takes longer than `QUIET_S`.

        Raises:
            UsageError: the file cannot be read.
            FileChanged: the size of the file changed after the file was opened.
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
        """Whether both models have the same content; only files of equal size are read."""
        return self.size_bytes == other.size_bytes and self.sha256 == other.sha256


_DIGESTS: dict[Model, str] = {}
"""Cache of SHA-256 digests, so that a file is read once, even if its model is run repeatedly."""


def open_model(path: Path, name: str | None = None) -> Model:
    """Open a model file, and read only its first bytes.

    Hashing a file of gigabytes takes long, and is useless if the device has no room for the file.

    Raises:
        NoSuchModel: the file does not exist.
        NotAModel: the path is a directory or a special file, such as a pipe.
        ModelNotFetched: the file is a pointer of Git LFS, without the content of the model.
        UsageError: the file cannot be read.
    """
    try:
        if path.exists() and not path.is_file():
            raise NotAModel(f"model is not a file: {path}")
        with path.open("rb") as file:
            facts = path.stat()
            if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
                raise ModelNotFetched(
                    f"model is only a pointer of Git LFS; the model itself was not fetched: {path}"
                )
    except FileNotFoundError as exc:
        raise NoSuchModel(f"no such model: {path}") from exc
    except OSError as exc:
        raise UsageError(f"model not readable: {exc.strerror}: {path}") from exc
    return Model(path, name or printable(path.name), facts.st_size, facts.st_mtime_ns)


def model_on_device(name: str) -> Model:
    """The model in a device's firmware, with the name that the device reports."""
    return Model(Path(name), printable(name), 0, 0, is_on_device=True)
