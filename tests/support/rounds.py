"""Recordings of meters that are files: a test changes the files and the clock, round by round."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgebench.meters.base import AbsentMeter, Header, Meter
from edgebench.meters.file_meter import FileMeter
from edgebench.meters.polled import PolledSession
from support.recordings import Decoded, decoded

Change = Callable[[], object]


class Ticks:
    """A clock that a test moves; each look at it takes so long."""

    def __init__(self, look_ns: int = 1000) -> None:
        self.now_ns = 0
        self.look_ns = look_ns

    def __call__(self) -> int:
        self.now_ns += self.look_ns
        return self.now_ns


def opened(meter: Meter) -> Header:
    """The header of a meter that must be there."""
    header = meter.open()
    assert not isinstance(header, AbsentMeter), header.reason
    return header


def refused(meter: Meter) -> str:
    """Why a meter cannot be used."""
    header = meter.open()
    assert isinstance(header, AbsentMeter)
    assert "\n" not in header.reason
    return header.reason


def record(
    meter: Meter,
    clock: Ticks,
    path: Path,
    changes: Sequence[Change],
    *,
    every_s: float,
) -> Callable[[int], Decoded]:
    """One round for each change, made before it; gives what was recorded of a channel."""
    opened(meter)
    session = meter.session(path)
    assert isinstance(session, PolledSession)
    session._is_over.set()  # the thread ends at once: rounds are made here
    changes[0]()
    with session:
        for index, change in enumerate(changes[1:], start=1):
            clock.now_ns += round(every_s * 1e9)
            change()
            if index < len(changes) - 1:  # the end of the session makes the last
                session._keep()
    meter.close()
    return partial(decoded, path)


def writing(folder: Path, **files: object) -> Change:
    """Changes files in place, as the kernel does: the meter keeps them open."""

    def change() -> None:
        for name, value in files.items():
            with (folder / name).open("w") as file:
                file.write(f"{value}\n")

    return change


def breaking(meter: FileMeter, index: int) -> Change:
    """Makes reads of an open file fail, as when its chip is gone from the bus."""

    def change() -> None:
        assert meter._connection is not None
        directory = os.open("/", os.O_RDONLY)
        os.dup2(directory, meter._connection._descriptors[index])
        os.close(directory)

    return change


def close_to_users(monkeypatch: pytest.MonkeyPatch, closed: Path) -> None:
    """A file that root alone may read, or a folder that root alone may enter, for root as well."""
    real_list = os.listdir
    real_open, real_stat, real = Path.open, Path.stat, os.path.realpath(closed)

    def is_inside(path: Path) -> bool:
        return os.path.realpath(path).startswith(f"{real}/")

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    def open_it(self: Path, *args: Any, **words: Any) -> Any:
        if is_inside(self) or os.path.realpath(self) == real:
            refuse(self)
        return real_open(self, *args, **words)

    def stat_it(self: Path, **words: Any) -> os.stat_result:
        if is_inside(self):
            refuse(self)
        return real_stat(self, **words)

    def list_it(path: Any = ".") -> Any:
        if os.path.realpath(path) == real:
            refuse(path)
        return real_list(path)

    monkeypatch.setattr(os, "listdir", list_it)
    monkeypatch.setattr(Path, "open", open_it)
    monkeypatch.setattr(Path, "stat", stat_it)


def nothing() -> None:
    """A round in which nothing changes."""


def make_folder(folder: Path, files: Mapping[str, object]) -> Path:
    """One line in each file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(f"{value}\n")
    return folder
