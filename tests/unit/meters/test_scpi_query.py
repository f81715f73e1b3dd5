"""Any SCPI instrument by a query of the user's, on pyvisa-sim, on a socket and on a port."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvisa
from support.agents import wait_until
from support.pty_device import PortFaults, PtyDevice
from support.recordings import decoded
from support.scpi import Faults, Server, Supply, steady_supply

from edgebench.meters.base import AbsentMeter, Flag, Header
from edgebench.meters.registry import find_meter
from edgebench.meters.uncertainty import Kind, Origin
from edgebench.protocol.errors import WrongMeterOption


@dataclass(slots=True, kw_only=True)
class SerialSupply(PtyDevice):
    """A supply at a serial port, whose responses end with a line end."""

    rest: bytes = b""

    @property
    def port_faults(self) -> PortFaults:
        """No faults."""
        return PortFaults()

    def hear(self, data: bytes) -> None:
        """Respond to each line."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.send(b"KORAD-LIKE\n" if line == b"*IDN?" else b"2.50\n")

    def stream(self) -> None:
        """Send nothing."""


def opened(text: str) -> Header:
    """Header of a meter that must open."""
    meter = find_meter(text)
    header = meter.open()
    meter.close()
    assert isinstance(header, Header), header
    return header


def refused(server: Server, options: str) -> str:
    """Why the meter cannot be used."""
    found = find_meter(f"scpi:{server.address},{options}").open()
    assert isinstance(found, AbsentMeter)
    return found.reason


def recorded(text: str, path: Path, *, wait_s: float = 0.4, does_end: bool = False) -> str | None:
    """Record for a while, or until the recording ends by itself; why it ended early."""
    meter = find_meter(text)
    assert isinstance(meter.open(), Header)
    with meter.session(path) as session:
        if does_end:
            wait_until(lambda: session.trouble, "the recording ends")
        else:
            threading.Event().wait(wait_s)
    meter.close()
    return session.trouble


