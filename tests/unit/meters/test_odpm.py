"""Rail monitors of a Pixel on a made-up /sys."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.boards import BOARDS, make_board
from support.rounds import (
    Change,
    Ticks,
    breaking,
    close_to_users,
    make_folder,
    nothing,
    opened,
    record,
    refused,
)

from edgebench.meters.base import Flag
from edgebench.meters.odpm import OdpmMeter, counters_in

FIRST_MS = 176_103_444
RAILS: Mapping[str, int] = {"S1M_VDD_MIF": 45_602_150, "S2M_VDD_CPUCL2": 88_000_000}


def told(time_ms: int, rails: Mapping[str, int]) -> str:
    """The text of energy_value."""
    lines = [f"CH{n}(T={time_ms})[{rail}], {uj}" for n, (rail, uj) in enumerate(rails.items())]
    return "\n".join([f"t={time_ms}", *lines])


def chip(root: Path, number: int = 0, rails: Mapping[str, int] = RAILS) -> Path:
    """One of the chips."""
    folder = root / f"sys/bus/iio/devices/iio:device{number}"
    return make_folder(
        folder, {"name": f"s2mpg1{number}-odpm", "energy_value": told(FIRST_MS, rails)}
    )


def telling(folder: Path, after_ms: int, *passed_uj: int) -> Change:
    """A change after which each rail has used so much since the beginning."""
    used = {rail: uj + more for (rail, uj), more in zip(RAILS.items(), passed_uj, strict=True)}
    return saying(folder, told(FIRST_MS + after_ms, used))


def saying(folder: Path, text: str) -> Change:
    """A change of the file in place."""

    def change() -> None:
        with (folder / "energy_value").open("w") as file:
            file.write(f"{text}\n")

    return change


@pytest.fixture
def clock() -> Ticks:
    return Ticks()


def test_power_is_energy_over_the_phones_own_time(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise the host's delay in reading would count as time in which energy was used."""
    folder = chip(tmp_path)
    changes = [nothing, telling(folder, 100, 50_000, 0), telling(folder, 350, 100_000, 500_000)]
    meter = OdpmMeter(tmp_path, clock_ns=clock)
    of_channel = record(meter, clock, tmp_path / "recording", changes, every_s=0.1)
    assert list(of_channel(0).power_w) == pytest.approx([0.5, 0.2])
    assert list(of_channel(1).power_w) == pytest.approx([0.0, 2.0])
    assert list(of_channel(0).time_ns) == [(FIRST_MS + ms) * 10**6 for ms in (100, 350)]
    assert list(of_channel(0).begin_ns) == [(FIRST_MS + ms) * 10**6 for ms in (0, 100)]
    capability = opened(meter).capability
    assert capability.clock_domain == "device:boottime"
    assert [channel.name for channel in capability.channels] == list(RAILS)


