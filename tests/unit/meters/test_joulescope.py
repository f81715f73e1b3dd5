"""The Joulescope with a made-up driver, which the vendor's recorder is run against."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyjls
import pyjoulescope_driver
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pyjoulescope_driver import binding
from support.joulescope import FIRST_TICK, TICK_HZ, FakeDriver, Faults, Floats
from support.recordings import Decoded, decoded

from edgebench.host.store.recording import write_power
from edgebench.meters.base import (
    AbsentMeter,
    Flag,
    Header,
    LossReport,
    Packet,
    Recording,
    SampleBlock,
)
from edgebench.meters.joulescope import blocks as blocks_module
from edgebench.meters.joulescope.blocks import CURRENT, POWER, control_topic, input_topic, pack
from edgebench.meters.joulescope.decoder import JoulescopeDecoder, JoulescopeSettings
from edgebench.meters.joulescope.device import Joulescope, JoulescopeSetup, load_driver
from edgebench.meters.joulescope.stream import REMOVED_TOPIC, BlockStream
from edgebench.meters.registry import find_meter
from edgebench.meters.spool import SpoolWriter
from edgebench.meters.stream import StreamSession
from edgebench.protocol.errors import MeasurementError, TargetError, UsageError

RATE_HZ = 100_000
SETTINGS = JoulescopeSettings(input_count=2, limit_a=10.0, limit_v=15.0)
ALL_ON = {
    f"u/js220/002557/{control_topic(topic)}": 1
    for topic in (CURRENT, "s/v/!data", POWER, input_topic(0), input_topic(1))
}


def ramp(time_s: Floats) -> Floats:
    """10 mA and more."""
    return 0.01 + time_s


def edges(time_s: Floats) -> NDArray[np.uint8]:
    """Input 1 is high from 10 ms to 15 ms, input 0 never."""
    return np.where((time_s >= 0.01) & (time_s < 0.015), 2, 0).astype(np.uint8)


def made(driver: FakeDriver, **setup: Any) -> Joulescope:
    """Our meter with this driver."""
    return Joulescope(lambda: driver, JoulescopeSetup(**setup))


def opened(meter: Joulescope) -> Header:
    """Header of a meter that must open."""
    header = meter.open()
    assert isinstance(header, Header), header
    return header


def record(driver: FakeDriver, path: Path, count: int) -> tuple[Decoded, str | None]:
    """A session of the given number of blocks, and why it ended early."""
    meter = made(driver)
    opened(meter)
    with meter.session(path) as session:
        assert isinstance(session, StreamSession)
        stream = session._source
        assert isinstance(stream, BlockStream)
        for _ in range(count):
            if driver.paths:
                driver.push(1)
        while stream._line and session.trouble is None:
            time.sleep(0.002)
    meter.close()
    return decoded(path), session.recording().trouble


def decode(
    driver: FakeDriver, count: int, cuts: list[int] | None = None
) -> tuple[list[SampleBlock], LossReport]:
    """Decode these blocks, cut into packets at these places."""
    driver.published |= ALL_ON | {"u/js220/002557/h/fs": RATE_HZ}
    data = b""
    for number in range(count):
        if number in driver.faults.lost_blocks:
            continue
        for topic, block in driver.blocks(number):
            if (topic, number) not in driver.faults.lost_of:
                data += pack(topic, block)
    decoder = JoulescopeDecoder(SETTINGS, RATE_HZ)
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts or []), len(data)]
    found = []
    for one, other in itertools.pairwise(places):
        found += decoder.feed(Packet(0, 0, data[one:other]))
    return found + decoder.finish(), decoder.loss()


def joined(blocks: list[SampleBlock], name: str) -> Any:
    """A column of all blocks."""
    return np.concatenate([getattr(block, name) for block in blocks])


def test_vendors_recorder_takes_the_made_up_driver_for_its_own(tmp_path: Path) -> None:
    """Otherwise our fake's blocks could have a format that only our driver understands."""
    driver = FakeDriver(current=ramp, published={"u/js220/002557/h/fs": RATE_HZ})
    recorder = pyjoulescope_driver.Record(driver, "u/js220/002557", signals="current,power")
    recorder.open(str(tmp_path / "a.jls"))
    driver.push(50)
    recorder.close()
    with pyjls.Reader(str(tmp_path / "a.jls")) as reader:
        signal = reader.signal_lookup("power")
        assert signal.sample_rate == RATE_HZ
        power_w = reader.fsr(signal.signal_id, 0, signal.length)
    expected = 3.3 * ramp(np.arange(50 * driver.block_samples) / RATE_HZ)
    assert power_w == pytest.approx(expected, rel=1e-6)


