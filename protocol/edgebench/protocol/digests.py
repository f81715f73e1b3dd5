"""Digests of files that may be larger than memory: an hour of a meter has a gigabyte."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

_BLOCK_BYTES = 1 << 20


def sha256_of(file: BinaryIO) -> hashlib._Hash:
    """SHA-256 of an open file, from where it stands to its end.

    Args:
        file: Opened by the caller, as nothing here reaches for a file of its own.

    Returns:
        The hash: `hexdigest()` of it, or `update` it with what comes later.
    """
    digest = hashlib.sha256()
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest
