"""Instruments behind the real sigrok-cli, with its demo device and emulated instruments."""

from __future__ import annotations

import re
import threading
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.agents import wait_until
from support.recordings import Decoded, decoded
from support.scpi import Server
from support.sigrok import SigrokMultimeter, SigrokSupply, connection_of
from support.tools import need_tool

from edgebench.host.analysis.energy.in_step import refuse_few_instants
from edgebench.meters.base import AbsentMeter, Capability, Channel, Flag, Header, MeterInfo, Packet
from edgebench.meters.polled import HOST_CLOCK
from edgebench.meters.registry import find_decoder, find_meter
from edgebench.meters.sigrok.decoder import SigrokSettings
from edgebench.meters.sigrok.device import SigrokMeter
from edgebench.protocol.errors import MeasurementError, WrongMeterOption
from edgebench.protocol.plain import to_plain


def header_of(settings: SigrokSettings, rate_hz: float, *, is_averaging: bool = False) -> Header:
    """Header of a recording with these channels."""
    return Header(
        driver="sigrok",
        info=MeterInfo(vendor="sigrok", model="made up"),
        capability=Capability(
            driver="sigrok",
            channels=(Channel("input", "supply of the device, as wired"),),
            rate_hz=rate_hz,
            is_averaging=is_averaging,
            is_uniform=not settings.is_paced,
            is_paced=settings.is_paced,
            clock_domain=HOST_CLOCK,
        ),
        facts=to_plain(settings),
    )


def decode(header: Header, packets: list[tuple[int, bytes]]) -> Decoded:
    """Decode text that was printed by these times, in milliseconds."""
    decoder = find_decoder(header)
    blocks = []
    for time_ms, text in packets:
        time_ns = time_ms * 1_000_000
        blocks += decoder.feed(Packet(time_ns, time_ns, text))
    return Decoded(blocks + decoder.finish(), decoder.loss())


def opened(text: str) -> tuple[SigrokMeter, Header]:
    """A meter that must open, and its header."""
    need_tool("sigrok-cli")
    meter = find_meter(text)
    assert isinstance(meter, SigrokMeter)
    header = meter.open()
    assert isinstance(header, Header), header
    return meter, header


def record(text: str, folder: Path) -> tuple[Header, Decoded]:
    """A decoded recording of a third of a second, or more where the machine is busy."""
    meter, header = opened(text)
    for seconds in (0.3, 3.0, 10.0):
        path = folder / f"recording-{seconds:g}"
        with meter.session(path) as session:
            threading.Event().wait(seconds)
        assert session.recording().trouble is None
        found = decoded(path)
        if found.loss.received_count > 3:
            break
    meter.close()
    return header, found


BOTH = SigrokSettings(is_paced=False, current="I1", voltage="V1")
PRINTED = "".join(
    f"V1: {3.0 + place:.4f} V DC\nV1: {3.5 + place:.4f} V DC\nT1: 25.00 °C\n"
    f"I1: {100 * place + 1:.3f} mA DC\nI1: {150.0 + place:.1f} µA DC\n"
    for place in range(20)
).encode()


@given(st.lists(st.integers(0, len(PRINTED)), max_size=8))
def test_values_are_numbered_wherever_the_text_is_cut(cuts: list[int]) -> None:
    """Otherwise a value that is cut in two would become two, or lose a prefix of its unit."""
    ends = [0, *sorted(cuts), len(PRINTED)]
    packets = [(0, PRINTED[one:other]) for one, other in pairwise(ends)]
    found = decode(header_of(BOTH, 1000), packets)
    place = np.arange(20)
    current_a = np.stack([1e-3 * (100 * place + 1), 1e-6 * (150.0 + place)], axis=1).reshape(-1)
    voltage_v = np.stack([3.0 + place, 3.5 + place], axis=1).reshape(-1)
    assert found.power_w == pytest.approx(current_a * voltage_v)
    assert found.time_ns.tolist() == [place * 1_000_000 for place in range(40)]


def test_channel_that_falls_silent_ends_the_recording() -> None:
    """Otherwise the other channel's values would wait for it until the memory is full."""
    settings = SigrokSettings(is_paced=False, current="A1", voltage="A2")
    text = b"A1: 1.0 A DC\nA2: 5.0 V DC\n" + 310 * b"A1: 1.0 A DC\n"
    with pytest.raises(MeasurementError, match="channel A2 sent nothing for 30 s"):
        decode(header_of(settings, 10), [(0, text)])