def test_vendors_driver_has_what_is_used() -> None:
    """Otherwise nothing would be recorded after a release renames a key or a topic."""
    text = Path(binding.__file__).read_bytes()
    topics = (
        CURRENT,
        POWER,
        "s/v/!data",
        "s/gpi/0/!data",
        "s/gpi/3/!data",
        "s/i/ctrl",
        "s/gpi/3/ctrl",
    )
    # s/v/range/mode is the instrument's own: the vendor's program names it.
    ranges = ("s/i/range/mode", "s/i/range/select", "s/v/range/select")
    settings = (*ranges, "h/fs", "c/fw/version", REMOVED_TOPIC)
    record = Path(pyjoulescope_driver.__file__).with_name("entry_points") / "record.py"
    assert "/s/v/range/mode', 'auto'" in record.read_text()
    assert "/s/v/range/select', '15 V'" in record.read_text()
    for word in (*blocks_module.KEYS, *topics, *settings):
        assert word.encode() in text, word
    names = ("device_paths", "open", "close", "publish", "query", "subscribe", "unsubscribe")
    for name in (*names, "finalize"):
        assert callable(getattr(pyjoulescope_driver.Driver, name)), name


def test_vendors_driver_without_an_instrument_says_so() -> None:
    """Otherwise an exception of the vendor's library would be a traceback.

    No instrument is connected where this runs.
    """
    driver = load_driver()
    try:
        assert driver.device_paths() == []
        stream = BlockStream(driver, "u/js220/000000", ())
        stream.start()
        stream.stop()  # which must pass the same callback object
        with pytest.raises(TimeoutError):
            driver.open("u/js220/000000", "restore", 0.05)
    finally:
        driver.finalize()
    answer = find_meter("joulescope").open()
    assert isinstance(answer, AbsentMeter)
    assert answer.reason == "no Joulescope is connected"


def test_session_records_what_flowed(tmp_path: Path) -> None:
    """The whole path: callbacks, spool, blocks, ticks."""
    driver = FakeDriver(current=ramp, inputs=edges)
    found, trouble = record(driver, tmp_path / "recording", 10)
    assert trouble is None
    count = 10 * driver.block_samples
    expected = ramp(np.arange(count) / RATE_HZ)
    assert found.power_w == pytest.approx(3.3 * expected, rel=1e-6)
    assert found.current_a == pytest.approx(expected, rel=1e-6)
    assert (np.diff(found.time_ns) == 10_000).all()
    is_high = found.digital == 2
    assert found.time_ns[is_high][[0, -1]].tolist() == [10_000_000, 14_990_000]
    assert (found.loss.received_count, found.loss.lost_count) == (count, 0)


def test_everything_is_given_back(tmp_path: Path) -> None:
    """Otherwise signals would stay on and fill USB, or the device lose its supply."""
    driver = FakeDriver()
    record(driver, tmp_path / "recording", 2)
    path = driver.paths[0]
    assert driver.opened == [(path, "restore")], "as it is: a default may switch the supply off"
    ranges = [("s/i/range/mode", "auto"), ("s/v/range/mode", "auto")]
    assert driver.history[:3] == [*ranges, ("h/fs", RATE_HZ)]
    found = [("s/i/range/mode", 4), ("s/v/range/mode", 0)]
    assert driver.history[-2:] == found, "as it was found"
    assert driver.published[f"{path}/h/fs"] == RATE_HZ
    controls = [value for topic, value in driver.published.items() if topic.endswith("/ctrl")]
    assert controls == [0] * 7
    assert not any(driver.subscribed.values())
    assert driver.closed == [path]
    assert driver.is_final


def test_instrument_that_is_only_looked_at_keeps_its_settings() -> None:
    """Otherwise `edgebench meters` would power a device whose supply was cut on purpose."""
    driver = FakeDriver(range_number=0)
    meter = made(driver)
    opened(meter)
    meter.close()
    assert driver.published == {}
    assert driver.closed == driver.paths


