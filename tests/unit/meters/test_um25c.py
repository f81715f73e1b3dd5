"""A UM25C: its records against the known answers, and itself on a pseudo-terminal."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.agents import wait_until
from support.recordings import Decoded, decoded
from support.tools import need_shared
from support.um25c import NUMBERS, SUMMED, Faults, Um25cEmulator, record_of

from edgebench.meters.base import AbsentMeter, Flag, Header
from edgebench.meters.options import Options
from edgebench.meters.registry import find_meter
from edgebench.meters.transport import SerialTransport
from edgebench.meters.um25c import MODELS, Um25c, make_meter, model_of, values_of
from edgebench.protocol.errors import TargetError, UsageError


def make(emulator: Um25cEmulator, response_s: float = 0.15) -> Um25c:
    """The driver at this tester's port."""
    return Um25c(lambda: SerialTransport(emulator.path, 9600), rate_hz=10, response_s=response_s)


class InstantTester(Um25cEmulator):
    """A tester in this thread: what it does not send at once does not come.

    A request is missed because of a fault, never because the machine is busy.
    """

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults=faults)
        self._sent = b""

    def send(self, data: bytes, step: int = 65536) -> None:
        """To the host, all at once."""
        self._sent += data

    def read(self, timeout_s: float) -> bytes:
        """Bytes that were sent; b"" at once if there are none."""
        sent, self._sent = self._sent, b""
        return sent

    def write(self, data: bytes) -> None:
        """What the host sends."""
        self.hear(data)

    def close(self) -> None:
        """There is no port."""


def opened(meter: Um25c) -> Header:
    """Header of a meter that must open."""
    header = meter.open()
    assert isinstance(header, Header), header
    return header


def reason(emulator: Um25cEmulator) -> str:
    """Why it does not open, as it must not."""
    missing = make(emulator).open()
    assert isinstance(missing, AbsentMeter)
    return missing.reason


def record(
    emulator: Um25cEmulator, path: Path, questions: float = math.inf, meter: Um25c | None = None
) -> tuple[Decoded, str | None]:
    """A decoded recording of so many requests, or until something ends it; and what ended it."""
    meter = meter or make(emulator)
    opened(meter)
    with meter.session(path) as session:
        wait_until(lambda: emulator.asked > questions or session.trouble, "recording is over")
    meter.close()
    return decoded(path), session.recording().trouble


def test_record_of_the_known_answers() -> None:
    """T: with the steps of the UM24C everything would be ten times as large."""
    vector = json.loads(need_shared("known_answers/energy.json").read_text())["T_um25c_record"]
    definition, expected = vector["definition"], vector["expected_example"]
    prefix, tail = bytes.fromhex(expected["hex_prefix"]), bytes.fromhex(definition["tail"])
    record = prefix.ljust(definition["length"] - len(tail), b"\0") + tail
    model = model_of(record)
    assert model is MODELS[int(definition["model_u16be@0"], 16)]
    assert values_of(record, model) == pytest.approx((expected["volts"], expected["amps"]))


@given(st.sampled_from(sorted(NUMBERS)), st.floats(0, 24), st.floats(0, 4))
def test_values_are_those_that_were_sent(name: str, volt: float, ampere: float) -> None:
    """Otherwise a model would have the steps, or the end, of another model."""
    record = record_of(name, volt, ampere)
    model = model_of(record)
    assert model.name == name
    voltage_v, current_a = values_of(record, model)
    assert voltage_v == pytest.approx(volt, abs=0.51 * model.volt)
    assert current_a == pytest.approx(ampere, abs=0.51 * model.ampere)


@given(st.sampled_from(sorted(NUMBERS)), st.integers(0, 129), st.integers(1, 255))
def test_damage_that_can_be_seen_is(name: str, place: int, change: int) -> None:
    """Otherwise a record with another model, or without its end, would be accepted."""
    record = bytearray(record_of(name, 5.0, 0.5))
    record[place] ^= change
    is_end = place == 129 or (place == 128 and name != "UM34C")
    is_summed = name == "UM34C" and place in SUMMED
    if place < 2 or is_end or is_summed:
        with pytest.raises(TargetError):
            model_of(bytes(record))
    else:
        assert model_of(bytes(record)).name == name


@pytest.mark.parametrize("name", sorted(NUMBERS))
def test_recording_is_what_the_tester_measured(tmp_path: Path, name: str) -> None:
    """Otherwise a response that comes byte by byte would be cut off."""
    faults = Faults(is_split=True, stale=b"OK+CONN\r\n")
    with Um25cEmulator(model=name, faults=faults) as emulator:
        patient = make(emulator, response_s=60.0)
        found, trouble = record(emulator, tmp_path / "recording", 9, patient)
    assert trouble is None
    assert len(found.time_ns) >= 5
    assert found.power_w == pytest.approx(2.5)
    assert not found.flags.any()


def test_lost_late_and_damaged_answers_are_missing(tmp_path: Path) -> None:
    """Otherwise each response after a late response would belong to the request before."""
    faults = Faults(mute=(2,), late=(4,), cut=(6,), damaged=(8,))
    tester = InstantTester(faults)
    instant = Um25c(lambda: tester, rate_hz=10, response_s=60.0)
    found, trouble = record(tester, tmp_path / "recording", 13, instant)
    assert trouble is None
    is_missing = (found.flags & int(Flag.MISSING)) != 0
    assert found.power_w[~is_missing] == pytest.approx(2.5)
    assert np.count_nonzero(is_missing) == 4, "what came too late is in front of the next answer"
    assert found.loss.lost_count >= np.count_nonzero(is_missing)
    assert found.loss.received_count == np.count_nonzero(~is_missing)


@pytest.mark.parametrize("how", ["mute", "pulled"])
def test_tester_that_goes_away_ends_the_recording(tmp_path: Path, how: str) -> None:
    """Otherwise a recording would go on without a tester."""
    faults = Faults(mute_after=3) if how == "mute" else Faults(gone_after_s=0.5)
    with Um25cEmulator(faults=faults) as emulator:
        _, trouble = record(emulator, tmp_path / "recording")
    why = "did not respond 5 times" if how == "mute" else "is gone"
    assert why in (trouble or "")


def test_end_of_the_range_is_saturated(tmp_path: Path) -> None:
    """Otherwise current beyond five amperes would be less energy."""
    with Um25cEmulator(waveform=lambda _: (5.0, 5.2)) as emulator:
        found, _ = record(emulator, tmp_path / "recording", 4)
    assert found.loss.saturated_count == len(found.time_ns)


def test_what_is_no_tester_is_refused() -> None:
    """Otherwise a console would be read for ever, or its prompt be a voltage."""
    with Um25cEmulator(faults=Faults(never_ends=True)) as emulator:
        assert reason(emulator).startswith("no UM24C, UM25C or UM34C found: ")
    with Um25cEmulator(faults=Faults(mute_after=0)) as emulator:
        assert reason(emulator) == ("no UM24C, UM25C or UM34C found: 0 bytes, but a record has 130")
    assert "no such serial port" in getattr(find_meter("um25c:/dev/rfcomm9").open(), "reason", "")


def test_port_must_be_named() -> None:
    """Otherwise the first serial port would be used, whatever is connected there."""
    missing = make_meter(Options.parse("um25c", "")).open()
    assert "serial port missing" in getattr(missing, "reason", "")
    with pytest.raises(UsageError, match=r"0\.1 to 10 Hz, got 50"):
        make_meter(Options.parse("um25c", "/dev/rfcomm0,rate=50"))
