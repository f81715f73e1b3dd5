"""A meter or a disk that fails when a recording begins or ends: one line, a hint, nothing lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import Host, end_local_agent
from support.commands import METERED, Run
from support.disks import fill, small_disk
from support.tools import need_root, need_runtime, need_tool

from edgebench.host.power.session import begin_session, open_meter, record
from edgebench.host.store.power import PowerFacts
from edgebench.host.store.recording import write_power
from edgebench.meters.base import Recording
from edgebench.meters.registry import DRIVERS, find_meter
from edgebench.meters.spool import read_packets
from edgebench.meters.synthetic.device import Synthetic
from edgebench.protocol.errors import StoreError

METER = "synthetic:constant,power=1"
BROKEN = """
import sys
from edgebench.meters.synthetic.device import Generator, Synthetic

def broken(*words):
    raise ValueError("VI_ERROR_SYSTEM\\nof a sort")

{name} = broken
from edgebench.host.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command line with a driver of which this method fails."""


def run_broken(host: Host, name: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`edgebench` in a process of its own, where no handler of pytest hides what is logged."""
    return subprocess.run(
        [sys.executable, "-c", BROKEN.format(name=name), *words],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | host.environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A directory on a disk without a free byte."""
    need_root()
    need_tool("mount")
    with small_disk(tmp_path / "small", 2**20) as disk:
        fill(disk)
        yield disk


@pytest.mark.parametrize("action", ["record", "selftest"])
def test_driver_that_fails_as_it_begins_is_one_line(host: Host, action: str) -> None:
    """An exception from a driver's library is reported without a traceback."""
    host.folder.mkdir(parents=True, exist_ok=True)
    said = run_broken(host, "Generator.start", "meters", action, METER, "--duration", "0.2s")
    assert said.returncode == 1
    assert said.stderr.splitlines() == [
        "error: the meter's driver failed: VI_ERROR_SYSTEM of a sort",
        "hint: check that the meter is still connected: edgebench meters",
    ]
    assert not list(host.folder.rglob("sessions/*")), "a recording that was none is left"


@pytest.mark.parametrize(
    "words",
    [("meters", "info", METER), ("meters", "selftest", METER), ("bench", "--meter", METER)],
    ids=" ".join,
)
def test_driver_that_fails_as_it_opens_is_one_line(host: Host, words: tuple[str, ...]) -> None:
    """A library that finds no bus is reported without a traceback."""
    host.folder.mkdir(parents=True, exist_ok=True)
    said = run_broken(host, "Synthetic.open", *words)
    assert (said.returncode, said.stdout) == (1, "")
    error, hint = said.stderr.splitlines()
    assert error == "error: the meter's driver failed: VI_ERROR_SYSTEM of a sort"
    assert hint.startswith("hint: check ")


def test_meter_is_let_go_of_where_no_run_takes_the_settings(
    edgebench: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a port would stay taken, and a tester without the kernel's driver."""
    closed: list[Synthetic] = []
    monkeypatch.setattr(Synthetic, "close", lambda meter: closed.append(meter))
    said = edgebench("bench", "digits_int8.tflite", "--meter", METER, "--idle", "700s")
    assert said.code == 2
    assert "idle duration must be 0 to 600 s, got 700" in said.err
    assert len(closed) == 1


def test_driver_that_fails_hides_no_other(host: Host) -> None:
    """Otherwise one broken library would hide the list of all meters."""
    host.folder.mkdir(parents=True, exist_ok=True)
    said = run_broken(host, "Synthetic.open", "meters", "list", "--json")
    assert said.returncode == 0, said.stderr
    listed = json.loads(said.stdout)["meters"]
    reason = "the meter's driver failed: VI_ERROR_SYSTEM of a sort"
    assert listed["synthetic"] == {"reason": reason, "permission": None}
    assert list(listed) == list(DRIVERS)


def test_driver_that_fails_as_it_records_is_one_line(host: Host) -> None:
    """Otherwise the reason would follow a traceback logged during the progress."""
    host.folder.mkdir(parents=True, exist_ok=True)
    said = run_broken(host, "Generator.read", "meters", "record", METER, "--duration", "0.5s")
    assert said.returncode == 3
    assert "Traceback" not in said.stderr
    assert "the meter's driver failed: VI_ERROR_SYSTEM of a sort" in said.stdout


def test_driver_that_fails_as_it_begins_costs_no_store(host: Host) -> None:
    """Otherwise `bench --meter` would raise, and a run that never started wait to be fetched."""
    need_runtime("ai-edge-litert")
    host.folder.mkdir(parents=True, exist_ok=True)
    try:
        words = ("bench", "digits_int8.tflite", *METERED, "--meter", METER)
        said = run_broken(host, "Generator.start", *words)
        assert said.returncode == 1
        assert "Traceback" not in said.stderr
        reason = "meter does not record: the meter's driver failed: VI_ERROR_SYSTEM of a sort"
        assert reason in said.stderr
        assert "edgebench meters" in said.stderr
        assert not list(host.folder.rglob("incoming/*"))
        [document] = json.loads(host.run(*words, "--json").stdout)["runs"]
        assert document["metrics"]["energy"]["refused"] is None
    finally:
        end_local_agent(host)


def test_disk_that_is_full_before_the_recording_is_one_line(edgebench: Run, full: Path) -> None:
    """Otherwise a meter would record into nothing for an hour, or a traceback be printed."""
    folder = full / "session"
    words = ("--duration", "0.2s", "--output", str(folder))
    said = edgebench("meters", "record", METER, *words)
    assert said.code == 1
    error, hint = said.err.splitlines()
    assert error.startswith("error: recording cannot be written: No space left on device")
    assert "df -h" in hint
    assert not folder.exists()


def test_selftest_on_a_full_disk_is_one_line(
    edgebench: Run, full: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The selftest's temporary directory is on the same disk; its error is reported too."""
    monkeypatch.setattr("tempfile.tempdir", str(full))
    said = edgebench("meters", "selftest", METER, "--duration", "0.2s")
    assert said.code == 1
    error, hint = said.err.splitlines()
    assert "No space left on device" in error
    assert "df -h" in hint


def test_store_that_is_full_as_the_meter_begins_is_our_error(full: Path) -> None:
    """Otherwise an error of the file would be reported as an error of the meter."""
    from contextlib import ExitStack

    with ExitStack() as stack, pytest.raises(StoreError, match="No space left on device"):
        begin_session(stack, find_meter(METER), full / "meter.spool")


def test_disk_that_fills_up_keeps_the_meter_s_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an hour's recording would be discarded because its second copy has no room."""
    need_root()
    need_tool("mount")
    meter, _ = open_meter("synthetic:constant,power=1,noise=0.1,rate=20000")
    recorded: list[bytes] = []
    with small_disk(tmp_path / "small", 2**20) as disk:
        spool = disk / "session" / "meter.spool"

        def write_on_a_full_disk(directory: Path, recording: Recording) -> PowerFacts:
            # Not before: how large the samples are depends on the library that packs them.
            recorded.append(spool.read_bytes())
            fill(disk)
            return write_power(directory, recording)

        monkeypatch.setattr("edgebench.host.power.session.write_power", write_on_a_full_disk)
        with pytest.raises(StoreError) as found:
            record(meter, spool.parent, 0.5, lambda _: None)
        reason = "samples cannot be written: No space left on device"
        assert str(found.value) == f"{reason}; written so far: {spool}"
        assert [spool.read_bytes()] == recorded
        assert sum(len(packet.data) for packet in read_packets(spool)) > 0
        assert sorted(path.name for path in spool.parent.iterdir()) == ["meter.spool"]
