"""A device of a lab host, by what is called there."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import cast

import pytest

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.events import Place, ignore_events
from edgebench.host.bench.request import new_request
from edgebench.host.campaign.cluster import messages as m
from edgebench.host.campaign.cluster.connection import ClusterConnection, LabDescription
from edgebench.host.campaign.cluster.files import ArrivingRun, pack_run
from edgebench.host.campaign.cluster.remote import LabDevice
from edgebench.host.campaign.plan import AttemptName, Cell, PlannedRun
from edgebench.host.campaign.run import CellOrder
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import LinkLost, RunDamaged, StoreError, WorkerDied

MODEL = "digits_int8.tflite"
JOB = m.MakeJob(Cell(number=0, model=MODEL, device="pi5"), Place(1, 1), None, {})


def order(new_id: Callable[[], str]) -> CellOrder:
    """The job, as a campaign orders it."""
    return CellOrder(
        request=new_request([MODEL]),
        place=JOB.place,
        new_id=new_id,
        cell=JOB.cell,
        attempt=AttemptName("c012345", PlannedRun(0, 0), 1),
    )


Answer = list[m.ClusterMessage] | tuple[list[m.ClusterMessage], bytes] | BaseException


class ScriptedConnection:
    """A connection to a lab host that answers as it is told, call by call."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.commands: list[m.ClusterMessage | None] = []
        self.seen: list[int] = []

    def call(
        self, lab: LabDescription, *request: m.ClusterMessage, wait_s: float = 0.0
    ) -> tuple[list[m.ClusterMessage], bytes]:
        """The next answer."""
        call, *rest = request
        assert isinstance(call, m.LaneCall)
        self.seen.append(call.seen)
        self.commands.append(rest[0] if rest else None)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, tuple) else (answer, b"")


def device(connection: ScriptedConnection, store: Path, cancelled: bool = False) -> LabDevice:
    """A device that is reached by this connection."""
    cancellation = Cancellation()
    if cancelled:
        cancellation.request()
    return LabDevice(
        cast(ClusterConnection, connection),
        LabDescription("rack-1", "tcp://127.0.0.1:1", "0", ()),
        "lane",
        device="pi5",
        store=Store(store),
        known_runs=lambda: ([], []),
        notify=ignore_events,
        cancellation=cancellation,
    )


def new_id() -> str:
    """Id of the run."""
    return "20260102-030405-c012345-0000-000-01"


def test_run_gets_its_id_and_its_error(tmp_path: Path) -> None:
    """A worker that died there counts as a lab host that is gone, or the run has no id."""
    died = m.JobResult(m.error_report(WorkerDied("killed")))
    lab = ScriptedConnection([], [m.RunStartNotice("litert"), m.IdRequest()], [], [died])
    with pytest.raises(WorkerDied, match="killed"):
        device(lab, tmp_path).make(order(new_id))
    assert lab.commands == [JOB, None, m.IdGrant(new_id()), None]
    assert lab.seen == [0, 0, 2, 2]


def test_id_that_is_not_written_down_starts_nothing(tmp_path: Path) -> None:
    """The disk of the coordinator is full, and runs start that nobody knows of."""

    def refused() -> str:
        raise StoreError("campaign not writable")

    lab = ScriptedConnection([m.IdRequest()], [])
    with pytest.raises(StoreError, match="campaign not writable"):
        device(lab, tmp_path).make(order(refused))
    assert lab.commands == [JOB]


@pytest.mark.parametrize("is_pressed", [True, False], ids=["Ctrl-C", "other thread"])
def test_cancelled_run_is_stopped_at_the_lab(tmp_path: Path, is_pressed: bool) -> None:
    """Ctrl-C ends the command, and the device measures on."""
    first: Answer = KeyboardInterrupt() if is_pressed else []
    lab = ScriptedConnection(first, [], [m.JobResult(is_interrupted=True)])
    with pytest.raises(Interrupted):
        device(lab, tmp_path, cancelled=not is_pressed).make(order(new_id))
    assert lab.commands == [JOB, m.LaneStop(), None]


