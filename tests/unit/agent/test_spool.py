"""The spool: a finished run is whole, and belongs to its owner alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from support.disks import fill, small_disk
from support.tools import need_root

from edgebench.agent.spool import LEAST_FREE_BYTES, OWNER_FILE, Spool
from edgebench.protocol.errors import NoSpace, UsageError
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.traces import QUERIES_FILE, RECORD_FILE, WORKER_LOG_FILE

EVIL_IDS = (
    "",
    ".",
    "..",
    "../spool/run",
    "/etc",
    "a/b",
    "run\n",
    "run\0",
    "-rf",
    "_hidden",
    "é",
    "x" * 65,
)
EVIL_NAMES = (
    "",
    ".",
    "..",
    "../record.json",
    "/etc/passwd",
    "job.json",
    f"{RECORD_FILE}\0",
    f"./{RECORD_FILE}",
)


def finish_run(spool: Spool, run_id: str, owner: str, queries: bytes = b"q" * 32) -> None:
    """Spool a small run."""
    folder = spool.begin(run_id)
    (folder / RECORD_FILE).write_text(json.dumps({"run_id": run_id, "owner": owner}))
    (folder / QUERIES_FILE).write_bytes(queries)
    (folder / "job.json").write_text("{}")
    spool.finish(run_id, owner)


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """An empty spool."""
    return Spool(tmp_path)


def test_run_does_not_start_on_a_full_disk(tmp_path: Path) -> None:
    """Otherwise a run would measure for an hour, and its result could not be written."""
    need_root()
    with small_disk(tmp_path / "small", 2 * LEAST_FREE_BYTES) as disk:
        spool = Spool(disk)
        filler = fill(disk, leave_bytes=LEAST_FREE_BYTES // 2)
        with pytest.raises(NoSpace, match=f"a run needs {format_bytes(LEAST_FREE_BYTES)}"):
            spool.begin("run-1")
        filler.unlink()
        finish_run(spool, "run-1", "a")


def test_run_appears_only_when_it_is_whole(spool: Spool, tmp_path: Path) -> None:
    """Otherwise a host would collect half a run and acknowledge it."""
    folder = spool.begin("run-1")
    (folder / RECORD_FILE).write_text(json.dumps({"owner": "a"}))
    assert spool.finished("a") == ()
    with pytest.raises(UsageError):
        spool.files("run-1", "a")
    spool.finish("run-1", "a")
    assert spool.finished("a") == ("run-1",)
    assert list((tmp_path / "work").iterdir()) == []


def test_only_the_files_of_the_protocol_are_kept(spool: Spool) -> None:
    """Otherwise what a worker leaves behind would travel to the host."""
    finish_run(spool, "run-1", "a")
    assert [file.name for file in spool.files("run-1", "a")] == [RECORD_FILE, QUERIES_FILE]


def test_files_tell_their_size_and_digest(spool: Spool) -> None:
    """Otherwise the host could not distinguish a damaged file from a good file."""
    finish_run(spool, "run-1", "a", b"queries")
    (file,) = [file for file in spool.files("run-1", "a") if file.name == QUERIES_FILE]
    assert file.size_bytes == 7
    assert file.sha256 == hashlib.sha256(b"queries").hexdigest()


def test_file_is_read_in_pieces_until_its_end(spool: Spool) -> None:
    """Otherwise a resumed transfer would skip or repeat bytes."""
    finish_run(spool, "run-1", "a", b"0123456789")

    def piece(offset: int) -> bytes:
        return spool.read("run-1", "a", QUERIES_FILE, offset=offset, size=4)

    assert [piece(0), piece(4), piece(8), piece(10), piece(99)] == [
        b"0123",
        b"4567",
        b"89",
        b"",
        b"",
    ]


def test_runs_are_listed_oldest_first(spool: Spool, tmp_path: Path) -> None:
    """Otherwise runs would be collected in an unpredictable order."""
    for age, name in enumerate(("run-b", "run-c", "run-a")):
        finish_run(spool, name, "a")
        os.utime(tmp_path / "spool" / name, ns=(age * 10**9, age * 10**9))
    assert spool.finished("a") == ("run-b", "run-c", "run-a")


def test_other_hosts_neither_see_nor_read_nor_forget_a_run(spool: Spool) -> None:
    """Otherwise a host could read or throw away another host's results."""
    finish_run(spool, "run-1", "a")
    assert spool.finished("b") == ()
    for call in (
        lambda: spool.files("run-1", "b"),
        lambda: spool.read("run-1", "b", RECORD_FILE, offset=0, size=10),
        lambda: spool.acknowledge("run-1", "b"),
    ):
        with pytest.raises(UsageError, match="no run run-1 of this host is on the device"):
            call()
    assert spool.finished("a") == ("run-1",)


@pytest.mark.parametrize("record", [b"", b"{", b"[]", b"null", b'{"owner": null}', b"\xff"])
def test_run_without_a_readable_record_belongs_to_nobody(
    spool: Spool, tmp_path: Path, record: bytes
) -> None:
    """Otherwise a damaged record would crash all listings, or open an older agent's run to all."""
    finish_run(spool, "run-1", "a")
    (tmp_path / "spool" / "run-1" / OWNER_FILE).unlink()
    (tmp_path / "spool" / "run-1" / RECORD_FILE).write_bytes(record)
    finish_run(spool, "run-2", "a")
    assert spool.finished("a") == ("run-2",)
    with pytest.raises(UsageError):
        spool.files("run-1", "a")


