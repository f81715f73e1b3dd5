"""Reasons why the clocks of meter and device could not be aligned."""

from __future__ import annotations

from edgebench.host.result.reason import ReasonKind
from edgebench.host.result.reasons.words import format_seconds
from edgebench.protocol.percent import format_percent


@ReasonKind
def clocks_not_aligned() -> str:
    return "the clocks of meter and device could not be aligned"


@ReasonKind
def no_method() -> str:
    return "no way to align the meter's clock with the device's"


@ReasonKind
def not_of_this_meter(*, clock: str) -> str:
    return f"not applicable to a meter with the clock {clock}"


@ReasonKind
def lateness_unbounded() -> str:
    return (
        "the load code is not visible to the meter, so the delay of the meter's samples has no "
        "bound"
    )


@ReasonKind
def off_stronger(*, off_ns: float, stronger: str) -> str:
    return f"{off_ns / 1e6:.3g} ms off {stronger}"


@ReasonKind
def late_samples(*, late_ns: float, stronger: str) -> str:
    return f"samples arrive {late_ns / 1e6:.3g} ms late, as {stronger} shows"


@ReasonKind
def samples_before_taken(*, early_ns: float) -> str:
    return (
        f"alignment is wrong: samples would have arrived {early_ns / 1e6:.3g} ms before they "
        "were taken"
    )


@ReasonKind
def not_probed() -> str:
    return "the device's clock was not probed"


@ReasonKind
def probes_off_line(*, off_ns: float, limit_ns: float) -> str:
    return (
        f"probes of the device's clock deviate by {off_ns / 1e6:.3g} ms from their regression "
        f"line, limit {limit_ns / 1e6:.3g} ms"
    )


@ReasonKind
def arrival_unknown() -> str:
    return "the arrival times of samples do not show when the samples were taken"


@ReasonKind
def no_line_to_meter() -> str:
    return "no line of the device is wired to the meter"


@ReasonKind
def no_line_to_input() -> str:
    return "no line of the device is wired to a digital input"


@ReasonKind
def pulses_not_seen() -> str:
    return "no digital input of the meter shows the pulses of the device"


@ReasonKind
def busy_inputs(*, edge_limit: int, input_count: int) -> str:
    return f"{input_count} digital inputs have more than {edge_limit} edges"


@ReasonKind
def pulses_off_line(*, off_ns: float, limit_ns: float) -> str:
    return (
        f"pulses deviate by {off_ns / 1e3:.0f} µs from their regression line, limit "
        f"{limit_ns / 1e3:.0f} µs"
    )


@ReasonKind
def no_code_played() -> str:
    return "the device played no load code"


@ReasonKind
def code_damaged() -> str:
    return "the device's record of its load code is damaged"


@ReasonKind
def code_too_long() -> str:
    return "the load code lasts too long compared with the length of its chips"


@ReasonKind
def nothing_near_code() -> str:
    return "the meter recorded no samples near the load code"


@ReasonKind
def code_not_seen(*, correlation: float, limit: float) -> str:
    return f"the load code is not seen in the power: correlation {correlation:.2f}, limit {limit:g}"


@ReasonKind
def code_in_two_places(*, correlation: float, rival: float) -> str:
    return f"the load code is seen at two positions: correlation {correlation:.2f} and {rival:.2f}"


@ReasonKind
def few_code_changes(*, seen_count: int, needed_count: int) -> str:
    return f"only {seen_count} changes of the load are visible in the power, {needed_count} needed"


@ReasonKind
def code_changes_lost(*, seen_count: int, expected_count: int) -> str:
    return f"only {seen_count} of {expected_count} changes of the load are visible in the power"


@ReasonKind
def faint_code(*, error_ns: float, limit_ns: float) -> str:
    error = f"error {error_ns / 1e6:.3g} ms, limit {limit_ns / 1e6:.3g} ms"
    return f"the load code is too faint to align the clocks: {error}"


@ReasonKind
def slow_meter() -> str:
    return "the meter is too slow to show when the loop begins and ends"


@ReasonKind
def loop_has_no_edges() -> str:
    return "the power does not rise when the loop begins, or fall when it ends"


@ReasonKind
def faint_loop(*, apart_ns: float, fluctuation_ns: float, limit_ns: float) -> str:
    return (
        f"the loop's start and end are too faint: their offsets differ by {apart_ns / 1e6:.3g} "
        f"ms, fluctuation {fluctuation_ns / 1e6:.3g} ms, limit {limit_ns / 1e6:.3g} ms"
    )


@ReasonKind
def short_loop(*, loop_s: float) -> str:
    return f"the loop of {loop_s:.3g} s is too short to be found within the idle times"


@ReasonKind
def loop_not_seen(*, explained_ratio: float, limit_ratio: float) -> str:
    return (
        "the power does not show the loop's start and end: a step at these times explains "
        f"{format_percent(explained_ratio)} of the power's variation, limit "
        f"{format_percent(limit_ratio)}"
    )


@ReasonKind
def loop_in_two_places(*, explained_ratio: float, rival_ratio: float) -> str:
    shares = f"{format_percent(explained_ratio)} and {format_percent(rival_ratio)}"
    places = f"they explain {shares} of the power's variation"
    return f"the loop is seen at two positions: {places}"


@ReasonKind
def no_steady_loop() -> str:
    return "no part of the meter's recording shows the loop in a steady state"


@ReasonKind
def trace_shorter_than_code(*, trace_s: float, code_s: float) -> str:
    trace = f"the trace lasts {format_seconds(trace_s)}"
    return f"{trace}, shorter than the load code of {format_seconds(code_s)}"


@ReasonKind
def trace_too_long(*, trace_s: float, chip_s: float) -> str:
    chips = f"chips of {format_seconds(chip_s)}"
    trace = f"the trace lasts {trace_s / 3600:.3g} h"
    return f"{trace}, too long to search for a load code with {chips}: cut the trace to the run"


@ReasonKind
def few_codes_played(*, played_count: int, needed_count: int) -> str:
    return f"the run played {played_count} load codes, {needed_count} are needed"


@ReasonKind
def several_runs_fit(*, run_count: int) -> str:
    return (
        f"the trace contains the load codes of one run, but they fit {run_count} runs of the set: "
        "record the whole set"
    )


@ReasonKind
def several_places_fit(*, place_count: int, places: str) -> str:
    return (
        f"the load codes of the run fit at {place_count} positions of the trace, {places} after "
        "its first sample: cut the trace to the run"
    )


@ReasonKind
def codes_far_apart(*, seen_s: float, played_s: float) -> str:
    return (
        f"the load codes are {seen_s:.4g} s apart in the trace, but were played {played_s:.4g} s "
        "apart: samples between them are lost, or the times of the trace are wrong"
    )


@ReasonKind
def second_code_absent(*, first_s: float, played_s: float, trace_s: float) -> str:
    return (
        f"the first load code is at {first_s:.4g} s in the trace, but the second, {played_s:.4g} "
        f"s later, is missing: the trace ends at {trace_s:.4g} s"
    )


@ReasonKind
def first_code_absent(*, second_s: float, played_s: float) -> str:
    return (
        f"the second load code is at {second_s:.4g} s in the trace, but the first, "
        f"{played_s:.4g} s earlier, is missing"
    )


@ReasonKind
def code_at_other_rate(*, factor: float) -> str:
    return (
        "the first load code is found only if the times of the trace are multiplied by "
        f"{factor:.3g}: state the "
        "unit of the time column (--time), or the rate (--rate)"
    )


@ReasonKind
def performance_mode(*, firmware: str) -> str:
    return (
        f"{firmware} is in performance mode: it makes no pulses for a meter, and none of its "
        "clocks is aligned with the meter's clock; flash a build in energy mode"
    )


@ReasonKind
def stopped_in_window() -> str:
    return "the run was stopped in a window, so its pulses cannot be assigned to windows"


@ReasonKind
def no_digital_input() -> str:
    return (
        "this meter records no digital input, which is needed to see the board's pulses (an "
        "LPM01A records its input with format=ascii,events=fal)"
    )


@ReasonKind
def few_windows(*, window_count: int, needed_count: int) -> str:
    return f"{window_count} windows are too few to identify their edges: {needed_count} are needed"


@ReasonKind
def window_pulses_not_seen(
    *, pulse_count: int, window_count: int, window_s: float, allowed_s: float, edges: str
) -> str:
    return (
        f"no digital input has the {pulse_count} pulses of {window_count} windows of equal "
        f"length; a window lasts {format_seconds(window_s)} according to the board's output, and "
        f"most pulses must match within {format_seconds(allowed_s)} (falling edges: "
        f"{edges or 'none'})"
    )


@ReasonKind
def two_inputs_fit(*, number: int, other: int) -> str:
    pulses = "pulses that fit the windows, but at different times"
    return f"inputs {number} and {other} both have {pulses}"


@ReasonKind
def pauses_like_windows(*, window_s: float, pause_s: float, allowed_s: float) -> str:
    return (
        f"windows of {format_seconds(window_s)} and pauses of {format_seconds(pause_s)} are equal "
        f"within {format_seconds(allowed_s)}, so a lost pulse would go undetected: longer windows "
        f"are needed"
    )
