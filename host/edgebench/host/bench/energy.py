"""Add energy to a stored run, from the file of an instrument that edgebench does not drive.

The samples are stored as the run's power.parquet, and the instrument's file is copied to raw/. Then
the run is recomputed from its raw files, as in `edgebench verify`. If the file yields no energy,
nothing is stored and the run is unchanged.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgebench.host.analysis.energy.plausible.screen import screen
from edgebench.host.analysis.energy.sync.find_codes import RATE_LIMIT, are_alike
from edgebench.host.analysis.energy.trace import IS_ASSUMED, MAX_GAIN_RATIO, NOTES
from edgebench.host.analysis.energy.uncertainty import BETWEEN_SAMPLES, IN_STEP
from edgebench.host.analysis.energy.windows import CODES_OF_RUN
from edgebench.host.analysis.run import analyse_run, fit_clock
from edgebench.host.power.imports.importer import ImportFile, open_file
from edgebench.host.power.trace import kept_path, load_codes, placed, write_trace
from edgebench.host.result.document import created_utc, to_document
from edgebench.host.result.energy import EnergyResult, SyncMethod
from edgebench.host.result.facts import EnergyRequest, HostFacts, ImportOptions, TraceRequest
from edgebench.host.result.reasons.energy import unsampled_activity
from edgebench.host.result.run import Run
from edgebench.host.show.sentences import described
from edgebench.host.store.change import changed_run
from edgebench.host.store.files import (
    file_digests,
    read_clock,
    read_facts,
    read_queries,
    read_record,
    read_traces,
)
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import HOST_FACTS_FILE, POWER_FILE, RAW_DIRECTORY, RUN_FILE, Store
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Header
from edgebench.meters.uncertainty import Unit
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import (
    EdgebenchError,
    FileRefused,
    NoLoadCode,
    RunDamaged,
    SamplesUnknown,
    StoreError,
    TraceOfAnotherRun,
    TraceRefused,
    UsageError,
    os_error_as,
)
from edgebench.protocol.percent import format_percent
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import RunRecord
from edgebench.protocol.text import printable
from edgebench.system.whole_files import make_directory, whole_file, write_whole

NEIGHBOURS = 100
"""The power file is compared with at most this many runs before a run, and with at most this many
runs after the run. The file may also contain the load codes of these other runs."""
SAME_PLACE_NS = 100_000_000
"""Largest difference between the clock offsets of two runs that are aligned with the same power
file. The drift of the clocks is added to this limit, which is a few times the shortest on or off
time of a load code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOptions:
    """The user's description of a power trace and of the instrument that recorded it."""

    columns: ImportOptions = field(default_factory=ImportOptions)
    gain_ratio: float | None = None
    offset: tuple[float, Unit] | None = None
    instrument: str | None = None
    battery_capacity_j: float | None = None


