"""A PowerShield on a pseudo-terminal: queried, set up, recorded, and taken away."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.lpm01a import BOARD_ID, END, Faults, Lpm01aEmulator
from support.recordings import Decoded, decoded

from edgebench.meters.base import AbsentMeter, Flag, Header
from edgebench.meters.lpm01a.datasheet import uncertainty
from edgebench.meters.lpm01a.device import Lpm01a, make_meter
from edgebench.meters.lpm01a.settings import Lpm01aSetup, parse_setup
from edgebench.meters.options import Options
from edgebench.meters.recorder import Recorder
from edgebench.meters.registry import find_meter
from edgebench.meters.spool import read_header
from edgebench.meters.transport import SerialTransport
from edgebench.meters.uncertainty import Kind, Origin
from edgebench.protocol.errors import MeasurementError, TargetError, UsageError

Floats = NDArray[np.float64]
ASKED = ["powershield", "version", "powershield", "status"]
"""Commands when a unit at rest is opened."""
OPTIONS = {
    "binary": "supply=3.3,rate=10k,output=current",
    "ascii": "supply=3.3,rate=1k,format=ascii,output=current",
    "energy": "supply=3.3,rate=1k,output=energy",
}


def make(emulator: Lpm01aEmulator, options: str = "supply=3.3", response_s: float = 3.0) -> Lpm01a:
    """The driver at this unit's port."""
    setup = parse_setup(Options.parse("lpm01a", options))
    return Lpm01a(lambda: SerialTransport(emulator.path, 3_686_400), setup, response_s=response_s)


def opened(meter: Lpm01a) -> Header:
    """Header of a meter that must open."""
    header = meter.open()
    assert isinstance(header, Header), header
    return header


def reason(meter: Lpm01a) -> str:
    """Why it does not open, as it must not."""
    missing = meter.open()
    assert isinstance(missing, AbsentMeter)
    return missing.reason


def record(
    emulator: Lpm01aEmulator, path: Path, options: str, count: int
) -> tuple[Decoded, Recorder]:
    """A recording of so many samples."""
    emulator.limit = count
    meter = make(emulator, options)
    opened(meter)
    with meter.session(path) as session:
        emulator.wait_until_read()
    meter.close()
    return decoded(path), session


def sawtooth(time_s: Floats) -> Floats:
    """A current that differs at each millisecond."""
    steps: Floats = np.floor(time_s * 1000 + 1e-6)
    return 1e-3 + 1e-5 * steps


def test_unit_is_asked_and_set_up_in_order(tmp_path: Path) -> None:
    """Otherwise the unit would measure as it was left, or refuse what it cannot do yet."""
    with Lpm01aEmulator() as emulator:
        meter = make(emulator, "supply=3.3,rate=100k")
        header = opened(meter)
        asked_count = len(emulator.commands)
        for name in ("one", "two"):
            with meter.session(tmp_path / name):
                pass
        meter.close()
    assert emulator.commands[:asked_count] == ASKED
    assert emulator.commands[asked_count:] == [
        *("htc", "volt get", "volt 3300m", "volt get"),
        *("freq 1k", "acqmode dyn", "output current", "format bin_hexa"),
        *("freq 100k", "acqtime inf", "trigsrc sw", "trigdelay 0", "funcmode optim"),
        *("start", "stop", "start", "stop", "hrc"),
    ]
    assert (header.info.serial, header.info.firmware) == (BOARD_ID, "1.0.1")
    assert header.capability.clock_domain == f"meter:lpm01a:{BOARD_ID}"
    assert header.capability.rate_hz == 100_000
    assert not header.capability.is_averaging


def test_former_voltage_is_set_again_at_the_end(tmp_path: Path) -> None:
    """Otherwise the next user's board would get the voltage of the last run."""
    with Lpm01aEmulator() as emulator:
        for name in ("one", "two"):
            meter = make(emulator, "supply=1.8,power")
            opened(meter)
            with meter.session(tmp_path / name):
                voltage_v = emulator.voltage_v
            meter.close()
            assert (voltage_v, emulator.voltage_v) == (1.8, 3.3)
            assert not emulator.is_hosted, "its replies have arrived"
    assert emulator.commands[-4:] == ["stop", "pwr off", "volt 3300m", "hrc"]