def test_value_that_is_none_is_missing() -> None:
    """Otherwise a value beyond the range would be infinite, and other units be a current."""
    shunt = SigrokSettings(is_paced=False, current="A1", shunt_ohm=0.5, supply_v=2.0)
    text = b"A1: 1.0 V DC\nA1: inf V DC\nA1: 1.0 kHz\nA1: nonsense V\nA1: -500.0 mV DC\n"
    found = decode(header_of(shunt, 10), [(0, text)])
    assert found.power_w == pytest.approx([4.0, *[np.nan] * 3, -2.0], nan_ok=True)
    beyond = Flag.MISSING | Flag.SATURATED
    assert found.flags.tolist() == [0, beyond, Flag.MISSING, Flag.MISSING, 0]
    assert (found.loss.lost_count, found.loss.saturated_count) == (3, 1)


def test_rounds_have_the_times_at_which_they_came() -> None:
    """Otherwise a round would mix two rounds, a pause be ignored, or two rounds have one time."""
    paced = SigrokSettings(is_paced=True, current="I1", voltage="V1")
    first, second = b"V1: 5.0 V DC\nI1: 100 mA DC\n", b"V1: 5.0 V DC\nI1: 200 mA DC\n"
    packets = [(100, first), (200, second[:10]), (205, second[10:]), (300, b"V1: 4.0 V DC\n")]
    packets += [(400, first), (800, second + second), (900, first.replace(b" V", b" Hz"))]
    found = decode(header_of(paced, 10, is_averaging=True), packets)
    assert found.power_w == pytest.approx([0.5, 1.0, 0.5, 1.0, 1.0, np.nan], nan_ok=True)
    millisecond = 1_000_000
    times = [one * millisecond for one in (100, 205, 400, 800)]
    times += [800 * millisecond + 1, 900 * millisecond]
    assert found.time_ns.tolist() == times
    begins = [0, times[0], times[1], 700 * millisecond, times[3], times[4]]
    assert found.begin_ns.tolist() == begins
    assert found.loss.lost_count == 3 + 1
    assert [gap.cause for gap in found.loss.gaps] == ["no reading came"]


@pytest.mark.parametrize("lost", [b"V1: 3.0 V DC\n", b"I1: 300 mA DC\n"])
def test_round_that_lacks_a_reading_is_dropped(lost: bytes) -> None:
    """Otherwise each later power would be the product of a voltage and of an older current."""
    paced = SigrokSettings(is_paced=True, current="I1", voltage="V1")
    rounds = [b"V1: %d.0 V DC\nI1: %d00 mA DC\n" % (place, place) for place in range(1, 6)]
    packets = [(100 * place, text.replace(lost, b"")) for place, text in enumerate(rounds)]
    found = decode(header_of(paced, 10), packets)
    assert found.power_w == pytest.approx([0.1, 0.4, 1.6, 2.5])


@pytest.mark.parametrize(("is_averaging", "is_refused"), [(False, True), (True, False)])
def test_instants_at_an_instruments_own_pace_give_no_energy(
    is_averaging: bool, is_refused: bool
) -> None:
    """Otherwise they would pass for polls at random times, though in step with the device."""
    paced = SigrokSettings(is_paced=True, power="P1")
    capability = header_of(paced, 10, is_averaging=is_averaging).capability
    if is_refused:
        with pytest.raises(MeasurementError, match="10 instantaneous samples per second"):
            refuse_few_instants(capability)
    else:
        refuse_few_instants(capability)


def test_device_with_a_rate_is_recorded_without_a_loss(tmp_path: Path) -> None:
    """Otherwise samples of the real program would be lost, repeated, or delayed to its end.

    A3 of its demo device is a sawtooth of 1 V a sample, 20 samples long.
    """
    text = "sigrok:demo,rate=2000,current=A3,shunt=1,voltage=A2"
    header, found = record(text, tmp_path)
    capability = header.capability
    assert (capability.rate_hz, capability.is_uniform, capability.is_paced) == (2000, True, False)
    assert capability.clock_domain.startswith("meter:sigrok:demo")
    steps = np.diff(found.current_a)
    assert np.all(np.isclose(steps, 1.0, atol=1e-3) | np.isclose(steps, -19.0, atol=1e-3))
    assert len(steps) > 3
    assert np.diff(found.time_ns).tolist() == [500_000] * len(steps)


