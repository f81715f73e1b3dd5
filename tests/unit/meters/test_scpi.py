"""SCPI instruments on a socket; plain pyvisa verifies the made-up instruments."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvisa
from support.recordings import Decoded, decoded
from support.scpi import DataLogger, Faults, Floats, Model, Multimeter, Server, WattMeter

from edgebench.meters.base import AbsentMeter, Flag, Header
from edgebench.meters.recorder import Recorder
from edgebench.meters.registry import find_meter
from edgebench.meters.scpi.device import Scpi
from edgebench.meters.scpi.link import RESPONSE_S, ScpiLink, open_link
from edgebench.meters.scpi.multimeter import aperture_cycles, polled_cycles
from edgebench.meters.scpi.setup import ScpiSetup
from edgebench.meters.spool import read_header
from edgebench.meters.uncertainty import Kind
from edgebench.protocol.errors import TargetError, UsageError

SIGLENT = "Siglent Technologies,SDM3065X,SDM36FBX5R0123,3.01.01.10"


def square(time_s: Floats) -> Floats:
    """200 mA for 20 ms, then 50 mA for 30 ms."""
    return np.where(time_s % 0.05 < 0.02, 0.2, 0.05)


def meter(server: Server, response_s: float = 2.0, **setup: Any) -> Scpi:
    """Our driver of this instrument."""
    return Scpi(lambda: open_link(server.address, response_s), ScpiSetup(**setup))


def opened(made: Scpi) -> Header:
    """Header of a meter that must open."""
    header = made.open()
    assert isinstance(header, Header), header
    return header


def refused(model: Model, faults: Faults | None = None, **setup: Any) -> str:
    """Why it cannot be used, found without changing anything on it."""
    with Server(model, faults or Faults()) as server:
        answer = meter(server, 0.3, **setup).open()
    assert isinstance(answer, AbsentMeter)
    assert not changes(server)
    return answer.reason


def refused_session(
    model: Model, path: Path, faults: Faults | None = None, **setup: Any
) -> tuple[str, list[str]]:
    """Why a session of it cannot begin, and the commands that it received."""
    with Server(model, faults or Faults()) as server:
        made = meter(server, 5.0, **setup)
        opened(made)
        with pytest.raises((TargetError, UsageError)) as found, made.session(path):
            raise AssertionError
        made.close()
    assert not path.exists()
    return str(found.value), changes(server)


def heard(server: Server, last: str) -> None:
    """Wait until this is the last command received."""
    deadline_s = time.monotonic() + 20
    while server.commands[-1] != last:
        assert time.monotonic() < deadline_s, server.commands[-3:]
        time.sleep(0.005)


def changes(server: Server) -> list[str]:
    """The commands that may have changed something: all but read-only queries."""
    return [one for one in server.commands if not one.endswith("?") and "? " not in one] + [
        one for one in server.commands if one in ("READ?", "SYST:ERR?", ":STATUS:ERROR?")
    ]


def record(
    model: Model, path: Path, *, count: int, faults: Faults | None = None, **setup: Any
) -> tuple[Decoded, str | None]:
    """A session until so many values were requested, and why it ended early."""
    with Server(model, faults or Faults()) as server:
        made = meter(server, **setup)
        opened(made)
        before = model.values_asked
        with made.session(path) as session:
            deadline_s = time.monotonic() + 20
            while model.values_asked < before + count and session.trouble is None:
                assert time.monotonic() < deadline_s
                time.sleep(0.005)
        made.close()
    return decoded(path), session.recording().trouble


def asked_by_anybody(server: Server) -> Any:
    """The instrument by pyvisa alone."""
    found: Any = pyvisa.ResourceManager("@py").open_resource(server.address)
    found.read_termination = found.write_termination = "\n"
    return found


def test_made_up_instruments_are_ones_for_pyvisa() -> None:
    """Otherwise our emulator could have a protocol that only our driver understands."""
    with Server(DataLogger(waveform=square)) as server:
        logger = asked_by_anybody(server)
        assert logger.query("*IDN?").startswith("Keysight Technologies,N6705C,")
        for command in ("FORM REAL", "SENS:ELOG:PER 0.001,(@1)", "INIT:ELOG (@1)"):
            logger.write(command)
        logger.write("TRIG:ELOG (@1)")
        values: list[float] = []
        while len(values) < 400:
            values += logger.query_binary_values("FETC:ELOG? 50,(@1)", "f", is_big_endian=True)
        logger.write("SENS:ELOG:NONSENSE 1,(@1)")
        assert logger.query("SYST:ERR?") == '-113,"Undefined header"'
        logger.close()
    assert values[0::2][:200] == pytest.approx(square(np.arange(200) * 0.00100352).tolist())
    assert values[1::2] == pytest.approx([3.3] * len(values[1::2]))
    with Server(WattMeter()) as server:
        watts = asked_by_anybody(server)
        for place, item in enumerate("UIP", 1):
            watts.write(f":NUMERIC:NORMAL:ITEM{place} {item},1")
        found = watts.query_ascii_values(":NUMERIC:NORMAL:VALUE?")
        assert found == pytest.approx([230.0, 50 / 230, 50.0], rel=1e-4)
        watts.close()
    with Server(Multimeter()) as server:
        amperes = asked_by_anybody(server)
        assert float(amperes.query("READ?")) == pytest.approx(0.1)
        amperes.close()


def test_data_log_is_what_flowed(tmp_path: Path) -> None:
    """The whole path: socket, VISA, blocks, spool, records."""
    model = DataLogger(waveform=square, limit=1000)
    found, trouble = record(model, tmp_path / "r", count=7, rate_hz=1000.0)
    assert trouble is None
    assert found.loss.lost_count == 0
    expected = square(np.arange(len(found.current_a)) * 0.00100352)
    assert found.current_a == pytest.approx(expected, rel=1e-6)
    assert found.power_w == pytest.approx(3.3 * expected, rel=1e-6)
    assert (found.begin_ns[1:] == found.time_ns[:-1]).all()
    assert len(found.power_w) > 200


@pytest.mark.parametrize(
    "identity",
    [
        "YOKOGAWA,WT500,C1B234567,F1.01",
        "YOKOGAWA,760203,C1B234567,F1.01",
        "YOKOGAWA,WT1806E-5A3-50A3,1234567890,F1.01",
        "YOKOGAWA,WT3004E-2A0-30A4,0,F6.01",
        "YOKOGAWA,WT5000,91X123456,F3.11",
    ],
)
def test_larger_power_meters_have_ranges_of_each_element(tmp_path: Path, identity: str) -> None:
    """Otherwise a WT5000 would get a query of the WT300, and wait for 3 s; or have no driver."""
    model = WattMeter(identity=identity, update="50.0E-03", power_w=lambda place: 40.0)
    with Server(model) as server:
        header = opened(meter(server))
        anybody = asked_by_anybody(server)
        assert anybody.query(":INPUT:CURRENT:RANGE:ELEMENT1?") == "1.000E+00"
        anybody.close()
    assert header.capability.rate_hz == pytest.approx(20.0)
    assert header.capability.is_averaging
    [offset] = [one.value for one in header.uncertainty if one.kind is Kind.OFFSET]
    assert offset == pytest.approx(2e-3 * 300 * 1)
    found, trouble = record(model, tmp_path / "r", count=4)
    assert trouble is None
    assert found.power_w == pytest.approx(40.0)


def test_current_sensor_leaves_the_range_unknown() -> None:
    """Otherwise the 10 V of an external sensor would be taken for 10 A."""
    model = WattMeter(identity="YOKOGAWA,WT5000,91X,F3.11", current_range="EXTERNAL,10.00E+00")
    with Server(model) as server:
        kinds = {one.kind for one in opened(meter(server)).uncertainty}
    assert kinds == {Kind.GAIN, Kind.EDGE}


def test_period_is_the_one_that_the_instrument_made_of_it(tmp_path: Path) -> None:
    """Otherwise the energy would be 0.35 % off, and a window be of another moment.

    The instrument rounds to 20.48 µs.
    """
    with Server(DataLogger()) as server:
        made = meter(server, rate_hz=1000.0)
        header = opened(made)
        made.close()
    assert header.capability.rate_hz == pytest.approx(1 / 0.00100352)
    assert header.capability.arrival_error_s == 0.1
    assert header.info.serial == "MY56000123"
    # What is unknown before is found when a session begins.
    for model, question, setup in (
        (DataLogger(), "SENS:ELOG:PER?", {}),
        (WattMeter(), ":RATE?", {"rate_hz": 4.0}),
        (Multimeter(), "SAMP:TIM?", {"supply_v": 3.3}),
    ):
        path = tmp_path / type(model).__name__
        faults = Faults(wrong=((question, b"0.5"),))
        with Server(model, faults) as server:
            made = meter(server, **setup)
            assert opened(made).capability.rate_hz > 2.0
            with made.session(path) as session:
                pass
            made.close()
        capability = session.recording().header.capability
        assert capability == read_header(path).capability
        assert capability.rate_hz == pytest.approx(2.0)
        assert capability.min_window_s >= 5.0


@pytest.mark.parametrize(
    ("model", "setup"),
    [
        (DataLogger(), {"rate_hz": 500.0}),
        (WattMeter(has_headers=True), {}),
        (WattMeter(update="AUTO"), {"rate_hz": 4.0}),
        (Multimeter(), {"supply_v": 3.3}),
        (Multimeter(identity=SIGLENT), {"supply_v": 3.3, "range_a": 1.0}),
    ],
)
def test_instrument_that_is_only_looked_at_stays_as_it_is(
    tmp_path: Path, model: Model, setup: dict[str, Any]
) -> None:
    """Otherwise `edgebench meters` would open an ammeter's circuit, or end the log of another."""
    model.errors.append('-113,"Undefined header"')
    with Server(model) as server:
        made = meter(server, **setup)
        header = opened(made)
        made.session(tmp_path / "never begun")
        made.close()
    assert changes(server) == []
    assert model.errors == ['-113,"Undefined header"'], "they are for whoever made them"
    assert header.uncertainty
    with Server(model) as server:
        made = meter(server, **setup)
        opened(made)
        with made.session(tmp_path / "r") as session:
            pass
        made.close()
    assert changes(server), "a session sets it up"
    assert session.trouble is None


