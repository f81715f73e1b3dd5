"""Changes of the farm file that preserve its comments, its order and other content.

Labels are changed with tomlkit. Names are replaced in the text, because tomlkit cannot rename a
table in place. After either change, the file is written only if the new text parses to the intended
content. Callers hold the lock of the host's files (`HostFiles.locked`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import tomlkit

from edgebench.host.devices.farm import (
    SCHEMA_VERSION,
    Farm,
    FarmDevice,
    load_farm,
    parse_farm,
    why_no_label,
)
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.locked import write_host_file
from edgebench.host.devices.names import SEAT_MARK
from edgebench.protocol.errors import StoreError, UsageError, os_error_as
from edgebench.system.whole_files import make_directory

MAX_LABELS = 32
NEW_FILE = f"schema = {SCHEMA_VERSION}\n"
NEW_FILE_MODE = 0o644
"""File mode of a new farm file, which contains no secrets; an existing file keeps its mode."""
_DEVICES = "device"
_KEY = r"[\w-]+|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'"
"""Pattern of a bare, basic or literal key of TOML. Source: https://toml.io/en/v1.0.0#keys"""
_HEADER = re.compile(rf"\s*\[\s*({_KEY})\s*(?:\.\s*({_KEY})\s*)?[.\]]")
_DOTTED = re.compile(rf"\s*{_DEVICES}\s*\.\s*({_KEY})\s*[.=]")
_PLAIN = re.compile(rf"\s*({_KEY})\s*[.=]")


def change_labels(
    path: Path, device: KnownDevice, *, add: Sequence[str], remove: Collection[str]
) -> tuple[str, ...]:
    """Add and remove labels of a device; return all labels of the device after the change.

    Raises:
        UsageError: a word cannot be a label, the device would have too many labels, or the file is
            not a farm file.
        StoreError: the file cannot be read or written.
    """
    for label in add:
        if (what := why_no_label(label)) is not None:
            raise UsageError(f"label {what}")
    farm = load_farm(path)
    before = farm.entry(device).labels
    labels = tuple(label for label in dict.fromkeys([*before, *add]) if label not in remove)
    if len(labels) > MAX_LABELS:
        raise UsageError(f"device {device.name} has {len(labels)} labels, limit {MAX_LABELS}")
    if labels == before:
        return labels
    text = _read(path)
    document = tomlkit.parse(text)
    key = next((name for name in (device.name, device.id) if name in farm.device), device.name)
    # tomlkit's types do not describe the content of a document.
    tables = cast("dict[str, Any]", document)
    entry = tables.setdefault(_DEVICES, tomlkit.table(is_super_table=True)).setdefault(
        key, tomlkit.table()
    )
    if "labels" in entry:
        for label in set(before) - set(labels):
            entry["labels"].remove(label)
        entry["labels"].extend(label for label in labels if label not in before)
    else:
        entry["labels"] = list(labels)
    changed = replace(farm.device.get(key, FarmDevice()), labels=labels)
    expected = replace(farm, device={**farm.device, key: changed})
    _write(path, tomlkit.dumps(document), expected)
    return labels


def rename_device(path: Path, old: str, new: str) -> bool:
    """Rename the tables of a device and its agent's seats; return whether any was renamed.

    Raises:
        UsageError: the file is not a farm file, or contains the new name already.
        StoreError: the file cannot be read or written.
    """
    farm = load_farm(path)
    names = {
        name: new + name.removeprefix(old)
        for name in farm.device
        if name == old or name.startswith(f"{old}{SEAT_MARK}")
    }
    if not names:
        return False
    if taken := sorted(set(names.values()) & set(farm.device)):
        raise UsageError(f"farm file already has a device {taken[0]!r}: {path}")
    devices = {names.get(name, name): entry for name, entry in farm.device.items()}
    _write(path, _with_names(_read(path), names), replace(farm, device=devices))
    return True


def _with_names(text: str, names: Mapping[str, str]) -> str:
    """Rename the tables of devices in a text; `names` maps old names to new names."""
    lines: list[str] = []
    is_inside = False
    """Whether the line belongs to the table [device] itself."""
    for line in text.split("\n"):
        if header := _HEADER.match(line):
            is_inside = header[2] is None and _value(header[1]) == _DEVICES
            match, group = (header, 2) if _value(header[1]) == _DEVICES else (None, 0)
        else:
            match, group = (_PLAIN if is_inside else _DOTTED).match(line), 1
        new = names.get(_value(match[group])) if match and match[group] else None
        if match is not None and new is not None:
            key = tomlkit.key(new).as_string()
            line = line[: match.start(group)] + key + line[match.end(group) :]
        lines.append(line)
    return "\n".join(lines)


def _value(key: str) -> str:
    """The name that a key in TOML syntax represents.

    >>> _value("pi5"), _value('"rack/1"'), _value("'a b'")
    ('pi5', 'rack/1', 'a b')
    """
    return next(iter(tomlkit.parse(f"{key} = 0")))


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")  # keeps the line endings
    except FileNotFoundError:
        return NEW_FILE
    except (OSError, UnicodeDecodeError) as exc:
        raise StoreError(f"farm file not readable: {exc}: {path}") from exc


def _write(path: Path, text: str, expected: Farm) -> None:
    """Write the file if the text parses to the expected farm; raise `StoreError` otherwise."""
    try:
        farm = parse_farm(text, str(path))
    except UsageError:
        farm = None
    if farm != expected:
        raise StoreError(f"farm file not changed: its formatting is not supported: {path}")
    target = path.resolve()  # it may be a link into a repository
    with os_error_as(StoreError, "not written", target):
        mode = target.stat().st_mode & 0o777 if target.exists() else NEW_FILE_MODE
        make_directory(target.parent, mode=0o700)
    write_host_file(target, text, mode=mode)
