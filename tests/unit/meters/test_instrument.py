"""The life cycle that all drivers share."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.meters.base import AbsentMeter, Capability, Channel, Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.polled import PolledSession
from edgebench.meters.uncertainty import Kind, Unit, term
from edgebench.protocol.errors import MeasurementError, TargetError, UsageError

HEADER = Header(
    driver="made_up",
    info=MeterInfo(vendor="", model="made up"),
    capability=Capability(
        driver="made_up",
        channels=(Channel("input", "board"),),
        rate_hz=10.0,
        is_averaging=False,
        clock_domain="host:monotonic",
    ),
)


class Port:
    """A connection that records whether it is open."""

    def __init__(self) -> None:
        self.closed_count = 0

    def close(self) -> None:
        """Count the call."""
        self.closed_count += 1


class MadeUp(InstrumentMeter[Port]):
    """A meter on such a port, which may refuse to identify itself."""

    name = "made_up"

    def __init__(self, refusal: Exception | None = None) -> None:
        super().__init__(self._new_port)
        self.ports: list[Port] = []
        self.refusal = refusal

    def _new_port(self) -> Port:
        self.ports.append(Port())
        return self.ports[-1]

    def _describe(self, connection: Port) -> Header:
        if self.refusal is not None:
            raise self.refusal
        return HEADER

    def _record(self, connection: Port, header: Header, path: Path) -> PolledSession:
        return PolledSession(list, header, path)


@pytest.mark.parametrize("refusal", [TargetError("it is silent"), UsageError("say its supply")])
def test_meter_that_cannot_be_used_gives_its_port_back(refusal: Exception) -> None:
    """Otherwise the port of a meter that refused would stay taken until the process ends."""
    meter = MadeUp(refusal)
    assert meter.open() == AbsentMeter(str(refusal))
    assert [port.closed_count for port in meter.ports] == [1]
    meter.close()
    assert [port.closed_count for port in meter.ports] == [1]


def test_bug_of_a_driver_is_no_absent_meter() -> None:
    """Otherwise a bug of ours would be reported as a meter that is absent."""
    with pytest.raises(ZeroDivisionError):
        MadeUp(ZeroDivisionError()).open()


def test_opening_again_gives_the_first_port_back() -> None:
    """Otherwise a second list of meters would find its own ports in use."""
    meter = MadeUp()
    assert meter.open() is HEADER
    assert meter.open() is HEADER
    assert [port.closed_count for port in meter.ports] == [1, 0]


def test_closed_meter_records_nothing(tmp_path: Path) -> None:
    """Otherwise a session would begin on a port that another program has by now."""
    meter = MadeUp()
    with pytest.raises(MeasurementError, match="the meter made_up is not open"):
        meter.session(tmp_path / "recording")
    meter.open()
    meter.close()
    with pytest.raises(MeasurementError, match="the meter made_up is not open"):
        meter.session(tmp_path / "recording")


def test_term_has_the_unit_and_the_correlation_of_its_kind() -> None:
    """Otherwise noise would cancel where two runs are compared, or a gain would not."""
    gain = term(Kind.GAIN, 0.01, "table 3")
    step = term(Kind.RESOLUTION, 1e-6, "table 3", Unit.AMPERE, of_range=2)
    edge = term(Kind.EDGE, 0.1, "table 4")
    assert (gain.unit, gain.is_common) == (Unit.RATIO, True)
    assert (step.unit, step.is_common, step.range) == (Unit.AMPERE, False, 2)
    assert (edge.unit, edge.is_common) == (Unit.SECOND, False)
    assert gain.standard == pytest.approx(0.01 / 3**0.5)
    with pytest.raises(KeyError):
        term(Kind.OFFSET, 0.01, "an offset has no unit of its own")
