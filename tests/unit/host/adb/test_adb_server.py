"""How the host treats adb servers that are absent, hostile or elsewhere."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from edgebench.host.adb import server
from edgebench.host.adb.server import (
    AdbServer,
    ServerAddress,
    ServiceRefused,
    adb_program,
    server_address,
)
from edgebench.host.devices.adb import AdbShell, AdbTarget, parse_target, ready_phones
from edgebench.host.show.hints import hint_for
from edgebench.host.transports.adb import AdbTransport
from edgebench.host.transports.base import Endpoint
from edgebench.protocol.errors import (
    AdbMissing,
    AgentNotStarted,
    LinkLost,
    LinkTimeout,
    PhoneUnavailable,
    Unreachable,
    UsageError,
)

READY = b"OKAY0022R58M device model:Pixel transport_id:1"
FEATURES = b"OKAY0008shell_v2"
NOWHERE = {"PATH": "/nowhere", "ANDROID_ADB_SERVER_PORT": "1"}
"""No program, and tcpmux, a port of loopback at which no process listens."""


@contextmanager
def answering(folder: Path, answers: dict[str, bytes]) -> Iterator[dict[str, str]]:
    """A server that sends these replies, chosen by the beginning of a request; its environment."""

    def serve(link: socket.socket) -> None:
        with link, suppress(OSError, ValueError):
            while length := link.recv(4):
                request = link.recv(int(length, 16)).decode()
                [answer] = [text for key, text in answers.items() if request.startswith(key)]
                link.sendall(answer)
                is_open = request.startswith("shell") and answer == b"OKAY"
                if not is_open and answer != b"OKAY":
                    link.shutdown(socket.SHUT_WR)
                    is_open = True
                while is_open and link.recv(65536):
                    pass

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()

    folder.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "adb"))
        listener.listen()
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield {"ADB_SERVER_SOCKET": f"localfilesystem:{folder / 'adb'}", "PATH": "/nowhere"}
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, ServerAddress("127.0.0.1", 5037)),
        ({"ANDROID_ADB_SERVER_PORT": "6000"}, ServerAddress("127.0.0.1", 6000)),
        ({"ANDROID_ADB_SERVER_ADDRESS": "10.0.0.2"}, ServerAddress("10.0.0.2", 5037)),
        ({"ADB_SERVER_SOCKET": "tcp:6001"}, ServerAddress("127.0.0.1", 6001)),
        ({"ADB_SERVER_SOCKET": "tcp:[::1]:6001"}, ServerAddress("::1", 6001)),
        ({"ADB_SERVER_SOCKET": "localfilesystem:/run/a"}, ServerAddress(path="/run/a")),
    ],
)
def test_server_is_where_adb_looks_for_it(
    environment: dict[str, str], address: ServerAddress
) -> None:
    """Otherwise `edgebench` would start a second server, which takes the phones of the first."""
    assert server_address(environment) == address


@pytest.mark.parametrize(
    "environment",
    [
        {"ANDROID_ADB_SERVER_PORT": "65536"},
        {"ANDROID_ADB_SERVER_PORT": "x"},
        {"ADB_SERVER_SOCKET": "tcp:0"},
        {"ADB_SERVER_SOCKET": "vsock:1:2"},
    ],
)
def test_address_that_is_none_is_the_users(environment: dict[str, str]) -> None:
    """Otherwise a typing error would look like a phone that is absent."""
    with pytest.raises(UsageError, match=next(iter(environment))):
        AdbServer(environment)


def test_adb_is_found_in_the_sdk(tmp_path: Path) -> None:
    """Otherwise a user of Android Studio would have to know its directories."""
    program = tmp_path / "platform-tools" / "adb"
    program.parent.mkdir()
    program.write_text("")
    program.chmod(0o755)
    assert adb_program({"PATH": "/nowhere", "ANDROID_HOME": str(tmp_path)}) == str(program)
    assert adb_program({"PATH": "/nowhere"}) is None


def test_machine_without_adb_is_told_how_to_get_it() -> None:
    """Otherwise the first step of a new user would be a search."""
    with pytest.raises(AdbMissing, match=r"no adb server at 127\.0\.0\.1:1") as caught:
        AdbServer(NOWHERE).phones()
    assert "apt install adb" in hint_for(caught.value)


def test_adb_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    """Otherwise a broken installation would end in a traceback."""
    program = tmp_path / "adb"
    program.write_text("#!/bin/sh\necho could not install >&2; exit 1\n")
    program.chmod(0o755)
    broken = NOWHERE | {"PATH": str(tmp_path)}
    with pytest.raises(Unreachable, match=f"^adb server did not start: could .*: {program}$"):
        AdbServer(broken).phones()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-", "not an adb server: replied b'SSH-'"),
        (b"OKAYzzzz", "text length is b'zzzz', not 4 hex digits"),
        (b"OKAY0100short", "closed the connection"),
        (b"FAIL0006no way", "refuses host:devices-l: no way"),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_adb_server_is_one_line(tmp_path: Path, answer: bytes, words: str) -> None:
    """Otherwise another program at that port would end in a traceback, or be waited for."""
    with (
        answering(tmp_path, {"host:devices-l": answer}) as environment,
        pytest.raises(Unreachable) as caught,
    ):
        AdbServer(environment).phones()
    assert words in str(caught.value)


def test_server_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise `edgebench devices` would hang with it."""
    monkeypatch.setattr(server, "REQUEST_TIMEOUT_S", 0.1)
    with (
        answering(tmp_path, {"host:devices-l": b"OKAY"}) as environment,
        pytest.raises(Unreachable, match="does not answer"),
    ):
        AdbServer(environment).phones()


