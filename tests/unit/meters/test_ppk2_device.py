"""The PPK2 on a pseudo-terminal; two independent clients verify the made-up unit."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from ppk2_api.ppk2_api import PPK2_API
from support.agents import wait_until
from support.ppk2 import CALIBRATION, Faults, Ppk2Emulator, constant, metadata_text
from support.recordings import Decoded, decoded

from edgebench.meters import recorder
from edgebench.meters.base import AbsentMeter, Header
from edgebench.meters.ppk2.device import Ppk2, Ppk2Setup
from edgebench.meters.ppk2.metadata import parse_metadata
from edgebench.meters.ppk2.words import RATE_HZ
from edgebench.meters.registry import find_meter
from edgebench.meters.transport import SerialTransport
from edgebench.protocol.errors import MeasurementError, TargetError, UsageError

Floats = NDArray[np.float64]
AMPERE = 3.3


def square(time_s: Floats) -> tuple[Floats, NDArray[np.uint8]]:
    """20 mA for 20 ms, then 1 mA for 30 ms; input 0 is high with it."""
    is_high = time_s % 0.05 < 0.02
    return np.where(is_high, 20e-3, 1e-3), is_high.astype(np.uint8)


def unit(emulator: Ppk2Emulator, **setup: Any) -> Ppk2:
    """Our driver on this port."""
    wanted = Ppk2Setup(**({"supply_v": AMPERE} | setup))
    return Ppk2(lambda: SerialTransport(emulator.path, 115_200), "E1", wanted)


def opened(meter: Ppk2) -> Header:
    """Header of a meter that must open."""
    header = meter.open()
    assert isinstance(header, Header), header
    return header


def record(emulator: Ppk2Emulator, path: Path, seconds: float) -> tuple[Decoded, str | None]:
    """A session of samples for so long, and why it ended early."""
    meter = unit(emulator)
    opened(meter)
    with meter.session(path) as session:
        wait_until(
            lambda: emulator.emitted >= seconds * RATE_HZ or session.trouble, "recording is over"
        )
    meter.close()
    return decoded(path), session.recording().trouble


def test_other_client_of_the_same_unit_reads_its_calibration() -> None:
    """Otherwise our emulator could have a protocol that only our driver understands."""
    with Ppk2Emulator() as emulator:
        api = PPK2_API(emulator.path, timeout=1, write_timeout=1)
        api.get_modifiers()
        assert [api.modifiers["R"][str(r)] for r in range(5)] == pytest.approx(CALIBRATION.r)
        assert [api.modifiers["O"][str(r)] for r in range(5)] == pytest.approx(CALIBRATION.o)
        api.use_source_meter()
        api.set_source_voltage(3300)
        api.start_measuring()
        samples: list[float] = []
        deadline_s = time.monotonic() + 5
        while len(samples) < 20_000 and time.monotonic() < deadline_s:
            if data := api.get_data():
                samples += api.get_samples(data)[0]
            time.sleep(0.005)
        api.stop_measuring()
        api.ser.close()
        api.ser = None
    assert len(samples) >= 20_000
    assert np.median(samples) == pytest.approx(1000, rel=0.01), "µA"
    assert emulator.supply_v == 3.3


def test_second_client_of_the_same_unit_measures_the_same() -> None:
    """Otherwise one client could agree with us by its own mistake."""
    reason = "ppk2lab is not installed, which needs Python 3.11: it reads our emulator, too"
    ppk2lab: Any = pytest.importorskip("ppk2lab", reason=reason)
    transports: Any = pytest.importorskip("ppk2lab.transport.serial", reason=reason)
    with (
        Ppk2Emulator(waveform=square) as emulator,
        ppk2lab.PPK2.open(transport=transports.SerialTransport(emulator.path)) as device,
    ):
        assert device.calibration.ranges[4].r == pytest.approx(CALIBRATION.r[4])
        device.set_source_voltage_mv(3300)
        result = device.capture(duration_s=0.5)
    assert result.stats.mean_ua == pytest.approx(8600, rel=0.05)


def test_session_records_what_flowed(tmp_path: Path) -> None:
    """The whole path: port, spool, framing, calibration, filter."""
    with Ppk2Emulator(waveform=square) as emulator:
        found, trouble = record(emulator, tmp_path / "recording", 1.0)
    assert trouble is None
    assert found.loss.lost_count == 0
    assert found.loss.received_count >= 50_000
    whole = len(found.current_a) // 5000 * 5000
    assert found.current_a[:whole].mean() == pytest.approx(8.6e-3, rel=0.002)
    assert (np.diff(found.time_ns) == 10_000).all()
    is_high = found.digital == 1
    assert found.current_a[is_high].mean() == pytest.approx(20e-3, rel=0.01)
    assert emulator.commands[-1][0] == 0x07, "the stream is stopped"


@pytest.mark.parametrize(
    "faults",
    [
        Faults(metadata_pieces=9),
        Faults(stale=bytes(range(256)) * 3),
        Faults(mute_count=1),
    ],
)
def test_calibration_is_the_units_however_it_comes(faults: Faults) -> None:
    """Otherwise defaults would silently replace a calibration: 20 % off, and no error.

    It may be split over two reads, or follow old bytes.
    """
    with Ppk2Emulator(faults=faults) as emulator:
        meter = unit(emulator)
        header = opened(meter)
        meter.close()
    assert header.facts["calibration"]["r"] == pytest.approx(CALIBRATION.r)
    assert header.facts["defaulted"] == []


@pytest.mark.parametrize("faults", [Faults(not_a_number=("R3",)), Faults(left_out=("O0", "R1"))])
def test_unit_without_calibration_is_refused(faults: Faults) -> None:
    """Otherwise every value of a range would be wrong by whatever the default is."""
    with Ppk2Emulator(faults=faults) as emulator:
        answer = unit(emulator).open()
    assert isinstance(answer, AbsentMeter)
    assert "sent no calibration" in answer.reason
    assert (faults.not_a_number + faults.left_out)[0] in answer.reason


def test_constant_that_may_be_missing_is_told() -> None:
    """Otherwise `-nan` would poison each sample of that range, or be replaced unnoticed."""
    with Ppk2Emulator(faults=Faults(not_a_number=("S2", "UG4"))) as emulator:
        meter = unit(emulator)
        header = opened(meter)
        meter.close()
    assert header.facts["defaulted"] == ["S2", "UG4"]


def test_port_that_is_no_ppk2_is_refused() -> None:
    """Otherwise a modem on the wrong port would be a meter that reads nothing."""
    with Ppk2Emulator(faults=Faults(mute_count=9)) as emulator:
        answer = unit(emulator).open()
    assert isinstance(answer, AbsentMeter)
    assert "no PPK2 found: 0 bytes in 2 s" in answer.reason


class Console:
    """A port that keeps sending data, whatever is written to it; its clock is made up."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.is_closed = False

    def monotonic(self) -> float:
        """The time of the test."""
        return self.now_s

    def read(self, timeout_s: float) -> bytes:
        """Data at each read."""
        assert self.now_s < 60, "it is read for ever"
        self.now_s += 0.05
        return b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9\r\n"

    def write(self, data: bytes) -> None:
        """Ignore the data."""

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