@pytest.mark.parametrize(
    ("requested_v", "actual_v", "power"),
    [(3.3, 3.0, ",power"), (1.8, 3.292, "")],
    ids=["lower", "not_switched"],
)
def test_recording_at_another_voltage_is_not_trusted(
    tmp_path: Path, requested_v: float, actual_v: float, power: str
) -> None:
    """A voltage that harms no device ends no run, but its energy is not that of the request."""
    with Lpm01aEmulator(sawtooth, voltage_v=actual_v, is_voltage_fixed=True) as emulator:
        options = f"supply={requested_v}{power}"
        found, session = record(emulator, tmp_path / "recording", options, 50)
    assert session.trouble is None
    reported = f"reports {actual_v:g} V, more than 0.06 V off"
    message = f"LPM01A was set to {requested_v:g} V but {reported}"
    assert found.loss.trouble == message


def test_settings_without_a_deviation_have_the_digest_of_earlier_recordings(
    tmp_path: Path,
) -> None:
    """Otherwise runs stored before a fact was added could not be compared with new runs."""
    with Lpm01aEmulator() as emulator:
        meter = make(emulator)
        headers = [opened(meter)]
        with meter.session(tmp_path / "recording"):
            pass
        meter.close()
    headers.append(read_header(tmp_path / "recording"))
    digests = {
        hashlib.sha256(json.dumps(header.facts, sort_keys=True).encode()).hexdigest()
        for header in headers
    }
    assert digests == {"bd5b5d8e988251179890d9a1b45e999379c63dd0500e38fb93acdc68d18a6b93"}


def test_device_is_not_supplied_with_a_higher_voltage_than_requested(tmp_path: Path) -> None:
    """Otherwise a board for 1.8 V would get 3.3 V, and its energy be that of 1.8 V."""
    with Lpm01aEmulator(is_voltage_fixed=True) as emulator:
        meter = make(emulator, "supply=1.8,power")
        opened(meter)
        message = r"LPM01A was set to 1\.8 V but reports 3\.292 V, more than 0\.06 V off"
        with pytest.raises(TargetError, match=message), meter.session(tmp_path / "recording"):
            raise AssertionError
        meter.close()
    assert "pwr on" not in emulator.commands


@pytest.mark.parametrize("options", ["supply=3.3,power", "power"])
def test_unit_that_is_only_looked_at_keeps_its_settings(options: str) -> None:
    """Otherwise `edgebench meters` would set up a unit about to be used, or take it over."""
    with Lpm01aEmulator() as emulator:
        meter = make(emulator, options)
        opened(meter)
        meter.close()
    control = [] if "supply" in options else ["htc", "volt get", "hrc"]
    assert emulator.commands == [*ASKED, *control]
    assert not emulator.is_hosted


def test_slow_stream_of_somebody_is_ended() -> None:
    """Otherwise a unit left with a sample a second would look idle, and refuse commands."""
    with Lpm01aEmulator() as emulator:
        forgotten = SerialTransport(emulator.path, 3_686_400)
        forgotten.write(b"htc\nfreq 1\nstart\n")
        while not emulator.is_streaming:
            assert forgotten.read(5.0)
        forgotten.close()
        meter = make(emulator)
        opened(meter)
        meter.close()


def test_energy_as_text_is_asked_for(tmp_path: Path) -> None:
    """Otherwise an option would be accepted, and not sent."""
    with Lpm01aEmulator() as emulator:
        meter = make(emulator, "rate=1k,output=energy,format=ascii,mode=stat,events=fal")
        header = opened(meter)
        with meter.session(tmp_path / "recording"):
            pass
        meter.close()
    assert emulator.commands[8:17] == [
        *("freq 1k", "acqmode stat", "output energy", "format ascii_dec", "freq 1k"),
        *("acqtime inf", "trigsrc sw", "trigdelay 0", "eventsrc d7 fal"),
    ]
    assert header.facts["supply_v"] == pytest.approx(3.292)
    assert header.capability.is_averaging
    assert header.capability.digital_count == 1


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_recording_is_what_the_unit_measured(tmp_path: Path, options: str) -> None:
    """Otherwise the first or last samples would be lost at the commands, or times be off."""
    with Lpm01aEmulator(sawtooth) as emulator:
        found, session = record(emulator, tmp_path / "recording", options, 1300)
    assert session.trouble is None
    header = read_header(tmp_path / "recording")
    time_s = (found.time_ns if "energy" not in options else found.begin_ns) / 1e9
    scale = header.capability.rate_hz if "energy" in options else 3.3
    assert time_s[0] == 0
    np.testing.assert_allclose(found.power_w, sawtooth(time_s) * scale, rtol=1 / 256)
    assert found.loss.lost_count == found.loss.desync_count == 0
    assert len(time_s) == 1300