def add_energy(store: Store, run_id: str, path: Path, options: TraceOptions) -> Run:
    """Compute the energy of a stored run from a file, and store it with the run.

    Raises:
        NoLoadCode: the run played fewer load codes than the alignment needs.
        TraceRefused: the file yields no energy for this run; nothing was stored.
        TraceOfAnotherRun: the load codes that were found in the file belong to another run.
        FileRefused: the file is damaged, or lacks necessary information.
        UsageError: the run already has the recording of a meter.
        StoreError: the run cannot be read or written.
    """
    directory = store.directory(run_id)
    record, facts = read_record(directory), read_facts(directory)
    count = len(load_codes(record))
    if count < CODES_OF_RUN:
        raise NoLoadCode(
            f"run {run_id} played {count or 'no'} load code; "
            f"aligning a file requires {CODES_OF_RUN} load codes"
        )
    if record.spec.meter is not None or (facts.energy is not None and facts.energy.trace is None):
        meter = record.spec.meter or (facts.energy.meter if facts.energy else "")
        raise UsageError(
            f"run {run_id} already has the recording of a meter, {meter}; a trace can only be "
            "added to a run without a meter"
        )
    store.check_writable()
    with tempfile.TemporaryDirectory(prefix=".energy-", dir=store.root) as folder:
        scratch = Path(folder)
        request, file = _read(scratch, path, options)
        header = open_file(path, request.options)[1].header
        _refuse_implausible(scratch, header, request, record)
        request = replace(request, reading=tuple(header.facts.get(NOTES, ())))
        around = list(_runs_around(store, run_id, record))
        twins = _twins(record, facts, around)
        others = [other for other, _ in around]
        request = placed(scratch, request, record, others, twin_count=len(twins))
        _refuse_taken(request, around)
        # Written again with the clock rate, which scales all durations and is known only now.
        write_trace(scratch, path, request)
        facts = replace(facts, energy=_energy_request(request, options))
        power = PowerFile.open(scratch)
        made_utc = created_utc(run_id) or str(store.document(run_id).get("created_utc"))
        run = _analysed(directory, record, facts, power, made_utc)
        energy = run.metrics.energy
        assert energy is not None, "it was requested"
        if energy.refused is not None:
            _refuse_unknown_samples(power, energy)
            raise TraceRefused(f"{request.name}: {energy.refused}")
        file.check_unchanged()
        with os_error_as(StoreError, "energy not stored", directory):
            copy = scratch / run_id
            with changed_run(store, run_id, copy):
                _keep(copy, path, scratch, request, facts)
                run = replace(run, files=file_digests(copy))
                write_whole(copy / RUN_FILE, json.dumps(to_document(run), indent=1) + "\n")
    note_run(store, run_id)
    return run


def _read(scratch: Path, path: Path, options: TraceOptions) -> tuple[TraceRequest, ImportFile]:
    """Write a file's samples to power.parquet; return a request without alignment, and the file."""
    gain_ratio = options.gain_ratio
    if gain_ratio is not None and not 0 < gain_ratio <= MAX_GAIN_RATIO:
        shown = format_percent(gain_ratio, 3)
        raise UsageError(f"--gain must be above 0 and at most 100 %, got {shown}")
    value, unit = options.offset or (None, Unit.WATT)
    columns = options.columns
    request = TraceRequest(
        name=printable(path.name),
        sha256="",
        options=columns,
        gain_ratio=gain_ratio,
        offset=value,
        offset_unit=unit,
        instrument=None if options.instrument is None else printable(options.instrument),
    )
    try:
        file = write_trace(scratch, path, request)
    except FileRefused as exc:
        # In this command, --voltage also takes a constant voltage.
        refused = type(exc)(str(exc).replace("--supply", "--voltage"))
        refused.works_with = exc.works_with
        raise refused from exc
    return replace(request, sha256=file.sha256), file


def _refuse_implausible(
    scratch: Path, header: Header, request: TraceRequest, record: RunRecord
) -> None:
    """Reject implausible samples, before load codes are searched for in them.

    In the recording of a meter that is connected in reverse, for example, no load code is found,
    and the error would not state the cause.

    Raises:
        TraceRefused: a check of the samples fails.
    """
    # The stored header describes the instrument, and not the columns of the file.
    power = PowerFile.open(scratch)
    power = replace(power, facts=replace(power.facts, header=header))
    for check in screen(power, record.expected.power, is_loaded=True).checks:
        if check.is_passed is False:
            raise TraceRefused(f"{request.name}: {check.detail}")


def _energy_request(request: TraceRequest, options: TraceOptions) -> EnergyRequest:
    return EnergyRequest(
        meter=f"trace:{request.name}",
        sync=SyncMethod.CODED_LOAD,
        battery_capacity_j=options.battery_capacity_j,
        trace=request,
    )


def _refuse_unknown_samples(power: PowerFile, energy: EnergyResult) -> None:
    """Raise a clearer error if the only problem is that samples may be instantaneous values.

    Instantaneous samples may miss activity between them; samples that are means over their
    intervals miss nothing.

    Raises:
        SamplesUnknown: the file does not state whether the samples are means.
    """
    is_of_instants = any(
        reason.id == unsampled_activity.id
        or reason.facts.get("component") in (IN_STEP, BETWEEN_SAMPLES)
        for reason in energy.refusal
    )
    if is_of_instants and power.header.facts.get(IS_ASSUMED):
        rate = power.header.capability.rate_hz
        raise SamplesUnknown(
            f"the file does not state whether its {rate:.4g} samples per second are means over "
            f"their intervals or instantaneous values; if they are instantaneous, {energy.refused}"
        )


def _analysed(
    directory: Path, record: RunRecord, facts: HostFacts, power: PowerFile, made_utc: str
) -> Run:
    """Compute the run from its raw files, with the energy from the samples of a trace."""
    with os_error_as(RunDamaged, "run not readable"):
        traces = read_traces(directory, record, read_queries(directory))
        run = analyse_run(
            record,
            replace(traces, facts=facts, power=power),
            created_utc=made_utc,
            clock=fit_clock(read_clock(directory), record),
        )
        return replace(run, verdict=described(run.verdict))


_OtherRun = tuple[RunRecord, HostFacts]


def _runs_around(store: Store, run_id: str, record: RunRecord) -> Iterator[_OtherRun]:
    """Runs of the device before and after this run; the file may also contain their load codes."""
    ids = store.run_ids()
    place = ids.index(run_id)
    for name in ids[max(0, place - NEIGHBOURS) : place + NEIGHBOURS + 1]:
        if name == run_id:
            continue
        with suppress(EdgebenchError):  # a damaged run has no codes
            other = read_record(store.directory(name))
            if other.device.id == record.device.id:
                yield other, read_facts(store.directory(name))


def _twins(record: RunRecord, facts: HostFacts, around: Sequence[_OtherRun]) -> list[RunRecord]:
    """Other runs of the set that have the same times between load codes as this run."""
    if facts.member is None:
        return []
    codes = load_codes(record)
    return [
        other
        for other, other_facts in around
        if other_facts.member is not None
        and other_facts.member.set_id == facts.member.set_id
        and are_alike(codes, load_codes(other))
    ]


def _refuse_taken(request: TraceRequest, around: Sequence[_OtherRun]) -> None:
    """Reject an alignment of the file that contradicts its alignment with another run.

    The clocks of instrument and device have nearly the same offset in both runs. A different offset
    means that the load codes found in the file belong to the other run.

    Raises:
        TraceOfAnotherRun: the clock offsets of both alignments contradict each other.
    """
    for other, other_facts in around:
        other_trace = other_facts.energy.trace if other_facts.energy else None
        if other_trace is None or other_trace.sha256 != request.sha256:
            continue
        apart_ns = abs(request.reference_ns - other_trace.reference_ns)
        if abs(request.offset_ns - other_trace.offset_ns) > RATE_LIMIT * apart_ns + SAME_PLACE_NS:
            raise TraceOfAnotherRun(
                f"{request.name}: the load codes in the trace belong to run {other.run_id}; the "
                "energy of that run is from this file",
                other.run_id,
            )


def _keep(
    directory: Path, path: Path, scratch: Path, request: TraceRequest, facts: HostFacts
) -> None:
    """Store the file, its samples and the request in the directory of a run."""
    kept = kept_path(directory, request)
    make_directory(kept.parent)
    if not kept.exists():
        with whole_file(kept) as copy:
            with path.open("rb") as file:
                shutil.copyfileobj(file, copy)
            copy.seek(0)
            if sha256_of(copy).hexdigest() != request.sha256:
                raise FileRefused(f"{path}: the file changed while it was read")
    with whole_file(directory / POWER_FILE) as samples, (scratch / POWER_FILE).open("rb") as file:
        shutil.copyfileobj(file, samples)
    plain = json.dumps(to_plain(facts), indent=1) + "\n"
    write_whole(directory / RAW_DIRECTORY / HOST_FACTS_FILE, plain)
