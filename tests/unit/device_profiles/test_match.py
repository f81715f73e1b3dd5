"""Which board is this? The most specific profile that fits."""

from __future__ import annotations

import pytest

from edgebench.device_profiles.match import match_profile
from edgebench.device_profiles.schema import Match, Profile

PI_5 = ("raspberrypi,5-model-b", "brcm,bcm2712")


def profile(name: str, *matches: Match) -> Profile:
    """A profile with these conditions."""
    return Profile(name, name, "linux-sbc", matches)


ANY = profile("any", Match())
ARM = profile("arm", Match("aarch64"))
PI = profile("pi", Match(None, ("raspberrypi,5-model-b", "raspberrypi,4-model-b")))
PI_ARM = profile("pi-arm", Match("aarch64", ("raspberrypi,5-model-b",)))


@pytest.mark.parametrize(
    ("profiles", "arch", "compatible", "expected"),
    [
        ((ANY, ARM, PI, PI_ARM), "aarch64", PI_5, "pi-arm"),
        ((PI_ARM, PI, ARM, ANY), "aarch64", PI_5, "pi-arm"),
        ((ANY, ARM, PI_ARM), "armv7l", PI_5, "any"),
        ((ANY, PI), "armv7l", PI_5, "pi"),
        ((ANY, ARM, PI), "aarch64", ("khadas,vim3",), "arm"),
        ((ANY, ARM, PI), "riscv64", (), "any"),
    ],
)
def test_most_specific_profile_that_fits_wins(
    profiles: tuple[Profile, ...], arch: str, compatible: tuple[str, ...], expected: str
) -> None:
    """A board is taken for another one, depending on the order of files."""
    found = match_profile(arch=arch, dt_compatible=compatible, profiles=profiles)
    assert found.id == expected


def test_one_of_several_alternatives_is_enough() -> None:
    """A profile for two boards fits neither."""
    both = profile("both", Match("armv7l"), Match("aarch64"))
    assert match_profile(arch="aarch64", profiles=(ANY, both)).id == "both"


@pytest.mark.parametrize(
    ("arch", "expected"),
    [("x86_64", "generic-x86_64"), ("aarch64", "generic-arm64"), ("mips", "generic-linux")],
)
def test_every_machine_has_a_profile(arch: str, expected: str) -> None:
    """An agent does not start on a machine that nobody thought of."""
    assert match_profile(arch=arch).id == expected
