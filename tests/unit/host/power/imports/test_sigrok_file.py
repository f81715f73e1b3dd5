"""Files of sigrok: of the real sigrok-cli, and made up."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.tools import need_tool

from edgebench.host.power.imports.importer import import_file
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import FileRefused

CURRENT = ImportOptions(current="I1:A", supply_v=2.0)
METADATA = "[global]\nsigrok version=0.5.2\n\n[device 1]\nsamplerate=1.5 kHz\ntotal analog=2\n"
CHANNELS = "analog3=V1\nanalog4=I1\n"
PARTS = {"analog-1-3-1": [4.0] * 3, "analog-1-4-1": [0.1] * 2, "analog-1-4-2": [0.3]}


def make_file(
    path: Path, *, metadata: str = METADATA + CHANNELS, version: str = "2", **parts: list[float]
) -> Path:
    """A file with these parts, or with those of three samples; an empty part is left out."""
    members = {
        name: np.array(part, "<f4").tobytes() for name, part in (PARTS | parts).items() if part
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("version", version)
        archive.writestr("metadata", metadata)
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_file_of_the_real_program_has_its_samples(tmp_path: Path) -> None:
    """Otherwise parts would be joined in another order, or a channel be confused with another."""
    need_tool("sigrok-cli")
    words = "-d demo --config samplerate=50k --samples 5000 --channels A1,A3"
    path = tmp_path / "demo.sr"
    subprocess.run(["sigrok-cli", *words.split(), "-o", str(path)], check=True, timeout=30)
    options = ImportOptions(current="A3:mA", voltage="A1:V", is_averaging=False)
    session = import_file(path, tmp_path / "session", options)
    assert session.facts.header.capability.rate_hz == pytest.approx(50_000)
    table = pq.read_table(tmp_path / "session/power.parquet")
    place = np.arange(5000)
    assert table["time_ns"].to_numpy().tolist() == (place * 20_000).tolist()
    # A sawtooth of 1 V a sample, called milliamperes here, from -10 to 10, which are one place.
    off = (1e3 * np.diff(table["amps_a"].to_numpy()) - 1 + 10) % 20 - 10
    assert np.abs(off).max() < 1e-3
    sine = 10 * np.sin(2 * np.pi * place / 20)
    assert table["volts_v"].to_numpy() == pytest.approx(sine, abs=1e-4)


def test_parts_are_put_together_by_channel(tmp_path: Path) -> None:
    """Otherwise samples of a part that is longer than another channel's would be lost."""
    session = import_file(
        make_file(tmp_path / "a.sr"),
        tmp_path / "session",
        ImportOptions(current="I1:A", voltage="V1:V", is_averaging=True),
    )
    [channel] = session.channels()
    assert channel.energy_j == pytest.approx(4.0 * (0.1 + 0.1 + 0.3) / 1500)
    assert channel.duration_s == pytest.approx(3 / 1500)


def test_file_without_a_rate_needs_one(tmp_path: Path) -> None:
    """Otherwise readings of a multimeter would have an invented time."""
    metadata = METADATA.replace("1.5 kHz", "0 Hz") + CHANNELS
    path = make_file(tmp_path / "a.sr", metadata=metadata)
    with pytest.raises(FileRefused, match="without a sample rate has no times: pass the sample"):
        import_file(path, tmp_path / "session", CURRENT)
    told = ImportOptions(current="I1:A", supply_v=2.0, rate_hz=10.0, is_averaging=True)
    [channel] = import_file(path, tmp_path / "session", told).channels()
    assert channel.duration_s == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("changes", "options", "why"),
    [
        ({}, ImportOptions(), "no power or current column.*'V1', 'I1'"),
        ({}, ImportOptions(current="I9:A", supply_v=2.0), "no column is named 'I9'"),
        ({"version": "1"}, CURRENT, "of version b'1'"),
        ({"metadata": "[device 2]\n"}, CURRENT, "contain no device"),
        ({"metadata": METADATA}, CURRENT, "has no analog channel"),
        (
            {"analog-1-4-2": []},
            ImportOptions(current="I1:A", voltage="V1:V"),
            "longer channels are V1 by 1",
        ),
        ({"analog-1-4-1": [], "analog-1-4-2": []}, CURRENT, "fewer than two samples"),
    ],
)
def test_file_that_says_too_little_is_refused(
    tmp_path: Path, changes: dict[str, Any], options: ImportOptions, why: str
) -> None:
    """Otherwise the result would be a traceback, or the energy of half a file."""
    path = make_file(tmp_path / "a.sr", **changes)
    with pytest.raises(FileRefused, match=why):
        import_file(path, tmp_path / "session", options)


def test_damaged_file_is_told(tmp_path: Path) -> None:
    """Otherwise a file with its end cut off would be an error of Python's."""
    whole = make_file(tmp_path / "a.sr").read_bytes()
    for content, why in ((whole[:-30], "complete zip"), (b"time,power\n", r"not a \.sr file")):
        path = tmp_path / "b.sr"
        path.write_bytes(content)
        with pytest.raises(FileRefused, match=why):
            import_file(path, tmp_path / "session", CURRENT)
