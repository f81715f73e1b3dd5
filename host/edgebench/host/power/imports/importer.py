"""Imports a file as a session, which is stored like any recording, and passes the same checks.

Facts that a file does not state stay unknown. So the session has no uncertainty and no boundary,
and has a clock domain of its own, whose times are not compared with those of other clocks. The
import of a power.parquet of edgebench keeps the meter, the uncertainty and the counts of lost
samples. So an untrusted recording does not become trusted by its import.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from edgebench.host.analysis.energy.checks import COLUMNS, IS_CALIBRATION_STATED
from edgebench.host.analysis.energy.trace import (
    EDGE_S,
    FORMAT,
    IS_ASSUMED,
    IS_HELD,
    IS_STEADY,
    MAX_GAIN_RATIO,
    NOTES,
    with_instrument,
)
from edgebench.host.power.imports import (
    csv_file,
    csv_layout,
    jls_file,
    lpm01a_log,
    parquet_file,
    ppk2_file,
    ptdaemon_file,
    sigrok_file,
    text_logs,
)
from edgebench.host.power.imports.blocks import SampleTally, TableDecoder
from edgebench.host.power.imports.columns import TableColumns
from edgebench.host.power.imports.known_tables import KnownTable, Samples
from edgebench.host.power.imports.suggestion import options_that_work, words_of
from edgebench.host.power.imports.table_times import plan_table
from edgebench.host.power.imports.time_window import cut_blocks, window_of
from edgebench.host.power.session import new_recording, sync_recording
from edgebench.host.power.stored import StoredSession, judge
from edgebench.host.result.facts import ImportOptions, InstrumentErrors
from edgebench.host.store.power import PowerFacts, write_blocks
from edgebench.host.store.power_file import read_facts_of
from edgebench.meters.base import Capability, Channel, Header, LossReport, MeterInfo, SampleBlock
from edgebench.meters.rails import TOTAL
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import FileRefused, StoreError, UsageError
from edgebench.protocol.percent import format_percent
from edgebench.protocol.plain import to_plain

DRIVER = "import"
BOUNDARY = "not stated"
SUPPLY_LIMITS_V = (0.0, 1000.0)
MAX_RATE_HZ = 1e8
TOO_FEW = "fewer than two samples: energy needs at least two"
_MAGIC_BYTES = 4
_HEAD_BYTES = 4096
"""Number of bytes at the start of a file that suffice to recognise a log without a magic number."""


@dataclass(frozen=True, slots=True)
class ImportFile:
    """A file to import, with the user's options."""

    path: Path
    sha256: str
    size_bytes: int
    options: ImportOptions

    @classmethod
    def of(cls, path: Path, options: ImportOptions) -> ImportFile:
        """Determine size and digest of the file at a path.

        Raises:
            FileRefused: the path does not exist or is not a regular file.
            OSError: the file cannot be read.
        """
        if not path.is_file():
            raise FileRefused("no such file" if not path.exists() else "not a regular file")
        with path.open("rb") as file:
            digest = sha256_of(file).hexdigest()
        return cls(path, digest, path.stat().st_size, options)

    @property
    def supply_v(self) -> float | None:
        """Supply voltage from the user's options; None if it is not given."""
        return self.options.supply_v

    @property
    def clock_domain(self) -> str:
        """Clock domain of this file alone, so that its times are not compared with other clocks."""
        return f"file:{self.sha256[:12]}"

    def facts(self, others: Mapping[str, object]) -> dict[str, object]:
        """Facts of the file for the header of the recording; `others` take precedence."""
        own = {"file": self.path.name, "sha256": self.sha256, "size_bytes": self.size_bytes}
        return {**own, "supply_v": self.supply_v, **others}

    def header(
        self, rate_hz: float, facts: Mapping[str, object], *, is_averaging: bool = False
    ) -> Header:
        """Header of a recording with a single channel, which contains only facts of the file."""
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
            facts=self.facts(facts) | {IS_CALIBRATION_STATED: False},
        )

    def refuse_power_given(self, why: str) -> None:
        """Refuse `--supply` for a file that contains power.

        Raises:
            FileRefused: a voltage was given.
        """
        if self.supply_v is not None:
            raise FileRefused(f"--supply does not apply: {why}")

    def check_unchanged(self) -> None:
        """Check that the file's digest is unchanged, because a program may still be writing to it.

        Raises:
            FileRefused: the file changed.
        """
        with self.path.open("rb") as file:
            if sha256_of(file).hexdigest() != self.sha256:
                raise FileRefused("the file changed while it was read: import the final file")


@dataclass(frozen=True, slots=True)
class ImportSamples:
    """Samples of a file in the form of a meter's samples."""

    header: Header
    blocks: Iterator[SampleBlock]
    loss: Callable[[], LossReport]


AS_IT_IS = ImportOptions()
"""Options for a file that is self-describing."""
NOT_STATED = InstrumentErrors()


def import_file(
    path: Path,
    directory: Path,
    options: ImportOptions = AS_IT_IS,
    errors: InstrumentErrors = NOT_STATED,
) -> StoredSession:
    """Read a file into a session's directory.

    Raises:
        FileRefused: the file is damaged, lacks required facts, or is of an unknown kind.
        UsageError: an option is outside its limits.
        StoreError: the directory cannot be written, or holds a recording.
    """
    gain_ratio = errors.gain_ratio
    if gain_ratio is not None and not 0 < gain_ratio <= MAX_GAIN_RATIO:
        shown = format_percent(gain_ratio, 3)
        raise UsageError(f"--gain must be above 0 and at most 100 %, got {shown}")
    file, samples = open_file(path, options)
    samples = replace(samples, header=with_instrument(samples.header, errors))
    with new_recording(directory):
        facts = write_samples(directory, file, samples)
        sync_recording(directory)
    return judge(directory, facts)


def open_file(path: Path, options: ImportOptions) -> tuple[ImportFile, ImportSamples]:
    """Open a file, with its samples in the form of a meter's samples.

    Raises:
        FileRefused: the file is damaged, lacks required facts, or is of an unknown kind.
        UsageError: an option is outside its limits.
    """
    low, high = SUPPLY_LIMITS_V
    supply_v, rate_hz = options.supply_v, options.rate_hz
    if supply_v is not None and not low < supply_v <= high:
        raise UsageError(
            f"--supply must be above {low:g} and at most {high:g} V, got {supply_v:g}; the unit "
            "is V"
        )
    if rate_hz is not None and not 0 < rate_hz <= MAX_RATE_HZ:
        raise UsageError(f"--rate must be above 0 and at most {MAX_RATE_HZ:g} Hz, got {rate_hz:g}")
    try:
        file = ImportFile.of(path, options)
        read = _reader_of(path)
        return file, _cut(read(file), options) if read is not _from_csv else read(file)
    except FileRefused as exc:
        raise _with_suggestion(exc, path, options) from exc
    except OSError as exc:
        raise FileRefused(f"{path}: not readable: {exc.strerror or exc}") from exc


def _with_suggestion(error: FileRefused, path: Path, options: ImportOptions) -> FileRefused:
    """Add to an error the file's path, and any options that make the file readable."""
    named = type(error)(f"{path}: {error}")
    try:
        file, read = ImportFile.of(path, options), _reader_of(path)
    except FileRefused:  # not a file, or damaged
        return named
    works = options_that_work(
        path, options, lambda tried: read(replace(file, options=tried)), is_table=read is _from_csv
    )
    if works is not None:
        named.works_with = words_of(works, options)
    return named


def write_samples(directory: Path, file: ImportFile, samples: ImportSamples) -> PowerFacts:
    """Write the samples of a file into a directory.

    Raises:
        FileRefused: a value is invalid, or the file changed while it was read.
        OSError: the directory cannot be written.
    """
    try:
        facts = write_blocks(directory, samples.header, samples.blocks, samples.loss)
        file.check_unchanged()
    except FileRefused as exc:
        raise type(exc)(f"{file.path}: {exc}") from exc
    return facts


