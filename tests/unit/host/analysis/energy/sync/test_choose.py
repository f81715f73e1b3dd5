"""Which of several methods of aligning the clocks is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.energy import SECOND_NS, header

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.power_trace import TracePiece
from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.analysis.energy.sync.choose import RunClocks, SyncChoice, find_sync
from edgebench.host.analysis.energy.sync.load_code import ONE_CODE_DRIFT
from edgebench.host.analysis.energy.uncertainty import EnergyWindow
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.facts import EnergyRequest, HostFacts
from edgebench.host.result.reasons.table import text_of
from edgebench.meters.arrival import ArrivalLine
from edgebench.meters.base import USB_ARRIVAL_S, Header, LossReport
from edgebench.meters.polled import HOST_CLOCK
from edgebench.protocol.clock import ClockModel, ClockProbe, fit
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import LoadCode, Pulse, SyncFacts

CHANNEL = "supply"
RATE_HZ = 100_000.0
CHIP_NS = 20_000_000
CHIPS = "1001011001111100011011101010000"
"""A maximum-length sequence."""
PULSES_NS = [
    group + at * 1_000_000 for group in (SECOND_NS, 9 * SECOND_NS) for at in (0, 10, 30, 45)
]
REST_W, WORK_W = 1.0, 1.5
TRUE_NS = 1_800_000_000
"""Lead of the meter's clock over the device's."""
METHODS = [None, *SyncMethod]
LATE_NS = 1e9 * USB_ARRIVAL_S
SPAN_NS = SECOND_NS, 10 * SECOND_NS
"""Span of the windows of the run."""
_COMPLETE = LossReport(received_count=1)


@dataclass(frozen=True)
class Trace:
    """A recording whose clock is `TRUE_NS` ahead; implements `PowerTrace`.

    Aligning clocks needs no window, no samples and no peak: these methods are not implemented.
    """

    header: Header
    codes: tuple[LoadCode, ...] = ()
    """Codes that are seen in the power."""
    pulses_ns: tuple[int, ...] = ()
    """Pulses that are seen on an input."""
    arrival: ArrivalLine | None = None
    loss: LossReport = _COMPLETE
    flags: int = 0

    def span_ns(self, channel: str) -> tuple[int, int]:
        return TRUE_NS, TRUE_NS + 12 * SECOND_NS

    def cumulative_j(self, channel: str, time_ns: Nanoseconds) -> Floats:
        begin_ns, end_ns = self.span_ns(channel)
        edges, power_w = [begin_ns], [REST_W]
        for code in self.codes:
            edges += [edge + TRUE_NS for edge in code.edges_ns]
            power_w += [*(WORK_W if busy else REST_W for busy in code.is_busy), REST_W]
        ends = np.array([*edges, end_ns])
        energy_j = np.concatenate([[0.0], np.cumsum(np.diff(ends) / 1e9 * power_w)])
        found: Floats = np.interp(time_ns, ends, energy_j)
        return found

    def window(self, channel: str, begin_ns: int, end_ns: int) -> EnergyWindow:
        raise NotImplementedError

    def samples(
        self, channel: str, begin_ns: int | None, end_ns: int | None
    ) -> tuple[Nanoseconds, Floats]:
        raise NotImplementedError

    def peak_w(self, channel: str, begin_ns: int, end_ns: int) -> float:
        raise NotImplementedError

    def pieces(self, channel: str) -> Sequence[TracePiece]:
        raise NotImplementedError

    def without(self, times_ns: Mapping[str, Nanoseconds]) -> Trace:
        raise NotImplementedError

    def falling_edges(self) -> Mapping[int, Nanoseconds]:
        return {0: np.array(self.pulses_ns, np.int64) + TRUE_NS} if self.pulses_ns else {}


def code(begin_ns: int) -> LoadCode:
    """Return a code as the agent plays it."""
    edges = tuple(begin_ns + chip * CHIP_NS for chip in range(len(CHIPS) + 1))
    return LoadCode(edges, tuple(chip == "1" for chip in CHIPS))


CODES = code(2 * SECOND_NS), code(8 * SECOND_NS)
SERIAL = header(clock="meter:7", rate_hz=RATE_HZ, digital_count=8)


def marks(pulse_ns: int) -> SyncFacts:
    """Return the marks of a device with pulses of this length."""
    pulses = tuple(Pulse(at - pulse_ns // 2, at + pulse_ns // 2) for at in PULSES_NS)
    return SyncFacts(codes=CODES, pulses=pulses, line="gpio:x")


def clocks(error_ns: float) -> RunClocks:
    """Return clocks with this error; the host's clock is the device's."""
    return RunClocks(ClockModel("host:h", "device:d", 0, 0.0, 0.0, error_ns), False, SPAN_NS)


def arrival(late_ns: float = 0.0, residual_ns: float = 0.0) -> ArrivalLine:
    """Return arrivals that are this late after the samples were taken."""
    return ArrivalLine(late_ns - TRUE_NS, 0.0, residual_ns)


def errors_of(sync: SyncChoice) -> dict[SyncMethod, float]:
    """Return the error of every method that gave a result and was not dropped."""
    return {one.method: one.error_ns for one in sync.tried if one.error_ns is not None}


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(METHODS),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(1_000, 9_000_000),
    st.floats(1e3, 5e6),
    st.floats(0, 3e6),
    st.floats(0, 20e6),
)
def test_least_error_wins_and_only_what_is_wanted(
    wanted: SyncMethod | None,
    is_played: bool,
    is_wired: bool,
    has_arrivals: bool,
    pulse_ns: int,
    probe_ns: float,
    residual_ns: float,
    late_ns: float,
) -> None:
    """Otherwise a method would be taken because it comes first, or against the request."""
    trace = Trace(
        SERIAL,
        CODES if is_played else (),
        tuple(PULSES_NS) if is_wired else (),
        arrival(late_ns, residual_ns) if has_arrivals else None,
    )
    found = find_sync(trace, CHANNEL, marks(pulse_ns), clocks(probe_ns), wanted)
    good = errors_of(found)
    assert len({one.method for one in found.tried}) == len(found.tried)
    assert all((one.error_ns is None) == (one.reason is not None) for one in found.tried)
    if wanted is not None:
        good = {method: error for method, error in good.items() if method is wanted}
        assert wanted in {one.method for one in found.tried}
    if not good:
        assert found.best is None
        assert found.result.refusal
        return
    assert found.best is not None
    assert found.best.error_ns == min(good.values())
    assert found.best.method in good
    if found.best.method is not SyncMethod.ARRIVAL:
        middle_ns = 5 * SECOND_NS
        off_ns = abs(int(found.best.line.to_meter(middle_ns)) - middle_ns - TRUE_NS)
        assert off_ns <= found.best.error_ns


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 60e6), st.sampled_from([None, SyncMethod.ARRIVAL, SyncMethod.EDGE]))
def test_arrivals_that_marks_contradict_are_dropped(
    late_ns: float, wanted: SyncMethod | None
) -> None:
    """Otherwise a buffer on the way to the host would move the window, unseen by arrivals."""
    trace = Trace(SERIAL, (), tuple(PULSES_NS), arrival(late_ns))
    found = find_sync(trace, CHANNEL, marks(4_000), clocks(1e4), wanted)
    edge_ns = errors_of(found)[SyncMethod.EDGE]
    is_contradicted = late_ns > LATE_NS + 1e4 + edge_ns
    (said,) = [one for one in found.tried if one.method is SyncMethod.ARRIVAL]
    if abs(late_ns - (LATE_NS + 1e4 + edge_ns)) < 100:  # the marks' own rounding decides
        return
    assert (said.error_ns is None) == is_contradicted
    if is_contradicted:
        assert said.reason is not None
        assert said.reason.endswith("ms late, as edge shows")
    expected = {
        None: SyncMethod.EDGE,
        SyncMethod.EDGE: SyncMethod.EDGE,
        SyncMethod.ARRIVAL: None if is_contradicted else SyncMethod.ARRIVAL,
    }[wanted]
    assert (found.best.method if found.best else None) is expected


@pytest.mark.parametrize(
    ("meter", "is_beside", "expected"),
    [
        (header(), False, SyncMethod.PROBES),
        (header(), True, SyncMethod.SHARED_CLOCK),
        (SERIAL, False, SyncMethod.ARRIVAL),
        (SERIAL, True, SyncMethod.ARRIVAL),
    ],
)
def test_clock_of_the_meter_decides_what_can_be_had(
    meter: Header, is_beside: bool, expected: SyncMethod
) -> None:
    """Otherwise host probes would move a meter that has the device's own times."""
    trace = Trace(meter, arrival=arrival())
    found = find_sync(
        trace, CHANNEL, SyncFacts(), replace(clocks(1e4), is_meter_on_device=is_beside)
    )
    assert found.best is not None
    assert found.best.method is expected
    assert meter.capability.clock_domain == HOST_CLOCK or expected is SyncMethod.ARRIVAL


