"""A file as a session: read, stored as any recording is, and judged by the same checks.

What a file does not state stays unknown: it has no uncertainty, no boundary, and a clock of its own
that no other is compared with. A power.parquet of ours keeps its meter, its uncertainty and its
losses, so that a recording that was refused is not trusted for having been imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from edgebench.host.analysis.energy.checks import CALIBRATION_TOLD
from edgebench.host.power.imports import (
    csv_file,
    jls_file,
    lpm01a_log,
    parquet_file,
    ppk2_file,
    ptdaemon_file,
)
from edgebench.host.power.imports.blocks import SampleTally, TableDecoder
from edgebench.host.power.session import new_recording
from edgebench.host.power.stored import StoredSession, judge
from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import read_facts_of
from edgebench.meters.base import Capability, Channel, Header, LossReport, MeterInfo, SampleBlock
from edgebench.meters.rails import TOTAL
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import FileRefused, StoreError, UsageError

DRIVER = "import"
BOUNDARY = "not told"
SUPPLY_LIMITS_V = (0.0, 1000.0)
TOO_FEW = "fewer than two samples have no energy"
_MAGIC_BYTES = 4
_HEAD_BYTES = 4096
"""Bytes in which a log without a magic number is recognised."""


@dataclass(frozen=True, slots=True)
class ImportFile:
    """A file to import, with the voltage that the user gave for it."""

    path: Path
    sha256: str
    size_bytes: int
    supply_v: float | None

    @classmethod
    def of(cls, path: Path, supply_v: float | None) -> ImportFile:
        """The file at a path.

        Raises:
            FileRefused: it is no regular file.
            OSError: it cannot be read.
        """
        if not path.is_file():
            raise FileRefused("no such file" if not path.exists() else "not a regular file")
        with path.open("rb") as file:
            digest = sha256_of(file).hexdigest()
        return cls(path, digest, path.stat().st_size, supply_v)

    @property
    def clock_domain(self) -> str:
        """Name of the clock of its samples, which no other is compared with."""
        return f"file:{self.sha256[:12]}"

    def facts(self, **others: object) -> dict[str, object]:
        """Facts of the file for the header of the recording; others replace its own."""
        own = {"file": self.path.name, "sha256": self.sha256, "size_bytes": self.size_bytes}
        return {**own, "supply_v": self.supply_v, **others}

    def header(self, rate_hz: float, *, is_averaging: bool = False, **facts: object) -> Header:
        """Header of a recording of one channel, of which only the file is known."""
        return Header(
            driver=DRIVER,
            info=MeterInfo(vendor="imported", model=self.path.name),
            capability=Capability(
                driver=DRIVER,
                channels=(Channel("power", BOUNDARY),),
                rate_hz=rate_hz,
                is_averaging=is_averaging,
                clock_domain=self.clock_domain,
            ),
            facts=self.facts(**facts) | {CALIBRATION_TOLD: False},
        )

    def refuse_power_given(self, why: str) -> None:
        """Refuse a voltage for a file that has its power.

        Raises:
            FileRefused: a voltage was given.
        """
        if self.supply_v is not None:
            raise FileRefused(f"--supply has no use: {why}")

    def check_unchanged(self) -> None:
        """Hold the file against its digest, which is kept: a log may still be written to.

        Raises:
            FileRefused: the file changed.
        """
        with self.path.open("rb") as file:
            if sha256_of(file).hexdigest() != self.sha256:
                raise FileRefused("the file changed while it was read: import it when it is whole")


@dataclass(frozen=True, slots=True)
class ImportSamples:
    """Samples of a file, as those of a meter."""

    header: Header
    blocks: Iterator[SampleBlock]
    loss: Callable[[], LossReport]


def import_file(path: Path, directory: Path, supply_v: float | None = None) -> StoredSession:
    """Read a file into a session's directory.

    Raises:
        FileRefused: the file is damaged, states too little, or is of an unknown kind.
        UsageError: the voltage is out of its limits.
        StoreError: the directory cannot be written, or holds a recording.
    """
    low, high = SUPPLY_LIMITS_V
    if supply_v is not None and not low < supply_v <= high:
        raise UsageError(
            f"--supply must be above {low:g} and at most {high:g} V, got {supply_v:g}: write volts"
        )
    try:
        file = ImportFile.of(path, supply_v)
        samples = _reader_of(path)(file)
    except FileRefused as exc:
        raise FileRefused(f"{path}: {exc}") from exc
    except OSError as exc:
        raise FileRefused(f"{path}: not readable: {exc.strerror or exc}") from exc
    with new_recording(directory):
        try:
            facts = write_blocks(directory, samples.header, samples.blocks, samples.loss)
            file.check_unchanged()
        except FileRefused as exc:
            raise FileRefused(f"{path}: {exc}") from exc
    return judge(directory, facts)


def _reader_of(path: Path) -> Callable[[ImportFile], ImportSamples]:
    """The reader for a file by its first bytes; its name only says what it should have been."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    magic = head[:_MAGIC_BYTES]
    if magic[:2] == b"PK":
        return _from_ppk2
    if magic == b"PAR1":
        return _from_own if parquet_file.is_own(path) else _from_parquet
    if magic == jls_file.MAGIC[:_MAGIC_BYTES]:
        return _from_jls
    if path.suffix.lower() in (".ppk2", ".parquet", ".jls"):
        raise FileRefused(f"no {path.suffix} file: it begins with {magic!r}")
    if ptdaemon_file.FIRST_LINE.match(head):
        return _from_ptdaemon
    return _from_log if lpm01a_log.IS_LOG.search(head) else _from_csv


