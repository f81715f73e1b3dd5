"""Raw bytes on disk: what was kept is read back, and a torn end costs only itself."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.disks import fill, small_disk
from support.tools import need_root, need_tool

from edgebench.meters.base import Capability, Channel, Header, MeterInfo, Packet
from edgebench.meters.spool import SpoolWriter, read_header, read_packets
from edgebench.protocol.errors import MeasurementError, StoreError

HEADER = Header(
    driver="rapl",
    info=MeterInfo(vendor="a", model="b", raw_metadata="R0: 1\nEND"),
    capability=Capability(
        driver="rapl",
        channels=(Channel("package-0", "package"),),
        rate_hz=10.0,
        is_averaging=True,
        clock_domain="host:monotonic",
    ),
    facts={"ranges_uj": [262143328851]},
)
HEAD_BYTES = 28
packets = st.builds(
    Packet, st.integers(-(2**62), 2**62), st.integers(0, 2**62), st.binary(min_size=1, max_size=50)
)


def write(path: Path, found: list[Packet]) -> Path:
    """A recording of these packets."""
    path.unlink(missing_ok=True)
    with SpoolWriter(path, HEADER) as writer:
        for packet in found:
            writer.append(packet)
    return path


@given(st.lists(packets, max_size=5))
def test_what_was_kept_is_read_back(found: list[Packet]) -> None:
    """Otherwise a byte of the meter would be lost on the way to the disk."""
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "recording", found)
        assert read_header(path) == HEADER
        assert list(read_packets(path)) == found


def test_torn_end_costs_only_itself(tmp_path: Path) -> None:
    """Otherwise a crash in the last write would make the hour before it unreadable."""
    found = [Packet(1, 2, b"abc"), Packet(3, 4, b"defgh")]
    path = write(tmp_path / "recording", found)
    whole = path.read_bytes()
    last = len(whole) - HEAD_BYTES - 5
    for length in range(last + 1, len(whole)):
        for behind in (b"", bytes(100)):  # a file system may have grown the file already
            path.write_bytes(whole[:length] + behind)
            read = read_packets(path)
            assert list(read) == found[:1]
            assert (read.torn_bytes, read.damage) == (length - last + len(behind), None)


def test_zeros_behind_the_last_packet_are_none(tmp_path: Path) -> None:
    """Otherwise a device that lost its power would give empty packets, received at second 0."""
    found = [Packet(1, 2, b"abc")]
    path = write(tmp_path / "recording", found)
    path.write_bytes(path.read_bytes() + bytes(4096))
    read = read_packets(path)
    assert list(read) == found
    assert (read.torn_bytes, read.damage) == (4096, None)


def test_whole_recording_has_no_torn_end(tmp_path: Path) -> None:
    """Otherwise every recording would be reported as cut off."""
    read = read_packets(write(tmp_path / "recording", [Packet(1, 2, b"abc")]))
    assert len(list(read)) == len(list(read)) == 1, "it may be read twice"
    assert (read.torn_bytes, read.damage) == (0, None)


@given(st.data())
def test_any_wrong_bit_is_told(data: st.DataObject) -> None:
    """Otherwise an hour would be read up to its tenth minute, silently.

    Or it would contain another minute.
    """
    found = data.draw(st.lists(packets, min_size=2, max_size=5))
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "recording", found)
        whole = bytearray(path.read_bytes())
        sizes = [HEAD_BYTES + len(packet.data) for packet in found]
        place = data.draw(st.integers(len(whole) - sum(sizes), len(whole) - sizes[-1] - 1))
        whole[place] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(whole)
        read = read_packets(path)
        before = list(read)
    assert before == found[: len(before)]
    begin = len(whole) - sum(sizes[len(before) :])
    assert begin <= place < begin + sizes[len(before)], "up to the packet with the wrong bit"
    assert read.torn_bytes == 0
    assert read.damage == (
        f"the recording of the meter is damaged: the last {len(whole) - begin} bytes, "
        f"from byte {begin}, are corrupt"
    )


def test_torn_end_of_any_size_is_no_damage(tmp_path: Path) -> None:
    """Otherwise a crash within a packet of megabytes would cost the trust in earlier data."""
    found = [Packet(1, 2, b"abc"), Packet(3, 4, b"x" * 5_000_000)]
    path = write(tmp_path / "recording", found)
    path.write_bytes(path.read_bytes()[:-1_000_000])
    read = read_packets(path)
    assert list(read) == found[:1]
    assert (read.torn_bytes, read.damage) == (HEAD_BYTES + 4_000_000, None)


@pytest.mark.parametrize("content", [b"", b"not JSON\n", b"{}\n", b"[1]\n", b"\x00" * 100])
def test_file_that_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    """Otherwise a wrong path would become a traceback."""
    path = tmp_path / "recording"
    path.write_bytes(content)
    with pytest.raises(MeasurementError, match="not a recording of a meter"):
        read_header(path)


def test_recording_is_never_written_over(tmp_path: Path) -> None:
    """Otherwise a second session would take the place of the first."""
    path = write(tmp_path / "recording", [])
    before = path.read_bytes()
    with pytest.raises(StoreError, match="recording cannot be written: File exists"):
        SpoolWriter(path, HEADER)
    assert path.read_bytes() == before


def test_full_disk_is_told_before_anything_is_recorded(tmp_path: Path) -> None:
    """Otherwise a buffered header would hide the full disk.

    An hour later the recording would turn out to be empty.
    """
    need_root()
    need_tool("mount")
    with small_disk(tmp_path / "small", 2**20) as disk:
        fill(disk)
        with pytest.raises(StoreError, match="recording cannot be written: No space left on"):
            SpoolWriter(disk / "recording", HEADER)
        assert not (disk / "recording").exists()