def probed_at(*when_s: int) -> ClockModel:
    """Return probes of a device 40 ppm fast, from a host whose time is its clock's zero."""
    groups = [
        [ClockProbe(at - 100_000, at + ahead_ns, at + ahead_ns, at + 100_000)]
        for at, ahead_ns in ((when * SECOND_NS, 40_000 * when) for when in when_s)
    ]
    return fit(groups, host_domain="host:h", device_domain="device:d")


@pytest.mark.parametrize("meter", [header(), SERIAL])
@pytest.mark.parametrize(("when_s", "bound_ns"), [((0,), 15e6), ((0, 70), 0.2e6)])
def test_error_of_probes_holds_to_the_end_of_the_run(
    meter: Header, when_s: tuple[int, ...], bound_ns: float
) -> None:
    """Otherwise a host that went away would shift a run of 70 s by 2.8 ms, at a stated 0.1 ms."""
    known = RunClocks(probed_at(*when_s), False, (0, 70 * SECOND_NS))
    found = find_sync(Trace(meter, arrival=ArrivalLine(0.0, 0.0, 0.0)), CHANNEL, SyncFacts(), known)
    assert found.best is not None
    device_ns = 70 * SECOND_NS + 70 * 40_000
    off_ns = abs(int(found.best.line.to_meter(device_ns)) - 70 * SECOND_NS)
    assert off_ns <= found.best.error_ns - (LATE_NS if meter is SERIAL else 0.0) <= bound_ns


