"""Content-addressed store of models, with resumable transfers and a quota.

    models/<sha256>            a whole model whose digest was verified
    models/<sha256>.part       the first bytes of a model that is still arriving

To make room, the least recently used models are removed first. A `.part` file survives a lost
connection and the end of the agent. When the transfer resumes, the digest of the bytes that are
present is computed again. Whole models are only a cache, so they are not synced to disk: on an SD
card, a sync would take 10 s for each 100 MB. Every run first verifies the digest, so a file that a
power cut has damaged is detected and sent again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import stat
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from edgebench.agent.files import disk_errors, make_private_directory
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import ModelRefused, NoSpace, UsageError
from edgebench.protocol.sizes import format_bytes, format_distinct_sizes

DEFAULT_QUOTA_BYTES = 4 * 2**30
KEEP_FREE_BYTES = 64 * 2**20
"""Free space below which the least recently used models are removed."""
BATCH_BYTES = 1 << 20
BATCH_CHUNKS = 64
MAX_PENDING = 2
"""Number of batches that may wait for the disk. Together with the batch that is being filled, they
contain at most 6 MiB."""


class Upload:
    """A model that is being received.

    A thread writes and hashes received bytes while more bytes arrive. Writing and hashing release
    Python's global interpreter lock, so on a second core they hardly slow down the transfer. Chunks
    are passed to the thread in batches, because waking the thread for each chunk took longer than
    the work itself.
    """

    def __init__(self, sha256: str, size_bytes: int, file: BinaryIO, digest: hashlib._Hash) -> None:
        self.sha256 = sha256
        self.size_bytes = size_bytes
        self.offset_bytes = file.tell()
        self._file = file
        self._digest = digest
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._batch: list[memoryview] = []
        self._pending: deque[Future[None]] = deque()
        self._is_broken = False

    async def write(self, offset_bytes: int, data: memoryview) -> None:
        """Append the next bytes; an error of the disk may be raised by a later call instead.

        Raises:
            UsageError: the bytes do not follow the previous bytes, or exceed the model's size.
            NoSpace: the disk is full.
        """
        if offset_bytes != self.offset_bytes:
            raise UsageError(
                f"chunk begins at byte {offset_bytes}, expected byte {self.offset_bytes}"
            )
        if offset_bytes + len(data) > self.size_bytes:
            raise UsageError(f"chunk ends after the model's {self.size_bytes} bytes")
        self._batch.append(data)
        self.offset_bytes += len(data)
        # The number of chunks is limited too, because a chunk of 1 byte keeps a whole frame alive.
        if len(self._batch) < BATCH_CHUNKS and sum(map(len, self._batch)) < BATCH_BYTES:
            return
        while len(self._pending) >= MAX_PENDING:
            # Shielded: a cancelled batch would leave a hole in the file.
            await asyncio.shield(asyncio.wrap_future(self._pending[0]))
            self._pending.popleft()
        self._hand_over()

    def finish(self) -> str:
        """Wait until the last bytes are written; returns the digest of the whole model.

        Raises:
            NoSpace: the disk is full.
        """
        try:
            self._hand_over()
            for batch in self._pending:
                batch.result()
        finally:
            self.close()
        return self._digest.hexdigest()

    def close(self) -> None:
        """Keep the received bytes, so that the transfer can resume later."""
        self._hand_over()
        self._thread.shutdown(wait=True)
        self._file.close()

    def _hand_over(self) -> None:
        if self._batch:
            self._pending.append(self._thread.submit(self._append, self._batch))
            self._batch = []

    def _append(self, batch: list[memoryview]) -> None:
        if self._is_broken:
            return  # the file must end where an earlier batch failed
        self._is_broken = True
        with disk_errors("model not stored", Path(self._file.name)):
            for data in batch:
                while data:  # an unbuffered write may be short
                    written = self._file.write(data)
                    self._digest.update(data[:written])
                    data = data[written:]
        self._is_broken = False


class ArtifactStore:
    """The models of an agent."""

    def __init__(self, directory: Path, quota_bytes: int = DEFAULT_QUOTA_BYTES) -> None:
        self._directory = directory
        self.quota_bytes = quota_bytes
        self.arriving: set[str] = set()
        """Digests of the models that are being received; a model is received from one host at a
        time."""
        self._in_use: Counter[str] = Counter()
        make_private_directory(directory)

    def path(self, sha256: str) -> Path:
        """Path of the model, whether the file exists or not.

        Raises:
            UsageError: not a SHA-256 in lower-case hexadecimal.
        """
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise UsageError(f"not a sha256 digest: {sha256[:80]!r}")
        return self._directory / sha256

    def offset(self, sha256: str, size_bytes: int) -> tuple[int, bool]:
        """Number of bytes of a model that are stored, and whether the model is complete.

        A whole model whose size is not `size_bytes` was damaged by a power cut, and is removed.
        """
        path = self.path(sha256)
        with suppress(FileNotFoundError):
            if path.stat().st_size == size_bytes:
                return size_bytes, True
            path.unlink()
        with suppress(FileNotFoundError):
            return self._part(sha256).stat().st_size, False
        return 0, False

    def begin(self, sha256: str, size_bytes: int) -> Upload:
        """Open the `.part` file of a model, to append to the bytes that are already stored.

        Raises:
            NoSpace: the model does not fit in the quota or on the disk.
        """
        part = self._part(sha256)
        self._make_room(sha256, size_bytes)
        with disk_errors("model not stored", part):
            file = part.open("ab", buffering=0)
            if file.tell() > size_bytes:
                file.truncate(0)
                file.seek(0)
        return Upload(sha256, size_bytes, file, _digest_of(part))

    def commit(self, upload: Upload) -> None:
        """Verify a complete upload, and rename its file to the digest.

        Raises:
            ModelRefused: bytes are missing, or the digest differs.
        """
        digest = upload.finish()
        part = self._part(upload.sha256)
        if upload.offset_bytes != upload.size_bytes:
            raise ModelRefused(
                f"model is incomplete: {upload.offset_bytes} of {upload.size_bytes} bytes arrived"
            )
        if digest != upload.sha256:
            part.unlink()
            raise ModelRefused(f"model arrived damaged: its sha256 is {digest}")
        part.replace(self.path(upload.sha256))

    def verified_path(self, sha256: str) -> Path:
        """Verify a model's digest and return its path; the model then counts as just used.

        Raises:
            ModelRefused: the model is not stored, or is damaged; a damaged file is removed.
        """
        path = self.path(sha256)
        try:
            digest = _digest_of(path).hexdigest()
        except FileNotFoundError as exc:
            raise ModelRefused(f"model {sha256[:12]} is not on this device") from exc
        if digest != sha256:
            path.unlink(missing_ok=True)
            raise ModelRefused(f"stored model {sha256[:12]} was damaged on disk and removed")
        os.utime(path)
        return path

    def hold(self, *digests: str) -> None:
        """Protect the models that a run needs from removal, until `let_go` is called."""
        self._in_use.update(digests)

    def let_go(self, *digests: str) -> None:
        """Undo a `hold`, because the run has ended or did not start."""
        self._in_use -= Counter(digests)

    def usage(self) -> tuple[int, int]:
        """Number of whole models, and bytes of all files."""
        sizes = [(path.suffix == "", size) for _, size, path in self._entries()]
        return sum(whole for whole, _ in sizes), sum(size for _, size in sizes)

    def room_bytes(self) -> int:
        """Size of the largest model that fits if all other models are removed."""
        return min(self.quota_bytes, self._free_bytes() + self.usage()[1])

    def _make_room(self, sha256: str, size_bytes: int) -> None:
        entries = [entry for entry in self._entries() if entry[2].stem != sha256]
        is_held = self._in_use.keys() | self.arriving
        others = sorted(entry for entry in entries if entry[2].stem not in is_held)
        held_bytes = sum(size for _, size, path in entries if path.stem in is_held)
        if size_bytes + held_bytes > self.quota_bytes:
            held = f", {format_bytes(held_bytes)} in use" if held_bytes else ""
            wanted, quota = format_distinct_sizes(size_bytes, self.quota_bytes)
            raise NoSpace(f"model of {wanted}, quota {quota}{held}")
        have = self._part(sha256)
        missing = size_bytes - (have.stat().st_size if have.exists() else 0)
        used = sum(size for _, size, _ in others)
        if (have_bytes := self._free_bytes() + used) < missing:
            needed, free = format_distinct_sizes(missing, have_bytes)
            raise NoSpace(f"model needs {needed}, disk has {free} free")
        for _, size, path in others:
            is_tight = self._free_bytes() < missing + KEEP_FREE_BYTES
            if held_bytes + used + size_bytes <= self.quota_bytes and not is_tight:
                return
            path.unlink(missing_ok=True)
            used -= size

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self._directory).free

    def _entries(self) -> Iterator[tuple[int, int, Path]]:
        """Time of last use, size and path of every regular file, unsorted."""
        for path in self._directory.iterdir():
            with suppress(FileNotFoundError):  # renamed just now, as its upload was committed
                facts = path.stat()
                if not stat.S_ISREG(facts.st_mode):
                    continue
                yield facts.st_mtime_ns, facts.st_size, path

    def _part(self, sha256: str) -> Path:
        return self.path(sha256).with_suffix(".part")


def _digest_of(path: Path) -> hashlib._Hash:
    with path.open("rb", buffering=0) as file:
        return sha256_of(file)
