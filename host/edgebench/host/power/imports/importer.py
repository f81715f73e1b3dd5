"""A file as a session: read, stored as any recording is, and judged by the same checks.

What a file does not say is not made up: no uncertainty, a boundary that is not told, a clock of
its own that no other is compared with. A power.parquet of ours keeps its meter, its uncertainty
and its losses: a recording that was refused is not trusted for having been imported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from edgebench.host.analysis.energy.checks import CALIBRATION_TOLD
from edgebench.host.power.imports import (
    csv_file,
    jls_file,
    lpm01a_log,
    parquet_file,
    ppk2_file,
    ptdaemon_file,
)
from edgebench.host.power.imports.blocks import Rows, Tally
from edgebench.host.power.session import refuse_taken
from edgebench.host.power.stored import Session, judged
from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import read_facts_of
from edgebench.meters.base import Capability, Channel, Header, LossReport, MeterInfo, SampleBlock
from edgebench.meters.rails import TOTAL
from edgebench.protocol.errors import DirectoryTaken, FileRefused, StoreError, UsageError

DRIVER = "import"
BOUNDARY = "not told"
SUPPLY_LIMITS_V = (0.0, 1000.0)
TOO_FEW = "fewer than two samples have no energy"
_MAGIC_BYTES = 4
_HEAD_BYTES = 4096
"""In which a log without a magic number is recognised."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file, as one meter's samples."""

    header: Header
    blocks: Iterator[SampleBlock]
    loss: Callable[[], LossReport]


def import_file(path: Path, directory: Path, supply_v: float | None = None) -> Session:
    """Read a file into a session directory.

    Raises:
        FileRefused: the file is damaged, says too little, or is none of the known kinds.
        UsageError: the voltage is none.
        StoreError: the directory cannot be written, or holds a recording.
    """
    low, high = SUPPLY_LIMITS_V
    if supply_v is not None and not low < supply_v <= high:
        raise UsageError(
            f"--supply must be above {low:g} and at most {high:g} V, got {supply_v:g}: write volts"
        )
    try:
        facts_of_source = _facts(path, supply_v)
        source = _open(path, supply_v, facts_of_source)
    except FileRefused as exc:
        raise FileRefused(f"{path}: {exc}") from exc
    except OSError as exc:
        raise FileRefused(f"{path}: not readable: {exc.strerror or exc}") from exc
    with _place(directory):
        try:
            facts = write_blocks(directory, source.header, source.blocks, source.loss)
            _check_unchanged(path, facts_of_source)
        except FileRefused as exc:
            raise FileRefused(f"{path}: {exc}") from exc
    return judged(directory, facts)


