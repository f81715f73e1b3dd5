"""Reasons why a run, a phase or an inference has no energy."""

from __future__ import annotations

from edgebench.host.result.reason import ReasonKind
from edgebench.host.result.reasons.words import format_seconds
from edgebench.protocol.percent import format_percent


@ReasonKind
def stated(*, text: str) -> str:
    """Text that comes unchanged from a device, a meter or an error."""
    return text


@ReasonKind
def recorded_elsewhere() -> str:
    return "the recording is on the host that started the run, where the meter was connected"


@ReasonKind
def nothing_recorded() -> str:
    return "the meter recorded nothing"


@ReasonKind
def not_computed(*, error: str, text: str) -> str:
    return f"energy cannot be computed: {error}: {text}"


@ReasonKind
def energy_not_a_number() -> str:
    return "energy is NaN, because samples or error limits of the meter are NaN"


@ReasonKind
def negative_idle(*, power_w_idle: float, limit_w: float) -> str:
    return (
        f"idle power is {power_w_idle:.3g} W, limit {limit_w:.3g} W: the readings have an offset, "
        "or the wrong sign"
    )


@ReasonKind
def negative_energy(*, energy_j: float) -> str:
    return (
        f"energy is negative, {energy_j:.3g} J per inference: power flows back from the device, or "
        "the meter's wires are reversed"
    )


@ReasonKind
def energy_uncertain(
    *, energy_j: float, u95_j: float, limit_j: float, component: str, is_of_instrument: bool
) -> str:
    energy = f"energy is {energy_j:.3g} ± {u95_j:.2g} J, limit ± {limit_j:.3g} J"
    return f"{energy}; largest uncertainty: {component}"


@ReasonKind
def net_uncertain(
    *, energy_j: float, u95_j: float, limit_j: float, limit_ratio: float, component: str
) -> str:
    energy = f"net energy is {energy_j:.3g} ± {u95_j:.2g} J"
    limit = f"limit ± {limit_j:.3g} J, {format_percent(limit_ratio)} of the gross energy"
    return f"{energy}, {limit}; largest uncertainty: {component}"


@ReasonKind
def window_too_short(*, window_s: float, needed_s: float, sync_error_s: float) -> str:
    needed = f"{_meter(sync_error_s)} needs {format_seconds(needed_s)}"
    return f"window of {format_seconds(window_s)} is too short: {needed}"


@ReasonKind
def settling(*, settling_s: float) -> str:
    return f"the first {format_seconds(settling_s)} of the loop were not steady"


@ReasonKind
def samples_missing(*, missing_ratio: float, limit_ratio: float) -> str:
    missing = format_percent(missing_ratio, 2)
    return f"samples are missing in {missing} of the window, limit {format_percent(limit_ratio, 1)}"


@ReasonKind
def empty_window(*, window_s: float) -> str:
    return f"window of {window_s:g} s has no energy"


@ReasonKind
def window_before_recording(*, reach_s: float) -> str:
    return f"window begins {reach_s:.6g} s before the meter's recording"


@ReasonKind
def window_beyond_recording(*, reach_s: float) -> str:
    return f"window extends {reach_s:.6g} s beyond the meter's recording"


@ReasonKind
def too_few_instants(*, rate_hz: float, limit_hz: float) -> str:
    return (
        f"{rate_hz:g} instantaneous samples per second may coincide with periodic activity of the "
        f"device: record at least {limit_hz:g} per second, or let the meter average"
    )


@ReasonKind
def unsampled_activity(
    *,
    rate_hz: float,
    missed_ratio: float,
    limit_ratio: float,
    difference_ppm: float,
    deviation_ppm: float,
    watched_s: float,
    needed_ppm: float,
) -> str:
    missed = (
        f"{rate_hz:g} instantaneous samples per second may miss periodic activity that takes up to "
        f"{format_percent(missed_ratio)} of the energy, limit {format_percent(limit_ratio)}"
    )
    clocks = (
        f"to rule this out in {format_seconds(watched_s)}, the clocks of meter and device must "
        f"differ by {needed_ppm:.2g} ppm or more, but they differ by {difference_ppm:.2g} ± "
        f"{deviation_ppm:.2g} ppm"
    )
    return f"{missed}; {clocks}; measure for longer or at a higher rate, or let the meter average"


@ReasonKind
def unknown_rails(*, rails: str) -> str:
    return f"it is unknown which of these rails supply the device: {rails}"


@ReasonKind
def parts_above_whole(*, whole: str, whole_w: float, parts: str, parts_w: float) -> str:
    powers = f"{whole} is {whole_w:.3g} W, but includes {parts}, which is {parts_w:.3g} W"
    return f"{powers}: the names of the rails are wrong"


@ReasonKind
def idle_on_one_side() -> str:
    return "the device was not idle before the run, or not after it"


@ReasonKind
def idle_above_run() -> str:
    return "the device used more power while it was idle than during the run"


@ReasonKind
def idle_unknown() -> str:
    return "the idle times of the board are unknown: its clock is not aligned with the meter's"


@ReasonKind
def no_such_phase() -> str:
    return "there was none"


@ReasonKind
def queries_overlap(*, scenario: str) -> str:
    return f"queries of the {scenario} scenario overlap in time"


@ReasonKind
def inference_too_short(*, inference_s: float, resolution_s: float, sync_error_s: float) -> str:
    resolves = f"{_meter(sync_error_s)} resolves {format_seconds(resolution_s)}"
    return f"an inference takes {format_seconds(inference_s)}, {resolves}"


def _meter(sync_error_s: float) -> str:
    """The words "this meter", followed by the error of its clock unless the error is 0."""
    if not sync_error_s:
        return "this meter"
    return f"this meter, synchronised to {format_seconds(sync_error_s)},"
