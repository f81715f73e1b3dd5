"""Profiles are read strictly: a misspelt expectation must not pass for an absent one."""

from __future__ import annotations

import pytest

from edgebench.device_profiles.schema import Match, load_profiles, parse_profile
from edgebench.protocol.errors import UsageError

GOOD = """
schema = 1
id = "raspberry-pi-5"
name = "Raspberry Pi 5"
class = "linux-sbc"

[[match]]
arch = "aarch64"
dt_compatible = ["raspberrypi,5-model-b", "raspberrypi,500"]
"""


def changed(old: str, new: str) -> str:
    """The good profile with one thing changed."""
    assert old in GOOD
    return GOOD.replace(old, new)


def test_good_profile_is_read_whole() -> None:
    """A field of a profile is lost."""
    profile = parse_profile(GOOD, "rpi5.toml")
    assert (profile.id, profile.name) == ("raspberry-pi-5", "Raspberry Pi 5")
    assert profile.device_class == "linux-sbc"
    assert profile.matches == (Match("aarch64", ("raspberrypi,5-model-b", "raspberrypi,500")),)
    assert profile.matches[0].specificity == 2


def test_shipped_profiles_are_good_and_named_after_their_files() -> None:
    """A profile in the package breaks every agent that starts."""
    profiles = load_profiles()
    ids = [profile.id for profile in profiles]
    assert len(set(ids)) == len(ids) >= 3
    assert {"generic-linux", "generic-arm64", "generic-x86_64"} <= set(ids)
    assert all(profile.matches for profile in profiles)


AGAINST_THE_SCHEMA = {
    "empty": "",
    "no TOML": "schema = ",
    "newer schema": changed("schema = 1", "schema = 2"),
    "schema as text": changed("schema = 1", 'schema = "1"'),
    "no id": changed('id = "raspberry-pi-5"\n', ""),
    "empty id": changed('id = "raspberry-pi-5"', 'id = ""'),
    "number as id": changed('id = "raspberry-pi-5"', "id = 5"),
    "no name": changed('name = "Raspberry Pi 5"\n', ""),
    "unknown class": changed('"linux-sbc"', '"linux-sbcc"'),
    "misspelt key": changed("class =", "clas ="),
    "additional key": changed("schema = 1", "schema = 1\ncolour = 1"),
    "additional match key": changed('arch = "aarch64"', 'arch = "aarch64"\nsoc = "bcm2712"'),
    "number as arch": changed('arch = "aarch64"', "arch = 64"),
    "text for a list": changed('["raspberrypi,5-model-b", "raspberrypi,500"]', '"raspberrypi,5"'),
    "numbers for texts": changed('["raspberrypi,5-model-b", "raspberrypi,500"]', "[5]"),
    "one match for several": changed("[[match]]", "[match]"),
    "number as match": "match = 5\n" + GOOD.partition("[[match]]")[0],
    "texts as matches": 'match = ["aarch64"]\n' + GOOD.partition("[[match]]")[0],
}


@pytest.mark.parametrize("what", AGAINST_THE_SCHEMA)
def test_anything_against_the_schema_is_an_error_that_names_the_file(what: str) -> None:
    """A misspelt or mistyped key is ignored, or ends in a traceback."""
    with pytest.raises(UsageError, match=r"^rpi5\.toml: "):
        parse_profile(AGAINST_THE_SCHEMA[what], "rpi5.toml")