@pytest.mark.parametrize("path", ["u/js220/002557", "u/js110/000123"])
@pytest.mark.parametrize("off", [0, "off"])
def test_device_without_its_supply_is_not_powered(tmp_path: Path, path: str, off: Any) -> None:
    """Otherwise a session would switch on a device that was cut off to be worked on by hand."""
    driver = FakeDriver(paths=[path], range_number=off)
    meter = made(driver)
    opened(meter)
    with (
        pytest.raises(
            TargetError, match=f"{path} has cut the device's supply because the range of current"
        ) as refusal,
        meter.session(tmp_path / "recording"),
    ):
        raise AssertionError
    meter.close()
    assert driver.published == {}
    assert not (tmp_path / "recording").exists()
    hint = str(refusal.value).rpartition(" ")[2]
    assert find_meter(hint).name == "joulescope", "what it tells to say can be said"
    assert hint == f"joulescope:{path[-6:]},power"


@pytest.mark.parametrize("path", ["u/js220/002557", "u/js110/000123"])
@pytest.mark.parametrize("off", [0, "off"])
def test_device_is_powered_for_the_session_where_that_is_asked_for(
    tmp_path: Path, path: str, off: Any
) -> None:
    """Otherwise a board could not boot in the recording, or would keep its supply after it."""
    driver = FakeDriver(paths=[path], range_number=off)
    meter = made(driver, is_power_on=True)
    opened(meter)
    assert driver.published == {}, "to be looked at is no recording"
    for name in ("first", "second"):
        with meter.session(tmp_path / name):
            [(topic, value)] = [(t, v) for t, v in driver.published.items() if "s/i/range" in t]
            assert value == "auto"
        assert driver.published[topic] == off
    meter.close()


@pytest.mark.parametrize(
    ("path", "number", "choice", "is_cut"),
    [
        ("u/js320/000009", 3, 129, True),
        ("u/js320/000009", 5, 0, True),
        ("u/js220/002557", "manual", "off", True),
        ("u/js220/002557", 5, 129, False),
        ("u/js220/002557", 4, 0, False),
        ("u/js110/000123", 1, 0, False),
    ],
)
def test_range_that_is_off_is_told_from_one_that_is_chosen(
    tmp_path: Path, path: str, number: int | str, choice: int | str, is_cut: bool
) -> None:
    """Otherwise a device with its range off would be powered.

    Or a device whose range a person chose would be refused.
    """
    driver = FakeDriver(paths=[path], range_number=number, range_choice=choice)
    meter = made(driver)
    opened(meter)
    if is_cut:
        with (
            pytest.raises(TargetError, match="has cut the device's supply"),
            meter.session(tmp_path / "recording"),
        ):
            raise AssertionError
        assert driver.published == {}
    else:
        with meter.session(tmp_path / "recording"):
            assert "auto" in driver.published.values()
        assert driver.history[-2][1] == number
    meter.close()


@pytest.mark.parametrize("refused", ["h/fs", "s/v/ctrl"])
def test_device_of_a_session_that_cannot_begin_has_no_supply_again(
    tmp_path: Path, refused: str
) -> None:
    """Otherwise a board that was off would stay on because a rate was refused."""
    driver = FakeDriver(range_number=0, faults=Faults(refused=refused))
    meter = made(driver, is_power_on=True)
    opened(meter)
    with pytest.raises(TargetError), meter.session(tmp_path / "recording"):
        raise AssertionError
    assert driver.published["u/js220/002557/s/i/range/mode"] == 0
    meter.close()


def test_range_that_a_session_could_not_put_back_is_put_back_in_the_end(tmp_path: Path) -> None:
    """Otherwise a read that hung would keep the device on after the users have left."""
    driver = FakeDriver(range_number=0)
    meter = made(driver, is_power_on=True)
    opened(meter)
    session = meter.session(tmp_path / "recording")
    with session:
        session._finish = lambda: None  # type: ignore[method-assign]  # as if it hung
    assert ("s/i/range/mode", 0) not in driver.history
    meter.close()
    assert ("s/i/range/mode", 0) in driver.history
    assert driver.history[-1] == ("s/v/range/mode", 0)
    assert driver.closed == driver.paths