@pytest.mark.parametrize("record", [None, b"", b"{", b"[]", b'{"owner": "b"}', b"[" * 10**5])
def test_run_with_a_damaged_record_is_still_its_hosts(
    spool: Spool, tmp_path: Path, record: bytes | None
) -> None:
    """Otherwise it would fill the device for good, while its host reads that it is gone."""
    finish_run(spool, "run-1", "a", b"queries")
    path = tmp_path / "spool" / "run-1" / RECORD_FILE
    path.unlink() if record is None else path.write_bytes(record)
    assert (spool.finished("a"), spool.finished("b")) == (("run-1",), ())
    assert spool.read("run-1", "a", QUERIES_FILE, offset=0, size=99) == b"queries"
    assert OWNER_FILE not in {file.name for file in spool.files("run-1", "a")}
    spool.acknowledge("run-1", "a")
    assert spool.usage() == (0, 0)


def test_damaged_owner_costs_no_run(spool: Spool, tmp_path: Path) -> None:
    """Otherwise one file of a few bytes would hide a run whose record is whole."""
    finish_run(spool, "run-1", "a")
    for content in (b"", b"\xff"):
        (tmp_path / "spool" / "run-1" / OWNER_FILE).write_bytes(content)
        assert spool.finished("a") == ("run-1",)


def test_what_is_no_run_is_left_alone(spool: Spool, tmp_path: Path) -> None:
    """Otherwise one stray file would make a device unusable."""
    finish_run(spool, "run-1", "a")
    (tmp_path / "spool" / ".x").write_text("")
    (tmp_path / "spool" / "run-2").write_text("")
    (tmp_path / "spool" / "lost+found").mkdir()
    assert spool.finished("a") == ("run-1",)
    assert spool.usage()[0] == 1
    finish_run(spool, "run-3", "a")
    shutil.rmtree(tmp_path / "spool")
    assert (spool.finished("a"), spool.usage()) == ((), (0, 0))


def test_acknowledged_run_is_gone_and_may_be_acknowledged_again(
    spool: Spool, tmp_path: Path
) -> None:
    """Otherwise runs would pile up, or a repeated acknowledgement would be an error."""
    finish_run(spool, "run-1", "a")
    spool.acknowledge("run-1", "a")
    spool.acknowledge("run-1", "a")
    assert spool.finished("a") == ()
    assert spool.usage() == (0, 0)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("run_id", EVIL_IDS)
def test_run_ids_cannot_leave_the_spool(spool: Spool, tmp_path: Path, run_id: str) -> None:
    """Otherwise a run id from the wire could be a path to somewhere else."""
    before = sorted(tmp_path.rglob("*"))
    for call in (
        lambda: spool.begin(run_id),
        lambda: spool.finish(run_id, "a"),
        lambda: spool.discard(run_id),
        lambda: spool.files(run_id, "a"),
        lambda: spool.read(run_id, "a", RECORD_FILE, offset=0, size=1),
        lambda: spool.acknowledge(run_id, "a"),
    ):
        with pytest.raises(UsageError, match="malformed run id"):
            call()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", EVIL_NAMES)
def test_file_names_cannot_leave_the_run(spool: Spool, name: str) -> None:
    """Otherwise a file name from the wire could be a path to somewhere else."""
    finish_run(spool, "run-1", "a")
    with pytest.raises(UsageError, match="no file"):
        spool.read("run-1", "a", name, offset=0, size=10)


@pytest.mark.parametrize("offset", [-1, -(2**63), 2**63, 2**64 - 1])
def test_offset_that_no_file_has_is_refused(spool: Spool, offset: int) -> None:
    """Otherwise a seek to nowhere would raise an unexpected exception."""
    finish_run(spool, "run-1", "a")
    with pytest.raises(UsageError, match=f"at byte {offset}"):
        spool.read("run-1", "a", RECORD_FILE, offset=offset, size=10)


def test_file_of_the_protocol_that_a_run_lacks_is_an_error_and_not_a_crash(spool: Spool) -> None:
    """Otherwise a request for a trace that was never written would end the connection."""
    from edgebench.protocol.errors import TargetError

    finish_run(spool, "run-1", "a")
    with pytest.raises(TargetError, match="file not read"):
        spool.read("run-1", "a", WORKER_LOG_FILE, offset=0, size=10)


def test_taken_run_id_is_refused_in_progress_and_finished(spool: Spool) -> None:
    """Otherwise a second run would overwrite the first."""
    spool.begin("run-1")
    with pytest.raises(UsageError, match="already exists"):
        spool.begin("run-1")
    finish_run(spool, "run-2", "a")
    with pytest.raises(UsageError, match="already exists"):
        spool.begin("run-2")


def test_sweep_removes_unfinished_runs_and_nothing_else(tmp_path: Path) -> None:
    """Otherwise a killed agent's work would stay on the disk, or a finished run be removed."""
    spool = Spool(tmp_path)
    finish_run(spool, "run-1", "a")
    (spool.begin("run-2") / "model.log").write_text("half")
    again = Spool(tmp_path)
    assert again.sweep() == ["run-2"]
    assert again.finished("a") == ("run-1",)
    assert list((tmp_path / "work").iterdir()) == []
    again.begin("run-2")


def test_full_spool_takes_no_new_run(tmp_path: Path) -> None:
    """Otherwise runs that are never collected would fill the disk."""
    spool = Spool(tmp_path, quota_bytes=1000)
    finish_run(spool, "run-1", "a", b"q" * 1000)
    with pytest.raises(NoSpace, match="1000"):
        spool.begin("run-2")
    spool.acknowledge("run-1", "a")
    spool.begin("run-2")


def test_spool_is_closed_to_other_users(tmp_path: Path) -> None:
    """Otherwise another user of the device could read results, or swap a run under the agent."""
    spool = Spool(tmp_path)
    folder = spool.begin("run-1")
    for path in (folder, tmp_path / "work", tmp_path / "spool"):
        assert path.stat().st_mode & 0o077 == 0
