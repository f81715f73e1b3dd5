"""Recordings of Nordic's app, written by another hand than the one that reads them."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def write_ppk2(
    path: Path,
    current_ua: Sequence[float] | NDArray[np.float64],
    *,
    rate: object = 100_000,
    version: object = 2,
    high: Sequence[int] = (),
    leave_out: str = "",
    tail: bytes = b"",
) -> Path:
    """A file of these currents; `high` are the digital inputs that are high throughout."""
    bits = sum((0b10 if place in high else 0b01) << (2 * place) for place in range(8))
    raw = b"".join(struct.pack("<fH", value, bits) for value in current_ua) + tail
    metadata = {
        "metadata": {"samplesPerSecond": rate, "startSystemTime": 1_700_000_000_000},
        "formatVersion": version,
    }
    members: dict[str, bytes | str] = {
        "session.raw": raw,
        "metadata.json": json.dumps(metadata),
        "minimap.raw": b"{}",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if name != leave_out:
                archive.writestr(name, content)
    return path