@pytest.mark.slow
def test_samples_come_while_it_records(tmp_path: Path) -> None:
    """Otherwise the recording would not keep up with a stream at its full rate."""
    with Lpm01aEmulator(sawtooth) as emulator:
        found, session = record(emulator, tmp_path / "recording", "supply=3.3", 210_000)
    assert session.trouble is None
    assert (found.loss.lost_count, found.loss.desync_count) == (0, 0)
    assert len(found.time_ns) == 210_000
    assert (np.diff(found.time_ns) == 10_000).all()


@pytest.mark.slow
def test_losses_on_the_way_are_counted(tmp_path: Path) -> None:
    """Otherwise samples that a unit could not send would not be missed."""
    faults = Faults(lost_samples=((2000, 37),), lost_bytes=(12_345,))
    with Lpm01aEmulator(sawtooth, faults) as emulator:
        found, _ = record(emulator, tmp_path / "recording", OPTIONS["binary"], 21_000)
    assert [gap.count for gap in found.loss.gaps] == [37, 10_000]
    assert found.loss.received_count + found.loss.lost_count == 21_000


@pytest.mark.slow
def test_late_burst_is_no_loss(tmp_path: Path) -> None:
    """Otherwise a busy host, or a busy unit, would make a gap in time."""
    with Lpm01aEmulator(sawtooth, Faults(stall_at_s=0.5, stall_s=0.6)) as emulator:
        found, session = record(emulator, tmp_path / "recording", OPTIONS["binary"], 15_000)
    assert (session.trouble, found.loss.lost_count) == (None, 0)
    assert (np.diff(found.time_ns) == 100_000).all()
    assert len(found.time_ns) == 15_000


def test_each_byte_alone_is_understood(tmp_path: Path) -> None:
    """Otherwise a response or a sample that comes in two reads would be lost."""
    with Lpm01aEmulator(sawtooth, Faults(is_split=True)) as emulator:
        found, session = record(
            emulator, tmp_path / "recording", "supply=3.3,rate=500,output=current", 600
        )
    assert (session.trouble, found.loss.desync_count) == (None, 0)
    np.testing.assert_allclose(found.current_a, sawtooth(found.time_ns / 1e9), rtol=1 / 256)


def test_unit_that_is_streaming_already_is_stopped(tmp_path: Path) -> None:
    """Otherwise a unit left in the middle of a recording would refuse all settings."""
    with Lpm01aEmulator(sawtooth) as emulator:
        forgotten = SerialTransport(emulator.path, 3_686_400)
        forgotten.write(b"htc\nformat bin_hexa\nfreq 10k\nstart\n")
        while emulator.emitted < 1000:
            assert forgotten.read(5.0)
        forgotten.close()
        found, session = record(emulator, tmp_path / "recording", OPTIONS["binary"], 2000)
    assert session.trouble is None
    assert found.current_a[0] == pytest.approx(1e-3, rel=1 / 256)


def test_stale_bytes_are_no_answer(tmp_path: Path) -> None:
    """Otherwise samples of another recording would be taken for responses, or for own samples."""
    stale = b"\x52\xa0" * 5000 + END + b"\r\nPowerShield > Acquisition completed\r\n"
    with Lpm01aEmulator(sawtooth, Faults(stale=stale)) as emulator:
        found, session = record(emulator, tmp_path / "recording", OPTIONS["binary"], 500)
    assert session.trouble is None
    assert (len(found.time_ns), found.loss.trouble) == (500, None)
    assert found.current_a[0] == pytest.approx(1e-3, rel=1 / 256)


def test_second_session_begins_anew(tmp_path: Path) -> None:
    """Otherwise bytes that the first session left unread would begin the second."""
    with Lpm01aEmulator(sawtooth, limit=2000) as emulator:
        meter = make(emulator, OPTIONS["binary"])
        opened(meter)
        for name in ("one", "two"):
            with meter.session(tmp_path / name):
                emulator.wait_until_read()
        meter.close()
    for name in ("one", "two"):
        found = decoded(tmp_path / name)
        assert (found.time_ns[0], found.loss.received_count) == (0, 2000)
        assert (found.loss.lost_count, found.loss.trouble) == (0, None)


