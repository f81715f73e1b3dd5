"""A hostile device must not write outside the store, nor reach the user's terminal."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.agents import Host
from support.fake_agent import Answer, FakeAgent, Said
from support.records import (
    DEVICE,
    ENVIRONMENT,
    RUN_ID,
    latencies,
    query_trace,
    run_record,
    worker_record,
)
from support.watchers import on

from edgebench.host.bench.events import EarlierRunRejected
from edgebench.host.store.layout import RAW_DIRECTORY
from edgebench.protocol import messages as m
from edgebench.protocol.codec import MAX_FRAME_BYTES, encode
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    LinkLost,
    ModelRefused,
    RemoteProtocolError,
    RuntimeUnavailable,
)
from edgebench.protocol.plain import to_plain
from edgebench.protocol.traces import QUERIES_FILE, RECORD_FILE

OWN_FILES = re.compile(
    r"/host/health/(\.lock|[0-9a-f]{24}/[0-9a-f]{24}\.json)$|/data/edgebench/index\.sqlite[-a-z]*$"
)
"""Files with names of the host's own choice."""
EVIL = "a\x1b[2J\r\n\x07\u202eb" + "x" * 50_000
WELCOME = m.Welcome(m.PROTOCOL_VERSION, "edgebench-agent 0", DEVICE)
NOTHING_USABLE = SystemDescription(
    DEVICE, ENVIRONMENT, (RuntimeReport("litert", ("tflite",), reason="not installed"),)
)
RECORD = json.dumps(to_plain(run_record(worker_record(latencies())))).encode()


@pytest.fixture
def lying(host: Host) -> Host:
    """A host whose own machine has a lying agent."""
    host.folder.mkdir(parents=True)
    return host


def agent(host: Host, answers: Mapping[type[m.Message], Answer]) -> FakeAgent:
    """An agent on the host's own machine: a correct response to hello, then these responses."""
    return FakeAgent(host.folder / "data" / "edgebench" / "agent", {m.Hello: WELCOME, **answers})


def spooled(name: str, data: bytes) -> m.SpooledFile:
    """A file as an honest agent would announce it."""
    return m.SpooledFile(name, len(data), hashlib.sha256(data).hexdigest())


def everything(folder: Path) -> set[Path]:
    """All files under a folder, except the index and the notes on the health of the fake agent."""
    files = {path for path in folder.rglob("*") if path.is_file()}
    return {path for path in files if not OWN_FILES.search(str(path))}


def collected(host: Host, answers: Mapping[type[m.Message], Answer]) -> list[EdgebenchError]:
    """Collect from a hostile agent, and return the runs that were not stored, with the reasons."""
    doubts: list[EdgebenchError] = []
    watcher = on(EarlierRunRejected, lambda event: doubts.append(event.error))
    described: dict[type[m.Message], Answer] = {
        m.Describe: m.Described(NOTHING_USABLE),
        m.Acquire: m.Granted(30.0),
    }
    with agent(host, {**described, **answers}), pytest.raises(RuntimeUnavailable):
        host.lab.bench("digits_int8.tflite", runs=1, watcher=watcher)
    return doubts


@pytest.mark.parametrize("run_id", ["../../evil", "/tmp/evil", "..", "", "a/b", EVIL, "-rf"])
def test_run_id_of_a_device_cannot_leave_the_store(lying: Host, run_id: str) -> None:
    """Otherwise a device could write into the user's home, or keep every host from measuring."""
    doubts = collected(
        lying,
        {
            m.RunList: m.RunListing((run_id,)),
            m.RunOpen: m.RunFiles(run_id, (spooled(RECORD_FILE, RECORD),)),
            m.FileRead: (m.FileData(0), RECORD),
        },
    )
    assert [type(doubt) for doubt in doubts] == [RemoteProtocolError]
    assert str(doubts[0]).isprintable()
    assert everything(lying.folder) == set()


@pytest.mark.parametrize("name", ["../../evil", "/tmp/edgebench-evil", "..", ".", ""])
def test_file_name_of_a_device_cannot_leave_the_run(lying: Host, name: str) -> None:
    """Otherwise a device could write into the user's home."""
    collected(
        lying,
        {
            m.RunList: m.RunListing((RUN_ID,)),
            m.RunOpen: m.RunFiles(RUN_ID, (spooled(name, RECORD),)),
            m.FileRead: (m.FileData(0), RECORD),
        },
    )
    incoming = lying.folder / "data" / "edgebench" / "incoming"
    assert all(incoming in path.parents for path in everything(lying.folder))
    assert not Path("/tmp/edgebench-evil").exists()


