"""Which board is this? The most specific profile that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgebench.device_profiles.match import DeviceIdentity, match_profile
from edgebench.device_profiles.schema import Match, Profile, UsbId

PI_5 = DeviceIdentity(machine="aarch64", dt_compatible=("raspberrypi,5-model-b", "brcm,bcm2712"))


def profile(name: str, *matches: Match) -> Profile:
    """A profile with these conditions."""
    return Profile(schema=1, id=name, name=name, device_class="linux-sbc", match=matches)


ANY = profile("any", Match())
ARM = profile("arm", Match(machine="aarch64"))
PI = profile("pi", Match(dt_compatible=("raspberrypi,5-model-b", "raspberrypi,4-model-b")))
PI_ARM = profile("pi-arm", Match(machine="aarch64", dt_compatible=("raspberrypi,5-model-b",)))


@pytest.mark.parametrize(
    ("profiles", "identity", "expected"),
    [
        ((ANY, ARM, PI, PI_ARM), PI_5, "pi-arm"),
        ((PI_ARM, PI, ARM, ANY), PI_5, "pi-arm"),
        ((ANY, ARM, PI_ARM), replace(PI_5, machine="armv7l"), "any"),
        ((ANY, PI), replace(PI_5, machine="armv7l"), "pi"),
        ((ANY, ARM, PI), replace(PI_5, dt_compatible=("khadas,vim3",)), "arm"),
        ((ANY, ARM, PI), DeviceIdentity(machine="riscv64"), "any"),
    ],
)
def test_most_specific_profile_that_fits_wins(
    profiles: tuple[Profile, ...], identity: DeviceIdentity, expected: str
) -> None:
    """Otherwise a board would be taken for another one, depending on the order of files."""
    assert match_profile(identity, profiles).id == expected


def test_one_of_several_alternatives_is_enough() -> None:
    """Otherwise a profile for two boards would fit neither."""
    both = profile("both", Match(machine="armv7l"), Match(machine="aarch64"))
    assert match_profile(DeviceIdentity(machine="aarch64"), (ANY, both)).id == "both"


def test_priority_decides_between_equally_specific_matches() -> None:
    """Otherwise the order of files would decide which of two profiles a board has."""
    first = profile("z", Match(machine="aarch64"))
    second = profile("a", Match(machine="aarch64", priority=1))
    assert match_profile(DeviceIdentity(machine="aarch64"), (ANY, first, second)).id == "a"


@pytest.mark.parametrize(
    ("condition", "fitting"),
    [
        (Match(cpuinfo_model_contains="N100"), DeviceIdentity(cpuinfo_model="Intel(R) N100")),
        (Match(dmi_product="Board 7"), DeviceIdentity(dmi_product="Board 7")),
        (Match(adb_device="shiba"), DeviceIdentity(adb_device="shiba")),
        (Match(usb=(UsbId(vid=1, pid=2), UsbId(vid=3, pid=4))), DeviceIdentity(usb=(3, 4))),
        (Match(mbed_id="0776"), DeviceIdentity(mbed_id="0776")),
    ],
)
def test_every_condition_decides(condition: Match, fitting: DeviceIdentity) -> None:
    """Otherwise a condition of a profile would be read and never be checked."""
    one = profile("one", condition)
    assert match_profile(fitting, (ANY, one)).id == "one"
    assert match_profile(DeviceIdentity(machine="x86_64"), (ANY, one)).id == "any"


@pytest.mark.parametrize(
    ("machine", "expected"),
    [("x86_64", "generic-x86_64"), ("aarch64", "generic-arm64"), ("mips", "generic-linux")],
)
def test_every_machine_has_a_profile(machine: str, expected: str) -> None:
    """Otherwise an agent would not start on an unforeseen machine."""
    assert match_profile(DeviceIdentity(machine=machine)).id == expected
