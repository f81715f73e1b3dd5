"""The host's timeouts for an agent, and the requests that it does not send to an older agent."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import cast

import pytest
from support.records import DEVICE, RUN_ID

from edgebench.host.client import HASHED_BYTES_PER_S, MAX_FILE_BYTES, Client
from edgebench.host.transports.link import Link
from edgebench.protocol import messages as m
from edgebench.protocol.codec import decode, encode
from edgebench.protocol.errors import NoSuchDevice, RemoteProtocolError, StoreError, TargetError
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import RECORD_FILE, SPOOL_FILES


class FakeLink:
    """An agent with a run of these files; records the timeout of each response."""

    def __init__(self, *files: m.SpooledFile, protocol: int = m.PROTOCOL_VERSION) -> None:
        self._files = files
        self._protocol = protocol
        self.is_closed = False
        self._asked: list[tuple[int, m.Message]] = []
        self.patience_s: dict[type[m.Message], float | None] = {}

    def send(self, data: bytes) -> None:
        """Receive a request."""
        frame = decode(data)
        self._asked.append((frame.number, frame.message))
        self.payload = bytes(frame.payload)

    def receive(self, timeout_s: float | None) -> bytes:
        """Return the response to it."""
        number, message = self._asked.pop()
        self.patience_s[type(message)] = timeout_s
        if isinstance(message, m.Hello):
            return encode(number, m.Welcome(self._protocol, "edgebench-agent 0", DEVICE))
        if isinstance(message, m.RunStart):
            return encode(number, m.RunAccepted(RUN_ID))
        return encode(number, m.RunFiles(RUN_ID, self._files))

    def close(self) -> None:
        """Close the connection."""
        self.is_closed = True


def test_slow_device_has_time_to_hash_what_a_meter_recorded(tmp_path: Path) -> None:
    """Otherwise 20 minutes of a PPK2 on a slow card would never arrive, and block later runs."""
    link = FakeLink()
    Client(cast(Link, link)).fetch_run(RUN_ID, tmp_path)
    patience_s = link.patience_s[m.RunOpen]
    assert patience_s is not None
    assert patience_s >= MAX_FILE_BYTES / HASHED_BYTES_PER_S


def test_agent_of_the_version_before_is_not_asked_for_seats() -> None:
    """Otherwise an updated host would end every session with an older agent in a protocol error."""
    link = FakeLink(protocol=4)
    client = Client(cast(Link, link))
    assert (client.device, client.seats(), client.seat) == (DEVICE, (), "")
    with pytest.raises(
        TargetError, match="does not support following a run in progress: edgebench-agent 0"
    ):
        client.follow(RUN_ID)
    assert list(link.patience_s) == [m.Hello]


@pytest.mark.parametrize(("protocol", "payload"), [(4, b""), (5, b"facts")])
def test_agent_of_the_version_before_gets_no_file_of_the_host(
    protocol: int, payload: bytes
) -> None:
    """Otherwise an older agent would receive a file that it cannot store."""
    link = FakeLink(protocol=protocol)
    client = Client(cast(Link, link))
    spec = RunSpec("onnx")
    client.start_run(
        RUN_ID, spec, sha256="0" * 64, model_name="x", size_bytes=1, host_file=b"facts"
    )
    assert link.payload == payload


def test_seat_of_an_agent_that_has_none_is_refused() -> None:
    """Otherwise an older agent would ignore the name of the seat, and measure its only device."""
    link = FakeLink(protocol=4)
    with pytest.raises(
        NoSuchDevice, match="no device 'nucleo' at this agent: edgebench-agent 0 serves"
    ):
        Client(cast(Link, link), seat="nucleo")
    assert link.is_closed


@pytest.mark.parametrize(
    ("name", "size_bytes"),
    [(RECORD_FILE, -1), (RECORD_FILE, MAX_FILE_BYTES + 1), ("../../.bashrc", 1)],
)
def test_device_that_offers_what_no_run_has_is_refused(
    name: str, size_bytes: int, tmp_path: Path
) -> None:
    """Otherwise a device could write outside of the run, fill the disk, or hide its sizes."""
    link = FakeLink(m.SpooledFile(name, size_bytes, ""))
    with pytest.raises(RemoteProtocolError, match=f"size_bytes is -1|, {size_bytes} bytes"):
        Client(cast(Link, link)).fetch_run(RUN_ID, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_run_that_the_disk_has_no_room_for_is_not_fetched(tmp_path: Path) -> None:
    """Otherwise a gigabyte would fill the disk, and the error give neither size nor limit."""
    link = FakeLink(m.SpooledFile(min(SPOOL_FILES), MAX_FILE_BYTES, ""))
    free = shutil.disk_usage(tmp_path)._replace(free=1000)
    said = f"needs {format_bytes(MAX_FILE_BYTES)}, disk has 1000 B free: {tmp_path}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: free)
        with pytest.raises(StoreError, match=re.escape(said)):
            Client(cast(Link, link)).fetch_run(RUN_ID, tmp_path)