def test_same_reading_again_is_no_sample(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise the rail would seem to be off, or time to stand still.

    The chip was not read anew.
    """
    folder = chip(tmp_path)
    changes = [nothing, nothing, telling(folder, 200, 100_000, 0), nothing]
    meter = OdpmMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.1)(0)
    assert list(found.power_w) == pytest.approx([0.5])


def test_chips_have_their_own_times(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise the energy of the second chip would be divided by the time of the first."""
    first = chip(tmp_path, 0)
    second = chip(tmp_path, 1, {"S1S_VDD_CAM": 0})
    later = saying(second, told(FIRST_MS + 50, {"S1S_VDD_CAM": 50_000}))
    changes = [nothing, telling(first, 100, 50_000, 0), later]
    meter = OdpmMeter(tmp_path, clock_ns=clock)
    of_channel = record(meter, clock, tmp_path / "recording", changes, every_s=0.1)
    assert list(of_channel(0).power_w) == pytest.approx([0.5])
    assert list(of_channel(2).power_w) == pytest.approx([1.0])


def test_counter_that_begins_anew_is_missing_once(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a rail that was deselected and selected again would give minus joules."""
    folder = chip(tmp_path)
    anew = {"S1M_VDD_MIF": 10, "S2M_VDD_CPUCL2": 88_100_000}
    changes = [
        nothing,
        saying(folder, told(FIRST_MS + 100, anew)),
        saying(folder, told(FIRST_MS + 200, {**anew, "S1M_VDD_MIF": 100_010})),
    ]
    meter = OdpmMeter(tmp_path, clock_ns=clock)
    of_channel = record(meter, clock, tmp_path / "recording", changes, every_s=0.1)
    assert list(of_channel(0).flags) == [Flag.MISSING, Flag.NONE]
    assert of_channel(0).power_w[1] == pytest.approx(1.0)
    assert of_channel(1).power_w[0] == pytest.approx(1.0), "the other rail is whole"


def test_rail_that_took_the_place_of_another_is_not_mixed_up(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise the energy of another rail would be booked on the channel."""
    folder = chip(tmp_path)
    swapped = {"LDO2M": 99_000_000, "S2M_VDD_CPUCL2": 88_100_000}
    changes = [nothing, saying(folder, told(FIRST_MS + 100, swapped))]
    meter = OdpmMeter(tmp_path, clock_ns=clock)
    of_channel = record(meter, clock, tmp_path / "recording", changes, every_s=0.1)
    assert list(of_channel(0).flags) == [Flag.MISSING]
    assert list(of_channel(1).flags) == [Flag.NONE]


@pytest.mark.parametrize("text", ["", "t=5", "CH0(T=1)[A], 3", "t=x\nCH0(T=1)[A], 3", "\0\0"])
def test_reading_that_is_not_whole_is_bridged(tmp_path: Path, clock: Ticks, text: str) -> None:
    """Otherwise a file that was empty once would cost the energy of two rounds."""
    folder = chip(tmp_path)
    changes = [nothing, saying(folder, text), telling(folder, 200, 100_000, 0)]
    meter = OdpmMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.1)(0)
    assert list(found.flags) == [Flag.MISSING, Flag.NONE]
    assert math.isnan(found.power_w[0])
    assert found.power_w[1] == pytest.approx(0.5), "over both rounds"
    assert found.begin_ns[1] == FIRST_MS * 10**6
    assert found.loss.lost_count == len(RAILS)


def test_chip_that_goes_away_is_missing_up_to_the_end(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a recording whose end is missing would look like a shorter recording."""
    chip(tmp_path)
    meter = OdpmMeter(tmp_path, clock_ns=clock)
    changes = [nothing, lambda: breaking(meter, 0)(), nothing]
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.1)(0)
    assert list(found.flags) == [Flag.MISSING, Flag.MISSING]
    assert found.time_ns[1] == pytest.approx((FIRST_MS + 200) * 10**6, abs=1e5)


def test_other_devices_say_why_not(tmp_path: Path) -> None:
    """Otherwise a phone without root, or of another maker, would show a traceback."""
    assert "requires a Google Pixel" in refused(OdpmMeter(make_board(tmp_path, BOARDS["bare_vm"])))
    folder = chip(tmp_path / "b")
    saying(folder, "")()
    assert "report no energy" in refused(OdpmMeter(tmp_path / "b"))
    (folder / "energy_value").unlink()
    (folder / "energy_value").mkdir()
    assert "needs root" in refused(OdpmMeter(tmp_path / "b"))


@pytest.mark.parametrize("what", ["..", ".", "energy_value"])
def test_phone_without_root_says_which_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Otherwise a folder of root's would be a traceback in a list of meters.

    Or it would pass for a phone without meters.
    """
    folder = chip(tmp_path)
    close_to_users(monkeypatch, folder / what)
    reason = refused(OdpmMeter(tmp_path))
    assert "needs root" in reason
    assert f"{folder.parent}" in reason


@given(st.binary(max_size=100))
def test_no_content_breaks_the_parser(content: bytes) -> None:
    """Otherwise one strange reading would make a recording unreadable."""
    found = counters_in(told(5, RAILS).encode() + content)
    assert found is None or found.time_ns == 5_000_000