def test_range_that_cannot_be_put_back_is_told(tmp_path: Path) -> None:
    """Otherwise a device would stay powered unnoticed."""
    driver = FakeDriver(range_number=0)
    meter = made(driver, is_power_on=True)
    opened(meter)
    with meter.session(tmp_path / "recording") as session:
        driver.faults = Faults(refused="s/i/range/mode")
    assert session.trouble is not None
    assert "failed: " in session.trouble
    assert "s/i/range/mode" in session.trouble
    driver.faults = Faults()
    meter.close()
    assert driver.history[-2] == ("s/i/range/mode", 0), "once more"


def test_range_that_could_not_be_put_back_is_not_what_the_next_session_found(
    tmp_path: Path,
) -> None:
    """Otherwise a device that was off would stay on, as the previous session was not undone."""
    driver = FakeDriver(range_number=0, voltage_range=1)
    meter = made(driver, is_power_on=True)
    opened(meter)
    with meter.session(tmp_path / "first"):
        driver.faults = Faults(refused="s/i/range/mode")
    driver.faults = Faults()
    with meter.session(tmp_path / "second"):
        assert driver.published["u/js220/002557/s/i/range/mode"] == "auto"
    as_found = [("s/i/range/mode", 0), ("s/v/range/mode", 1)]
    assert driver.history[-2:] == as_found
    meter.close()
    assert driver.history[-2:] == as_found


def test_supply_that_is_still_to_be_cut_needs_leave_to_be_on(tmp_path: Path) -> None:
    """Otherwise a failed restore would be permission to power a device that was off."""
    driver = FakeDriver(range_number=4)
    meter = made(driver)
    opened(meter)
    unit = meter._connection
    assert unit is not None
    unit.ranges_before = {"s/i/range/mode": 0}
    with (
        pytest.raises(TargetError, match="has cut the device's supply"),
        meter.session(tmp_path / "recording"),
    ):
        raise AssertionError
    assert driver.history == [("s/i/range/mode", 0)], "never on, and cut once more"
    meter.close()


@pytest.mark.parametrize("path", ["u/js220/002557", "u/js110/000123", "u/js320/000009"])
def test_range_of_the_voltage_that_somebody_chose_clips_nothing(tmp_path: Path, path: str) -> None:
    """Otherwise a trusted recording of a 12 V supply would have 2 V, a sixth of its energy."""
    driver = FakeDriver(
        paths=[path], voltage_range=1, voltage=lambda time_s: np.full(len(time_s), 12.0)
    )
    found, trouble = record(driver, tmp_path / "recording", 2)
    assert trouble is None
    assert found.power_w == pytest.approx(12.0 * 0.1, rel=1e-6)
    assert driver.history[-1][0].startswith("s/v/range/")
    assert driver.history[-1][1] == 1, "as it was found"


@pytest.mark.parametrize("refused", ["h/fs", "s/v/ctrl", "s/p/ctrl"])
def test_start_that_is_refused_half_way_is_undone(tmp_path: Path, refused: str) -> None:
    """Otherwise signals would stay on and fill USB for the next user."""
    driver = FakeDriver(faults=Faults(refused=refused))
    meter = made(driver)
    opened(meter)
    with (
        pytest.raises(TargetError, match="failed: "),
        meter.session(tmp_path / "recording"),
    ):
        raise AssertionError
    meter.close()
    assert not driver.published.get("u/js220/002557/s/i/ctrl"), "on, or never told"
    assert not any(driver.subscribed.values())


def test_first_joulescope_has_its_own_topics(tmp_path: Path) -> None:
    """Otherwise the JS220's topic for the range would set how a JS110 smooths."""
    driver = FakeDriver(paths=["u/js110/000123"])
    meter = made(driver)
    header = opened(meter)
    with meter.session(tmp_path / "recording"):
        pass
    meter.close()
    ranges = [value for topic, value in driver.history if topic == "s/i/range/select"]
    assert ranges == ["auto", 4]
    assert "u/js110/000123/s/i/range/mode" not in driver.published
    assert header.capability.digital_count == 2
    assert (header.info.model, header.info.serial) == ("Joulescope JS110", "000123")


def test_unplugged_instrument_keeps_what_it_measured(tmp_path: Path) -> None:
    """Otherwise a cable would cost the session, or the session end as if nothing had happened."""
    driver = FakeDriver()
    meter = made(driver)
    opened(meter)
    with meter.session(tmp_path / "recording") as session:
        driver.push(5)
        driver.unplug()
        session._thread.join(10)
    meter.close()
    assert session.trouble == "Joulescope u/js220/002557 is gone"
    assert decoded(tmp_path / "recording").loss.received_count == 5 * driver.block_samples


