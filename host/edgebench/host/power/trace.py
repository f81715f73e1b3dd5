"""Takes the power of a run from the file of an instrument that edgebench did not control.

The original file is kept unchanged under raw/trace-DIGEST/ of the run. The samples of the file are
written to power.parquet like the samples of any meter, so the same analysis reads them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from edgebench.host.analysis.energy.seen import idle_noise_w
from edgebench.host.analysis.energy.site import site_in
from edgebench.host.analysis.energy.sync.find_codes import choose_place, find_codes
from edgebench.host.analysis.energy.sync.load_code import Cumulative, align_code
from edgebench.host.analysis.energy.sync.smear import smear_s
from edgebench.host.analysis.energy.trace import instrument_header
from edgebench.host.analysis.energy.values import step_w
from edgebench.host.analysis.energy.windows import idle_windows
from edgebench.host.power.imports.importer import ImportFile, open_file, write_samples
from edgebench.host.power.seen_codes import seen_codes
from edgebench.host.result.facts import TraceRequest
from edgebench.host.result.reasons.table import text_of
from edgebench.host.store.decode import have_same_rows
from edgebench.host.store.layout import POWER_FILE, RAW_DIRECTORY
from edgebench.host.store.power_file import PowerFile, read_power_facts
from edgebench.protocol.errors import (
    CodesNotFound,
    EdgebenchError,
    FileRefused,
    MeasurementError,
    TraceOfAnotherRun,
    TraceRefused,
    UsageError,
)
from edgebench.protocol.record import LoadCode, RunRecord

MIN_CHIP_SAMPLES = 2.0
"""Minimum number of samples in a chip (the shortest step of a load code). With fewer samples,
single chips cannot be detected."""
TRIED_RUNS = 20
"""If a trace does not contain the load codes of its own run, the codes of up to this many other
runs are tried. The runs that are nearest in time are tried first."""
STEP_SAMPLES = 1 << 16
"""Number of samples, at the start of a trace, that determine the resolution of its power."""


def load_codes(record: RunRecord) -> tuple[LoadCode, ...]:
    """Load codes that the run played; empty if the run has no worker record."""
    return record.worker.sync.codes if record.worker is not None else ()


def kept_path(directory: Path, request: TraceRequest) -> Path:
    """Path of the original file in the directory of its run."""
    # Only the last part of each name is used: a store from elsewhere may contain any path.
    return directory / RAW_DIRECTORY / Path(request.folder).name / Path(request.name).name


def write_trace(directory: Path, path: Path, request: TraceRequest) -> ImportFile:
    """Write the samples of a file into power.parquet.

    Raises:
        FileRefused: the file is damaged or incomplete.
        UsageError: both the user and the file state the errors of the instrument.
        OSError: the directory cannot be written.
    """
    file, samples = open_file(path, request.options)
    if samples.header.uncertainty and not (request.gain_ratio is None and request.offset is None):
        raise UsageError(f"{path} states the errors of the instrument: omit --gain and --offset")
    samples = replace(samples, header=instrument_header(samples.header, request))
    write_samples(directory, file, samples)
    return file


def placed(
    directory: Path,
    request: TraceRequest,
    record: RunRecord,
    others: Sequence[RunRecord],
    *,
    twin_count: int = 0,
) -> TraceRequest:
    """Find the run's load codes in the trace, and add their position to the request.

    The result also contains properties of the instrument, determined from the trace: the rate of
    its clock, its smoothing time, its noise while the device is idle, and its resolution.

    Args:
        directory: Directory with the trace's power.parquet.
        request: The request without a position.
        record: The run.
        others: Other runs of the same device; the file may contain them in addition to the run, or
            instead of it.
        twin_count: Number of other runs in the run's set whose load codes fit at the same
            positions.

    Raises:
        TraceRefused: the codes are not found in the trace, or fit at several positions.
        TraceOfAnotherRun: the trace contains the codes of another run instead.
    """
    power = PowerFile.open(directory)
    codes = load_codes(record)
    try:
        channels = site_in(power).channels
        cumulative_j, span_ns = _searched(power)
        rate_hz = power.header.capability.rate_hz
        chip_s = float(np.median(np.diff(codes[0].edges_ns))) / 1e9
        if chip_s * rate_hz < MIN_CHIP_SAMPLES:
            raise TraceRefused(
                f"the trace has {rate_hz:.4g} samples per second, too few for a load code with "
                f"chips of {1e3 * chip_s:.3g} ms"
            )

        places, search = find_codes(codes, cumulative_j, span_ns)
        alike = [
            code
            for other in others
            for code in load_codes(other)
            if code.is_busy == codes[0].is_busy
        ]
        line = choose_place(places, search, alike, twin_count).line
        # Positions to a quarter of a chip give the rate of the file's clock to 400 ppm in 12 s;
        # the changes of the code give it to 10 ppm.
        ends_ns = codes[0].edges_ns[0], codes[-1].edges_ns[-1]
        line = align_code(codes, cumulative_j, line, span_ns=ends_ns, search_ns=0.0).line
        smoothing_s = max(
            smear_s(codes, partial(power.cumulative_j, name), line, 1 / rate_hz)
            for name in channels
        )
    except CodesNotFound as exc:
        other = _recorded_run(power, record, others)
        if other is None:
            seen = seen_codes(codes, *_searched(power))
            more = "" if seen is None else f"; {text_of([seen])}"
            raise TraceRefused(f"{request.name}: {exc}{more}") from exc
        raise TraceOfAnotherRun(
            f"{request.name}: the load codes in the trace belong to run {other.run_id}",
            other.run_id,
        ) from exc
    except MeasurementError as exc:
        raise TraceRefused(f"{request.name}: {exc}") from exc
    return replace(
        request,
        reference_ns=line.reference_ns,
        offset_ns=line.offset_ns,
        slope=line.slope,
        smoothing_s=smoothing_s,
        noise_w=idle_noise_w(power, channels, line, idle_windows(record.events)),
        resolution_w=_resolution_w(power, channels),
    )


def _recorded_run(
    power: PowerFile, record: RunRecord, others: Sequence[RunRecord]
) -> RunRecord | None:
    """The run nearest in time whose load codes are in a trace; None if there is none."""
    cumulative_j, span_ns = _searched(power)
    for other in sorted(others, key=lambda other: _apart_ns(other, record))[:TRIED_RUNS]:
        with suppress(MeasurementError):
            find_codes(load_codes(other), cumulative_j, span_ns)
            return other
    return None


def _searched(power: PowerFile) -> tuple[Cumulative, tuple[int, int]]:
    """Energy of the channel in which codes are searched, and the channel's first and last time."""
    channel = site_in(power).channels[0]
    return partial(power.cumulative_j, channel), power.span_ns(channel)