def test_headers_of_a_persons_settings_are_no_part_of_an_answer() -> None:
    """Otherwise a WT310 left with its headers on would have no known rate, or no ranges."""
    headers: list[Header] = []
    for has_headers in (False, True):
        with Server(WattMeter(has_headers=has_headers)) as server:
            made = meter(server)
            headers.append(opened(made))
            made.close()
    assert headers[0] == headers[1]
    assert Kind.OFFSET in [term.kind for term in headers[1].uncertainty]


@pytest.mark.parametrize("pieces", [2, 7])
def test_answer_that_comes_in_pieces_is_whole(tmp_path: Path, pieces: int) -> None:
    """Otherwise a block cut at the end of a packet would swap current and voltage."""
    faults = Faults(pieces=pieces)
    found, trouble = record(DataLogger(waveform=square), tmp_path / "r", count=4, faults=faults)
    assert trouble is None
    assert set(np.round(found.current_a, 6)) == {0.2, 0.05}


def test_late_answer_is_waited_for(tmp_path: Path) -> None:
    """Otherwise a busy instrument would cost the session, or its records."""
    faults = Faults(late=(("FETC", 0.4),))
    found, trouble = record(DataLogger(waveform=square), tmp_path / "r", count=4, faults=faults)
    assert trouble is None
    assert found.current_a == pytest.approx(
        square(np.arange(len(found.current_a)) * 0.00100352), rel=1e-6
    )