def test_port_that_never_falls_silent_is_no_ppk2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a GPS on the wrong port would be drained for ever, and the command hang."""
    console = Console()
    monkeypatch.setattr("edgebench.meters.transport.time", console)
    answer = Ppk2(lambda: console, setup=Ppk2Setup(supply_v=AMPERE)).open()
    assert isinstance(answer, AbsentMeter)
    assert answer.reason.startswith("no PPK2 found: this port still sends data 2 s after")
    assert console.is_closed
    assert console.now_s < 5


def test_unit_that_does_not_stop_costs_the_next_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the end would wait for ever, or a complete recording be called cut short."""
    with Ppk2Emulator() as emulator:
        meter = unit(emulator)
        opened(meter)
        console = Console()
        with meter.session(tmp_path / "recording") as session:
            wait_until(lambda: emulator.emitted > RATE_HZ // 10, "samples have come")
            monkeypatch.setattr("edgebench.meters.transport.time", console)
            monkeypatch.setattr(meter._connection, "read", console.read)
            monkeypatch.setattr(meter._connection, "write", console.write)
        with pytest.raises(TargetError, match="the PPK2 still sends data 2 s after"):
            meter.session(tmp_path / "next").__enter__()
        meter.close()
    assert session.recording().trouble is None
    assert decoded(tmp_path / "recording").loss.received_count > 0


def test_unit_that_is_pulled_out_keeps_what_it_measured(tmp_path: Path) -> None:
    """Otherwise a cable would cost the session, or the session end as if nothing had happened."""
    with Ppk2Emulator(faults=Faults(gone_after_s=0.5)) as emulator:
        found, trouble = record(emulator, tmp_path / "recording", 5.0)
    assert trouble is not None
    assert "is gone" in trouble
    assert found.loss.received_count > 20_000


def test_unit_that_falls_silent_is_noticed(tmp_path: Path) -> None:
    """Otherwise a meter that hangs would end as a short recording without a reason."""
    with Ppk2Emulator(faults=Faults(stall_at_s=0.2, stall_s=60.0)) as emulator:
        found, trouble = record(emulator, tmp_path / "recording", 5.0)
    assert trouble == "the meter sent nothing for 2 s"
    assert found.loss.received_count > 10_000


def test_late_burst_is_no_loss(tmp_path: Path) -> None:
    """Otherwise late samples would be called a hole, after the host was busy for 0.2 s."""
    with Ppk2Emulator(faults=Faults(stall_at_s=0.3)) as emulator:
        found, trouble = record(emulator, tmp_path / "recording", 1.0)
    assert (trouble, found.loss.lost_count, found.loss.desync_count) == (None, 0, 0)
    assert found.loss.received_count >= 50_000


def test_losses_of_a_session_are_told(tmp_path: Path) -> None:
    """Otherwise words and bytes would be lost, and the report be clean."""
    faults = Faults(lost_words=((10_000, 37),), lost_bytes=((30_000, 2),))
    with Ppk2Emulator(waveform=square, faults=faults) as emulator:
        found, _ = record(emulator, tmp_path / "recording", 0.8)
    assert found.loss.lost_count == 38
    assert found.loss.desync_count == 1
    assert [gap.cause for gap in found.loss.gaps] == ["words lost", "framing lost"]
    assert found.loss.received_count == (found.time_ns[-1] // 10_000) + 1 - 38


def test_supply_has_to_be_known() -> None:
    """Otherwise the unit's own VDD would be multiplied with another supply's current.

    This is in ampere mode.
    """
    with Ppk2Emulator() as emulator:
        answer = unit(emulator, supply_v=None).open()
    assert isinstance(answer, AbsentMeter)
    assert "add the supply voltage of the device" in answer.reason


def test_source_mode_sets_what_is_asked(tmp_path: Path) -> None:
    """Otherwise the device would get a voltage other than that of its energy, or stay powered."""
    with Ppk2Emulator(waveform=constant(2e-3)) as emulator:
        meter = unit(emulator, is_source=True, supply_v=1.8, is_power_on=True)
        opened(meter)
        with meter.session(tmp_path / "recording"):
            time.sleep(0.3)
            assert emulator.supply_v == 1.8
        meter.close()
    assert emulator.supply_v == 3.3, "as before"
    assert [c for c in emulator.commands if c[0] == 0x0C] == [b"\x0c\x01", b"\x0c\x00"]
    assert decoded(tmp_path / "recording").power_w.mean() == pytest.approx(3.6e-3, rel=0.01)


def test_session_alone_never_switches_the_device() -> None:
    """Otherwise a measurement would power-cycle the user's board."""
    with Ppk2Emulator() as emulator:
        meter = unit(emulator)
        opened(meter)
        meter.close()
    assert not [c for c in emulator.commands if c[0] == 0x0C]


def test_unit_that_is_only_looked_at_keeps_its_mode() -> None:
    """Otherwise `edgebench meters info` would change the voltage of a device that is on."""
    with Ppk2Emulator() as emulator:
        meter = unit(emulator, is_source=True, supply_v=1.8, is_power_on=True)
        opened(meter)
        meter.close()
    assert emulator.supply_v == 3.3
    assert {command[0] for command in emulator.commands} == {0x07, 0x19}


def test_session_that_does_not_begin_switches_the_device_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a device would keep its supply, and the unit send, after a failed start."""
    with Ppk2Emulator() as emulator:
        meter = unit(emulator, is_source=True, is_power_on=True)
        opened(meter)
        write = SerialTransport.write

        def interrupted(port: SerialTransport, data: bytes) -> None:
            write(port, data)
            if data == b"\x06":
                raise KeyboardInterrupt

        monkeypatch.setattr(SerialTransport, "write", interrupted)
        with pytest.raises(KeyboardInterrupt), meter.session(tmp_path / "recording"):
            raise AssertionError
        meter.close()
    assert emulator.commands[-4:] == [b"\x0c\x01", b"\x06", b"\x07", b"\x0c\x00"]
    assert not emulator.is_streaming
    assert not (tmp_path / "recording").exists()


def test_hung_session_is_switched_off_as_the_meter_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a read that never returns would keep the device's supply on for good."""
    monkeypatch.setattr(recorder, "JOIN_S", 0.05)
    released, is_hanging = threading.Event(), threading.Event()

    def hang(timeout_s: float) -> bytes:
        is_hanging.set()
        released.wait()
        return b""

    with Ppk2Emulator() as emulator:
        meter = unit(emulator, is_source=True, is_power_on=True)
        opened(meter)
        with meter.session(tmp_path / "recording") as session:
            monkeypatch.setattr(meter._connection, "read", hang)
            assert is_hanging.wait(10)
        meter.close()
        released.set()
        session._thread.join(10)
    assert session.trouble == "the meter did not respond within 0.05 s"
    assert emulator.commands[-2:] == [b"\x07", b"\x0c\x00"]


@pytest.mark.parametrize("mode", ["", ",source"])
@pytest.mark.parametrize("supply", ["0.1", "0.79", "5.1", "9", "nan", "3300"])
def test_supply_beyond_the_unit_is_refused(supply: str, mode: str) -> None:
    """Otherwise the unit would be set to 12 V, and do something else.

    Or joules would be a thousand times too many.
    """
    with pytest.raises(UsageError, match=r"0.8 to 5.0 V, got|must be a number"):
        find_meter(f"ppk2:/dev/null,supply={supply}{mode}")


@pytest.mark.parametrize("name", ["ppk2", "lpm01a"])
def test_supply_in_millivolts_is_named(name: str) -> None:
    """Otherwise the user would read of a limit, and not that the number has the wrong unit."""
    with pytest.raises(UsageError, match=r"got 3300 V; write volts, not mV: supply=3\.3$"):
        find_meter(f"{name}:/dev/null,supply=3300")


@pytest.mark.parametrize("path", ["/dev/nothing-there", "/etc/hostname"])
def test_wrong_port_says_so(path: str) -> None:
    """Otherwise a typing error would become a traceback."""
    answer = find_meter(f"ppk2:{path},supply=3.3").open()
    assert isinstance(answer, AbsentMeter)
    assert path in answer.reason


def test_metadata_survive_any_text_around_them() -> None:
    """Otherwise a stale byte that looks like a letter would hide the first constant."""
    text = metadata_text(CALIBRATION, Faults())
    assert parse_metadata(b"\xff\x00R9\n" + text).calibration.r == pytest.approx(CALIBRATION.r)
    with pytest.raises(MeasurementError, match="sent no calibration"):
        parse_metadata(b"")