def test_refusals_of_a_service_are_told_apart(tmp_path: Path) -> None:
    """Otherwise a phone that is gone and an agent that is gone would have the same message."""
    answers = {
        "host:devices-l": READY,
        "host-serial:R58M:features": FEATURES,
        "host:transport:R58M": b"OKAY",
        "tcp:7747": b"FAIL0006closed",
    }
    with answering(tmp_path, answers) as environment:
        with pytest.raises(ServiceRefused, match=r"^adb:R58M does not open tcp:7747: closed$"):
            AdbServer(environment).open_service("R58M", "tcp:7747")
        transport = AdbTransport(lambda: tmp_path, environment)
        with pytest.raises(
            AgentNotStarted, match=r"^no agent runs on phone \(adb:R58M\)"
        ) as caught:
            transport.dial(Endpoint("phone", "", ("R58M",), 7747))
        assert "edgebench deploy adb:R58M" in hint_for(caught.value)
    answers["host:transport:R58M"] = b"FAIL0010device not found"
    listing = b"R58M offline transport_id:1"
    answers["host:devices-l"] = b"OKAY%04x" % len(listing) + listing
    with (
        answering(tmp_path / "second", answers) as environment,
        pytest.raises(PhoneUnavailable, match=r"^adb:R58M is offline") as gone,
    ):
        AdbServer(environment).open_service("R58M", "tcp:7747")
    assert "adb reconnect offline" in hint_for(gone.value)


def packet(kind: int, data: bytes) -> bytes:
    """A packet of the shell protocol."""
    return bytes([kind]) + len(data).to_bytes(4, "little") + data


@pytest.mark.parametrize(
    ("output", "error", "words"),
    [
        (packet(1, b"half"), LinkLost, "was lost while testing"),
        (b"\x01\xff\xff\xff\xff", LinkLost, "packet of 4294967295 bytes"),
    ],
)
def test_shell_that_breaks_off_is_a_lost_connection(
    tmp_path: Path, output: bytes, error: type[LinkLost], words: str
) -> None:
    """Otherwise a pulled cable would look like a command that has succeeded."""
    answers = {
        "host:devices-l": READY,
        "host-serial:R58M:features": FEATURES,
        "host:transport:R58M": b"OKAY",
        "shell,v2,raw:": b"OKAY" + packet(1, b"Pixel 8\n") + packet(3, b"\0"),
    }
    with answering(tmp_path, answers) as environment:
        shell = AdbShell(AdbServer(environment), "R58M")
        assert shell.default_name == "pixel-8"
        answers["shell,v2,raw:"] = b"OKAY" + output
        with pytest.raises(error, match=words):
            shell.run(["true"], what="testing", timeout_s=60.0)
        answers["shell,v2,raw:"] = b"OKAY"
        with pytest.raises(LinkTimeout):
            shell.run(["true"], what="testing", timeout_s=0.1)


def test_identity_file_is_refused_for_a_phone() -> None:
    """Otherwise a user would believe that it protects the phone."""
    with pytest.raises(UsageError, match="takes no identity file"):
        AdbTarget("R58M").connect(Path("key"))


def test_discovery_without_adb_lists_plugged_phones_and_starts_nothing(tmp_path: Path) -> None:
    """Otherwise a machine without phones would get a daemon, or wait for it."""
    usb = tmp_path / "usb"
    transport = AdbTransport(lambda: tmp_path, NOWHERE, usb)
    assert transport.discover(0.0) == []
    for name, value in (
        ("1-2/product", "Pixel 8\n"),
        ("1-2:1.1/bInterfaceClass", "ff\n"),
        ("1-2:1.1/bInterfaceSubClass", "42\n"),
        ("1-2:1.1/bInterfaceProtocol", "01\n"),
        ("1-3:1.0/bInterfaceClass", "08\n"),
    ):
        path = usb / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
    [phone] = transport.discover(0.0)
    assert (phone.endpoint.name, phone.endpoint.address) == ("Pixel 8", "USB")
    assert "apt install adb" in phone.next_step


@pytest.mark.parametrize(
    ("serial", "words"),
    [
        (
            "10.0.0.7:39001",
            "use the phone's new port: edgebench deploy adb:10.0.0.7:41002",
        ),
        ("10.0.0.8:39001", "plug the phone in, or connect over Wi-Fi: adb connect HOST:PORT"),
        ("R58M", "plug the phone in, or connect over Wi-Fi: adb connect HOST:PORT"),
    ],
)
def test_phone_that_has_another_port_is_named(tmp_path: Path, serial: str, words: str) -> None:
    """Otherwise every start of wireless debugging would look like a lost phone."""
    listing = "10.0.0.7:41002 device model:Pixel_8"
    answer = b"OKAY%04x" % len(listing) + listing.encode()
    with (
        answering(tmp_path, {"host:devices-l": answer}) as environment,
        pytest.raises(PhoneUnavailable, match=r"is not connected$") as refused,
    ):
        AdbServer(environment).require_ready(serial)
    assert refused.value.step == words


@pytest.mark.parametrize(
    ("listing", "words"),
    [
        ("", "^no phone is ready: not connected$"),
        ("R58M unauthorized", "^no phone is ready: adb:R58M is unauthorised"),
    ],
)
def test_all_phones_are_those_that_are_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listing: str, words: str
) -> None:
    """Otherwise `deploy adb:all` would succeed where nothing was deployed."""
    answer = b"OKAY%04x" % len(listing) + listing.encode()
    with answering(tmp_path, {"host:devices-l": answer}) as environment:
        monkeypatch.setenv("ADB_SERVER_SOCKET", environment["ADB_SERVER_SOCKET"])
        with pytest.raises(PhoneUnavailable, match=words):
            ready_phones()
    with pytest.raises(UsageError, match="expected adb:SERIAL of one phone"):
        parse_target("adb:all")