def test_cable_that_is_pulled_out_ends_the_recording(tmp_path: Path) -> None:
    """Otherwise the rest of a run would be recorded from a missing unit.

    And the samples so far would be lost.
    """
    with Lpm01aEmulator(sawtooth, Faults(gone_after_s=0.5)) as emulator:
        found, session = record(emulator, tmp_path / "recording", OPTIONS["binary"], 1_000_000)
    assert session.trouble is not None
    assert "is gone" in session.trouble
    assert len(found.time_ns) > 0
    np.testing.assert_allclose(found.current_a, sawtooth(found.time_ns / 1e9), rtol=1 / 256)


def test_overcurrent_ends_the_recording_with_its_reason(tmp_path: Path) -> None:
    """Otherwise, as the unit switches off, the recording would only report that nothing came."""
    message = b"\xf0\xf5\xff\xff\xf0\xf1Overcurrent >59mA, dynamic acquisition stopped\xff\xff"
    faults = Faults(records=((700, message + END),))
    with Lpm01aEmulator(sawtooth, faults) as emulator:
        found, _ = record(
            emulator, tmp_path / "recording", "supply=3.3,rate=1k,output=current", 800
        )
    assert found.loss.trouble is not None
    assert "Overcurrent >59mA" in found.loss.trouble
    assert found.flags[-1] & Flag.SATURATED
    assert len(found.flags) == 700


@pytest.mark.parametrize("options", ["supply=3.3", "supply=3.3,power"])
def test_supply_of_the_device_is_left_alone_unless_asked(tmp_path: Path, options: str) -> None:
    """Otherwise a meter would cut the power of a device that is in use."""
    with Lpm01aEmulator() as emulator:
        record(emulator, tmp_path / "recording", f"{options},rate=1k,output=current", 100)
    power = [command for command in emulator.commands if command.startswith("pwr")]
    assert power == (["pwr on", "pwr off"] if "power" in options else [])


@pytest.mark.parametrize(
    ("faults", "says"),
    [
        (
            Faults(refused=(("status", "Out of order"),)),
            "LPM01A rejected `status`: Out of order",
        ),
        (
            Faults(refused=(("version", "-"),), is_short=True),
            "LPM01A rejected `version`: no reason given",
        ),
        (
            Faults(mute=("version",)),
            "LPM01A did not respond to `version`: 0 bytes in 0.4 s, without ack or error",
        ),
    ],
)
def test_refusal_is_one_line(faults: Faults, says: str) -> None:
    """Otherwise the unit's reason would be hidden, or be waited for without an end."""
    with Lpm01aEmulator(faults=faults) as emulator:
        meter = make(emulator, response_s=0.4)
        assert reason(meter).startswith(says)
        with pytest.raises(MeasurementError, match="not open"):
            meter.session(Path("/nowhere"))


def test_start_that_is_refused_is_told_at_once(tmp_path: Path) -> None:
    """Otherwise a session would wait for a unit that refused, or leave the device's supply on."""
    with Lpm01aEmulator(faults=Faults(refused=(("start", "Target not powered"),))) as emulator:
        meter = make(emulator, "supply=3.3,power")
        opened(meter)
        with (
            pytest.raises(TargetError, match="rejected `start`: Target not powered"),
            meter.session(tmp_path / "recording"),
        ):
            raise AssertionError
        meter.close()
    assert emulator.commands[-5:] == ["pwr on", "start", "stop", "pwr off", "hrc"]
    assert not (tmp_path / "recording").exists()


@pytest.mark.parametrize("mute", ["pwr", "start"])
def test_answer_that_is_lost_leaves_nothing_on(tmp_path: Path, mute: str) -> None:
    """Otherwise a command obeyed without a response would leave a supply on for days.

    A battery or a heater may be on the bench.
    """
    with Lpm01aEmulator(faults=Faults(mute=(mute,))) as emulator:
        meter = make(emulator, "supply=3.3,power", response_s=0.2)
        opened(meter)
        with (
            pytest.raises(TargetError, match=f"did not respond to `{mute}"),
            meter.session(tmp_path / "recording"),
        ):
            raise AssertionError
        meter.close()
    heard = emulator.commands
    assert heard.index("pwr on") < heard.index("stop") < heard.index("pwr off") < heard.index("hrc")
    assert not (tmp_path / "recording").exists()


