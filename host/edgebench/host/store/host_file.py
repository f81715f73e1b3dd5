"""Packed facts about a run, from the run's host; the device keeps the facts for other hosts.

    one line of JSON    the facts, as in raw/host.json
    the rest            the labels, as in raw/labels.npz; left out if they are too large

A host that has its own copy ignores the device's copy. The content comes from a peer, so it is
checked like all untrusted input.
"""

from __future__ import annotations

import json
from pathlib import Path

from edgebench.host.arrays import load_arrays
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.migrations import migrated_facts
from edgebench.host.store.finite_json import load_finite
from edgebench.host.store.layout import HOST_FACTS_FILE, LABELS_FILE, RAW_DIRECTORY
from edgebench.protocol.codec import MAX_PAYLOAD_BYTES
from edgebench.protocol.errors import EdgebenchError, RunDamaged
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.protocol.text import one_line
from edgebench.protocol.traces import HOST_FILE

MAX_FACTS_BYTES = 64 * 1024
"""Maximum length of the line with the facts, bytes; real lines have less than 1 KiB."""


def packed_facts(directory: Path) -> bytes:
    """Facts and labels of a run that is about to start, packed for its device.

    Labels that do not fit are left out; a host without the labels reports an unknown accuracy.

    Raises:
        OSError: a file cannot be read.
    """
    raw = directory / RAW_DIRECTORY
    facts = json.loads((raw / HOST_FACTS_FILE).read_bytes())
    line = json.dumps(facts, separators=(",", ":")).encode() + b"\n"
    if len(line) > MAX_FACTS_BYTES:
        return b""
    labels = raw / LABELS_FILE
    if not labels.exists() or len(line) + labels.stat().st_size > MAX_PAYLOAD_BYTES:
        return line
    return line + labels.read_bytes()


def unpack_facts(directory: Path) -> None:
    """Unpack the device's copy if this host did not start the run; otherwise delete the copy.

    Raises:
        RunDamaged: the copy is malformed.
        OSError: a file cannot be written.
    """
    raw = directory / RAW_DIRECTORY
    path = raw / HOST_FILE
    if not path.exists():
        return
    if not (raw / HOST_FACTS_FILE).exists():
        if path.stat().st_size > MAX_PAYLOAD_BYTES:
            size = f"{path.stat().st_size} bytes, limit {MAX_PAYLOAD_BYTES}"
            raise RunDamaged(f"host facts from the device have {size}: {path}")
        line, _, labels = path.read_bytes().partition(b"\n")
        facts = _facts(line, path)
        if labels:
            try:
                load_arrays(labels, is_compression_allowed=False)
            except ValueError as exc:
                text = f"labels from the device are malformed: {one_line(exc)}: {path}"
                raise RunDamaged(text) from exc
            (raw / LABELS_FILE).write_bytes(labels)
        # Written last, so that after a kill the labels alone do not count as a complete copy.
        (raw / HOST_FACTS_FILE).write_text(json.dumps(to_plain(facts), indent=1) + "\n")
    path.unlink()


def _facts(line: bytes, path: Path) -> HostFacts:
    try:
        if len(line) > MAX_FACTS_BYTES:
            raise ValueError(f"{len(line)} bytes, limit {MAX_FACTS_BYTES}")
        plain = load_finite(line)
        if not isinstance(plain, dict):
            raise ValueError("not a map")
        facts = from_outside(migrated_facts(plain), HostFacts)
        if facts.energy is not None and facts.energy.trace is not None:
            raise ValueError("they contain a power file, which no run has before it starts")
    except (ValueError, RecursionError, EdgebenchError) as exc:
        raise RunDamaged(
            f"host facts from the device are malformed: {one_line(exc)}: {path}"
        ) from exc
    return facts