def test_multimeter_is_recorded_at_its_own_pace(tmp_path: Path) -> None:
    """Otherwise readings would have no time, or that at which the program ended."""
    with Server(SigrokMultimeter(readings=(0.1, 0.2), reading_s=0.02)) as server:
        text = f"sigrok:scpi-dmm,{connection_of(server)},supply=5,mean=0.02,gain=0.1%"
        header, found = record(text, tmp_path)
    capability = header.capability
    assert (capability.is_uniform, capability.is_paced) == (False, True)
    assert capability.clock_domain == HOST_CLOCK
    assert header.info.serial == "MY54500123"
    assert 1 < capability.rate_hz < 51
    assert set(np.round(found.power_w, 6)) <= {0.5, 1.0}
    assert np.all(np.diff(found.time_ns) > 0)
    terms = {one.kind.value: one.value for one in header.uncertainty}
    assert terms["gain"] == 0.001
    assert terms["resolution"] == pytest.approx(1e-6)


@pytest.mark.parametrize(
    ("options", "power_w"), [("power=P1", 0.502), ("current=I1,voltage=V1", 5.001 * 0.1004)]
)
def test_supply_is_recorded_by_the_channels_that_are_named(
    tmp_path: Path, options: str, power_w: float
) -> None:
    """Otherwise the power of one output would be the current of another."""
    with Server(SigrokSupply()) as server:
        text = f"sigrok:scpi-pps,{connection_of(server)},{options}"
        _, found = record(text, tmp_path)
    assert found.power_w == pytest.approx(power_w)


def test_program_ends_by_itself(tmp_path: Path) -> None:
    """Otherwise it would be killed while it still has the device."""
    meter, _ = opened("sigrok:demo,rate=1000,current=A1,shunt=1,supply=5")
    with meter.session(tmp_path / "recording"):
        assert meter._connection is not None
        process = meter._connection._process
    meter.close()
    assert process is not None
    assert process.returncode >= 0


def test_device_that_goes_away_ends_the_recording(tmp_path: Path) -> None:
    """Otherwise a recording would go on without a program."""
    meter, _ = opened("sigrok:demo,rate=1000,current=A1,shunt=1,supply=5")
    with meter.session(tmp_path / "recording") as session:
        assert meter._connection is not None
        assert meter._connection._process is not None
        meter._connection._process.kill()
        wait_until(lambda: session.trouble is not None, "the recording ends", 10.0)
    meter.close()
    assert session.trouble == "sigrok-cli has ended: the device is gone"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("demo,rate=1000", r"assign the channels.* A0 \(V\), A1 \(V\)"),
        ("demo,rate=1000,current=A1,supply=5", r"A1 should measure A.*as in shunt=0\.1"),
        ("demo,rate=1000,current=A1,shunt=1", "current= requires a voltage"),
        ("demo,rate=1000,power=A1", "A1 should measure W; available: A1"),
        ("demo,rate=200k,current=A1,shunt=1,supply=5", "use at most 100000"),
        ("demo,current=A1,shunt=1,supply=5", "takes 200000 samples per second"),
        ("demo,conn=nowhere,rate=9,channel=3", "no option 'channel'"),
        ("", "name a driver of sigrok"),
        (",conn=1-5", "name a driver of sigrok"),
        ("hantek-6xxx", "No devices found"),
        ("no-such-driver", "sigrok-cli: .*no-such-driver"),
    ],
)
def test_device_that_cannot_be_used_is_refused_in_one_line(options: str, why: str) -> None:
    """Otherwise a voltage would be a power, or the user see another program's output."""
    need_tool("sigrok-cli")
    try:
        found = find_meter(f"sigrok:{options}").open()
        said = found.reason if isinstance(found, AbsentMeter) else ""
    except WrongMeterOption as exc:
        said = str(exc)
    assert re.search(why, said), said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("multimeter", "options", "why"),
    [
        (SigrokMultimeter("CURR:AC +1.0E+00,+1.0E-06"), "supply=5", "P1 measures AC"),
        (SigrokMultimeter("VOLT +1.0E+01,+1.0E-05"), "supply=5", r"assign the channels.* P1 \(V\)"),
        (SigrokMultimeter(), "supply=5,rate=10", "has no sample rate: leave out rate="),
    ],
)
def test_multimeter_that_is_set_wrongly_is_refused(
    multimeter: SigrokMultimeter, options: str, why: str
) -> None:
    """Otherwise alternating current would be taken for the device's."""
    need_tool("sigrok-cli")
    with Server(multimeter) as server:
        found = find_meter(f"sigrok:scpi-dmm,{connection_of(server)},{options}").open()
    assert isinstance(found, AbsentMeter)
    assert re.search(why, found.reason), found.reason


def test_program_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the user would look for a device, while a program is missing."""
    monkeypatch.setenv("PATH", "/nowhere")
    found = find_meter("sigrok:demo").open()
    assert found == AbsentMeter("sigrok-cli is not installed: sudo apt install sigrok-cli")