def _apart_ns(run_record: RunRecord, other: RunRecord) -> int:
    """Time between the beginnings of two runs, on the device's clock."""
    begins_ns = [record.events[0].time_ns if record.events else 0 for record in (run_record, other)]
    return abs(begins_ns[0] - begins_ns[1])


def _resolution_w(power: PowerFile, channels: Sequence[str]) -> float:
    """Coarsest resolution of power of all channels, from the first `STEP_SAMPLES` of each."""
    steps_w: list[float] = []
    for channel in channels:
        first_ns, _ = power.span_ns(channel)
        end_ns = first_ns + round(STEP_SAMPLES / power.header.capability.rate_hz * 1e9)
        _, power_w = power.samples(channel, first_ns, end_ns)
        steps_w.append(step_w(power_w[np.isfinite(power_w)][:STEP_SAMPLES]))
    return max(steps_w)


def trace_trouble(directory: Path, request: TraceRequest) -> str | None:
    """Why a run's samples differ from those in its original file; None if they are equal."""
    path = kept_path(directory, request)
    if not path.is_file():
        return f"{path.relative_to(directory)} is missing"
    with tempfile.TemporaryDirectory(prefix="edgebench-verify-") as folder:
        try:
            file = write_trace(Path(folder), path, request)
        except FileRefused as exc:
            return str(exc).replace(f"{path}: ", "")
        except (EdgebenchError, OSError) as exc:
            return f"{path.relative_to(directory)} cannot be read: {exc}"
        if file.sha256 != request.sha256:
            return f"{path.relative_to(directory)} changed after its energy was computed"
        stored, computed = read_power_facts(directory), read_power_facts(Path(folder))
        is_same = stored.header == computed.header and stored.loss == computed.loss
        if not (is_same and have_same_rows(directory / POWER_FILE, Path(folder) / POWER_FILE)):
            return f"differs from the samples of {path.relative_to(directory)}"
    return None
