"""Which known device an agent is taken for, when its certificate is new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from support.records import DEVICE

from edgebench.host.cli import pair as command
from edgebench.host.client import Client
from edgebench.host.devices import pairing
from edgebench.host.devices.farm import load_farm
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import DeviceHealth, HealthFiles
from edgebench.host.devices.roster import take_over
from edgebench.host.lab import Lab
from edgebench.protocol.errors import BoardKnown

PIN = "n" * 43
PI = KnownDevice("pi5", "05bb", "p" * 43, ("192.0.2.5",), 7747, board="b5")


def same_board(
    tmp_path: Path, known: KnownDevice, *, id_: str, board: str, pin: str = PIN
) -> str | None:
    """Name of the device that an agent is taken for."""
    files = HostFiles(tmp_path)
    files.remember(known)
    client = SimpleNamespace(device=replace(DEVICE, id=id_), board=board)
    found = pairing._on_same_board(files, cast(Client, client), pin)
    return found.name if found else None


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """No known device responds."""
    monkeypatch.setattr(pairing, "_answers", lambda *_: False)


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    ("known_board", "id_", "board", "is_same"),
    [
        ("b5", "new", "b5", True),
        ("b5", "05bb", "b5", True),
        ("b5", "05bb", "b6", False),
        ("", "05bb", "", True),
        ("", "new", "", False),
        ("b5", "05bb", "", True),
        ("", "05bb", "b5", True),
        ("", "new", "b5", False),
    ],
)
def test_board_outweighs_the_machine_id(
    tmp_path: Path, known_board: str, id_: str, board: str, is_same: bool
) -> None:
    """Otherwise a copy of an SD card would take the name of the board it was copied from."""
    known = replace(PI, board=known_board)
    assert same_board(tmp_path, known, id_=id_, board=board) == ("pi5" if is_same else None)


@pytest.mark.usefixtures("silent")
def test_agent_with_the_same_certificate_is_asked_nothing(tmp_path: Path) -> None:
    """Otherwise pairing again after a lost list would need an option."""
    assert same_board(tmp_path, PI, id_="05bb", board="b5", pin=PI.pin) is None


def test_device_that_still_answers_was_not_set_up_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a second agent on a machine would take the place of the first."""
    monkeypatch.setattr(pairing, "_answers", lambda *_: True)
    assert same_board(tmp_path, PI, id_="05bb", board="b5") is None


def test_device_set_up_anew_keeps_name_labels_and_history(tmp_path: Path) -> None:
    """Otherwise the board would be a stranger without a meter after a new SD card image."""
    files, health, farm = HostFiles(tmp_path), HealthFiles(tmp_path), tmp_path / "farm.toml"
    farm.write_text('schema = 1\n[device.05bb]\nlabels = ["pi"]\n')
    files.remember(PI)
    health.quarantine(PI, "unreachable", "it was being set up")
    anew = replace(PI, id="77aa", pin=PIN)
    files.remember(anew)
    take_over(files, health, farm, PI, anew)
    assert files.devices() == (anew,)
    assert load_farm(farm).entry(anew).labels == ("pi",)
    assert health.of(anew).quarantine_reason == "it was being set up"
    assert health.of(PI) == DeviceHealth()


@pytest.mark.parametrize(
    ("option", "typed", "is_terminal", "expected"),
    [
        ("--replace", "", False, True),
        ("--add", "", False, False),
        (None, "y\n", True, True),
        (None, "Yes\n", True, True),
        (None, "\n", True, False),
        (None, "n\n", True, False),
        (None, "", True, False),
    ],
)
def test_replacing_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: str | None,
    typed: str,
    is_terminal: bool,
    expected: bool,
) -> None:
    """Otherwise a device would be replaced silently, or a script wait for ever for a reply."""
    assert decided(monkeypatch, option, typed, is_terminal=is_terminal) is expected
    said = capsys.readouterr()
    assert ("[y/N]" in said.err) == is_terminal
    assert said.out.startswith("paired with pi5 ")


def test_script_is_told_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a script would wait for a reply that is never typed."""
    with pytest.raises(
        BoardKnown,
        match="agent has a new certificate, but is on the board of 'pi5', and 'pi5' does not ",
    ):
        decided(monkeypatch, None, "y\n", is_terminal=False)


def decided(
    monkeypatch: pytest.MonkeyPatch, option: str | None, typed: str, *, is_terminal: bool
) -> bool:
    """Whether the command lets an agent on the board of `pi5` take its place."""
    answers: list[bool] = []

    def pair(lab: Lab, text: str, decide: pairing.Decide) -> KnownDevice:
        answers.append(decide(PI, True))
        return PI

    monkeypatch.setattr(Lab, "pair", pair)
    for name in ("stdin", "stderr"):
        monkeypatch.setattr(f"sys.{name}.isatty", lambda: is_terminal, raising=False)
    monkeypatch.setattr(
        "sys.stdin", SimpleNamespace(isatty=lambda: is_terminal, readline=lambda: typed)
    )
    command.run(command.parser().parse_args(["edgebench://x", *([option] if option else [])]))
    return answers[0]