@pytest.mark.parametrize(
    ("model", "does_reset"),
    [(DataLogger(), False), (WattMeter(), True), (Multimeter(identity=SIGLENT), True)],
)
def test_cut_connection_keeps_what_was_measured(
    tmp_path: Path, model: Model, does_reset: bool
) -> None:
    """Otherwise a cable would cost the session, or the session end as if nothing had happened."""
    supply: dict[str, Any] = {"supply_v": 3.3} if isinstance(model, Multimeter) else {}
    faults = Faults(gone_after=4, does_reset=does_reset)
    found, trouble = record(model, tmp_path / "r", count=99, faults=faults, **supply)
    assert trouble is not None
    assert "is gone" in trouble or (not does_reset and "did not respond" in trouble)
    assert len(found.power_w) >= 2


@pytest.mark.parametrize("question", ["FETC", "SENS:ELOG:PER?"])
def test_late_answer_is_none_to_another_question(tmp_path: Path, question: str) -> None:
    """Otherwise the next session would read the previous responses, each a query late."""
    with Server(DataLogger(waveform=square), Faults(mute=(question,))) as server:
        made = meter(server, 1.0)
        opened(made)
        with suppress(TargetError), made.session(tmp_path / "first") as session:
            assert isinstance(session, Recorder)
            session._thread.join(10)
        begun = server.commands.count("INIT:ELOG (@1)")
        if question == "FETC":
            heard(server, "ABOR:ELOG (@1)")
        server.faults = Faults()
        with (
            pytest.raises(TargetError, match="did not respond to an earlier query: connect"),
            made.session(tmp_path / "second"),
        ):
            raise AssertionError
        assert server.commands.count("INIT:ELOG (@1)") == begun
        made.close()
        made = meter(server, 20.0)  # a second is short for each response, on a busy machine
        opened(made)
        with made.session(tmp_path / "third") as session:
            pass
        made.close()
    assert session.trouble is None


