"""The address of a meter with its options, as people write it."""

from __future__ import annotations

import pytest

from edgebench.meters.options import Options, split_name
from edgebench.meters.registry import supply_of, with_supply
from edgebench.protocol.errors import UsageError, WrongMeterOption


@pytest.mark.parametrize(
    ("text", "name", "address", "values"),
    [
        ("rapl", "rapl", "", {}),
        ("fnirsi,reversed", "fnirsi", "", {"reversed": ""}),
        ("fnirsi:,rate=99.9", "fnirsi", "", {"rate": "99.9"}),
        ("lpm01a,supply=3.3", "lpm01a", "", {"supply": "3.3"}),
        ("ppk2:/dev/ttyACM0,supply=3.3", "ppk2", "/dev/ttyACM0", {"supply": "3.3"}),
        ("scpi:TCPIP::h::hislip0,4880::INSTR,rate=2", "scpi", "TCPIP::h::hislip0,4880::INSTR",
         {"rate": "2"}),
    ],
)  # fmt: skip
def test_text_is_split_as_people_mean_it(
    text: str, name: str, address: str, values: dict[str, str]
) -> None:
    """Otherwise options after a comma, as in the help, would be part of the meter's name."""
    driver, rest = split_name(text)
    options = Options.parse(driver, rest)
    assert (driver, options.address, options.values) == (name, address, values)


def test_option_that_is_given_twice_is_refused() -> None:
    """Otherwise the last value would count silently."""
    with pytest.raises(UsageError, match="meter um25c: rate is given twice"):
        Options.parse("um25c", "/dev/x,rate=2,rate=5")


@pytest.mark.parametrize("value", ["0", "1", "no"])
def test_switch_with_a_value_is_refused(value: str) -> None:
    """Otherwise `reversed=0` would reverse."""
    options = Options.parse("fnirsi", f",reversed={value}")
    with pytest.raises(UsageError, match="reversed takes no value"):
        options.switch("reversed")


def test_voltage_may_be_in_option_and_text_if_it_is_the_same() -> None:
    """Otherwise `--supply 1.8V --meter lpm01a,supply=1.8` would be refused as a contradiction."""
    assert with_supply("lpm01a,supply=1.8", 1.8) == "lpm01a,supply=1.8"
    with pytest.raises(WrongMeterOption, match=r"2.5 V and supply=1.8 of meter lpm01a"):
        with_supply("lpm01a,supply=1.8", 2.5)


@pytest.mark.parametrize(
    ("text", "supply_v"),
    [
        ("lpm01a:/dev/ttyACM0,supply=1.8,rate=1k", 1.8),
        ("lpm01a", None),
        ("ppk2:/dev/ttyACM0,source,supply=3.3", 3.3),
        ("ppk2:/dev/ttyACM0,supply=3.3", None),
        ("scpi:ASRL1::INSTR,supply=3.3", None),
        ("monsoon:,supply=3.7", 3.7),
    ],
)
def test_text_of_a_meter_has_the_voltage_that_it_sets(text: str, supply_v: float | None) -> None:
    """Otherwise a voltage that was only stated would be a condition that the meter set."""
    assert supply_of(text) == supply_v
