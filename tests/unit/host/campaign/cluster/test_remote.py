"""A device of a lab host, by what is called there."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.watcher import Place, Watcher
from edgebench.host.campaign.cluster import messages as m
from edgebench.host.campaign.cluster.connection import ClusterConnection, LabDescription
from edgebench.host.campaign.cluster.remote import LabDevice
from edgebench.host.campaign.device import RunOrder
from edgebench.host.campaign.plan import Cell
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import LinkLost, StoreError, WorkerDied

MODEL = "digits_int8.tflite"
ORDER = RunOrder(cell=Cell(number=0, model=MODEL, device="pi5"), place=Place(1, 1))
Answer = list[m.ClusterMessage] | BaseException


class ScriptedConnection:
    """A connection to a lab host that answers as it is told, call by call."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.commands: list[m.ClusterMessage | None] = []
        self.seen: list[int] = []

    def call(
        self, lab: LabDescription, *request: m.ClusterMessage, wait_s: float
    ) -> tuple[list[m.ClusterMessage], bytes]:
        """The next answer."""
        call, *rest = request
        assert isinstance(call, m.LaneCall)
        self.seen.append(call.seen)
        self.commands.append(rest[0] if rest else None)
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer, b""


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
        model_of=lambda _: find_model(MODEL),
        watcher=Watcher(),
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
        device(lab, tmp_path).make(ORDER, new_id)
    assert lab.commands == [m.MakeJob(ORDER), None, m.IdGrant(new_id()), None]
    assert lab.seen == [0, 0, 2, 2]


def test_id_that_is_not_written_down_starts_nothing(tmp_path: Path) -> None:
    """The disk of the coordinator is full, and runs start that nobody knows of."""

    def refused() -> str:
        raise StoreError("campaign not writable")

    lab = ScriptedConnection([m.IdRequest()], [])
    with pytest.raises(StoreError, match="campaign not writable"):
        device(lab, tmp_path).make(ORDER, refused)
    assert lab.commands == [m.MakeJob(ORDER)]


@pytest.mark.parametrize("is_pressed", [True, False], ids=["Ctrl-C", "other thread"])
def test_cancelled_run_is_stopped_at_the_lab(tmp_path: Path, is_pressed: bool) -> None:
    """Ctrl-C ends the command, and the device measures on."""
    first: Answer = KeyboardInterrupt() if is_pressed else []
    lab = ScriptedConnection(first, [], [m.JobResult(is_interrupted=True)])
    with pytest.raises(Interrupted):
        device(lab, tmp_path, cancelled=not is_pressed).make(ORDER, new_id)
    assert lab.commands == [m.MakeJob(ORDER), m.LaneStop(), None]


def test_lab_that_dies_while_it_stops_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Ctrl-C waits for a lab host that is gone."""
    lab = ScriptedConnection([], LinkLost("gone"))
    with pytest.raises(Interrupted):
        device(lab, tmp_path, cancelled=True).make(ORDER, new_id)
    with pytest.raises(LinkLost):
        device(ScriptedConnection(LinkLost("gone")), tmp_path).make(ORDER, new_id)