@given(
    st.lists(st.integers(1, 18), max_size=5, unique=True),
    st.lists(st.integers(0, 20 * 100 - 1), max_size=5, unique=True),
    st.lists(st.integers(0, 1 << 20), max_size=6),
)
def test_decoded_is_what_was_published(
    lost_blocks: list[int], no_value_at: list[int], cuts: list[int]
) -> None:
    """Otherwise a lost block would shift everything after it, or be missing in the report."""
    faults = Faults(lost_blocks=tuple(lost_blocks), no_value_at=tuple(no_value_at))
    driver = FakeDriver(current=ramp, inputs=edges, faults=faults, block_samples=100)
    blocks, loss = decode(driver, 20, cuts)
    index = joined(blocks, "time_ns") // 10_000
    power_w = joined(blocks, "power_w")
    is_known = ~np.isin(index, no_value_at)
    expected = 3.3 * ramp(index / RATE_HZ)
    np.testing.assert_allclose(power_w[is_known], expected[is_known], rtol=2**-22)  # float32
    assert np.isnan(power_w[~is_known]).all()
    assert (joined(blocks, "digital") == edges(index / RATE_HZ)).all()
    assert loss.received_count + loss.lost_count == 20 * driver.block_samples
    inside = {place // 100 for place in no_value_at} - set(lost_blocks)
    missing = sum(place // 100 in inside for place in no_value_at)
    assert loss.lost_count == len(lost_blocks) * driver.block_samples + missing
    assert sum(gap.count for gap in loss.gaps) == len(lost_blocks) * driver.block_samples


def test_current_beyond_the_range_is_flagged() -> None:
    """Otherwise the end of the converter would be taken for the device's peak."""
    blocks, loss = decode(FakeDriver(faults=Faults(beyond_at=(3,))), 1)
    assert joined(blocks, "flags")[3] == Flag.SATURATED
    assert loss.saturated_count == 1


def test_signal_that_loses_a_block_costs_no_power() -> None:
    """Otherwise power without its current would be discarded, or wait endlessly."""
    faults = Faults(lost_of=((CURRENT, 4),))
    blocks, loss = decode(FakeDriver(current=ramp, faults=faults), 10)
    assert loss.lost_count == 0
    current_a = joined(blocks, "current_a").reshape(10, -1)
    assert np.isnan(current_a[4]).all()
    assert not np.isnan(np.delete(current_a, 4, axis=0)).any()
    assert not np.isnan(joined(blocks, "power_w")).any()


def test_input_that_is_not_known_makes_no_edge() -> None:
    """Otherwise a lost block of an input would be an edge that never was, with its window."""
    faults = Faults(lost_of=((input_topic(1), 2),))
    driver = FakeDriver(inputs=lambda time_s: np.full(len(time_s), 2, np.uint8), faults=faults)
    blocks, _ = decode(driver, 5)
    assert set(joined(blocks, "digital")) == {2}
    is_carried = (joined(blocks, "flags") & Flag.INTERPOLATED) != 0
    assert np.flatnonzero(is_carried).tolist() == list(range(1600, 2400))


def test_power_does_not_wait_for_ever() -> None:
    """Otherwise an input that sends nothing would keep all samples in memory until the end."""
    faults = Faults(lost_of=tuple((input_topic(0), number) for number in range(200)))
    driver = FakeDriver(faults=faults, published=dict(ALL_ON))
    driver.published["u/js220/002557/h/fs"] = RATE_HZ
    decoder = JoulescopeDecoder(SETTINGS, RATE_HZ)
    given_count = 0
    for number in range(200):
        for topic, block in driver.blocks(number):
            if (topic, number) not in faults.lost_of:
                found = decoder.feed(Packet(0, 0, pack(topic, block)))
                given_count += sum(len(one.time_ns) for one in found)
    assert given_count >= (200 - 64) * driver.block_samples, "half a second is held back"


def test_block_that_waited_came_when_it_came(tmp_path: Path) -> None:
    """Otherwise a silent input would shift the meter's clock by the half second of waiting."""
    faults = Faults(lost_of=tuple((input_topic(0), number) for number in range(400)))
    driver = FakeDriver(faults=faults)
    meter = made(driver)
    header = opened(meter)
    driver.published |= ALL_ON | {"u/js220/002557/h/fs": RATE_HZ}
    path = tmp_path / "spool"
    with SpoolWriter(path, header) as writer:
        for number in range(400):
            came_ns = 7_000_000_000 + (number + 1) * driver.block_samples * 10_000
            for topic, block in driver.blocks(number):
                if (topic, number) not in faults.lost_of:
                    writer.append(Packet(came_ns - 1000, came_ns, pack(topic, block)))
    meter.close()
    arrival = write_power(tmp_path, Recording(path, header)).arrival
    assert arrival is not None
    assert arrival.offset_ns == pytest.approx(7_000_000_000, abs=20_000)


def test_block_of_another_time_is_left_out() -> None:
    """Otherwise a repeated block would make time go backwards."""
    driver = FakeDriver(published=ALL_ON | {"u/js220/002557/h/fs": RATE_HZ})
    decoder = JoulescopeDecoder(SETTINGS, RATE_HZ)
    for number in (0, 1, 1, 2):
        for topic, block in driver.blocks(number):
            decoder.feed(Packet(0, 0, pack(topic, block)))
    decoder.finish()
    loss = decoder.loss()
    assert (loss.received_count, loss.desync_count) == (3 * driver.block_samples, 1)


@pytest.mark.parametrize("data", [b"\xc1", b"\x01\x02", b"\x80", b"\x82\xa5topic\x01\xa4data\x01"])
def test_damaged_recording_says_so(data: bytes) -> None:
    """Otherwise a flipped bit on the disk would be a traceback."""
    with pytest.raises(MeasurementError, match="recording of a Joulescope is damaged"):
        JoulescopeDecoder(SETTINGS, RATE_HZ).feed(Packet(0, 0, data))


@pytest.mark.parametrize(
    ("driver", "serial", "reason"),
    [
        (FakeDriver(paths=[]), "", "no Joulescope is connected"),
        (
            FakeDriver(paths=["u/js220/1", "u/js220/2"]),
            "",
            "2 Joulescopes are connected, select a serial number: 1, 2",
        ),
        (FakeDriver(), "9", "no Joulescope has the serial number '9'; available: 002557"),
        (FakeDriver(faults=Faults(is_mute=True)), "", "jsdrv_open timed out"),
    ],
)
def test_instrument_that_cannot_be_used_says_why(
    driver: FakeDriver, serial: str, reason: str
) -> None:
    """Otherwise the wrong instrument would be recorded, or the user would see a traceback."""
    answer = made(driver, serial=serial).open()
    assert isinstance(answer, AbsentMeter)
    assert reason in answer.reason
    assert driver.is_final, "USB is let go of"


def test_one_of_several_can_be_named() -> None:
    """Otherwise a bench with two instruments could use neither."""
    driver = FakeDriver(paths=["u/js220/1", "u/js110/2"])
    for serial in ("2", "u/js110/2"):
        meter = made(driver, serial=serial)
        assert opened(meter).info.serial == "2"
        meter.close()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("rate=3000", "1, 2 or 5 times"),
        ("rate=x", "got 'x'"),
        ("inputs=5", "0 to 4, got 5"),
        ("supply=3.3", "no option 'supply'"),
        ("power=on", "power takes no value"),
    ],
)
def test_option_that_cannot_be_is_refused(options: str, reason: str) -> None:
    """Otherwise an impossible rate would silently be replaced."""
    with pytest.raises(UsageError, match=reason):
        find_meter(f"joulescope:002557,{options}")


def test_missing_package_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the user would see a traceback instead of what to install."""
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", None)
    answer = find_meter("joulescope").open()
    assert isinstance(answer, AbsentMeter)
    assert answer.reason.endswith("Joulescopes need it: pip install 'edgebench-agent[joulescope]'")


def test_line_that_nobody_reads_ends() -> None:
    """Otherwise a disk that hangs would fill the memory.

    The loss shows in the numbers of the next block.
    """
    stream = BlockStream(FakeDriver(), "u/js220/002557", (POWER,))
    stream._waiting_bytes = 1 << 28
    driver = FakeDriver(published={f"u/js220/002557/{control_topic(POWER)}": 1})
    [(topic, block)] = driver.blocks(0)
    stream._on_block(f"u/js220/002557/{topic}", block)
    assert not stream._line
    assert block["sample_id"] == FIRST_TICK
    assert block["sample_rate"] == TICK_HZ
