"""Record of a worker, read by the daemon; the worker may be hostile.

The daemon serves all its seats (devices of the agent) while it reads, and a board may have little
memory. So the daemon checks the size of the file, and the memory that the parsed objects would
take, before it parses the file.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from edgebench.protocol.errors import RemoteProtocolError, WorkerDied
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import TargetRecord, WorkerRecord
from edgebench.protocol.sizes import format_bytes

MAX_RECORD_BYTES = 2**20
"""Limit on the size of a record; a record without operator times has about 20 KB."""
MAX_PARSED_BYTES = 3 * 2**20
"""Limit on the memory of the parsed record: enough for the times of 2500 operators."""
_VALUE_BYTES, _LIST_BYTES, _DICT_BYTES = 64, 64, 240
"""Memory in bytes per comma (which stands for a value), per list and per dict in CPython 3.10 to
3.13, rounded up."""

_T = TypeVar("_T", WorkerRecord, TargetRecord)


def write_record(path: Path, record: WorkerRecord | TargetRecord) -> None:
    """Write a record completely or not at all, because the worker may die in the later checks.

    If the operator times would make the record exceed a limit, they are left out, and the record
    contains the reason.
    """
    text = json.dumps(to_plain(record))
    if (excess := _excess(text.encode())) and record.check.operators:
        reason = f"times of {len(record.check.operators)} operators are not kept: {excess}"
        check = replace(record.check, operators=(), profile_error=reason)
        text = json.dumps(to_plain(replace(record, check=check)))
    part = path.with_suffix(".part")
    part.write_text(text)
    part.replace(path)


def read_record(path: Path, kind: type[_T]) -> _T:
    """Read the record of a worker that has ended.

    Raises:
        WorkerDied: the record is missing, is malformed, or exceeds a limit.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            data = file.read(MAX_RECORD_BYTES + 1)
        if excess := _excess(data):
            raise WorkerDied(f"worker left a record that is too large: {excess}")
        text = data.decode("ascii")
        del data  # the objects need its memory
        plain = json.loads(text)
        del text
        return from_plain(plain, kind)
    except (OSError, ValueError, RecursionError, RemoteProtocolError) as exc:
        raise WorkerDied(f"worker left no readable record: {exc}") from exc


def _excess(data: bytes) -> str | None:
    """Description of the limit that a record exceeds; None if the record is within all limits."""
    if len(data) > MAX_RECORD_BYTES:
        return f"more than {format_bytes(MAX_RECORD_BYTES)}"
    parsed = (
        _VALUE_BYTES * data.count(b",")
        + _LIST_BYTES * data.count(b"[")
        + _DICT_BYTES * data.count(b"{")
    )
    if parsed > MAX_PARSED_BYTES:
        return f"more than {format_bytes(MAX_PARSED_BYTES)} in memory"
    # A character beyond ASCII makes its whole string up to four times as large.
    if not data.isascii():
        return "not in ASCII"
    return None
