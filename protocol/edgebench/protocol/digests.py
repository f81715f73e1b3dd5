"""Digests of files that may be larger than memory, such as a meter's recording of 1 GB per hour."""

from __future__ import annotations

import hashlib
from typing import BinaryIO

_BLOCK_BYTES = 1 << 20


def sha256_of(file: BinaryIO) -> hashlib._Hash:
    """SHA-256 of an open file, from its current position to its end.

    Args:
        file: Binary file that the caller has opened, because this package does not open files.

    Returns:
        The hash object: call `hexdigest()`, or `update` it with more data.
    """
    digest = hashlib.sha256()
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest
