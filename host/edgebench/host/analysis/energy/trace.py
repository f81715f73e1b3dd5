"""Facts and assumptions about an instrument that edgebench did not drive.

A power file contains the readings, but rarely their errors. So the user states the errors from the
data sheet; otherwise the largest usual errors are assumed, and the result lists the assumptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgebench.host.analysis.energy.checks import IS_CALIBRATION_STATED
from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.result.energy import ASSUMED_GAIN, TraceAssumption, TraceFile
from edgebench.host.result.facts import InstrumentErrors, TraceRequest
from edgebench.host.result.reason import Reason
from edgebench.meters.base import Header, MeterInfo
from edgebench.meters.rails import TOTAL
from edgebench.meters.uncertainty import Distribution, Kind, Origin, UncertaintyTerm, Unit, term
from edgebench.protocol.errors import UsageError

TIMEBASE_RATIO = 1e-4
"""Error of a crystal, to which the difference between file clock and device clock is added."""
MAX_GAIN_RATIO = 1.0
"""Largest meaningful gain error, which is as large as the reading itself."""
FORMAT = "format"
"""Key in a header's facts: the format of the file."""
IS_ASSUMED = "is_instants_assumed"
"""Key in a header's facts: whether samples are assumed to be instants."""
IS_STEADY = "is_steady"
"""Key in a header's facts: whether samples are evenly spaced in time."""
IS_HELD = "is_held"
"""Key in a header's facts: whether a value holds until the next value."""
NOTES = "reading"
"""Key in a header's facts: notes on how the file was read."""
EDGE_S = "edge_s"
"""Key in a header's facts: maximum error, in seconds, of the first and the last timestamp, if
timestamps are coarse."""
_STATED = "as the user states it"


def trace_line(trace: TraceRequest) -> ClockLine:
    """Line from the device's clock to the file's, from the position of the load codes."""
    return ClockLine(trace.reference_ns, trace.offset_ns, trace.slope)


def trace_file(trace: TraceRequest, header: Header) -> TraceFile:
    """The facts about the file that are stored with a run."""
    return TraceFile(
        name=trace.name,
        sha256=trace.sha256,
        format=str(header.facts.get(FORMAT)),
        is_averaging=header.capability.is_averaging,
        smoothing_s=header.capability.smoothing_s or 0.0,
        assumed=assumptions_of(header),
        reading=reading_of(trace.reading),
    )


def reading_of(notes: Sequence[Mapping[str, Any]]) -> tuple[Reason, ...]:
    """Notes on how a file was read, from the fact `NOTES` of a header."""
    return tuple(Reason(note["id"], note["facts"]) for note in notes)


def assumptions_of(header: Header) -> tuple[TraceAssumption, ...]:
    """Properties of the instrument that neither the file nor the user states."""
    kinds = {
        uncertainty.kind
        for uncertainty in header.uncertainty
        if uncertainty.origin is Origin.ASSUMED
    }
    assumed = [TraceAssumption.GAIN] if Kind.GAIN in kinds else []
    if all(uncertainty.kind is not Kind.OFFSET for uncertainty in header.uncertainty):
        assumed.append(TraceAssumption.OFFSET)
    if header.facts.get(IS_ASSUMED):
        assumed.append(TraceAssumption.INSTANTS)
    return tuple(assumed)


def with_instrument(imported: Header, errors: InstrumentErrors) -> Header:
    """Header of an import, with the errors of the instrument if the file does not state them.

    Raises:
        UsageError: both the user and the file state errors.
    """
    if imported.uncertainty:
        if errors != InstrumentErrors():
            raise UsageError(
                "the file states the errors of the instrument: omit --gain and --offset"
            )
        return imported
    request = TraceRequest(
        name="",
        sha256="",
        gain_ratio=errors.gain_ratio,
        offset=errors.offset,
        offset_unit=errors.offset_unit,
    )
    terms = _terms(request)
    if edge_s := imported.facts.get(EDGE_S):
        terms += (term(Kind.EDGE, float(edge_s), "timestamps coarser than the samples"),)
    return replace(imported, uncertainty=terms)


def instrument_header(imported: Header, trace: TraceRequest) -> Header:
    """Header that describes the instrument which wrote a file.

    Its facts describe the instrument. Two files from the same instrument have the same facts, so
    their runs can be compared. Without a name, each file counts as a separate instrument.
    """
    name = trace.instrument or f"instrument of {trace.name} ({trace.sha256[:8]})"
    facts = {key: imported.facts.get(key) for key in ("supply_v", TOTAL, FORMAT, IS_ASSUMED)}
    capability = imported.capability
    is_uniform = capability.is_uniform or bool(imported.facts.get(IS_STEADY))
    smoothing_s = max(capability.smoothing_s or 0.0, trace.smoothing_s) or None
    return replace(
        imported,
        capability=replace(capability, is_uniform=is_uniform, smoothing_s=smoothing_s),
        info=MeterInfo(vendor="", model=name),
        uncertainty=imported.uncertainty or _terms(trace),
        facts={**facts, IS_CALIBRATION_STATED: False, "instrument": name},
    )


def _terms(trace: TraceRequest) -> tuple[UncertaintyTerm, ...]:
    gain = ASSUMED_GAIN if trace.gain_ratio is None else trace.gain_ratio
    is_stated = trace.gain_ratio is not None
    origin = Origin.DATASHEET if is_stated else Origin.ASSUMED
    where = _STATED if is_stated else "nobody stated it"
    # The seconds of the file may be wrong by the rate difference between its clock and the
    # device's.
    timebase = TIMEBASE_RATIO + abs(trace.slope)
    terms = [
        term(Kind.GAIN, gain, where, origin=origin),
        term(Kind.TIMEBASE, timebase, "errors of the crystals and of the rate computed from codes"),
    ]
    if trace.noise_w:
        terms.append(
            UncertaintyTerm(
                kind=Kind.NOISE,
                value=trace.noise_w,
                unit=Unit.WATT,
                distribution=Distribution.NORMAL,
                is_common=False,
                origin=Origin.ASSUMED,
                reference="scatter of the samples while the device is idle",
            )
        )
    # Rounding averages out if the noise is at least half a step.
    if trace.noise_w < trace.resolution_w / 2:
        step = "step of its values"
        terms.append(term(Kind.RESOLUTION, trace.resolution_w / 2, step, Unit.WATT))
    if trace.offset is not None:
        terms.append(
            term(Kind.OFFSET, trace.offset, _STATED, trace.offset_unit, origin=Origin.DATASHEET)
        )
    return tuple(terms)
