"""Which machine an agent is on, and that its identity stays there when its card is moved."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.disks import read_only
from support.trees import RASPBERRY_PI_5, X86_VM, make_tree

from edgebench.agent import agent as agent_module
from edgebench.agent.agent import AgentSettings, machine_seat
from edgebench.agent.files import write_private
from edgebench.agent.hardware import (
    HARDWARE_FILE,
    changed_hardware,
    read_hardware,
    remember_hardware,
)
from edgebench.agent.identity import Trust
from edgebench.protocol.errors import TargetError
from edgebench.protocol.hardware import BoardChange, Hardware
from edgebench.protocol.identity import der_of, new_identity, pairing_identity

SERIAL = "proc/device-tree/serial-number"
PI = Hardware("5a" * 8, ("01", "02"))
OTHER = Hardware("5b" * 8, ("03",))


def with_interface(
    root: Path, name: str, address: str, *, bus: str = "pci0000:00/0000:00:01.0", assigned: int = 0
) -> None:
    """Add a network interface with a device behind it, as sysfs shows one."""
    folder = f"sys/devices/{bus}/net/{name}"
    make_tree(root, {f"{folder}/address": f"{address}\n"})
    make_tree(root, {f"{folder}/addr_assign_type": f"{assigned}\n"})
    (root / folder / "device").symlink_to("../..")
    networks = root / "sys/class/net"
    networks.mkdir(parents=True, exist_ok=True)
    (networks / name).symlink_to(root / folder)


def test_built_in_network_cards_are_evidence(tmp_path: Path) -> None:
    """Otherwise a board without a serial number could not be distinguished from its copy."""
    with_interface(tmp_path, "eth0", "DC:A6:32:00:00:01")
    with_interface(tmp_path, "wlan0", "dc:a6:32:00:00:02", bus="platform/soc/mmc1")
    cards = read_hardware(tmp_path).network_cards
    assert len(cards) == 2
    assert "a632" not in "".join(cards)
    (tmp_path / "sys/class/net/wlan0").unlink()
    assert set(read_hardware(tmp_path).network_cards) < set(cards)


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("dc:a6:32:00:00:03", {"bus": "pci0000:00/0000:00:14.0/usb1/1-1/1-1:1.0"}),
        ("dc:a6:32:00:00:03", {"assigned": 1}),
        ("dc:a6:32:00:00:03", {"assigned": 3}),
        ("de:a6:32:00:00:03", {}),
        ("dd:a6:32:00:00:03", {}),
        ("52:54:00:12:34:56", {}),
        ("00:00:00:00:00:00", {}),
        ("dc:a6:32:00:00:00", {}),
        ("nonsense", {}),
        ("", {}),
    ],
    ids=str,
)
def test_what_moves_or_is_drawn_is_no_evidence(
    tmp_path: Path, address: str, options: Mapping[str, str | int]
) -> None:
    """Otherwise a dongle, a random address or a virtual machine's would make a new board."""
    with_interface(tmp_path, "eth0", address, **options)  # type: ignore[arg-type]
    assert read_hardware(tmp_path).network_cards == ()


def test_interface_without_a_device_is_no_evidence(tmp_path: Path) -> None:
    """Otherwise each container and bridge would make a new board."""
    for name in ("lo", "docker0", "veth1", "wire"):
        make_tree(tmp_path, {f"sys/class/net/{name}/address": "dc:a6:32:00:00:05\n"})
        make_tree(tmp_path, {f"sys/class/net/{name}/addr_assign_type": "0\n"})
    assert read_hardware(tmp_path) == Hardware()
    assert read_hardware(tmp_path / "nothing") == Hardware()


@pytest.mark.parametrize(
    ("files", "is_one"),
    [
        ({SERIAL: "10000000a1b2c3d4\0"}, True),
        ({"sys/class/dmi/id/board_serial": "PF1ABC2345\n"}, True),
        ({"sys/class/dmi/id/product_uuid": "4C4C4544-0042-3510-8052-B7C04F4E3732\n"}, True),
        ({"sys/class/dmi/id/board_serial": "Default string\n"}, False),
        ({"sys/class/dmi/id/board_serial": "To be filled by O.E.M.\n"}, False),
        ({"sys/class/dmi/id/board_serial": "System Serial Number\n"}, False),
        ({"sys/class/dmi/id/board_serial": "00000000\n"}, False),
        ({"sys/class/dmi/id/product_uuid": "03000200-0400-0500-0006-000700080009\n"}, False),
    ],
    ids=str,
)
def test_serial_numbers_that_makers_leave_are_none(
    tmp_path: Path, files: Mapping[str, str], is_one: bool
) -> None:
    """Otherwise all boards of a maker would be one, or none would be known by its own number."""
    assert bool(read_hardware(make_tree(tmp_path, files)).board) is is_one


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (PI, PI, None),
        (PI, OTHER, BoardChange.SERIAL),
        (PI, Hardware(PI.board, OTHER.network_cards), None),
        (PI, Hardware("", ("02", "07")), None),
        (PI, Hardware("", ("07",)), BoardChange.NETWORK_CARDS),
        (PI, Hardware(OTHER.board, PI.network_cards), BoardChange.SERIAL),
        (PI, Hardware(), None),
        (Hardware(), PI, None),
        (Hardware("", ("01",)), PI, None),
        (Hardware("", ("07",)), PI, BoardChange.NETWORK_CARDS),
    ],
)
def test_serial_number_decides_and_network_cards_only_if_all_are_others(
    tmp_path: Path, before: Hardware, now: Hardware, change: BoardChange | None
) -> None:
    """Otherwise a new network card would make a new board, or a moved card would make none."""
    remember_hardware(tmp_path, before)
    assert changed_hardware(tmp_path, now) is change