def test_answer_that_is_no_block_ends_the_recording(tmp_path: Path) -> None:
    """Otherwise the framing would be lost, and whatever follows be read as amperes."""
    faults = Faults(wrong=(("FETC", b"+1.0E-01,+3.3E+00"),))
    with Server(DataLogger(), faults) as server:
        made = meter(server)
        opened(made)
        with made.session(tmp_path / "r") as session:
            assert isinstance(session, Recorder)
            session._thread.join(10)
        made.close()
    assert session.trouble is not None
    assert "sent a bad response to `FETC:ELOG? 4096,(@1)`: not a block of data" in session.trouble


def test_values_beyond_the_range_are_flagged(tmp_path: Path) -> None:
    """Otherwise 9.9E+37 A would be multiplied with a voltage: the energy of a star."""
    faults = Faults(overload_at=(7,), no_value_at=(9, 11))
    found, _ = record(DataLogger(faults=faults, limit=300), tmp_path / "r", count=5)
    assert found.flags[7] == Flag.SATURATED | Flag.MISSING
    assert found.flags[9] == Flag.MISSING
    assert np.isnan(found.power_w[[7, 9, 11]]).all()
    assert (found.loss.saturated_count, found.loss.lost_count) == (1, 3)
    assert found.loss.received_count + found.loss.lost_count == len(found.power_w)


@pytest.mark.parametrize("command", ["SENS:ELOG:FUNC:VOLT ON", "SENS:ELOG:PER ", "FORM REAL"])
def test_refused_setting_is_told(tmp_path: Path, command: str) -> None:
    """Otherwise a module that cannot log both would be trusted, with a wrong column."""
    reason, told = refused_session(DataLogger(), tmp_path / "r", Faults(refused=(command,)))
    assert not any(one.startswith(("INIT", "TRIG:ELOG (")) for one in told), "nothing was begun"
    assert "rejected its configuration: Settings conflict" in reason