def test_supply_of_pyvisa_sim_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise instruments of another emulator could fail, or a change go unseen.

    It is the second device that pyvisa-sim comes with: a supply whose `*IDN?` has three fields.
    """
    real = pyvisa.ResourceManager
    manager: Any = real("@sim")
    monkeypatch.setattr(pyvisa, "ResourceManager", lambda library: real("@sim"))
    [place] = [name for name in manager.list_resources() if name.startswith("TCPIP0::localhost:2")]
    anybody: Any = manager.open_resource(place)
    anybody.read_termination = anybody.write_termination = "\n"
    meter = find_meter(f"scpi:{place},query=:CURR:IMM:AMPL?,supply=5,rate=50")
    header = meter.open()
    assert isinstance(header, Header), header
    assert (header.info.vendor, header.info.model) == ("SCPI", "MOCK")
    anybody.write(":CURR:IMM:AMPL 1.500")
    with meter.session(tmp_path / "recording") as session:
        time.sleep(0.3)
        anybody.write(":CURR:IMM:AMPL 4.000")
        time.sleep(0.3)
    assert session.trouble is None
    meter.close()
    found = decoded(tmp_path / "recording")
    assert set(found.current_a[1:-1].round(3)) == {1.5, 4.0}
    assert found.power_w == pytest.approx(5 * found.current_a)


def test_power_is_what_the_question_is_answered(tmp_path: Path) -> None:
    """Otherwise a response would have another quantity than stated, or a missing value be 0."""
    words = [b"+1.5E+00", b"9.9E+37", b"9.91E+37", b"nonsense", b"1.5,2.5", b""]
    supply = Supply({"MEAS:POW?": lambda place: words[max(0, place - 2) % len(words)]})
    with Server(supply) as server:
        assert recorded(f"scpi:{server.address},query=MEAS:POW?,rate=100", tmp_path / "r") is None
        asked = set(server.commands)
    assert asked == {"*IDN?", "MEAS:POW?"}, "nothing is set up"
    found = decoded(tmp_path / "r")
    good = found.flags == 0
    assert found.power_w[good] == pytest.approx(1.5)
    assert np.isnan(found.power_w[~good]).all()
    assert (found.flags[~good] & Flag.MISSING).all()
    assert (found.flags & Flag.SATURATED).any()
    assert found.loss.lost_count >= np.count_nonzero(~good)


@pytest.mark.parametrize(
    ("options", "answer", "power_w"),
    [
        ("query=Q?,supply=3.3", b"0.25", 0.825),
        ("query=Q?,answer=voltage+current", b"5.0;0.25", 1.25),
        ("query=Q?,answer=current+voltage", b"0.25, 5.0", 1.25),
        ("query=Q?,answer=power", b"0.75", 0.75),
    ],
)
def test_answer_has_the_quantities_that_it_is_said_to_have(
    tmp_path: Path, options: str, answer: bytes, power_w: float
) -> None:
    """Otherwise volts would be taken for amperes, or a current for a power."""
    with Server(Supply({"Q?": lambda place: answer})) as server:
        assert recorded(f"scpi:{server.address},{options}", tmp_path / "r") is None
    assert decoded(tmp_path / "r").power_w == pytest.approx(power_w)


def test_value_is_an_instant_unless_the_user_says_what_it_is_the_mean_of(tmp_path: Path) -> None:
    """Otherwise instants would pass for means, and no uncertainty include what lies between."""
    with Server(steady_supply(b"1.5")) as server:
        one = f"scpi:{server.address},query=MEAS:POW?"
        instant = opened(one)
        mean = opened(f"{one},mean=0.1")
        overlapping = opened(f"{one},mean=0.5,rate=10")
        assert recorded(f"{one},mean=0.05", tmp_path / "mean", wait_s=0.5) is None
    assert not instant.capability.is_averaging
    assert instant.capability.smoothing_s is None
    assert mean.capability.is_averaging
    assert mean.capability.rate_hz == pytest.approx(10)
    assert not overlapping.capability.is_averaging, "means that overlap do not add up"
    assert overlapping.capability.smoothing_s == 0.5
    assert [one.value for one in overlapping.uncertainty if one.kind is Kind.EDGE] == [0.5]
    found = decoded(tmp_path / "mean")
    follow = found.begin_ns[1:] == found.time_ns[:-1]
    assert follow.mean() > 0.5, "means follow each other, but for those that were asked for late"


def test_errors_are_those_of_the_data_sheet_if_the_user_states_them() -> None:
    """Otherwise an assumed error would be reported as a guaranteed error, or vice versa."""
    with Server(steady_supply(b"1.5")) as server:
        one = f"scpi:{server.address},query=MEAS:POW?"
        assumed = opened(one).uncertainty
        stated = opened(f"{one},gain=0.1%,offset=0.002").uncertainty
    kinds = (Kind.GAIN, Kind.OFFSET)
    assert {term.origin for term in assumed} == {Origin.ASSUMED}
    assert {t.kind: (t.value, t.origin) for t in stated if t.kind in kinds} == {
        Kind.GAIN: (0.001, Origin.DATASHEET),
        Kind.OFFSET: (0.002, Origin.DATASHEET),
    }


@pytest.mark.parametrize(
    ("answer", "options", "said"),
    [
        (b"5.0;0.25", "query=MEAS:POW?", "to `MEAS:POW?` is not power: '5.0;0.25'"),
        (b"OFF", "query=MEAS:POW?", "to `MEAS:POW?` is not a number: 'OFF'"),
        (b"1.5", "query=MEAS:POW?,answer=current", "as in supply=3.3"),
        (b"1.5", "query=MEAS:POW?,answer=power,supply=5", "supply requires answer=current"),
        (b"1.5", "query=MEAS:POW?,channel=2", "M8811 has no option 'channel'"),
        (b"1.5", "rate=2", "as in query=MEAS:POW?"),
    ],
)
def test_what_cannot_be_measured_says_why(answer: bytes, options: str, said: str) -> None:
    """Otherwise a wrong query would give energies, or a traceback without a hint."""
    with Server(steady_supply(answer)) as server:
        reason = refused(server, options)
    assert said in reason
    assert "\n" not in reason


@pytest.mark.parametrize(
    "options", ["query=MEAS:POW", "query=Q?,answer=watts", "query=Q?,gain=200%", "query=Q?,gain=x"]
)
def test_option_that_makes_no_sense_is_refused(options: str) -> None:
    """Otherwise a command would be repeated ten times a second, or a gain error be 200 %."""
    with pytest.raises(WrongMeterOption):
        find_meter(f"scpi:TCPIP::127.0.0.1::1::SOCKET,{options}")


def test_connection_that_is_cut_costs_nothing_that_was_measured(tmp_path: Path) -> None:
    """Otherwise a recording would be lost with the connection, or go on with zeros."""
    with Server(steady_supply(b"1.5"), Faults(gone_after=20, does_reset=True)) as server:
        text = f"scpi:{server.address},query=MEAS:POW?,rate=100"
        trouble = recorded(text, tmp_path / "r", does_end=True)
    assert trouble is not None
    assert "is gone" in trouble
    found = decoded(tmp_path / "r")
    assert len(found.power_w) >= 15
    assert found.power_w == pytest.approx(1.5)


def test_supply_at_a_serial_port(tmp_path: Path) -> None:
    """Otherwise a port could not be named, or its rate not be set."""
    with SerialSupply() as supply:
        text = f"scpi:ASRL{supply.path}::INSTR,baud=115200,query=MEAS:POW?,rate=20"
        assert recorded(text, tmp_path / "r") is None
    found = decoded(tmp_path / "r")
    assert found.power_w == pytest.approx(2.5)
    assert len(found.power_w) > 5
