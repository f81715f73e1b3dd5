"""The power chip of a Raspberry Pi 5, by a vcgencmd that is a script."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.boards import BOARDS, make_board
from support.boards._videocore import RAILS
from support.rounds import Change, Ticks, close_to_users, nothing, opened, record, refused

from edgebench.meters.base import Flag
from edgebench.meters.registry import find_meter
from edgebench.meters.rpi5 import RATE_MAX_HZ, Rpi5Meter, pairs_of
from edgebench.meters.uncertainty import Kind, Origin
from edgebench.protocol.errors import UsageError

KNOWN = b"     VDD_CORE_A current(7)=1.91102000A\n     VDD_CORE_V volt(15)=0.87355220V\n"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return make_board(tmp_path, BOARDS["raspberry_pi_5"])


def saying(board: Path, text: str) -> Change:
    """A change of vcgencmd's output to this text."""
    return lambda: (board / "sim/pmic_read_adc").write_text(text)


def test_rails_are_paired_by_name(board: Path) -> None:
    """Otherwise currents would be multiplied with the voltages of the same number.

    These are the voltages of other rails.
    """
    clock = Ticks()
    meter = Rpi5Meter(board, clock_ns=clock)
    of_channel = record(meter, clock, board / "recording", [nothing, nothing], every_s=0.1)
    channels = [channel.name for channel in opened(meter).capability.channels]
    assert sorted(channels) == sorted(rail for rail, *_ in RAILS)
    for rail, _, amperes, _, volts in RAILS:
        found = of_channel(channels.index(rail))
        assert list(found.power_w) == pytest.approx([amperes * volts] * 2)


def test_known_line(board: Path) -> None:
    """Otherwise the firmware's format would be read in another way than it is written."""
    assert pairs_of(KNOWN) == {"VDD_CORE": (1.91102, 0.8735522)}
    assert pairs_of(b"EXT5V_V volt(24)=5.1V\nBATT_V volt(25)=0.0V\n") == {}


def test_what_is_inside_is_said(board: Path) -> None:
    """Otherwise the sum of the rails would be shown as the power of the supply."""
    header = opened(Rpi5Meter(board))
    assert {channel.boundary for channel in header.capability.channels} == {"pmic-rails"}
    assert sorted(header.facts["total_rails"]) == sorted(rail for rail, *_ in RAILS)
    (model,) = [term for term in header.uncertainty if term.kind is Kind.MODEL]
    assert model.origin is Origin.ASSUMED
    assert "USB" in model.reference


def test_rail_that_is_left_out_once_is_missing(board: Path) -> None:
    """Otherwise the next rail would take its place."""
    clock = Ticks()
    text = (board / "sim/pmic_read_adc").read_text()
    without = "".join(f"{line}\n" for line in text.splitlines() if "VDD_CORE_A" not in line)
    meter = Rpi5Meter(board, clock_ns=clock)
    channels = [channel.name for channel in opened(meter).capability.channels]
    changes = [nothing, saying(board, without), saying(board, text)]
    of_channel = record(meter, clock, board / "recording", changes, every_s=0.1)
    core = of_channel(channels.index("VDD_CORE"))
    assert list(core.flags) == [Flag.NONE, Flag.MISSING, Flag.NONE]
    assert not of_channel(channels.index("HDMI")).flags.any()
    assert core.loss.lost_count == 1


@pytest.mark.parametrize("text", ["", "error=1", "VDD_CORE_A current(7)=A\nVDD_CORE_V volt(15)=xV"])
def test_answer_without_rails_is_missing(board: Path, text: str) -> None:
    """Otherwise a busy firmware would make 0 W, or a traceback."""
    clock = Ticks()
    meter = Rpi5Meter(board, clock_ns=clock)
    changes = [nothing, saying(board, text)]
    found = record(meter, clock, board / "recording", changes, every_s=0.1)(0)
    assert found.flags[1] == Flag.MISSING
    assert math.isnan(found.power_w[1])
    assert found.loss.lost_count == len(RAILS)


def test_command_that_goes_away_is_missing(board: Path) -> None:
    """Otherwise an upgrade of the firmware's tools would end a recording with a traceback."""
    clock = Ticks()
    meter = Rpi5Meter(board, clock_ns=clock)
    gone = [nothing, lambda: (board / "usr/bin/vcgencmd").unlink()]
    found = record(meter, clock, board / "recording", gone, every_s=0.1)(0)
    assert list(found.flags) == [Flag.NONE, Flag.MISSING]


def test_slow_command_lowers_the_rate(board: Path) -> None:
    """Otherwise the board would spend its power on the reading itself."""
    assert opened(Rpi5Meter(board, clock_ns=Ticks())).capability.rate_hz == RATE_MAX_HZ
    slow = opened(Rpi5Meter(board, clock_ns=Ticks(look_ns=40_000_000)))
    assert slow.capability.rate_hz == pytest.approx(2.5)
    with pytest.raises(UsageError, match="at most 10 Hz"):
        find_meter("rpi5:rate=50")
    with pytest.raises(UsageError, match="takes only a directory as address, got 'VDD_CORE'"):
        find_meter("rpi5:VDD_CORE")


def test_other_boards_say_why_not(tmp_path: Path) -> None:
    """Otherwise a Raspberry Pi 4 would show a traceback, or 0 W."""
    older = make_board(tmp_path / "4", BOARDS["raspberry_pi_4b"])
    assert "vcgencmd" in refused(Rpi5Meter(older))
    assert "vcgencmd not found" in refused(
        Rpi5Meter(make_board(tmp_path / "x86", BOARDS["x86_laptop"]))
    )
    unnamed = make_board(tmp_path / "5", BOARDS["raspberry_pi_5"])
    saying(unnamed, "EXT5V_V volt(24)=5.1V")()
    assert "requires a Raspberry Pi 5" in refused(Rpi5Meter(unnamed))


def test_closed_folder_of_a_command_is_no_traceback(
    board: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a machine with a closed /usr/bin would list no meter at all."""
    close_to_users(monkeypatch, board / "usr/bin")
    assert "vcgencmd not found" in refused(Rpi5Meter(board))


@given(st.binary(max_size=200))
def test_no_answer_breaks_the_parser(said: bytes) -> None:
    """Otherwise one strange line would make a recording unreadable."""
    for amperes, volts in pairs_of(KNOWN + said).values():
        assert math.isfinite(amperes * volts)