def test_output_that_there_is_not_is_refused(tmp_path: Path) -> None:
    """Otherwise the energy of another output would be that of the device."""
    reason, _ = refused_session(DataLogger(), tmp_path / "r", channel=2)
    assert "channel list" in reason


def test_error_before_us_is_not_ours(tmp_path: Path) -> None:
    """Otherwise a typing error of yesterday would make the instrument unusable."""
    with Server(DataLogger(errors=['-113,"Undefined header"'])) as server:
        made = meter(server)
        opened(made)
        with made.session(tmp_path / "r") as session:
            pass
        made.close()
    assert session.trouble is None


def test_power_meter_gives_its_three_values(tmp_path: Path) -> None:
    """Otherwise items would be in the order of old settings, and volts become watts."""
    model = WattMeter(power_w=lambda place: 40.0 + place, items={"1": "P,1", "9": "U,1"})
    model.items.clear()
    found, trouble = record(model, tmp_path / "r", count=4)
    assert trouble is None
    assert found.power_w[:4] == pytest.approx([40.0, 41.0, 42.0, 43.0], rel=1e-4)
    assert found.current_a[0] == pytest.approx(40 / 230, rel=1e-4)
    assert (found.begin_ns <= found.time_ns).all()
    assert (found.begin_ns[1:] >= found.time_ns[:-1]).all(), "intervals do not overlap"


def test_power_meter_without_data_says_so(tmp_path: Path) -> None:
    """Otherwise `INF` and `NAN` would end the recording, or be numbers."""
    faults = Faults(overload_at=(1,), no_value_at=(2,))
    found, _ = record(WattMeter(faults=faults), tmp_path / "r", count=4)
    assert list(found.flags[:3]) == [Flag.NONE, Flag.SATURATED | Flag.MISSING, Flag.MISSING]
    assert found.loss.saturated_count == 1


@pytest.mark.parametrize(
    ("answer", "flags"),
    [
        (b"2.3E+02,INF,NAN", Flag.SATURATED | Flag.MISSING),
        (b"INF,1.0E-01,2.3E+01", Flag.SATURATED),
        (b"2.3E+02,-INF,-2.3E+01", Flag.CLIPPED),
        (b"NAN,1.0E-01,2.3E+01", Flag.NONE),
    ],
)
def test_range_that_ends_for_one_quantity_ends_for_the_power(
    tmp_path: Path, answer: bytes, flags: Flag
) -> None:
    """Otherwise the power next to an out-of-range current would be trusted."""
    with Server(WattMeter(), Faults(wrong=((":NUMERIC:NORMAL:VALUE?", answer),))) as server:
        made = meter(server)
        opened(made)
        with made.session(tmp_path / "r"):
            pass
        made.close()
    assert set(decoded(tmp_path / "r").flags) == {flags}


def test_power_meter_of_no_known_rate_is_refused() -> None:
    """Otherwise a value would be requested twice as often as there is one, or half as often."""
    assert "has the update rate 'AUTO': set a rate, as in rate=4" in refused(
        WattMeter(update="AUTO")
    )
    with Server(WattMeter(update="AUTO")) as server:
        made = meter(server, rate_hz=4.0)
        assert opened(made).capability.rate_hz == pytest.approx(4.0)
        made.close()


def test_power_meter_that_answers_nonsense_has_no_value(tmp_path: Path) -> None:
    """Otherwise two numbers of three would be taken for the wrong quantities."""
    faults = Faults(wrong=((":NUMERIC:NORMAL:VALUE?", b"1.0E+00,2.0E+00"),))
    with Server(WattMeter(), faults) as server:
        made = meter(server)
        opened(made)
        with made.session(tmp_path / "r"):
            pass
        made.close()
    assert set(decoded(tmp_path / "r").flags) == {Flag.MISSING}


