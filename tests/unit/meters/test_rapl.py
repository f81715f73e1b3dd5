"""The RAPL driver on a made-up /sys."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from support.powercap import RANGE_UJ, Counter

from edgebench.meters.base import Flag, LossReport, Missing
from edgebench.meters.rapl import Rapl
from edgebench.meters.registry import find_meter
from edgebench.protocol.errors import UsageError


def test_power_is_energy_over_time(tmp_path: Path) -> None:
    """A unit is wrong by a thousand, and nobody sees it."""
    counter = Counter(tmp_path)
    times = iter([0, 2_000_000_000])
    meter = Rapl(tmp_path, clock_ns=lambda: next(times))
    meter.open()
    assert meter._read() == []
    counter.show(30_000_000)
    (sample,) = meter._read()
    assert sample.power_w == pytest.approx(15.0)
    assert sample.time_ns == 2_000_000_000


def test_counter_that_wraps_loses_nothing(tmp_path: Path) -> None:
    """Once in twenty minutes a window has minus two hundred kilojoules."""
    counter = Counter(tmp_path)
    times = iter([0, 1_000_000_000])
    meter = Rapl(tmp_path, clock_ns=lambda: next(times))
    meter.open()
    counter.show(RANGE_UJ - 4_000_000)
    meter._read()
    counter.show(5_999_999)
    (sample,) = meter._read()
    assert sample.power_w == pytest.approx(10.0)


def test_counter_that_does_not_answer_is_flagged(tmp_path: Path) -> None:
    """A failed reading becomes zero watts."""
    counter = Counter(tmp_path)
    meter = Rapl(tmp_path)
    meter.open()
    counter.show("")
    (sample,) = meter._read()
    assert sample.flags == Flag.MISSING
    assert math.isnan(sample.power_w)


def test_machine_without_counters_says_why(tmp_path: Path) -> None:
    """A virtual machine shows a traceback, or zero joules."""
    opened = Rapl(tmp_path).open()
    assert isinstance(opened, Missing)
    assert "no RAPL zone" in opened.reason


def test_only_top_level_zones_are_read(tmp_path: Path) -> None:
    """The cores are counted twice, once in their package."""
    Counter(tmp_path)
    nested = tmp_path / "sys/class/powercap/intel-rapl:0:0"
    nested.mkdir()
    opened = Rapl(tmp_path).open()
    assert not isinstance(opened, Missing)
    assert [channel.name for channel in opened.channels] == ["package-0"]


def test_unknown_meter_names_those_that_exist() -> None:
    """A misspelt meter is found out after the measurement."""
    with pytest.raises(UsageError, match="unknown meter 'rapple': there are rapl"):
        find_meter("rapple")


def test_loss_is_a_share_of_what_was_expected() -> None:
    """A gap in the recording goes unnoticed."""
    assert LossReport(100, 99).lost_ratio == pytest.approx(0.01)
    assert LossReport(0, 0).lost_ratio == 0.0
