"""Live files: commands append, observers read, and neither disturbs the other."""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.disks import fill, small_disk
from support.tools import need_root

from edgebench.host.store import live
from edgebench.host.store.layout import Store
from edgebench.host.store.live import LiveDevice, LiveFile, LiveReader, LiveSource
from edgebench.protocol.record import Phase

NAME = "1-20261124T000000-000000.jsonl"
"""Name of a file that a test writes itself."""
COMMAND = {"name": "bench", "host": "desk", "pid": 1, "begun_utc": "2026-11-24T00:00:00+00:00"}


def state(device: str = "pi5", temp_c: float | None = None, reason: str = "") -> LiveDevice:
    """A device that is being measured."""
    return LiveDevice(
        device=device,
        at_utc="2026-11-24T00:00:00+00:00",
        state="measuring",
        reason=reason,
        phase=Phase.MEASURING,
        temp_c=temp_c,
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in which nothing was ever measured."""
    return Store(tmp_path / "store")


@pytest.fixture
def file(store: Store) -> Iterator[LiveFile]:
    """The file of a command."""
    made = LiveFile(store, "bench")
    yield made
    made.close()


@pytest.fixture
def reader(store: Store) -> LiveReader:
    """An observer."""
    return LiveReader(store)


def only(reader: LiveReader) -> LiveSource:
    """The only command."""
    [source] = reader.sources.values()
    return source


def write(store: Store, *lines: bytes, name: str = NAME) -> Path:
    """Write a live file that no edgebench command made."""
    path = store.root / "live" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_a_later_status_line_of_a_device_replaces_the_earlier_one(
    file: LiveFile, reader: LiveReader
) -> None:
    """Otherwise the page would show a stale status, or a device twice."""
    assert not reader.poll()
    file.put(state(temp_c=50.0))
    file.put(state("jetson"))
    assert reader.poll()
    file.put(state(temp_c=51.5))
    assert reader.poll()
    assert only(reader).devices == {"pi5": state(temp_c=51.5), "jetson": state("jetson")}
    assert not reader.poll()


def test_a_command_that_publishes_nothing_leaves_no_file(file: LiveFile, store: Store) -> None:
    """Otherwise a mistyped command would create a store."""
    file.close()
    assert not store.root.exists()


def test_the_end_of_a_command_is_seen_however_it_ends(file: LiveFile, reader: LiveReader) -> None:
    """Otherwise the page would show a killed command as measuring for ever."""
    file.put(state())
    reader.poll()
    assert not only(reader).is_over
    file.close()  # As the kernel does for a process that is killed.
    assert reader.poll()
    assert only(reader).is_over


def test_a_long_file_is_rewritten_and_readers_follow(
    file: LiveFile, reader: LiveReader, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a week's campaign would fill the disk, or readers lose it or take it for ended."""
    monkeypatch.setattr(live, "FILE_BYTES", 5000)
    file.put(state("jetson"))
    inodes = set()
    for number in range(100):
        file.put(state(temp_c=float(number)))
        assert reader.poll()
        assert not only(reader).is_over
        assert only(reader).devices["pi5"].temp_c == number
        [path] = (store.root / "live").iterdir()
        inodes.add(path.stat().st_ino)
        assert path.stat().st_size <= 5000
    assert len(inodes) > 1
    assert only(reader).devices["jetson"] == state("jetson")


def test_torn_and_foreign_lines_are_skipped(store: Store, reader: LiveReader) -> None:
    """Otherwise the line of a killed process, or of another program, would break the page."""
    good = json.dumps({"device": "pi5", "at_utc": "", "state": "waiting"}).encode()
    write(
        store,
        json.dumps(COMMAND).encode(),
        *(b"{", b"[]", b"null", b"\xff\x00", b"[" * 3000, b"x" * 5000, good[:20]),
        good,
        b'{"device": 3, "at_utc": "", "state": ""}',
    )
    assert reader.poll()
    assert list(only(reader).devices) == ["pi5"]


def test_a_line_is_read_once_it_is_whole(store: Store, reader: LiveReader) -> None:
    """Otherwise both halves of a line that is still being written would be skipped as damaged."""
    path = write(store, json.dumps(COMMAND).encode())
    line = json.dumps({"device": "pi5", "at_utc": "", "state": "waiting"}).encode()
    with path.open("ab") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        opened.write(line[:25])
        opened.flush()
        reader.poll()
        assert only(reader).devices == {}
        opened.write(line[25:] + b"\n")
        opened.flush()
        reader.poll()
        assert list(only(reader).devices) == ["pi5"]


def test_only_files_of_commands_are_opened(store: Store, reader: LiveReader) -> None:
    """Otherwise a pipe would block the reader, or a link would lead out of the store."""
    outside = write(store, json.dumps(COMMAND).encode(), name="note.txt")
    (outside.parent / NAME).symlink_to(outside)
    os.mkfifo(outside.parent / NAME.replace("1-", "2-"))
    (outside.parent / NAME.replace("1-", "3-")).mkdir()
    assert not reader.poll()
    assert reader.sources == {}


def test_devices_and_files_are_bounded(
    store: Store, reader: LiveReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a file with a million names would fill the reader's memory."""
    monkeypatch.setattr(live, "MAX_DEVICES", 3)
    monkeypatch.setattr(live, "MAX_FILES", 2)
    names = [json.dumps({"device": str(n), "at_utc": "", "state": ""}).encode() for n in range(9)]
    for number in range(4):
        write(store, json.dumps(COMMAND).encode(), *names, name=NAME.replace("1-", f"{number}-"))
    reader.poll()
    assert sorted(len(source.devices) for source in reader.sources.values()) == [0, 3]


def test_devices_of_commands_that_have_ended_take_no_place_of_others(
    store: Store, reader: LiveReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the day's ended commands would fill the page, and a running device be left out."""
    monkeypatch.setattr(live, "MAX_DEVICES", 3)
    for number in range(2):
        ended = LiveFile(store, "bench")
        ended.put(state(f"first-{number}"))
        ended.put(state(f"second-{number}"))
        reader.poll()
        ended.close()
        reader.poll()
    running = LiveFile(store, "bench")
    for number in range(3):
        running.put(state(f"now-{number}"))
    reader.poll()
    kept = [len(source.devices) for source in reader.sources.values() if not source.is_over]
    assert kept == [3]
    reader.poll()
    assert sum(len(source.devices) for source in reader.sources.values()) == 3
    running.close()


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "1" + "0" * 400], ids=lambda text: text[:9]
)
def test_a_number_that_no_browser_reads_is_left_out(
    number: str, store: Store, reader: LiveReader
) -> None:
    """Otherwise one line would make every page's messages invalid JSON, or end the server."""
    line = '{"device": "pi5", "at_utc": "", "state": "waiting", %s}'
    write(
        store,
        json.dumps(COMMAND).encode(),
        (line % f'"expected_s": {number}').encode(),
        (line % f'"reached": {{"done": {number}, "total": 1, "unit": "bytes"}}').encode(),
    )
    reader.poll()
    assert only(reader).devices == {}


def test_old_files_are_removed_and_those_of_running_commands_kept(
    file: LiveFile, store: Store, reader: LiveReader
) -> None:
    """Otherwise files would pile up, or a command that runs for two days would lose its own."""
    other = LiveFile(store, "campaign")
    other.put(state())
    path = write(store, json.dumps(COMMAND).encode())
    foreign = write(store, b"mine", name="note.txt")
    for one in path.parent.iterdir():
        os.utime(one, (time.time() - 2 * live.KEPT_S,) * 2)
    file.put(state())
    assert not path.exists()
    assert foreign.exists()
    reader.poll()
    assert sorted(source.command.name for source in reader.sources.values() if source.command) == [
        "bench",
        "campaign",
    ]
    other.close()


def test_a_full_disk_does_not_stop_a_command(tmp_path: Path) -> None:
    """Otherwise a measurement would fail because its status cannot be written."""
    need_root()
    with small_disk(tmp_path / "disk", 2**20) as disk:
        store = Store(disk)
        file, reader = LiveFile(store, "bench"), LiveReader(store)
        file.put(state())
        filler = fill(disk)
        for number in range(50):
            file.put(state(temp_c=float(number)))
        filler.unlink()
        file.put(state(temp_c=99.0))
        reader.poll()
        assert only(reader).devices["pi5"].temp_c == 99.0
        file.close()


def test_a_directory_that_cannot_be_created_does_not_stop_a_command(tmp_path: Path) -> None:
    """A live directory that is a file fails no measurement (permissions do not stop root)."""
    (tmp_path / "live").write_text("mine")
    file = LiveFile(Store(tmp_path), "bench")
    file.put(state())
    file.close()
    assert stat.S_ISREG((tmp_path / "live").stat().st_mode)
    assert not LiveReader(Store(tmp_path)).poll()