@pytest.mark.parametrize("identity", [SIGLENT, "HEWLETT-PACKARD,34401A,0,11-5-2"])
def test_multimeter_is_asked_for_each_value(tmp_path: Path, identity: str) -> None:
    """Otherwise a meter without memory would give nothing, or current without its voltage."""
    faults = Faults(overload_at=(3,))
    model = Multimeter(identity=identity, faults=faults)
    found, trouble = record(model, tmp_path / "r", count=4, supply_v=5.0, rate_hz=5.0)
    assert trouble is None
    assert found.power_w[0] == pytest.approx(0.5)
    assert found.flags[2] == Flag.SATURATED | Flag.MISSING, "the first reading was the test"
    assert model.is_configured


@pytest.mark.parametrize("model", ["34465A", "34461A"])
def test_format_of_another_program_is_not_kept(tmp_path: Path, model: str) -> None:
    """Otherwise an earlier program's binary format would make every value of a run missing."""
    multimeter = Multimeter(identity=f"Keysight Technologies,{model},MY1,A.02", is_real=True)
    found, trouble = record(multimeter, tmp_path / "r", count=4, supply_v=5.0, rate_hz=50.0)
    assert trouble is None
    assert found.power_w == pytest.approx(0.5)


@pytest.mark.parametrize("said", ["0", "-1", "NAN", "9.91E+37", "INF", "9.9E+37"])
@pytest.mark.parametrize(
    ("make", "question", "setup"),
    [
        (DataLogger, "SENS:ELOG:PER?", {}),
        (WattMeter, ":RATE?", {}),
        (Multimeter, "SAMP:TIM?", {"supply_v": 3.3}),
    ],
)
def test_period_that_is_none_is_refused(
    tmp_path: Path, said: str, make: Callable[[], Model], question: str, setup: dict[str, Any]
) -> None:
    """Otherwise an energy without any rate would be trusted, or a division by zero be shown."""
    faults = Faults(wrong=((question, said.encode()),))
    if question == ":RATE?":  # which can be queried before
        reason = refused(make(), faults, **setup)
    else:
        reason, _ = refused_session(make(), tmp_path / "r", faults, **setup)
    if said in ("0", "-1"):
        assert f"returned {said} s to `{question}" in reason
        assert reason.endswith("a period must be above 0")
    else:
        assert f" to `{question}" in reason
        assert reason.endswith(f"is not a number: {said!r}")


@pytest.mark.parametrize("said", ["NAN", "9.9E+37", "EXTernal,50E-03"])
def test_range_that_is_not_known_makes_no_uncertainty(said: str) -> None:
    """Otherwise each energy would have an offset of a star's power, or of none at all."""
    with Server(WattMeter(), Faults(wrong=((":INPUT:CURRENT:RANGE?", said.encode()),))) as server:
        made = meter(server)
        header = opened(made)
        made.close()
    assert [term.kind for term in header.uncertainty] == [Kind.GAIN, Kind.EDGE]


@pytest.mark.parametrize(
    ("model", "setup", "reason"),
    [
        (
            DataLogger(),
            {"supply_v": 3.3},
            "N6705C has no option 'supply'; available: channel, rate",
        ),
        (DataLogger(), {"range_a": 1.0}, "N6705C has no option 'range'"),
        (WattMeter(), {"supply_v": 3.3}, "WT310E has no option 'supply'; available: channel, rate"),
        (WattMeter(), {"range_a": 1.0}, "WT310E has no option 'range'"),
        (
            Multimeter(),
            {"supply_v": 3.3, "channel": 2},
            "34465A has no option 'channel'; available: supply, rate, range",
        ),
        (Multimeter(identity=SIGLENT), {"supply_v": 3.3, "channel": 1}, "no option 'channel'"),
    ],
)
def test_option_of_another_family_is_refused(
    model: Model, setup: dict[str, Any], reason: str
) -> None:
    """Otherwise a range that was never set, or another output, would be trusted."""
    assert reason in refused(model, **setup)


