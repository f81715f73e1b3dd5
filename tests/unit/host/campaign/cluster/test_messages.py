"""Messages between coordinator and lab hosts."""

from __future__ import annotations

import pytest

from edgebench.host.bench.cancellation import Interrupted
from edgebench.host.bench.events import Place
from edgebench.host.campaign.cluster import messages as m
from edgebench.host.campaign.plan import Cell
from edgebench.host.campaign.run import may_pass
from edgebench.host.campaign.spec import Settings
from edgebench.host.result.facts import SetMember
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.protocol import errors as e

CELL = Cell(number=3, model="/models/net.tflite", device="pi5", threads=2)
JOB = m.MakeJob(
    cell=CELL,
    place=Place(1, 4, "threads 2"),
    member=SetMember("set-1", 0, 5),
    references={"litert": ReferenceAccuracy("20260102-030405-0123abcd", "fp32", 0.99)},
)
MESSAGES: list[m.ClusterMessage] = [
    m.LaneOpen(
        device="pi5",
        campaign="c012345",
        wait_s=1.5,
        repeats=5,
        settings=Settings(duration_s=2, cpus=(0, 1)),
        cell=CELL,
        files={"/models/net.tflite": m.FileRef("ab", "net.tflite", 7)},
    ),
    JOB,
    m.SettleJob(("a", "b"), ()),
    m.IdRequest(),
    m.JobResult(m.ErrorReport("NoSpace", "disk full", "a run", 0.0)),
]


def test_messages_arrive_as_they_were_sent() -> None:
    """A reference is lost on the way, and the accuracy of a quantised model is judged by none."""
    assert m.unpack(m.pack(MESSAGES)) == MESSAGES


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x90\x90", m.pack([m.EmptyReply()])[:-3], b"\x01"]
)
def test_bytes_that_are_no_message_are_refused(data: bytes) -> None:
    """A lab host of another version ends the coordinator with a traceback."""
    with pytest.raises(e.RemoteProtocolError):
        m.unpack(data)
    with pytest.raises(e.RemoteProtocolError):
        m.unpack(m.pack([m.EmptyReply()]).replace(b"empty_reply", b"empty_board"))


@pytest.mark.parametrize(
    "error",
    [
        e.NoSpace("disk full"),
        e.TooLarge("file too large"),
        e.LeaseHeld("in use", waited_s=3.0),
        e.WorkerDied("killed"),
        e.LinkLost("gone"),
        e.LabHostsUnreachable("nobody"),
        e.MeterLost("unplugged"),
        e.NoSuchMeter("no meter"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_error_is_judged_as_at_its_lab(error: e.EdgebenchError) -> None:
    """A disk that is full for an hour counts as a model that failed."""
    error.run_id = "20260102-030405-0123abcd"
    found = m.reported_error(m.error_report(error))
    assert (type(found), str(found), found.run_id) == (type(error), str(error), error.run_id)
    assert may_pass(found) == may_pass(error)
    if isinstance(found, e.LeaseHeld):
        assert found.waited_s == 3.0


def test_error_that_a_text_does_not_make_is_one_of_the_class_above() -> None:
    """An error with more than a text takes the campaign down when it is told."""
    report = m.error_report(e.MeterNotServed("not served", "rapl"))
    assert type(m.reported_error(report)) is e.UsageError
    assert type(m.reported_error(m.ErrorReport("OfTomorrow", "new"))) is e.EdgebenchError


def test_interrupted_job_is_no_error() -> None:
    """Ctrl-C counts as a run that failed."""
    assert m.ended(Interrupted(None), "a run") == m.JobResult(is_interrupted=True, run_id="a run")