@contextmanager
def _place(directory: Path) -> Iterator[None]:
    """The directory; half a recording does not stay in it, nor it itself if it is new.

    Raises:
        StoreError: it holds a recording or a run, or cannot be written.
    """
    is_new = not os.path.lexists(directory)
    refuse_taken(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException as exc:  # Ctrl-C as well: half a recording is none
        with suppress(OSError):  # it was never made, or something else is in it
            (directory / POWER_FILE).unlink(missing_ok=True)
            if is_new:
                directory.rmdir()
        if isinstance(exc, OSError):
            why = exc.strerror or str(exc)
            kind = DirectoryTaken if isinstance(exc, FileExistsError) else StoreError
            raise kind(f"recording cannot be written: {why}: {directory}") from exc
        raise


def _open(path: Path, supply_v: float | None, facts: dict[str, Any]) -> Source:
    kind = _kind(path)
    if kind == "ppk2":
        return _from_ppk2(path, supply_v, facts)
    if kind == "jls":
        return _from_jls(path, supply_v, facts)
    if kind == "ptdaemon":
        if supply_v is not None:
            raise FileRefused("--supply has no use: the file has its power")
        rows = Rows(ptdaemon_file.COLUMNS, None, lambda row: f"sample {row + 1}")
        return _from_rows(ptdaemon_file.read_rows(path, rows), rows, facts)
    if kind == "lpm01a":
        return _from_log(path, supply_v, facts)
    if kind == "csv":
        layout = csv_file.read_layout(path, supply_v)
        rows = Rows(layout.columns, supply_v, lambda row: csv_file.line_of(layout, row))
        return _from_rows(csv_file.read_rows(layout, rows), rows, facts)
    if parquet_file.is_own(path):
        return _from_own(path, supply_v, facts)
    columns = parquet_file.read_columns(path, supply_v)
    rows = Rows(columns, supply_v, lambda row: f"row {row + 1}")
    return _from_rows(parquet_file.read_rows(path, rows), rows, facts)


def _kind(path: Path) -> str:
    """By what it begins with; the name only says what it should have been."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    magic = head[:_MAGIC_BYTES]
    if magic[:2] == b"PK":
        return "ppk2"
    if magic == b"PAR1":
        return "parquet"
    if magic == jls_file.MAGIC[:_MAGIC_BYTES]:
        return "jls"
    if path.suffix.lower() in (".ppk2", ".parquet", ".jls"):
        raise FileRefused(f"no {path.suffix} file: it begins with {magic!r}")
    if ptdaemon_file.FIRST_LINE.match(head):
        return "ptdaemon"
    return "lpm01a" if lpm01a_log.IS_LOG.search(head) else "csv"


def _from_ppk2(path: Path, supply_v: float | None, facts: dict[str, Any]) -> Source:
    found = ppk2_file.read_ppk2(path)
    if found.count < 2:
        raise FileRefused(TOO_FEW)
    if supply_v is None:
        raise FileRefused("a .ppk2 has no voltage: say what it was, as in --supply 3.3")
    tally = Tally()
    blocks = ppk2_file.read_samples(found, supply_v, tally)
    header = _header(facts, found.rate_hz, is_averaging=found.is_averaging)
    inputs = replace(header.capability, digital_count=8)
    return Source(replace(header, capability=inputs), blocks, tally.loss)


def _from_jls(path: Path, supply_v: float | None, facts: dict[str, Any]) -> Source:
    found = jls_file.read_jls(path, supply_v)
    tally = Tally()
    blocks = jls_file.read_samples(found, supply_v, tally)
    header = _header(facts | {"utc_first": found.utc_first}, found.rate_hz, is_averaging=False)
    capability = replace(
        header.capability,
        channels=tuple(Channel(trace.name, BOUNDARY) for trace in found.traces),
        is_uniform=True,
        digital_count=jls_file.INPUT_COUNT if any(one.inputs for one in found.traces) else 0,
    )
    return Source(replace(header, capability=capability), blocks, lambda: found.loss(tally))


def _from_log(path: Path, supply_v: float | None, facts: dict[str, Any]) -> Source:
    log = lpm01a_log.read_log(path, supply_v)
    decoder = log.decoder()
    told = log.capability
    header = _header(
        facts | {"supply_v": log.settings.supply_v}, told.rate_hz, is_averaging=told.is_averaging
    )
    header = replace(
        header,
        capability=replace(header.capability, is_uniform=True, loss_detection=told.loss_detection),
    )
    blocks = lpm01a_log.read_samples(log, decoder)
    return Source(header, blocks, lambda: lpm01a_log.loss_of(decoder))


def _from_rows(blocks: Iterator[SampleBlock], rows: Rows, facts: dict[str, Any]) -> Source:
    first = next(blocks, None)
    if first is None or rows.pace is None:
        raise FileRefused(TOO_FEW)
    told = facts | {"columns": rows.columns.facts}
    header = _header(told, rows.pace.rate_hz, is_averaging=False)
    return Source(header, chain([first], blocks), rows.loss)


def _from_own(path: Path, supply_v: float | None, facts: dict[str, Any]) -> Source:
    if supply_v is not None:
        raise FileRefused("--supply has no use: edgebench wrote this file, with its power")
    try:
        found = read_facts_of(path)
    except StoreError as exc:
        raise FileRefused("damaged: what edgebench wrote of the meter is not readable") from exc
    header = replace(
        found.header,
        driver=DRIVER,
        capability=replace(found.header.capability, clock_domain=_clock(facts)),
        facts=facts
        | {
            **{key: found.header.facts.get(key) for key in ("supply_v", TOTAL)},
            "recorded_by": found.header.driver,
            "recorded": found.header.facts,
        },
    )
    return Source(header, parquet_file.read_own(path, found), lambda: found.loss)


def _header(facts: dict[str, Any], rate_hz: float, *, is_averaging: bool) -> Header:
    return Header(
        driver=DRIVER,
        info=MeterInfo(vendor="imported", model=facts["file"]),
        capability=Capability(
            driver=DRIVER,
            channels=(Channel("power", BOUNDARY),),
            rate_hz=rate_hz,
            is_averaging=is_averaging,
            clock_domain=_clock(facts),
        ),
        facts=facts | {CALIBRATION_TOLD: False},
    )


def _facts(path: Path, supply_v: float | None) -> dict[str, Any]:
    if not path.is_file():
        raise FileRefused("no such file" if not path.exists() else "not a regular file")
    with path.open("rb") as file:
        digest = _sha256(file)
    return {
        "file": path.name,
        "sha256": digest,
        "size_bytes": path.stat().st_size,
        "supply_v": supply_v,
    }


def _check_unchanged(path: Path, facts: dict[str, Any]) -> None:
    """The digest that is kept is of what was read: a log that is still written to is none yet."""
    with path.open("rb") as file:
        if _sha256(file) != facts["sha256"]:
            raise FileRefused("the file changed while it was read: import it when it is whole")


def _sha256(file: Any) -> str:
    digest = hashlib.sha256()
    while data := file.read(1 << 20):
        digest.update(data)
    return digest.hexdigest()


def _clock(facts: dict[str, Any]) -> str:
    return f"file:{facts['sha256'][:12]}"
