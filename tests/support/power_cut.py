"""A file system that loses what was not synced: logged by calls, rebuilt as of any moment.

`file_log.c` logs every call of a process that changes a file, and what each sync made durable. From
the log, `Disk` is played up to a moment, and gives what a power cut then leaves, by a model:

    SYNCED   what was synced, and nothing else: the least that POSIX promises
    NAMES    every name, and the content that was synced: ext4 a few seconds after the last call
    DRAWN    of what was not synced, some names, and of contents none, a part, zeros or all
    ALL      everything, as if the process alone had been killed

A rename is one step: both of its names are durable, or neither.

Why a log and not a real file system under `dm-flakey`: kernels of CI machines have no such target,
a real file system shows one of the many orders that it may choose, and a log can be played at each
moment of one and the same run. Source of the method: Pillai and others, All File Systems Are Not
Created Equal, OSDI 2014 (ALICE); Mohan and others, Finding Crash-Consistency Bugs with Bounded
Black-Box Crash Testing, OSDI 2018 (CrashMonkey).
"""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from support.tools import need_tool

_HEAD = struct.Struct("<c6Qq2H")
_ENTRY = struct.Struct("<2QBH")
_FILE, _FOLDER = 0, 1

Key = tuple[int, int]
"""An inode: its number, and its time of birth."""


