"""Digests of open files."""

from __future__ import annotations

import hashlib
import io

import pytest

from edgebench.protocol.digests import _BLOCK_BYTES, sha256_of


@pytest.mark.parametrize("size", [0, 1, _BLOCK_BYTES, 2 * _BLOCK_BYTES + 1])
def test_digest_is_that_of_the_whole(size: int) -> None:
    """Otherwise the end of a large file would not be in its digest."""
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert sha256_of(io.BytesIO(content)).hexdigest() == hashlib.sha256(content).hexdigest()


def test_digest_begins_where_the_file_stands() -> None:
    """Otherwise a digest that is continued would count its beginning twice."""
    file = io.BytesIO(b"seen, and new")
    file.seek(6)
    digest = sha256_of(file)
    digest.update(b" more")
    assert digest.hexdigest() == hashlib.sha256(b"and new more").hexdigest()
