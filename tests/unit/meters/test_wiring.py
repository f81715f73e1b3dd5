"""The wiring that an owner states for a device, checked when an agent is started or deployed."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.meters.wiring import check_line, check_meters, may_be_same_unit
from edgebench.protocol.errors import NoSuchMeter, UsageError, WrongMeterOption


@pytest.mark.parametrize(
    "text", ["", "gpio", "gpio:", "gpio:value", "spi:/dev/spidev0.0", "/dev/x"]
)
def test_malformed_line_is_refused(text: str) -> None:
    """Otherwise a typing error would be found in the first run.

    Or the worker would write into its own directory.
    """
    with pytest.raises(UsageError, match="a sync line is gpio:/PATH or uart:/PATH, got "):
        check_line(text)


def test_wellformed_line_is_taken() -> None:
    """Otherwise nothing could be wired."""
    for text in ("gpio:/sys/class/gpio/gpio17/value", "uart:/dev/ttyS0"):
        assert check_line(text) == text


def test_one_port_by_two_names_is_one_meter(tmp_path: Path) -> None:
    """Otherwise two boards would be measured at the same time with one meter."""
    (port := tmp_path / "ttyACM0").touch()
    (link := tmp_path / "by-id").symlink_to(port)
    assert may_be_same_unit(f"ppk2:{port},supply=3.3", f"ppk2:{link}")
    assert may_be_same_unit(f"ppk2:{port}", f"lpm01a:{link}"), "a port has one device"
    assert not may_be_same_unit(f"ppk2:{port}", f"ppk2:{tmp_path / 'ttyACM1'}")
    assert not may_be_same_unit(f"rapl:{tmp_path}", f"hwmon:{tmp_path}"), "a folder has many"
    assert not may_be_same_unit("rapl", "ppk2"), "neither says where it is"


def test_units_of_sigrok_are_told_by_their_connection() -> None:
    """Otherwise two multimeters of a kind could not be wired, or one could be wired twice."""
    first, second = (f"sigrok:scpi-dmm,conn=/dev/ttyUSB{number}" for number in (0, 1))
    assert not may_be_same_unit(first, second)
    assert may_be_same_unit(first, "sigrok:scpi-dmm"), "it may find either"
    assert may_be_same_unit(first, "fnirsi:/dev/ttyUSB0"), "a port has one device"
    assert not may_be_same_unit("sigrok:scpi-dmm", "sigrok:uni-t-ut61e")


def test_driver_that_there_is_not_is_refused_at_once() -> None:
    """Otherwise a typing error would be found only after the first run."""
    assert check_meters(["rapl", "synthetic"]) == ("rapl", "synthetic")
    with pytest.raises(NoSuchMeter, match="unknown meter 'rapple'"):
        check_meters(["rapl", "rapple"])
    with pytest.raises(WrongMeterOption, match="has no option 'volts'"):
        check_meters(["ppk2:/dev/ttyACM0,volts=3"])


def test_meter_as_runs_name_it_is_told_how_an_agent_does() -> None:
    """Otherwise a user who copies the `bench --meter` name would read of no meter `agent`."""
    with pytest.raises(UsageError, match="no prefix `agent:`: write rpi5"):
        check_meters(["agent:rpi5"])


def test_none_is_no_meter_and_no_line() -> None:
    """Otherwise wiring could not be removed, or `none` be dropped next to a wanted meter."""
    assert check_meters(["none"]) == check_meters([]) == ()
    assert check_line("none") is None
    with pytest.raises(UsageError, match="none excludes all other meters, got rapl, none"):
        check_meters(["rapl", "none"])