class Model(Enum):
    """What a power cut leaves of what was not synced."""

    SYNCED = "synced"
    NAMES = "names"
    DRAWN = "drawn"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the log."""

    kind: str
    keys: tuple[Key, Key, Key]
    value: int
    names: tuple[str, str]
    content: bytes
    size_bytes: int
    """Size in the log."""


@dataclass(slots=True)
class _Step:
    """Names of one call that are not durable yet: folder, name, and what it is then."""

    changes: list[tuple[Key, str, Key | None]]


@dataclass(slots=True)
class _Node:
    kind: int
    names: dict[str, Key] = field(default_factory=dict)
    durable_names: dict[str, Key] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    is_truncated: bool = False
    """Whether it was cut since its content was synced."""


def built_log(folder: Path) -> Path:
    """The shim, compiled."""
    need_tool("gcc")
    source, library = Path(__file__).with_name("file_log.c"), folder / "file_log.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library)]
    subprocess.run([*command, str(source), "-lpthread"], check=True)
    return library


def logging_environment(library: Path, root: Path, log: Path) -> dict[str, str]:
    """Variables by which a process and its children log what they do below a directory."""
    root.mkdir(parents=True, exist_ok=True)
    real = str(root.resolve())
    return {"LD_PRELOAD": str(library), "FILE_LOG_ROOT": real, "FILE_LOG": str(log)}


def read_log(path: Path) -> list[Call]:
    """Calls in their order."""
    data, begin, calls = memoryview(path.read_bytes()), 0, []
    while begin + 4 <= len(data):
        size = int.from_bytes(data[begin : begin + 4], "little")
        kind, *numbers = _HEAD.unpack_from(data, begin + 4)
        names_begin = begin + 4 + _HEAD.size
        middle = names_begin + numbers[7]
        end = middle + numbers[8]
        keys = ((numbers[0], numbers[1]), (numbers[2], numbers[3]), (numbers[4], numbers[5]))
        names = (os.fsdecode(bytes(data[names_begin:middle])), os.fsdecode(bytes(data[middle:end])))
        begin += 4 + size
        calls.append(Call(kind.decode(), keys, numbers[6], names, bytes(data[end:begin]), 4 + size))
    return calls


class Disk:
    """The files below a directory, which was empty when the log began."""

    def __init__(self, root: Path) -> None:
        facts = os.stat(root)
        self._root_number = facts.st_ino
        self._nodes: dict[Key, _Node] = {}
        self._pending: list[_Step] = []

    def play(self, call: Call) -> None:
        """Apply the next call."""
        first, second, third = call.keys
        name, other = call.names
        if call.kind == "C":
            self._nodes[second] = _Node(call.value)
            self._change((first, name, second))
        elif call.kind == "U":
            self._change((first, name, None))
        elif call.kind == "R":
            self._change((first, name, None), (second, other, third))
        elif call.kind == "X":
            there = self._node(second, _FOLDER).names[other]
            self._change((first, name, there), (second, other, third))
        elif call.kind == "L":
            self._change((second, other, third))
        elif call.kind == "W":
            content = self._node(first, _FILE).content
            content.extend(bytes(max(0, call.value - len(content))))
            content[call.value : call.value + len(call.content)] = call.content
        elif call.kind == "T":
            node = self._node(first, _FILE)
            del node.content[call.value :]
            node.content.extend(bytes(call.value - len(node.content)))
            node.is_truncated = True
        elif call.kind == "S":
            node = self._node(first, _FILE)
            node.content, node.durable = bytearray(call.content), call.content
            node.is_truncated = False
        elif call.kind == "D":
            self._sync_names(first, call.content)

    def left_after(self, folder: str, model: Model, random: Random) -> Iterator[tuple[str, bytes]]:
        """Files below one name of the root, by path, as a power cut now would leave them."""
        names = self._names_after(model, random)
        root = next(key for key in self._nodes if key[0] == self._root_number)
        start = names[root].get(folder)
        waiting = [("", start)] if start is not None else []
        while waiting:
            path, key = waiting.pop()
            for name, below in sorted(names.get(key, {}).items()):
                node = self._nodes.get(below, _Node(_FILE))
                if node.kind == _FOLDER:
                    waiting.append((f"{path}{name}/", below))
                elif node.kind == _FILE:
                    yield f"{path}{name}", self._content_after(node, model, random)

    def _node(self, key: Key, kind: int) -> _Node:
        return self._nodes.setdefault(key, _Node(kind))

    def _change(self, *changes: tuple[Key, str, Key | None]) -> None:
        for folder, name, key in changes:
            names = self._node(folder, _FOLDER).names
            if key is None:
                names.pop(name, None)
            else:
                names[name] = key
                self._node(key, _FILE)
        self._pending.append(_Step(list(changes)))

    def _sync_names(self, folder: Key, listing: bytes) -> None:
        node = self._node(folder, _FOLDER)
        left = []
        for step in self._pending:
            if all(folder != at for at, _, _ in step.changes):
                left.append(step)
                continue
            for at, name, key in step.changes:
                _apply(self._node(at, _FOLDER).durable_names, name, key)
        self._pending = left
        node.names, begin = {}, 0
        while begin < len(listing):
            number, born_ns, kind, length = _ENTRY.unpack_from(listing, begin)
            begin += _ENTRY.size + length
            name = os.fsdecode(listing[begin - length : begin])
            node.names[name] = (number, born_ns)
            self._node((number, born_ns), kind).kind = kind
        node.durable_names = dict(node.names)

    def _names_after(self, model: Model, random: Random) -> dict[Key, dict[str, Key]]:
        folders = {key: node for key, node in self._nodes.items() if node.kind == _FOLDER}
        if model in (Model.ALL, Model.NAMES):
            return {key: node.names for key, node in folders.items()}
        names = {key: dict(node.durable_names) for key, node in folders.items()}
        if model is Model.DRAWN:
            for step in self._pending:
                if random.random() < 0.5:
                    for folder, name, key in step.changes:
                        _apply(names[folder], name, key)
        return names

    @staticmethod
    def _content_after(node: _Node, model: Model, random: Random) -> bytes:
        content = bytes(node.content)
        if model is Model.ALL or content == node.durable:
            return content
        lost = b"" if node.is_truncated else node.durable
        if model is Model.DRAWN:
            part = random.randrange(len(content) + 1)
            zeros = content[: len(lost)] + bytes(max(0, len(content) - len(lost)))
            return random.choice([lost, content[:part], zeros, content])
        return node.durable if model is Model.SYNCED else lost


def _apply(names: dict[str, Key], name: str, key: Key | None) -> None:
    if key is None:
        names.pop(name, None)
    else:
        names[name] = key


def write_image(files: Iterator[tuple[str, bytes]], folder: Path) -> None:
    """Write what a power cut left into a directory."""
    folder.mkdir(parents=True)
    for path, content in files:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