def test_multimeter_with_memory_is_emptied_by_blocks(tmp_path: Path) -> None:
    """Otherwise a timer's values would get the time at which they were fetched."""
    model = Multimeter(waveform=square, limit=500)
    found, trouble = record(model, tmp_path / "r", count=5, supply_v=3.3, rate_hz=1000.0)
    assert trouble is None
    expected = square(np.arange(len(found.current_a)) / 1000)
    assert found.current_a == pytest.approx(expected)
    assert set(np.diff(found.time_ns)) == {1_000_000}


def test_slow_multimeter_is_not_asked_faster_than_it_measures(tmp_path: Path) -> None:
    """Otherwise every second round would be missed, and called a loss."""
    slow = Multimeter(identity=SIGLENT, reading_s=0.2)
    reason, _ = refused_session(slow, tmp_path / "r", supply_v=3.3, rate_hz=10.0)
    assert "takes too long for 10 readings per second" in reason
    with Server(slow) as server:
        made = meter(server, supply_v=3.3)
        opened(made)
        with made.session(tmp_path / "r") as session:
            pass
        made.close()
    capability = session.recording().header.capability
    assert capability.rate_hz <= 0.8 / 0.2, "as often as it can, where nobody asks for more"
    assert capability.min_window_s == pytest.approx(20 / capability.rate_hz)


def test_readings_are_as_long_as_the_rate_allows() -> None:
    """Otherwise half the planned readings would come, or a reading be given up too early."""
    cycles = [polled_cycles(rate) for rate in (50, 10, 5, 2, 1, 0.2, 0.1)]
    assert cycles == [1, 1, 1, 1, 10, 10, 10], "at 2/s, ten cycles would leave no time to ask"
    assert 2 * max(cycles) / 50 < RESPONSE_S / 2, "with its zero, of a mains of 50 Hz"


def test_multimeter_without_such_an_aperture_measures_with_its_own(tmp_path: Path) -> None:
    """Otherwise a command that one make does not know would make it unusable."""
    model = Multimeter(identity=SIGLENT)
    faults = Faults(refused=("CURR:DC:NPLC",))
    found, trouble = record(model, tmp_path / "r", count=3, faults=faults, supply_v=5.0)
    assert trouble is None
    assert found.power_w == pytest.approx(0.5)
    assert model.errors == []


def test_aperture_leaves_time_for_the_timer() -> None:
    """Otherwise the aperture would be as long as the period, and every second value late."""
    assert [aperture_cycles(rate) for rate in (2000, 1000, 500, 100, 5, 0.01)] == [
        *(0.02, 0.02, 0.06, 0.2, 1.0, 100.0),
    ]


def test_supply_of_a_multimeter_has_to_be_said() -> None:
    """Otherwise a voltage would be made up."""
    assert "34465A measures no voltage: add the supply" in refused(Multimeter())


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        (
            "RIGOL TECHNOLOGIES,DP832,DP8C1,00.01.14",
            "RIGOL TECHNOLOGIES DP832, which has no driver",
        ),
        ("220 ready", "to `*IDN?` is not an identity: '220 ready'"),
    ],
)
def test_instrument_without_a_driver_is_named(identity: str, reason: str) -> None:
    """Otherwise commands of another make would be sent to a power supply that is on."""
    assert reason in refused(DataLogger(identity=identity))


def test_silent_instrument_is_named() -> None:
    """Otherwise a wrong port would be waited for without an end, or show a traceback."""
    reason = refused(DataLogger(), Faults(mute=("*IDN?",)))
    assert "::SOCKET did not respond to `*IDN?` within 0.3 s" in reason


