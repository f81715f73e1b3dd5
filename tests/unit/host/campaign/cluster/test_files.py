"""Files on their way to a lab host, and runs on their way back."""

from __future__ import annotations

import hashlib
import os
import time
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from edgebench.host.bench.finish import FinishingProcess
from edgebench.host.campaign.cluster.files import (
    FILES_DIRECTORY,
    UNUSED_S,
    ArrivingRun,
    LabFiles,
    file_ref,
    pack_run,
    store_packed,
)
from edgebench.host.campaign.cluster.lab import IDLE_S, LabHost, LabLane
from edgebench.host.campaign.cluster.messages import LaneOpen
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import FileChanged, RunDamaged

RUN_ID = "20260102-030405-c012345-0000-000-01"


def test_file_arrives_in_parts_and_keeps_its_name(tmp_path: Path) -> None:
    """A model that was cut off on the way is measured."""
    path = tmp_path / "net.tflite"
    path.write_bytes(b"0123456789")
    ref, files = file_ref(path), LabFiles(Store(tmp_path / "lab"))
    assert not files.has(ref)
    files.write(ref, 0, b"01234")
    assert not files.has(ref)
    files.write(ref, 0, b"01234")  # another lane begins to send it
    files.write(ref, 5, b"56789")
    files.write(ref, 5, b"56789")
    assert files.has(ref)
    assert files.path(ref).name == "net.tflite"
    assert files.path(ref).read_bytes() == b"0123456789"
    files.remove_unused()
    assert files.has(ref)


def test_half_of_a_run_that_never_came_whole_is_removed_in_time(tmp_path: Path) -> None:
    """A campaign is given up, and what had come of its runs fills the disk for ever."""
    store = Store(tmp_path)
    assert ArrivingRun(store, RUN_ID).add("digest", b"half")
    LabFiles(store).remove_unused()
    assert ArrivingRun(store, RUN_ID).size_bytes == len(b"half")
    folder = tmp_path / FILES_DIRECTORY / "arriving"
    os.utime(folder, (time.time() - UNUSED_S - 1,) * 2)
    LabFiles(store).remove_unused()
    assert ArrivingRun(store, RUN_ID).size_bytes == 0


def test_file_that_is_another_one_is_refused(tmp_path: Path) -> None:
    """A model is rebuilt while it is sent, and measured as the one before."""
    path = tmp_path / "net.tflite"
    path.write_bytes(b"0123456789")
    ref, files = file_ref(path), LabFiles(Store(tmp_path / "lab"))
    with pytest.raises(FileChanged):
        files.write(ref, 0, b"012345678X")
    assert not files.has(ref)
    elsewhere = files.path(replace(ref, name="../../../net.tflite"))
    assert (tmp_path / "lab") in elsewhere.parents


def test_run_arrives_whole_or_not_at_all(tmp_path: Path) -> None:
    """A run without its traces is in the store, and cannot be verified."""
    lab, store = Store(tmp_path / "lab"), Store(tmp_path / "store")
    directory = lab.directory(RUN_ID)
    (directory / "raw").mkdir(parents=True)
    (directory / "run.json").write_text("{}")
    (directory / "raw" / "record.json").write_bytes(b"\x00" * 1000)
    packed = BytesIO()
    assert pack_run(lab, RUN_ID, packed) == len(packed.getvalue())
    with pytest.raises(RunDamaged):
        store_packed(store, RUN_ID, BytesIO(packed.getvalue()[:-20]))
    assert not store.has(RUN_ID)
    store_packed(store, RUN_ID, packed)
    assert store.has(RUN_ID)
    there = store.directory(RUN_ID)
    assert (there / "raw" / "record.json").read_bytes() == b"\x00" * 1000


def test_packed_run_leads_to_no_other_place(tmp_path: Path) -> None:
    """A lab host that was taken over writes into the home of the coordinator."""
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as files:
        files.writestr("../../evil", "x")
        files.writestr("run.json", "{}")
    store = Store(tmp_path / "store")
    store_packed(store, RUN_ID, packed)
    assert (store.directory(RUN_ID) / "evil").exists()
    assert list(tmp_path.rglob("evil")) == [store.directory(RUN_ID) / "evil"]


def test_fetching_a_run_keeps_its_lane(tmp_path: Path) -> None:
    """A run takes minutes over a slow link, and its lane ends, as nobody has called for one."""
    store = Store(tmp_path)
    directory = store.directory(RUN_ID)
    directory.mkdir(parents=True)
    (directory / "run.json").write_text("{}")
    host = cast(LabHost, SimpleNamespace(store=store))
    opened = cast(LaneOpen, SimpleNamespace(device="pi5"))
    lane = LabLane(opened, host, LabFiles(store), cast(FinishingProcess, None))
    lane._called_s -= IDLE_S
    described, part = lane.packed(RUN_ID, 0)
    assert len(part) == described.size_bytes
    assert hashlib.sha256(part).hexdigest() == described.sha256
    assert time.monotonic() - lane._called_s < IDLE_S
    assert lane._packed is not None
    lane._packed[2].close()
