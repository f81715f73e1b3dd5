"""Devices chosen by name and by what they share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgebench.host.devices.discovery import THIS_MACHINE
from edgebench.host.devices.farm import Farm, FarmDevice
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.selection import select
from edgebench.protocol.errors import NoSuchDevice, UsageError

PI4 = KnownDevice("pi4", "04aa", "p" * 43, ("192.0.2.4",), 7747, arch="aarch64")
PI5 = replace(PI4, name="pi5", id="05bb", pin="q" * 43)
MINI = replace(PI4, name="mini", id="06cc", pin="r" * 43, arch="x86_64")
ODD = replace(PI4, name="label:odd,name", id="07dd", pin="s" * 43, arch="")
PAIRED = (PI4, PI5, MINI, ODD)
FARM = Farm(device={"pi4": FarmDevice(labels=("pi", "old")), "05bb": FarmDevice(labels=("pi",))})


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["all"], [PI4, PI5, MINI, ODD]),
        (["pi5", "pi4"], [PI5, PI4]),
        (["mini,pi4"], [MINI, PI4]),
        (["mini, pi4", "mini"], [MINI, PI4]),
        (["05bb"], [PI5]),
        (["label:pi"], [PI4, PI5]),
        (["label:pi,label:old"], [PI4]),
        (["label:pi,name:*5"], [PI5]),
        (["arch:aarch64"], [PI4, PI5]),
        (["arch:x86*", "label:old"], [MINI, PI4]),
        (["label:odd,name"], [ODD]),
        (["local"], [THIS_MACHINE]),
    ],
)
def test_words_choose_devices(words: list[str], chosen: list[KnownDevice]) -> None:
    """Otherwise a device would be measured twice, or without having been selected."""
    assert select(words, PAIRED, FARM) == chosen


def test_this_machine_belongs_to_all_only_if_the_farm_file_says_so() -> None:
    """Otherwise the operator's laptop would be measured with the boards.

    Or the farm's own PC never would.
    """
    farm = Farm(device={"local": FarmDevice(labels=("pc",))})
    assert select(["all"], [PI4], farm) == [THIS_MACHINE, PI4]
    assert select(["label:pc"], [PI4], farm) == [THIS_MACHINE]


@pytest.mark.parametrize(
    ("word", "error", "text"),
    [
        ("nano", NoSuchDevice, "nano"),
        ("pi", NoSuchDevice, "2 devices match 'pi': pi4, pi5"),
        ("label:jetson", NoSuchDevice, "no device fits 'label:jetson'; available: pi4, pi5"),
        ("colour:red", UsageError, "unknown condition 'colour:red'; available: label, arch, name"),
        ("pi4,label:pi", UsageError, "use a separate --on pi4"),
        ("pi4,", NoSuchDevice, "''"),
    ],
)
def test_words_that_choose_nothing_are_refused(
    word: str, error: type[Exception], text: str
) -> None:
    """Otherwise a typing error would measure other devices than meant, or silently none."""
    with pytest.raises(error, match=text.replace("(", r"\(")):
        select([word], PAIRED, FARM)


def test_all_of_no_device_is_refused() -> None:
    """Otherwise a night's measurement of nothing would end with success."""
    for word in ("all", "label:pi"):
        with pytest.raises(NoSuchDevice, match="no device is paired"):
            select([word], [], Farm())


def test_agent_with_seats_in_the_farm_file_is_these_seats() -> None:
    """Otherwise boards behind an agent would miss the night's campaign, or be taken twice."""
    board = FarmDevice(labels=("board",))
    farm = Farm(device={"pi4/nucleo": board, "pi4/machine": FarmDevice(), "gone/x": board})
    seats = [PI4.at_seat("nucleo"), PI4.at_seat("machine")]
    assert [seat.name for seat in seats] == ["pi4/nucleo", "pi4/machine"]
    assert select(["all"], [PI4, PI5], farm) == [PI5, *seats]
    assert select(["label:board"], [PI4, PI5], farm) == seats[:1]
    assert select(["pi4/other,pi5"], [PI4, PI5], farm) == [PI4.at_seat("other"), PI5]