@pytest.mark.parametrize(("command", "whole"), [("htc", "htc"), ("volt", "volt 3300m")])
def test_unit_that_refuses_its_setup_switches_no_supply(
    tmp_path: Path, command: str, whole: str
) -> None:
    """Otherwise a device would lose its supply to a session that never was."""
    with Lpm01aEmulator(faults=Faults(refused=((command, "Out of range"),))) as emulator:
        meter = make(emulator, "supply=3.3,power")
        opened(meter)
        with (
            pytest.raises(TargetError, match=f"rejected `{whole}`: Out of range"),
            meter.session(tmp_path / "recording"),
        ):
            raise AssertionError
        meter.close()
    assert not [command for command in emulator.commands if command.startswith("pwr")]


def test_voltage_that_the_unit_does_not_know_must_be_given() -> None:
    """Otherwise power would be computed with zero volts."""
    with Lpm01aEmulator(voltage_v=0.02) as emulator:
        assert "reports '20-03': add the voltage" in reason(make(emulator, "rate=1k"))


def test_port_that_is_not_there_is_missing(tmp_path: Path) -> None:
    """Otherwise a wrong path would become a traceback."""
    meter = find_meter(f"lpm01a:{tmp_path}/none,supply=3.3")
    missing = meter.open()
    assert isinstance(missing, AbsentMeter)
    assert missing.reason == f"no such serial port: {tmp_path}/none"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("supply=3.4", "LPM01A gives 1.8 to 3.3 V, got 3.4 V"),
        ("rate=30k", "LPM01A has no rate of 30000 Hz"),
        ("rate=0", "LPM01A has no rate of 0 Hz"),
        ("rate=fast", "rate must be like 100k or 500, got 'fast'"),
        ("output=energy,rate=20k", "energy at 10000 Hz at most, got 20000 Hz"),
        ("format=ascii,rate=10k", "continuous text at 5000 Hz at most, got 10000 Hz"),
        ("events=fal", "events only as text: add format=ascii"),
        ("events=both,format=ascii", "events must be ris or fal, got 'both'"),
        ("function=high,output=energy", "only with output=current and mode=dyn"),
        ("function=high,mode=stat", "only with output=current and mode=dyn"),
        ("mode=fast", "mode must be dyn or stat, got 'fast'"),
        ("volt=3.3", "has no option 'volt'"),
    ],
)
def test_what_the_unit_cannot_do_is_refused(options: str, says: str) -> None:
    """Otherwise an hour's run would end in a refusal, or with values that mean something else."""
    with pytest.raises(UsageError) as caught:
        make_meter(Options.parse("lpm01a", options))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("options", "rate_hz"),
    [("", 100_000), ("output=energy", 10_000), ("format=ascii", 5000), ("rate=500", 500)],
)
def test_rate_is_the_highest_unless_given(options: str, rate_hz: int) -> None:
    """Otherwise the default would be refused, or be slower than need be."""
    assert parse_setup(Options.parse("lpm01a", options)).rate_hz == rate_hz


@pytest.mark.parametrize(
    ("options", "is_energy"),
    [
        ("", False),
        ("rate=20k", False),
        ("rate=10k", True),
        ("rate=500", True),
        ("format=ascii", True),
        ("rate=1k,output=current", False),
        ("rate=1k,function=high", False),
    ],
)
def test_few_samples_are_of_intervals_unless_told_otherwise(options: str, is_energy: bool) -> None:
    """Otherwise a thousand instants a second would be in step with the device's tick, 150 % off."""
    assert parse_setup(Options.parse("lpm01a", options)).is_energy is is_energy


def test_accuracy_says_where_it_stands() -> None:
    """Otherwise a number of the driver's own would be taken for the maker's."""
    for is_static, origin in ((False, Origin.TYPICAL), (True, Origin.DATASHEET)):
        terms = uncertainty(Lpm01aSetup(rate_hz=1000, is_static=is_static), 3.0)
        gains = [term for term in terms if term.kind is Kind.GAIN]
        assert [(term.value, term.origin) for term in gains] == [(0.02, origin)]
        assert all(term.reference for term in terms)
