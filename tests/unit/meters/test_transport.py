"""Ports and hosts that cannot be used: one line for each reason, without the library's prose."""

from __future__ import annotations

import errno
from typing import Any

import pytest
import serial
from support.ppk2 import Ppk2Emulator

from edgebench.meters.transport import SerialTransport, TcpTransport
from edgebench.protocol.errors import TargetError


def refusal(path: str) -> str:
    """Why this port cannot be used."""
    with pytest.raises(TargetError) as refused:
        SerialTransport(path, 115_200)
    return str(refused.value)


def test_missing_port_is_named_once() -> None:
    """Otherwise the user would read the path twice, and an error number of the system."""
    assert refusal("/dev/nothing-there") == "no such serial port: /dev/nothing-there"


@pytest.mark.parametrize("path", ["/dev/null", "/etc/hostname", "/etc"])
def test_what_is_no_serial_port_is_called_so(path: str) -> None:
    """Otherwise a typing error would be reported with the name of a system call."""
    assert refusal(path) == f"not a serial port: {path}"


def test_port_of_another_program_is_in_use() -> None:
    """Otherwise two programs would share a meter, or the error would mention a lock."""
    with Ppk2Emulator() as emulator:
        first = SerialTransport(emulator.path, 115_200)
        said = refusal(emulator.path)
        first.close()
    assert said == f"serial port {emulator.path} is in use by another program"


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, "no permission to use serial port /dev/ttyACM0"),
        (errno.EBUSY, "serial port /dev/ttyACM0 is in use by another program"),
        (errno.EIO, "serial port /dev/ttyACM0 cannot be opened: Input/output error"),
    ],
)
def test_reason_of_the_system_is_told(
    monkeypatch: pytest.MonkeyPatch, number: int, said: str
) -> None:
    """Otherwise a user outside the port's group would not learn that.

    As root, this cannot be tested.
    """

    def refuse(*_: object, **__: object) -> Any:
        raise OSError(number, "Input/output error")

    monkeypatch.setattr(serial, "Serial", refuse)
    assert refusal("/dev/ttyACM0") == said


def test_unplugged_port_is_gone() -> None:
    """Otherwise the message would suggest multiple access on the port."""
    with Ppk2Emulator() as emulator:
        transport = SerialTransport(emulator.path, 115_200)
    with pytest.raises(TargetError) as gone:
        transport.read(1.0)
    transport.close()
    assert str(gone.value) == f"serial port {emulator.path} is gone"


def test_name_that_no_host_can_have_is_told() -> None:
    """Otherwise a typing error would be a traceback."""
    host = 64 * "a"
    with pytest.raises(TargetError, match=f"^no PTDaemon at {host}:8888: .*label.* too long"):
        TcpTransport(host, 8888, "PTDaemon")
