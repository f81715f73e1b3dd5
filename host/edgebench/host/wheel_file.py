"""Read and write wheel files reproducibly: the same members give the same bytes.

Source: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Container, Mapping
from pathlib import Path
from typing import BinaryIO

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

METADATA = "Wheel-Version: 1.0\nGenerator: edgebench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Earliest modification time that a zip file can store."""


def write_wheel(
    file: Path | BinaryIO, info: str, members: Mapping[str, bytes], compressed: Container[str] = ()
) -> None:
    """Write a wheel of pure Python.

    Args:
        file: Path or file object to write to.
        info: Directory of the metadata, such as `name-1.0.dist-info`.
        members: Maps the path of each file to its content; `WHEEL` and `RECORD` are added here.
        compressed: Names of members that are already compressed. These members are stored without
            further compression.
    """
    record = f"{info}/RECORD"
    whole = {**members, f"{info}/WHEEL": METADATA.encode()}
    lines = []
    for name, data in whole.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    whole[record] = "".join((*lines, f"{record},,\n")).encode()
    with zipfile.ZipFile(file, "w") as wheel:
        for name, data in whole.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_STORED if name in compressed else zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)


def package_of(name: str) -> str:
    """Normalised package name in the file name of a wheel.

    >>> package_of("ai_edge_litert-2.3.0-cp311-cp311-linux_aarch64.whl")
    'ai-edge-litert'
    """
    return canonicalize_name(name.partition("-")[0])


def newest_wheel(directory: Path, pattern: str = "*.whl") -> Path | None:
    """The wheel with the highest version in a directory; None if it contains no wheel."""

    def version(path: Path) -> tuple[Version, str]:
        try:
            return parse_wheel_filename(path.name)[1], path.name
        except InvalidWheelFilename:
            return Version("0"), path.name

    return max(directory.glob(pattern), key=version, default=None)