def _from_ppk2(file: ImportFile) -> ImportSamples:
    content = ppk2_file.read_ppk2(file.path)
    if content.count < 2:
        raise FileRefused(TOO_FEW)
    if file.supply_v is None:
        raise FileRefused("a .ppk2 has no voltage: say what it was, as in --supply 3.3")
    tally = SampleTally()
    blocks = ppk2_file.read_samples(content, file.supply_v, tally)
    header = file.header(content.rate_hz, is_averaging=content.is_averaging)
    capability = replace(header.capability, digital_count=ppk2_file.INPUT_COUNT)
    return ImportSamples(replace(header, capability=capability), blocks, tally.loss)


def _from_jls(file: ImportFile) -> ImportSamples:
    content = jls_file.read_jls(file.path, file.supply_v)
    tally = SampleTally()
    blocks = jls_file.read_samples(content, file.supply_v, tally)
    header = file.header(content.rate_hz, utc_first=content.utc_first)
    has_inputs = any(instrument.inputs for instrument in content.instruments)
    capability = replace(
        header.capability,
        channels=tuple(Channel(instrument.name, BOUNDARY) for instrument in content.instruments),
        is_uniform=True,
        digital_count=jls_file.INPUT_COUNT if has_inputs else 0,
    )
    header = replace(header, capability=capability)
    return ImportSamples(header, blocks, lambda: content.loss(tally))


def _from_log(file: ImportFile) -> ImportSamples:
    log = lpm01a_log.read_log(file.path, file.supply_v)
    decoder, told = log.decoder(), log.capability
    header = file.header(
        told.rate_hz, is_averaging=told.is_averaging, supply_v=log.settings.supply_v
    )
    capability = replace(header.capability, is_uniform=True, loss_detection=told.loss_detection)
    blocks = lpm01a_log.read_samples(log, decoder)
    header = replace(header, capability=capability)
    return ImportSamples(header, blocks, lambda: lpm01a_log.loss_of(decoder))


def _from_ptdaemon(file: ImportFile) -> ImportSamples:
    file.refuse_power_given("the file has its power")
    table = TableDecoder(ptdaemon_file.COLUMNS, None, lambda row: f"sample {row + 1}")
    return _from_table(file, ptdaemon_file.read_rows(file.path, table), table)


def _from_csv(file: ImportFile) -> ImportSamples:
    layout = csv_file.read_layout(file.path, file.supply_v)
    table = TableDecoder(layout.columns, file.supply_v, lambda row: csv_file.line_of(layout, row))
    return _from_table(file, csv_file.read_rows(layout, table), table)


def _from_parquet(file: ImportFile) -> ImportSamples:
    columns = parquet_file.read_columns(file.path, file.supply_v)
    table = TableDecoder(columns, file.supply_v, lambda row: f"row {row + 1}")
    return _from_table(file, parquet_file.read_rows(file.path, table), table)


def _from_table(
    file: ImportFile, blocks: Iterator[SampleBlock], table: TableDecoder
) -> ImportSamples:
    first = next(blocks, None)
    if first is None or table.pace is None:
        raise FileRefused(TOO_FEW)
    header = file.header(table.pace.rate_hz, columns=table.columns.facts)
    return ImportSamples(header, chain([first], blocks), table.loss)


def _from_own(file: ImportFile) -> ImportSamples:
    file.refuse_power_given("edgebench wrote this file, with its power")
    try:
        recorded = read_facts_of(file.path)
    except StoreError as exc:
        raise FileRefused("damaged: what edgebench wrote of the meter is not readable") from exc
    header = recorded.header
    facts = file.facts(
        **{key: header.facts.get(key) for key in ("supply_v", TOTAL)},
        recorded_by=header.driver,
        recorded=header.facts,
    )
    header = replace(
        header,
        driver=DRIVER,
        capability=replace(header.capability, clock_domain=file.clock_domain),
        facts=facts,
    )
    return ImportSamples(header, parquet_file.read_own(file.path, recorded), lambda: recorded.loss)
