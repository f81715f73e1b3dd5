"""The farm file: read strictly, and errors name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgebench.host.devices.farm import Farm, FarmDevice, farm_path, load_farm
from edgebench.host.devices.files import KnownDevice
from edgebench.protocol.errors import StoreError, UsageError

PI = KnownDevice("pi", "01", "p" * 43, ("192.0.2.1",), 7747)
GOOD = """\
schema = 1
parallel = 2

[device.pi]
labels = ["rack-1", "pi"]
meter = "ppk2:/dev/ttyACM0"

[device.local]
"""


def test_farm_file_says_what_is_wired_to_a_device(tmp_path: Path) -> None:
    """Otherwise labels or a meter would be read as those of another device."""
    (tmp_path / "farm.toml").write_text(GOOD)
    farm = load_farm(farm_path(tmp_path))
    assert farm.parallel == 2
    assert farm.has_this_machine
    assert farm.entry(PI) == FarmDevice(labels=("rack-1", "pi"), meter="ppk2:/dev/ttyACM0")
    assert farm.entry(KnownDevice("nano", "02", "n" * 43, (), 1)) == FarmDevice()


def test_farm_file_of_the_documentation_is_one(tmp_path: Path) -> None:
    """Otherwise the example that every user starts from would be refused."""
    page = Path(__file__).parents[4] / "docs" / "farm.md"
    (tmp_path / "farm.toml").write_text(page.read_text().split("```toml\n")[1].split("```")[0])
    assert load_farm(tmp_path / "farm.toml").device["pi5"].labels == ("pi", "rack-2")


def test_no_farm_file_is_an_empty_farm(tmp_path: Path) -> None:
    """Otherwise a user with a single board would have to write a file first."""
    assert load_farm(tmp_path / "farm.toml") == Farm()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("parallel = 2\n", ":1: schema: is missing; the file must begin with schema = 1"),
        ("schema = 1\nparalel = 2\n", ":2: paralel: no such key"),
        ("schema = 1\nparallel = 0\n", r":2: parallel: must be 1..64, got 0"),
        ("schema = 1\nparallel = '2'\n", ":2: parallel: expected int, got str"),
        ("schema = 1\n[device.pi]\nlabel = ['a']\n", ":3: device.pi.label: no such key"),
        ("schema = 1\n[device.pi]\nlabels = 'a'\n", ":3: device.pi.labels: expected a list"),
        ("schema = 1\n[device.pi]\nlabels = ['a b']\n", "without commas, colons and spaces"),
        ("schema = 1\n[device.pi\n", "farm.toml: "),
    ],
)
def test_mistake_in_a_farm_file_is_named_with_its_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    """Otherwise a misspelt key would be ignored, and the next board's meter be used."""
    path = tmp_path / "farm.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        load_farm(path)


def test_farm_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Otherwise a directory, or a film of gigabytes, would end in a traceback."""
    (tmp_path / "farm.toml").mkdir()
    with pytest.raises(StoreError, match=r"farm file not readable: Is a directory: .*farm\.toml"):
        load_farm(tmp_path / "farm.toml")
    (tmp_path / "long.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(StoreError, match="over 1048576 bytes"):
        load_farm(tmp_path / "long.toml")
