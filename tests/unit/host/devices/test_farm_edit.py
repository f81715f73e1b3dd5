"""Changes of the farm file: what a person wrote around them stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.host.devices.farm import load_farm
from edgebench.host.devices.farm_edit import MAX_LABELS, change_labels, rename_device
from edgebench.host.devices.files import KnownDevice
from edgebench.protocol.errors import StoreError, UsageError

PI = KnownDevice("pi5", "05bb", "p" * 43, ("192.0.2.5",), 7747)
RACK = replace(PI, name="rack", id="06cc")
SEAT = RACK.at_seat("rock-5b")
TEXT = """\
# our farm
schema = 1
parallel = 2      # the lab has one switch

[device.pi5]      # by the window
labels = ["pi", "rack-2"]   # both
meter = "synthetic:constant,power=1"

# behind it
[device."rack/rock-5b"]
labels = [
    "board",
    "old",
]

[device.local]
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A farm file with comments."""
    made = tmp_path / "farm.toml"
    made.write_text(TEXT)
    return made


def test_label_changes_nothing_else(path: Path) -> None:
    """Otherwise the first command would remove the user's comments and order of a file."""
    assert change_labels(path, PI, add=["fast", "pi"], remove=["rack-2", "no"]) == ("pi", "fast")
    assert path.read_text() == TEXT.replace('["pi", "rack-2"]', '["pi", "fast"]')


def test_label_of_a_seat(path: Path) -> None:
    """Otherwise a device behind an agent could not have labels, or its agent would get them."""
    assert change_labels(path, SEAT, add=[], remove=["board"]) == ("old",)
    assert load_farm(path).device["rack/rock-5b"].labels == ("old",)
    assert change_labels(path, RACK, add=["shelf"], remove=[]) == ("shelf",)
    assert load_farm(path).device["rack"].labels == ("shelf",)
    assert path.read_text().startswith(TEXT.split("# behind it")[0])


def test_device_by_its_id_keeps_its_table(tmp_path: Path) -> None:
    """Otherwise a device would have two tables, one of which is ignored."""
    path = tmp_path / "farm.toml"
    path.write_text('schema = 1\n[device.05bb]\nmeter = "agent:hwmon"\n')
    change_labels(path, PI, add=["pi"], remove=[])
    assert list(load_farm(path).device) == ["05bb"]
    assert load_farm(path).entry(PI).meter == "agent:hwmon"


def test_first_label_makes_the_file(tmp_path: Path) -> None:
    """Otherwise a user without a farm file would have to write a file first."""
    path = tmp_path / "new" / "farm.toml"
    assert change_labels(path, PI, add=["pi"], remove=[]) == ("pi",)
    assert load_farm(path).entry(PI).labels == ("pi",)


def test_renamed_device_takes_its_tables_and_those_of_its_seats_along(path: Path) -> None:
    """Otherwise a renamed device would lose labels and meter, or its agent's seats would."""
    assert rename_device(path, "pi5", "window-pi")
    assert rename_device(path, "rack", "shelf")
    assert not rename_device(path, "nano", "jetson")
    changed = TEXT.replace("[device.pi5] ", "[device.window-pi] ")
    assert path.read_text() == changed.replace('"rack/rock-5b"', '"shelf/rock-5b"')


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "[device]\npi5 = {labels = ['pi5']}  # in\n",
            "[device]\nnew = {labels = ['pi5']}  # in\n",
        ),
        ("device.pi5.labels = ['pi5']\r\n", "device.new.labels = ['pi5']\r\n"),
        ("[device]\npi5.labels = ['pi5']\n", "[device]\nnew.labels = ['pi5']\n"),
        ('[ device . "pi5" ]\nlabels = ["pi5"]\n', '[ device . new ]\nlabels = ["pi5"]\n'),
        ("['device'.'pi5']\n[device.pi50]\n", "['device'.new]\n[device.pi50]\n"),
    ],
)
def test_any_way_to_write_a_name(tmp_path: Path, before: str, after: str) -> None:
    """Otherwise a file in another style would be refused, or a label like the name be changed."""
    path = tmp_path / "farm.toml"
    path.write_bytes(f"schema = 1\n{before}".encode())
    assert rename_device(path, "pi5", "new")
    assert path.read_bytes().decode() == f"schema = 1\n{after}"


def test_file_that_is_not_understood_is_not_changed(tmp_path: Path) -> None:
    """Otherwise a rare way to write TOML would cost the labels of all devices."""
    path = tmp_path / "farm.toml"
    text = 'schema = 1\n[device."pi\\u0035"]\nmeter = """\n[device.pi5]\n"""\n'
    path.write_text(text)
    with pytest.raises(StoreError, match="not changed: its formatting is not supported"):
        rename_device(path, "pi5", "new")
    assert path.read_text() == text


def test_name_that_the_file_has_is_refused(path: Path) -> None:
    """Otherwise two devices would share labels and a meter."""
    with pytest.raises(UsageError, match="already has a device 'pi5'"):
        rename_device(path, "local", "pi5")
    assert path.read_text() == TEXT


@pytest.mark.parametrize("label", ["", "a b", "a,b", "a:b", "\x1b"])
def test_word_that_no_condition_could_name_is_no_label(path: Path, label: str) -> None:
    """Otherwise the next command would refuse the farm file."""
    with pytest.raises(UsageError, match="label must be a word"):
        change_labels(path, PI, add=[label], remove=[])
    assert path.read_text() == TEXT


def test_labels_have_a_limit(path: Path) -> None:
    """Otherwise a script in a loop could fill the file."""
    with pytest.raises(UsageError, match=f"limit {MAX_LABELS}"):
        change_labels(path, PI, add=[str(i) for i in range(MAX_LABELS)], remove=[])


def test_link_and_mode_of_the_file_stay(path: Path, tmp_path: Path) -> None:
    """Otherwise a farm file in a repository would be replaced by a private copy."""
    path.chmod(0o640)
    link = tmp_path / "link.toml"
    link.symlink_to(path)
    change_labels(link, PI, add=["new"], remove=[])
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert "new" in load_farm(path).entry(PI).labels
