"""Recordings of sigrok-cli and PulseView: `.sr`, a zip with samples per channel.

    version             2
    metadata            [device 1] samplerate=5 kHz · analog1=A0 · analog2=A2 …
    analog-1-NUMBER-K   part K of the samples of channel NUMBER, float32; K starts at 1

The values are in volts, amperes or watts. The file does not state the unit, so the user must name
the channels with their units. The file records neither lost samples nor the time of day.

Source: files of sigrok-cli 0.7.2; sigrok.org/wiki/File_format:Sigrok/v2.
"""

from __future__ import annotations

import configparser
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgebench.host.power.imports.blocks import TableDecoder
from edgebench.host.power.imports.columns import TableColumns, find_columns
from edgebench.host.result.facts import ImportOptions
from edgebench.meters.base import Floats, SampleBlock
from edgebench.protocol.errors import FileRefused
from edgebench.protocol.text import one_line

VERSION = b"2"
_DEVICE = "device 1"
_METADATA_LIMIT_BYTES = 1 << 20
_PART_LIMIT_BYTES = 1 << 28
_DEFLATE_LIMIT = 1100
"""Highest accepted compression ratio; deflate reaches 1032 at most (zlib.net/zlib_tech.html)."""
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(|k|M|G)Hz")
_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}
_CHANNEL = re.compile(r"analog(\d+)")
_NONE = np.zeros(0)
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


@dataclass(frozen=True, slots=True)
class SigrokFile:
    """Metadata of the file."""

    path: Path
    rate_hz: float | None
    """Sample rate; None: the device had no sample rate, and sigrok wrote 0 Hz."""
    channels: dict[str, str]
    """Maps each channel name to its number."""

    def columns(self, options: ImportOptions) -> TableColumns:
        """Map each quantity to its channel, as named in the user's options.

        Raises:
            FileRefused: there is no sample rate, or no power.
        """
        rate_hz = options.rate_hz or self.rate_hz
        if rate_hz is None:
            raise FileRefused(
                "a .sr of a device without a sample rate has no times: pass the sample rate, as "
                "in --rate 10, or record with edgebench meters record sigrok:DRIVER"
            )
        return find_columns(list(self.channels), replace(options, rate_hz=rate_hz))


def is_sigrok(path: Path) -> bool:
    """Whether a file is a sigrok zip; False for a damaged zip."""
    with suppress(*_DAMAGED), zipfile.ZipFile(path) as archive:
        return {"version", "metadata"} <= set(archive.namelist())
    return False


def read_sigrok(path: Path) -> SigrokFile:
    """Read the metadata.

    Raises:
        FileRefused: the file is damaged, has an unsupported version, or has no analog channel.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            version = _member(archive, "version", _METADATA_LIMIT_BYTES).strip()
            text = _member(archive, "metadata", _METADATA_LIMIT_BYTES).decode(errors="replace")
    except _DAMAGED as exc:
        raise FileRefused(f"damaged .sr, not a complete zip: {one_line(exc)}") from exc
    if version != VERSION:
        raise FileRefused(f".sr of version {version[:20]!r}: only {VERSION!r} is supported")
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
        device = dict(parser[_DEVICE])
    except (configparser.Error, KeyError) as exc:
        raise FileRefused(f"the metadata contain no device: {one_line(exc)}") from exc
    channels = {
        name: match[1] for key, name in device.items() if (match := _CHANNEL.fullmatch(key))
    }
    if not channels:
        raise FileRefused("no power: the .sr has no analog channel")
    rate = _RATE.fullmatch(device.get("samplerate", ""))
    rate_hz = float(rate[1]) * _PREFIXES[rate[2]] if rate else 0.0
    return SigrokFile(path, rate_hz or None, channels)


def read_samples(source: SigrokFile, table: TableDecoder) -> Iterator[SampleBlock]:
    """Yield all samples, a part at a time.

    Raises:
        FileRefused: the file is damaged, or its channels have different lengths.
    """
    names = [column.name for column in table.columns.used]
    waiting: dict[str, list[Floats]] = {name: [] for name in names}
    try:
        with zipfile.ZipFile(source.path) as archive:
            known = set(archive.namelist())
            part = 1
            while any(_part_name(source, name, part) in known for name in names):
                for name in names:
                    if (file := _part_name(source, name, part)) in known:
                        data = _member(archive, file, _PART_LIMIT_BYTES)
                        values = np.frombuffer(data[: len(data) // 4 * 4], "<f4")
                        waiting[name].append(values.astype(np.float64))
                part += 1
                # Rows that every channel has; the other rows wait for the next part.
                come = {name: np.concatenate(parts or [_NONE]) for name, parts in waiting.items()}
                count = min(map(len, come.values()))
                waiting = {name: [values[count:]] for name, values in come.items()}
                if count:
                    yield table.block({name: values[:count] for name, values in come.items()})
    except _DAMAGED as exc:
        raise FileRefused(f"damaged .sr: {one_line(exc)}") from exc
    counts = {name: sum(map(len, parts)) for name, parts in waiting.items()}
    if any(counts.values()):
        more = ", ".join(f"{name} by {count}" for name, count in counts.items() if count)
        raise FileRefused(f"channels have different lengths; the longer channels are {more}")


def _part_name(source: SigrokFile, name: str, part: int) -> str:
    return f"analog-1-{source.channels[name]}-{part}"


def _member(archive: zipfile.ZipFile, name: str, limit_bytes: int) -> bytes:
    try:
        member = archive.getinfo(name)
    except KeyError:
        raise FileRefused(f"not a .sr file: {name} is missing") from None
    limit = min(limit_bytes, _DEFLATE_LIMIT * max(1, member.compress_size))
    if member.file_size > limit:
        raise FileRefused(f"{name} declares {member.file_size} bytes, limit {limit}")
    return archive.read(member)