@pytest.mark.parametrize(("is_beside", "when_s"), [(True, (0,)), (False, (0,)), (False, (0, 600))])
def test_one_code_is_believed_as_far_as_the_rate_that_others_tell(
    is_beside: bool, when_s: tuple[int, ...]
) -> None:
    """Otherwise the only code would be trusted to the end of the run, at an unknown clock rate."""
    model = probed_at(*when_s)
    known = RunClocks(model, is_beside, (0, 600 * SECOND_NS))
    trace = Trace(SERIAL, CODES[:1], arrival=arrival())
    found = find_sync(trace, CHANNEL, SyncFacts(codes=CODES[:1]), known)
    drift = ONE_CODE_DRIFT + (0.0 if is_beside else model.slope_error)
    away_ns = 600e9 - CODES[0].edges_ns[16]
    assert errors_of(found)[SyncMethod.CODED_LOAD] == pytest.approx(drift * away_ns, rel=0.02)


@pytest.mark.parametrize(("smoothing_s", "is_tried"), [(0.5, False), (0.002, True)])
def test_code_that_a_meter_smears_is_no_way(smoothing_s: float, is_tried: bool) -> None:
    """Otherwise a tester that smears half a second would seem wired to another device."""
    meter = header(clock="meter:7", rate_hz=100.0, smoothing_s=smoothing_s)
    trace = Trace(meter, CODES, arrival=arrival())
    found = find_sync(trace, CHANNEL, SyncFacts(codes=CODES), clocks(1e4))
    assert found.best is not None
    assert (SyncMethod.CODED_LOAD in {one.method for one in found.tried}) is is_tried


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (SyncMethod.EDGE, "edge: no line of the device is wired to the meter"),
        (SyncMethod.CODED_LOAD, "coded_load: the device played no load code"),
        (SyncMethod.PROBES, "probes: not applicable to a meter with the clock meter:7"),
        (SyncMethod.ARRIVAL, "arrival: the device's clock was not probed"),
    ],
)
def test_method_that_cannot_be_had_says_why(wanted: SyncMethod, reason: str) -> None:
    """Otherwise the refusal would give the reasons of methods that were not requested."""
    trace = Trace(SERIAL, arrival=arrival())
    found = find_sync(trace, CHANNEL, SyncFacts(), RunClocks(None, False, SPAN_NS), wanted)
    assert found.best is None
    assert text_of(found.result.refusal) == reason


@pytest.mark.parametrize("method", METHODS)
def test_method_that_was_asked_for_is_read_back_as_itself(method: SyncMethod | None) -> None:
    """Otherwise a stored method would be read as an invalid text, and verify end in a traceback."""
    facts = HostFacts(energy=EnergyRequest(meter="x", sync=method))
    assert from_plain(to_plain(facts), HostFacts) == facts


def test_line_of_a_shared_clock_moves_nothing() -> None:
    """Otherwise a polled meter next to the device would be shifted by a fit of noise."""
    shared = replace(clocks(1e4), is_meter_on_device=True)
    found = find_sync(Trace(header()), CHANNEL, SyncFacts(), shared)
    assert found.best is not None
    assert found.best.line == ClockLine(0, 0.0)
    assert found.best.error_ns == 0