def test_lab_that_dies_while_it_stops_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Ctrl-C waits for a lab host that is gone."""
    lab = ScriptedConnection([], LinkLost("gone"))
    with pytest.raises(Interrupted):
        device(lab, tmp_path, cancelled=True).make(order(new_id))
    with pytest.raises(LinkLost):
        device(ScriptedConnection(LinkLost("gone")), tmp_path).make(order(new_id))


def packed_run(lab: Path, content: bytes) -> bytes:
    """A run as a lab host sends it."""
    store, packed = Store(lab), BytesIO()
    directory = store.directory(new_id())
    (directory / "raw").mkdir(parents=True, exist_ok=True)
    (directory / "run.json").write_text("{}")
    (directory / "raw" / "queries.bin").write_bytes(content)
    pack_run(store, new_id(), packed)
    return packed.getvalue()


def part(whole: bytes, begin: int, end: int | None = None) -> Answer:
    """An answer with these bytes of a packed run."""
    described = m.RunPart(len(whole), hashlib.sha256(whole).hexdigest())
    return [described], whole[begin:end]


def offsets(lab: ScriptedConnection) -> list[int]:
    """Where the parts that were asked for begin."""
    return [command.offset for command in lab.commands if isinstance(command, m.RunFetch)]


def test_run_goes_on_where_the_link_was_lost(tmp_path: Path) -> None:
    """A recording of a gigabyte begins again with each loss, and never arrives."""
    whole = packed_run(tmp_path / "lab", random.Random(1).randbytes(1000))
    lab = ScriptedConnection(part(whole, 0, 400), LinkLost("gone"))
    with pytest.raises(LinkLost):
        device(lab, tmp_path / "store")._fetch(new_id())
    lab = ScriptedConnection(part(whole, 400, 700), LinkLost("gone"))
    with pytest.raises(LinkLost):
        device(lab, tmp_path / "store")._fetch(new_id())
    assert offsets(lab) == [400, 700]
    lab = ScriptedConnection(part(whole, 700))
    assert device(lab, tmp_path / "store")._fetch(new_id())
    assert offsets(lab) == [700]
    assert Store(tmp_path / "store").has(new_id())
    assert list((tmp_path / "store" / "cluster" / "arriving").iterdir()) == []


def test_run_that_was_all_there_is_stored_after_all(tmp_path: Path) -> None:
    """The host is killed between the last part and the store, and asks beyond the end."""
    whole = packed_run(tmp_path / "lab", b"x")
    arriving = ArrivingRun(Store(tmp_path / "store"), new_id())
    assert arriving.add(hashlib.sha256(whole).hexdigest(), whole)
    lab = ScriptedConnection(part(whole, len(whole)))
    assert device(lab, tmp_path / "store")._fetch(new_id())


def test_run_that_was_packed_anew_begins_anew(tmp_path: Path) -> None:
    """Halves of two files are one run, which is damaged each time it is fetched."""
    first = packed_run(tmp_path / "one", random.Random(1).randbytes(1000))
    second = packed_run(tmp_path / "two", random.Random(2).randbytes(1000))
    lab = ScriptedConnection(part(first, 0, 400), part(second, 400), part(second, 0))
    assert device(lab, tmp_path / "store")._fetch(new_id())
    assert offsets(lab) == [0, 400, 0]


def test_run_that_is_not_what_was_sent_is_forgotten(tmp_path: Path) -> None:
    """One damaged byte is kept, and no later attempt can succeed."""
    whole = packed_run(tmp_path / "lab", random.Random(1).randbytes(1000))
    described = m.RunPart(len(whole), hashlib.sha256(whole).hexdigest())
    lab = ScriptedConnection(([described], whole[:500] + b"?" + whole[501:]))
    with pytest.raises(RunDamaged, match="arrived damaged"):
        device(lab, tmp_path / "store")._fetch(new_id())
    assert device(ScriptedConnection(part(whole, 0)), tmp_path / "store")._fetch(new_id())


def test_packed_again_it_is_the_same_file(tmp_path: Path) -> None:
    """A lab host that was started again has another digest, and what had come is of no use."""
    first, again = packed_run(tmp_path / "lab", b"x"), BytesIO()
    pack_run(Store(tmp_path / "lab"), new_id(), again)
    assert again.getvalue() == first