def test_nobody_at_the_address_is_told() -> None:
    """Otherwise a typing error would become a traceback."""
    with Server(DataLogger()) as server:
        address = server.address
    answer = find_meter(f"scpi:{address}").open()
    assert isinstance(answer, AbsentMeter)
    assert address in answer.reason
    nonsense = find_meter("scpi:nonsense").open()
    assert isinstance(nonsense, AbsentMeter)
    assert "no instrument at nonsense" in nonsense.reason
    unnamed = find_meter("scpi").open()
    assert isinstance(unnamed, AbsentMeter)
    assert "name the address, as in scpi:TCPIP::" in unnamed.reason


def test_address_keeps_its_colons_and_its_comma() -> None:
    """Otherwise VISA's own punctuation would be parsed, and another instrument be opened."""
    with Server(DataLogger()) as server:
        made = find_meter(f"scpi:{server.address},rate=100,channel=1")
        header = made.open()
        made.close()
    assert isinstance(header, Header)
    assert header.capability.rate_hz == pytest.approx(100, rel=1e-2)
    assert header.capability.arrival_error_s == 0.1
    with pytest.raises(UsageError, match="no option 'nonsense'"):
        find_meter("scpi:TCPIP::192.168.1.5::hislip0,4880::INSTR,nonsense=1")
    answer = find_meter("scpi:NO::such::hislip0,4880::INSTR,rate=5").open()
    assert isinstance(answer, AbsentMeter)
    assert "no instrument at NO::such::hislip0,4880::INSTR" in answer.reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("channel=0", "1 to 7, got 0"),
        ("channel=1.5", "1 to 7"),
        ("rate=-1", "above 0, got -1"),
        ("supply=3300", r"0.1 to 100.0 V, got 3300 V; write volts, not mV: supply=3\.3$"),
        ("supply=0", "above 0, got 0"),
    ],
)
def test_option_that_cannot_be_is_refused(options: str, reason: str) -> None:
    """Otherwise output 0 would be read, or joules be a thousand times too many, and trusted."""
    with pytest.raises(UsageError, match=reason):
        find_meter(f"scpi:TCPIP::127.0.0.1::5025::SOCKET,{options}")


def test_too_many_records_a_second_are_refused() -> None:
    """Otherwise the instrument would measure at another rate than that of the energy."""
    assert "4883 records/s of current and voltage at most" in refused(DataLogger(), rate_hz=1e4)


def test_missing_package_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the user would see a traceback instead of what to install."""
    monkeypatch.setitem(sys.modules, "pyvisa", None)
    answer = find_meter("scpi:TCPIP::127.0.0.1::1::SOCKET").open()
    assert isinstance(answer, AbsentMeter)
    assert answer.reason.endswith("SCPI meters need it: pip install 'edgebench-agent[scpi]'")
    assert "\n" not in answer.reason


class Messages:
    """An interface that carries whole messages, as USB does: a resource of pyvisa."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.sent: list[bytes] = []

    def write_raw(self, data: bytes) -> None:
        """Keep the message."""
        self.sent.append(data)

    def read_raw(self) -> bytes:
        """The next message."""
        return self.answers.pop(0)


def test_interface_of_messages_is_read_message_by_message() -> None:
    """Otherwise the rest of a block over USB would be expected in a message that never comes."""
    messages = Messages(b"#18" + bytes(8) + b"\n", b"WT310E\r\n")
    link = ScpiLink(messages, "USB", is_stream=False)
    assert link.query_block("FETC?") == b"#18" + bytes(8) + b"\n"
    assert link.query("*IDN?") == b"WT310E"
    assert messages.sent == [b"FETC?\n", b"*IDN?\n"]
    with pytest.raises(TargetError, match=r" to `PER\?` is not a number: 'x'"):
        ScpiLink(Messages(b"x\n"), "USB", is_stream=False).query_period("PER?")