def test_what_is_not_shown_now_is_still_known(tmp_path: Path) -> None:
    """Otherwise a start without root's rights would forget the board, and miss the next copy."""
    remember_hardware(tmp_path, PI)
    remember_hardware(tmp_path, Hardware("", PI.network_cards))
    assert changed_hardware(tmp_path, OTHER) is BoardChange.SERIAL
    assert (tmp_path / HARDWARE_FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", ["", "{", "5", '{"board": 1}', "\x00"])
def test_damaged_file_is_no_other_board(tmp_path: Path, content: str) -> None:
    """Otherwise a torn file would cost every pairing."""
    (tmp_path / HARDWARE_FILE).write_text(content)
    assert changed_hardware(tmp_path, PI) is None
    remember_hardware(tmp_path, PI)
    assert json.loads((tmp_path / HARDWARE_FILE).read_text())["board"] == PI.board


# The identity.


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The configuration of an agent on a Raspberry Pi, which trusts a host."""
    directory = tmp_path / "config"
    directory.mkdir()
    identity = new_identity("board")
    write_private(directory / "identity.pem", identity.key_pem + identity.certificate_pem)
    trust = Trust(directory, hardware=PI)
    once = pairing_identity(b"sixteen bytes ok")
    trust.open_pairing(once.certificate_pem, 10)
    peer = trust.peer(der_of(once.certificate_pem))
    assert peer is not None
    trust.pair(peer, new_identity("host").certificate_pem, "host")
    assert trust.change is None
    return directory


def test_identity_stays_on_its_board(config: Path) -> None:
    """Otherwise each start, or each new network card, would cost every pairing."""
    first = Trust(config, hardware=PI)
    for hardware in (PI, Hardware(PI.board, ("09",)), Hardware(), Hardware("", ("09",))):
        trust = Trust(config, hardware=hardware)
        assert (trust.fingerprint, trust.change) == (first.fingerprint, None)
        assert [host.name for host in trust.hosts] == ["host"]


def test_other_board_has_an_identity_of_its_own(config: Path) -> None:
    """Otherwise a copy of a card would pass for the board that it was copied from."""
    first = Trust(config, hardware=PI)
    copy = Trust(config, hardware=OTHER)
    assert copy.fingerprint != first.fingerprint
    assert copy.change is BoardChange.SERIAL
    assert copy.hosts == ()
    again = Trust(config, hardware=OTHER)
    assert (again.fingerprint, again.change) == (copy.fingerprint, None)


def test_identity_of_an_older_version_stays_where_it_is(config: Path) -> None:
    """Otherwise an update would cost every pairing."""
    before = Trust(config, hardware=PI).fingerprint
    (config / HARDWARE_FILE).unlink()
    trust = Trust(config, hardware=OTHER)
    assert (trust.fingerprint, trust.change) == (before, None)


def test_identity_that_cannot_be_renewed_is_not_used(
    config: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a copy on a read-only root would pass for the board that it was copied from."""
    before = Trust(config, hardware=PI).fingerprint
    with read_only(config):
        with pytest.raises(TargetError, match="and a new identity cannot be written"):
            Trust(config, hardware=OTHER)
        assert Trust(config, hardware=PI).fingerprint == before
        assert caplog.messages == []
        assert Trust(config, hardware=Hardware(PI.board, ("09",))).fingerprint == before
    assert "a copy of this SD card will not be detected: Read-only file system" in caplog.text


# The device.


def device_id(state: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Id of the device that an agent with this state is, on the machine below a root."""
    monkeypatch.setattr(agent_module, "ROOT", root)
    settings = AgentSettings(config=state, state=state)
    return machine_seat(settings, read_hardware(root)).device.id


def test_copy_is_another_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise results of boards with one machine id would go to one history."""
    state = tmp_path / "state"
    state.mkdir()
    roots = [make_tree(tmp_path / name, X86_VM) for name in "ab"]
    for number, root in enumerate(roots):
        with_interface(root, "eth0", f"dc:a6:32:00:00:{number + 1:02x}")
    first = device_id(state, roots[0], monkeypatch)
    assert device_id(state, roots[0], monkeypatch) == first
    second = device_id(state, roots[1], monkeypatch)
    assert second != first
    assert device_id(state, roots[1], monkeypatch) == second


def test_board_with_a_serial_number_keeps_its_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a card that was in another board for a while would end the history of its own."""
    state = tmp_path / "state"
    state.mkdir()
    roots = [
        make_tree(tmp_path / serial, RASPBERRY_PI_5, {SERIAL: f"{serial}\0"})
        for serial in ("10000000a1b2c3d4", "10000000a1b2c3d5")
    ]
    ids = [device_id(state, roots[number], monkeypatch) for number in (0, 1, 0)]
    assert ids[0] == ids[2] != ids[1]
