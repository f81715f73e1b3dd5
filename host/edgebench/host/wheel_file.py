"""Wheels as files: the same members give the same bytes.

Source: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Container, Mapping
from pathlib import Path
from typing import BinaryIO

METADATA = "Wheel-Version: 1.0\nGenerator: edgebench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Earliest time that a zip file can hold."""


def write_wheel(
    file: Path | BinaryIO, info: str, members: Mapping[str, bytes], compressed: Container[str] = ()
) -> None:
    """Write a wheel of pure Python.

    Args:
        file: Where it is written.
        info: Directory of its metadata, as `name-1.0.dist-info`.
        members: Its files by path, but for `WHEEL` and `RECORD`.
        compressed: Members that are compressed already.
    """
    record = f"{info}/RECORD"
    whole = {**members, f"{info}/WHEEL": METADATA.encode()}
    whole[record] = _record(whole, record).encode()
    with zipfile.ZipFile(file, "w") as wheel:
        for name, data in whole.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_STORED if name in compressed else zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)


def _record(members: Mapping[str, bytes], own_name: str) -> str:
    lines = []
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{own_name},,\n"