def _reader_of(path: Path) -> Callable[[ImportFile], ImportSamples]:
    """Choose the reader by the first bytes; the suffix only serves to recognise a damaged file."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    magic = head[:_MAGIC_BYTES]
    if magic[:2] == b"PK":
        is_sigrok = path.suffix.lower() == ".sr" or sigrok_file.is_sigrok(path)
        return _from_sigrok if is_sigrok else _from_ppk2
    if magic == b"PAR1":
        return _from_own if parquet_file.is_own(path) else _from_parquet
    if magic == jls_file.MAGIC[:_MAGIC_BYTES]:
        return _from_jls
    if path.suffix.lower() in (".ppk2", ".parquet", ".jls", ".sr"):
        raise FileRefused(f"not a {path.suffix} file: starts with {magic!r}")
    if ptdaemon_file.FIRST_LINE.match(head):
        return _from_ptdaemon
    if lpm01a_log.IS_LOG.search(head):
        return _from_log
    return _from_text_log if text_logs.log_of(head) else _from_csv


def _from_ppk2(file: ImportFile) -> ImportSamples:
    content = ppk2_file.read_ppk2(file.path)
    if content.count < 2:
        raise FileRefused(TOO_FEW)
    if file.supply_v is None:
        raise FileRefused("a .ppk2 has no voltage: pass the voltage, as in --supply 3.3")
    tally = SampleTally()
    blocks = ppk2_file.read_samples(content, file.supply_v, tally)
    facts = {FORMAT: "Power Profiler .ppk2", IS_STEADY: True}
    header = file.header(content.rate_hz, facts, is_averaging=content.is_averaging)
    capability = replace(header.capability, digital_count=ppk2_file.INPUT_COUNT)
    return ImportSamples(replace(header, capability=capability), blocks, tally.loss)


def _from_sigrok(file: ImportFile) -> ImportSamples:
    content = sigrok_file.read_sigrok(file.path)
    columns = content.columns(file.options)
    kind = _samples_of(file.options, None)
    table = _table_decoder(columns, file, lambda row: f"sample {row + 1}", kind)
    blocks = sigrok_file.read_samples(content, table)
    return _from_table(file, blocks, table, name="sigrok .sr", is_assumed=kind is None)


def _from_jls(file: ImportFile) -> ImportSamples:
    content = jls_file.read_jls(file.path, file.supply_v)
    tally = SampleTally()
    blocks = jls_file.read_samples(content, file.supply_v, tally)
    facts = {FORMAT: "Joulescope .jls", "utc_first": content.utc_first}
    header = file.header(content.rate_hz, facts)
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
    decoder, declared = log.decoder(), log.capability
    header = file.header(
        declared.rate_hz,
        {FORMAT: "PowerShield log", "supply_v": log.settings.supply_v},
        is_averaging=declared.is_averaging,
    )
    capability = replace(header.capability, is_uniform=True, loss_detection=declared.loss_detection)
    blocks = lpm01a_log.read_samples(log, decoder)
    header = replace(header, capability=capability)
    return ImportSamples(header, blocks, lambda: lpm01a_log.loss_of(decoder))


def _from_ptdaemon(file: ImportFile) -> ImportSamples:
    file.refuse_power_given("the file contains power")
    kind = _samples_of(file.options, Samples.MEANS)
    table = _table_decoder(ptdaemon_file.COLUMNS, file, lambda row: f"sample {row + 1}", kind)
    blocks = ptdaemon_file.read_rows(file.path, table)
    return _from_table(file, blocks, table, name="PTDaemon log")


def _from_text_log(file: ImportFile) -> ImportSamples:
    file.refuse_power_given("the file contains power")
    with file.path.open("rb") as content:
        log = text_logs.log_of(content.read(_HEAD_BYTES))
    assert log is not None, "checked by _reader_of"
    kind = _samples_of(file.options, log.samples)
    table = TableDecoder(
        text_logs.log_columns(file.options.rate_hz),
        None,
        lambda row: f"sample {row + 1}",
        samples=kind or Samples.INSTANTS,
    )
    blocks = text_logs.read_log(file.path, log, table)
    return _from_table(file, blocks, table, name=log.name, is_assumed=kind is None)


def _from_csv(file: ImportFile) -> ImportSamples:
    layout = csv_layout.read_layout(file.path, file.options)
    window = window_of(file.options, layout.columns.time.scale)
    plan = plan_table(layout, window)
    known = layout.known
    kind = _samples_of(file.options, known.samples if known else None)
    numbers = csv_file.LineNumbers()
    columns = csv_file.sample_columns(layout)
    table = _table_decoder(columns, file, numbers.of, kind, known)
    table = replace(table, may_miss=True, tick_ns=plan.tick_ns)
    samples = _from_table(
        file,
        csv_file.read_blocks(layout, plan, window, table, numbers),
        table,
        name=known.name if known else "CSV",
        is_assumed=kind is None,
        known=known,
    )
    facts = {
        COLUMNS: layout.columns.facts,
        NOTES: [to_plain(note) for note in plan.notes],
        EDGE_S: plan.edge_s,
    }
    header = replace(samples.header, facts=samples.header.facts | facts)
    return replace(samples, header=header)


def _table_decoder(
    columns: TableColumns,
    file: ImportFile,
    place_of: Callable[[int], str],
    kind: Samples | None,
    known: KnownTable | None = None,
) -> TableDecoder:
    return TableDecoder(
        columns,
        file.supply_v,
        place_of,
        samples=kind or Samples.INSTANTS,
        full_rate_hz=known.full_rate_hz if known and kind is known.samples else None,
        limit_a=known.limit_a if known else None,
    )


def _samples_of(options: ImportOptions, known: Samples | None) -> Samples | None:
    """What a sample represents, from the options or else from `known`; None if unknown."""
    if options.is_averaging is None:
        return known
    return Samples.MEANS if options.is_averaging else Samples.INSTANTS


def _from_parquet(file: ImportFile) -> ImportSamples:
    columns = parquet_file.read_columns(file.path, file.options)
    kind = _samples_of(file.options, None)
    table = _table_decoder(columns, file, lambda row: f"row {row + 1}", kind)
    blocks = parquet_file.read_rows(file.path, table)
    return _from_table(file, blocks, table, name="Parquet", is_assumed=kind is None)


def _cut(samples: ImportSamples, options: ImportOptions) -> ImportSamples:
    """The samples between `--from` and `--until`, and the samples lost in this interval.

    Raises:
        UsageError: a bound is not a time.
        FileRefused: no sample is in this interval.
    """
    if options.begin is None and options.until is None:
        return samples
    cut = cut_blocks(samples.blocks, window_of(options))
    first = next(cut, None)
    if first is None:
        raise FileRefused("no sample between --from and --until")
    tally, last_ns = SampleTally(), int(first.time_ns[0])

    def counted() -> Iterator[SampleBlock]:
        nonlocal last_ns
        for block in chain([first], cut):
            tally.add(block.flags)
            last_ns = int(block.time_ns[-1])
            yield block

    def loss() -> LossReport:
        gaps = tuple(
            gap
            for gap in samples.loss().gaps
            if first.time_ns[0] <= gap.begin_ns and gap.end_ns <= last_ns
        )
        flagged = tally.loss()
        return replace(
            samples.loss(),
            received_count=flagged.received_count,
            lost_count=flagged.lost_count + sum(gap.count for gap in gaps),
            gaps=gaps,
            saturated_count=flagged.saturated_count,
        )

    return replace(samples, blocks=counted(), loss=loss)


def _from_table(
    file: ImportFile,
    blocks: Iterator[SampleBlock],
    table: TableDecoder,
    *,
    name: str,
    is_assumed: bool = False,
    known: KnownTable | None = None,
) -> ImportSamples:
    first = next(blocks, None)
    if first is None or table.pace is None:
        raise FileRefused(TOO_FEW)
    header = file.header(
        table.pace.rate_hz,
        {
            FORMAT: name,
            IS_ASSUMED: is_assumed,
            IS_STEADY: table.pace.is_steady,
            IS_HELD: table.samples is Samples.HELD,
            COLUMNS: table.columns.facts,
        },
        is_averaging=table.samples is not Samples.INSTANTS,
    )
    capability = replace(header.capability, smoothing_s=known.smoothing_s if known else None)
    header = replace(header, capability=capability)
    return ImportSamples(header, chain([first], blocks), table.loss)


def _from_own(file: ImportFile) -> ImportSamples:
    file.refuse_power_given("edgebench wrote this file, which contains power")
    try:
        recorded = read_facts_of(file.path)
    except StoreError as exc:
        raise FileRefused(f"damaged: {exc}") from exc
    header = recorded.header
    facts = file.facts(
        {key: header.facts.get(key) for key in ("supply_v", TOTAL)}
        | {"recorded_by": header.driver, "recorded": header.facts}
        | {FORMAT: "edgebench power.parquet"}
    )
    header = replace(
        header,
        driver=DRIVER,
        capability=replace(header.capability, clock_domain=file.clock_domain),
        facts=facts,
    )
    return ImportSamples(header, parquet_file.read_own(file.path, recorded), lambda: recorded.loss)
