"""Made-up boards: what each exposes under /proc and /sys, and its commands.

`make_board(tmp_path, BOARDS["raspberry_pi_5"])` writes one; a test then changes single files, by
their path under /sys/class too, or the values under sim/ that a command prints.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from support.boards import (
    android_8,
    android_11,
    android_16,
    android_phone,
    bare_vm,
    beaglebone_black,
    imx8mp_evk,
    jetson_nano,
    jetson_orin_nano,
    khadas_vim3,
    raspberry_pi_3b_plus,
    raspberry_pi_4b,
    raspberry_pi_5,
    raspberry_pi_zero_2_w,
    rock_5b,
    x86_laptop,
)
from support.trees import make_tree

__all__ = ["BOARDS", "BoardTree", "make_board"]

_CLASS_DEVICE = re.compile(r"sys/class/([^/]+)/([^/]+)/(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardTree:
    """A board that tests can make under a root."""

    name: str
    profile: str
    """Id of the profile that fits."""
    identity: Mapping[str, str]
    """What the board shows of itself elsewhere than in files."""
    files: Mapping[str, str | bytes]
    links: Mapping[str, str]
    """Target by path."""
    commands: Mapping[str, str]
    """Shell script by path."""

    @property
    def machine(self) -> str:
        """As uname(1) prints it."""
        return self.identity["machine"]


class _Module(Protocol):
    # Properties, since a module's constant may be a mapping of a narrower type; hence the names.
    PROFILE: str

    @property
    def __name__(self) -> str: ...
    @property
    def IDENTITY(self) -> Mapping[str, str]: ...  # noqa: N802  # named as in the module
    @property
    def FILES(self) -> Mapping[str, str | bytes]: ...  # noqa: N802  # named as in the module
    @property
    def LINKS(self) -> Mapping[str, str]: ...  # noqa: N802  # named as in the module
    @property
    def COMMANDS(self) -> Mapping[str, str]: ...  # noqa: N802  # named as in the module


def _board(module: _Module) -> BoardTree:
    return BoardTree(
        name=module.__name__.rpartition(".")[2],
        profile=module.PROFILE,
        identity=module.IDENTITY,
        files=module.FILES,
        links=module.LINKS,
        commands=module.COMMANDS,
    )


_ALL = (
    _board(raspberry_pi_zero_2_w),
    _board(raspberry_pi_3b_plus),
    _board(raspberry_pi_4b),
    _board(raspberry_pi_5),
    _board(jetson_nano),
    _board(jetson_orin_nano),
    _board(rock_5b),
    _board(imx8mp_evk),
    _board(beaglebone_black),
    _board(khadas_vim3),
    _board(x86_laptop),
    _board(bare_vm),
    _board(android_phone),
    _board(android_8),
    _board(android_11),
    _board(android_16),
)
BOARDS: dict[str, BoardTree] = {board.name: board for board in _ALL}
"""By the name of the module."""


def make_board(root: Path, board: BoardTree) -> Path:
    """Write a board's files, links and commands under a root.

    What is in /sys/class lies under /sys/devices/virtual, with a link to each device, as on a
    real system: code that walks without following links finds nothing.
    """
    make_tree(root, {_real(path): content for path, content in board.files.items()})
    devices = {match.group(1, 2) for path in board.files if (match := _CLASS_DEVICE.match(path))}
    for kind, name in sorted(devices):
        _link(root / f"sys/class/{kind}/{name}", f"../../devices/virtual/{kind}/{name}")
    for path, target in board.links.items():
        _link(root / _real(path), target)
    make_tree(root, board.commands)
    for path in board.commands:
        (root / path).chmod(0o755)
    return root


def _real(path: str) -> str:
    return _CLASS_DEVICE.sub(r"sys/devices/virtual/\1/\2/\3", path)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
