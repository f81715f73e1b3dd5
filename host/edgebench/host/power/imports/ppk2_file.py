"""Recordings of Nordic's Power Profiler app: a zip with metadata.json and session.raw.

    session.raw     per sample: float32 µA and u16, two bits for each of eight digital inputs:
                    01 low, 10 high, 11 both within the sample; little-endian
    metadata.json   {"metadata": {"samplesPerSecond": 100000, …}, "formatVersion": 2}

The app averages on the host if fewer than 100 000 samples per second were requested. The file
contains no voltage, no negative current and no gaps.

Source: NordicSemiconductor/pc-nrfconnect-ppk, the format of its version 4 (formatVersion 2).
"""

from __future__ import annotations

import json
import math
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgebench.host.power.imports.blocks import SampleTally, saturated
from edgebench.meters.base import Flag, SampleBlock
from edgebench.meters.ppk2.words import HIGHEST_A
from edgebench.protocol.errors import FileRefused
from edgebench.protocol.text import one_line

SAMPLE = np.dtype([("current_ua", "<f4"), ("bits", "<u2")])
BLOCK_SAMPLES = 1 << 16
FULL_RATE_HZ = 100_000.0
FORMAT_VERSION = 2
INPUT_COUNT = 8
_METADATA_LIMIT_BYTES = 1 << 20
_DEFLATE_LIMIT = 1100
"""Highest accepted compression ratio; deflate reaches 1032 at most (zlib.net/zlib_tech.html)."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


@dataclass(frozen=True, slots=True)
class Ppk2File:
    """Metadata of the file."""

    path: Path
    rate_hz: float
    count: int

    @property
    def is_averaging(self) -> bool:
        """Whether the app averaged samples, which it does at any rate below 100 kHz."""
        return self.rate_hz < FULL_RATE_HZ


def read_ppk2(path: Path) -> Ppk2File:
    """Read the metadata.

    Raises:
        FileRefused: the file is damaged, or has an unsupported version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            raw, text = _member(archive, "session.raw"), _member(archive, "metadata.json")
            if text.file_size > _METADATA_LIMIT_BYTES:
                raise FileRefused(f"not a .ppk2 file: metadata.json has {text.file_size} bytes")
            with archive.open(text) as file:
                rate_hz = _rate_hz(file.read(_METADATA_LIMIT_BYTES))
    except _DAMAGED as exc:
        raise FileRefused(f"damaged .ppk2, not a complete zip: {one_line(exc)}") from exc
    if raw.file_size % SAMPLE.itemsize:
        raise FileRefused(f"session.raw ends in the middle of a sample: {raw.file_size} bytes")
    return Ppk2File(path, rate_hz, raw.file_size // SAMPLE.itemsize)


def _member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    try:
        member = archive.getinfo(name)
    except KeyError:
        raise FileRefused(f"not a .ppk2 file: {name} is missing") from None
    if member.file_size > _DEFLATE_LIMIT * max(1, member.compress_size):
        raise FileRefused(
            f"{name} declares {member.file_size} bytes, but has {member.compress_size} in the file"
        )
    return member


def _rate_hz(text: bytes) -> float:
    try:
        plain = json.loads(text)
        version, rate = plain["formatVersion"], plain["metadata"]["samplesPerSecond"]
    except (ValueError, LookupError, TypeError, RecursionError) as exc:
        raise FileRefused("not a .ppk2 file: metadata.json lacks rate or version") from exc
    if version != FORMAT_VERSION:
        raise FileRefused(f".ppk2 of version {version!r}: only {FORMAT_VERSION} is supported")
    is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if not is_number or not math.isfinite(rate) or not 0 < rate <= FULL_RATE_HZ:
        raise FileRefused(
            f"rate of {rate!r} Hz is invalid: a PPK2 records at 1 to {FULL_RATE_HZ:.0f} Hz"
        )
    return float(rate)


def read_samples(source: Ppk2File, supply_v: float, tally: SampleTally) -> Iterator[SampleBlock]:
    """Yield all samples, in blocks.

    Raises:
        FileRefused: the file ends early, or its checksum is wrong.
    """
    try:
        with zipfile.ZipFile(source.path) as archive, archive.open("session.raw") as file:
            while data := file.read(BLOCK_SAMPLES * SAMPLE.itemsize):
                raw = np.frombuffer(data, SAMPLE, count=len(data) // SAMPLE.itemsize)
                yield _block(raw, source, supply_v, tally)
    except _DAMAGED as exc:
        raise FileRefused(f"damaged .ppk2: {one_line(exc)}") from exc
    if tally.count != source.count:
        raise FileRefused(f"session.raw contains only {tally.count} of {source.count} samples")


def _block(
    raw: NDArray[np.void], source: Ppk2File, supply_v: float, tally: SampleTally
) -> SampleBlock:
    current_a = raw["current_ua"].astype(np.float64) * 1e-6
    is_known = np.isfinite(current_a)
    current_a[~is_known] = np.nan
    flags = np.where(is_known, 0, int(Flag.MISSING)).astype(np.uint8)
    flags |= saturated(current_a, HIGHEST_A)
    first = tally.count
    edges = np.arange(first, first + len(raw) + 1) * (1e9 / source.rate_hz)
    edges_ns = np.rint(edges).astype(np.int64)
    tally.add(flags)
    # An input is set if it was high in any part of the sample.
    inputs = np.zeros(len(raw), np.uint8)
    for number in range(INPUT_COUNT):
        is_high = (raw["bits"] & np.uint16(2 << (2 * number))) != 0
        inputs[is_high] |= np.uint8(1 << number)
    return SampleBlock(
        channel=0,
        index0=first,
        time_ns=edges_ns[1:] if source.is_averaging else edges_ns[:-1],
        begin_ns=edges_ns[:-1] if source.is_averaging else None,
        power_w=current_a * supply_v,
        current_a=current_a,
        digital=inputs,
        flags=flags,
    )