@pytest.mark.parametrize(
    ("record", "queries"),
    [
        (b"", b""),
        (b"[]", b""),
        (b"{}", b""),
        (RECORD, b""),
        (RECORD, query_trace(latencies())[:-8]),
        (RECORD, b"\xff" * 1600),
    ],
    ids=["empty", "list", "object", "no queries", "cut queries", "odd queries"],
)
def test_run_that_makes_no_sense_keeps_nobody_from_measuring(
    lying: Host, record: bytes, queries: bytes
) -> None:
    """Otherwise a damaged run on a device would end every later measurement on it."""
    files = {RECORD_FILE: record, QUERIES_FILE: queries}

    def read(message: m.Message) -> Said:
        assert isinstance(message, m.FileRead)
        return m.FileData(0), files[message.name][message.offset_bytes :]

    listed = tuple(spooled(name, data) for name, data in files.items())
    doubts = collected(
        lying,
        {
            m.RunList: m.RunListing((RUN_ID,)),
            m.RunOpen: m.RunFiles(RUN_ID, listed),
            m.FileRead: read,
        },
    )
    assert len(doubts) == 1
    assert str(doubts[0]).isprintable()
    assert lying.lab.runs().empty


def test_damaged_file_is_fetched_again_and_not_kept(lying: Host) -> None:
    """Otherwise a file that arrived damaged would be stored, or never be replaced."""
    doubts = collected(
        lying,
        {
            m.RunList: m.RunListing((RUN_ID,)),
            m.RunOpen: m.RunFiles(RUN_ID, (spooled(RECORD_FILE, RECORD),)),
            m.FileRead: (m.FileData(0), b"\0" * len(RECORD)),
        },
    )
    assert [type(doubt) for doubt in doubts] == [RemoteProtocolError]
    assert "arrived damaged" in str(doubts[0])
    assert everything(lying.folder) == set()


@pytest.mark.parametrize("left", [b"\0" * len(RECORD), b"\0" * 10])
def test_file_that_a_power_cut_damaged_is_fetched_anew(lying: Host, left: bytes) -> None:
    """Otherwise the next command of a host that lost power would blame the device for it."""
    raw = lying.lab.store.unfinished / RUN_ID / RAW_DIRECTORY
    raw.mkdir(parents=True)
    (raw / RECORD_FILE).write_bytes(left)

    def read(message: m.Message) -> Said:
        assert isinstance(message, m.FileRead)
        return m.FileData(0), RECORD[message.offset_bytes :]

    doubts = collected(
        lying,
        {
            m.RunList: m.RunListing((RUN_ID,)),
            m.RunOpen: m.RunFiles(RUN_ID, (spooled(RECORD_FILE, RECORD),)),
            m.FileRead: read,
        },
    )
    assert "arrived damaged" not in str(doubts), "the run lacks its queries, which is another doubt"


def test_error_text_of_a_device_is_one_printable_line(lying: Host) -> None:
    """Otherwise a device could clear the user's terminal, or type for the user."""
    problem = m.Problem(4, EVIL)
    with (
        agent(lying, {m.Acquire: problem}),
        pytest.raises(ModelRefused) as caught,
        lying.lab.connect() as client,
    ):
        client.acquire()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 1000


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x93",
        bytes(5000),
        "text",
        encode(1, m.Probe()),
        encode(1, m.Granted(1.0))[:-1],
        bytes(MAX_FRAME_BYTES),
    ],
    ids=["empty", "short", "zeros", "text", "wrong kind", "cut", "largest"],
)
def test_hello_that_is_answered_with_nonsense_is_an_error_of_the_device(
    lying: Host, answer: Answer
) -> None:
    """Otherwise any listener there would pass for an agent, or cause a traceback."""
    with agent(lying, {m.Hello: answer}):
        result = lying.run("bench", "digits_int8.tflite")
    assert (result.returncode, result.stdout) == (1, "")
    assert "Traceback" not in result.stderr
    error, hint = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")


def test_agent_that_hangs_up_is_a_lost_link(lying: Host) -> None:
    """Otherwise a device that dies in the middle of a message would cause a traceback."""
    with (
        agent(lying, {m.Describe: None}),
        lying.lab.connect() as client,
        pytest.raises(LinkLost),
    ):
        client.describe()


def test_device_of_another_version_is_told_apart(lying: Host) -> None:
    """Otherwise a newer agent's extra fields would be refused, or its error codes be fatal."""
    with agent(lying, {m.Acquire: m.Problem(999, "something new")}), lying.lab.connect() as client:
        with pytest.raises(EdgebenchError, match="something new"):
            client.acquire()
        assert client.device == DEVICE
