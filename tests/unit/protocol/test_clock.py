"""Two clocks: known answers, and an error bound that holds whatever the network does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tools import need_shared

from edgebench.protocol.clock import DRIFT_LIMIT, ClockModel, ClockProbe, fit
from edgebench.protocol.errors import MeasurementError

NS_PER_S = 1_000_000_000
DELAYS = st.integers(0, 50_000_000)
"""One way, nanoseconds; the two ways of a probe are drawn apart, so they may be very unequal."""
OFFSETS = st.integers(-(2**52), 2**52)


def probe(sent_ns: int, offset_ns: int, there_ns: int, work_ns: int, back_ns: int) -> ClockProbe:
    """What two ideal clocks show for a probe with these delays."""
    received_ns = sent_ns + there_ns + offset_ns
    end_ns = sent_ns + there_ns + work_ns + back_ns
    return ClockProbe(sent_ns, received_ns, received_ns + work_ns, end_ns)


def fitted(*groups: list[ClockProbe]) -> ClockModel:
    """The model through these groups."""
    return fit(groups, host_domain="host:h", device_domain="device:d")


def known() -> Any:
    """Known answers that were computed elsewhere."""
    path = need_shared("known_answers/measurement.json")
    return json.loads(path.read_text())["clock_sync"]


def test_probes_give_the_known_offsets_and_round_trips() -> None:
    """Otherwise the formula of the on-wire protocol would have a sign or a half wrong."""
    for row in known()["four_timestamp_probes"]:
        found = ClockProbe(*(round(t * NS_PER_S) for t in row["t"]))
        assert found.round_trip_ns == round(row["rtt"] * NS_PER_S)
        assert found.offset_ns == pytest.approx(row["offset"] * NS_PER_S, abs=1)


def test_fit_takes_the_probe_with_the_least_round_trip() -> None:
    """Otherwise a probe that waited in a queue would decide the offset."""
    rows = known()["four_timestamp_probes"]
    probes = [ClockProbe(*(round(t * NS_PER_S) for t in row["t"])) for row in rows]
    best = probes[known()["min_rtt_index"]]
    model = fitted(probes)
    assert (model.offset_ns, model.error_ns) == (best.offset_ns, best.round_trip_ns / 2)
    assert model.reference_ns == best.t0


def test_fit_finds_the_known_drift() -> None:
    """Otherwise drift would be lost, or extrapolated in the wrong direction."""
    drift_ppm = round(known()["drift_fit"]["theil_sen_ppm"])
    span_ns = 600 * NS_PER_S
    drifted_ns = span_ns * drift_ppm // 10**6
    model = fitted([probe(0, 5, 0, 0, 0)], [probe(span_ns, 5 + drifted_ns, 0, 0, 0)])
    assert model.slope * 1e6 == pytest.approx(drift_ppm)
    error_ms = (model.to_device(span_ns) - (span_ns + 5)) / 1e6
    expected_ms = known()["drift_fit"]["extrapolation_error_if_offset_only_after_600s_ms"]
    assert error_ms == pytest.approx(expected_ms)


def test_conversion_follows_the_known_drift_table() -> None:
    """Otherwise a slope would be applied per second where it is per nanosecond."""
    for name, drift_ms in known()["drift_table_ms"].items():
        ppm, seconds = (float(part.rstrip("pms")) for part in name.split("_"))
        model = ClockModel("host:h", "device:d", 0, 0.0, ppm / 1e6, 0.0)
        ahead_ns = model.to_device(round(seconds * NS_PER_S)) - seconds * NS_PER_S
        assert ahead_ns / 1e6 == pytest.approx(drift_ms)


@given(
    offset_ns=OFFSETS,
    first=st.lists(st.tuples(DELAYS, DELAYS, DELAYS), min_size=1, max_size=8),
    last=st.lists(st.tuples(DELAYS, DELAYS, DELAYS), min_size=1, max_size=8),
    at=st.floats(0, 1),
)
def test_offset_is_recovered_within_the_error_bound(
    offset_ns: int,
    first: list[tuple[int, int, int]],
    last: list[tuple[int, int, int]],
    at: float,
) -> None:
    """Otherwise a time would cross domains with a larger error than the model admits."""
    span_ns = 60 * NS_PER_S
    model = fitted(
        [probe(NS_PER_S, offset_ns, *delays) for delays in first],
        [probe(NS_PER_S + span_ns, offset_ns, *delays) for delays in last],
    )
    host_ns = NS_PER_S + round(at * span_ns)
    error_ns = abs(model.to_device(host_ns) - (host_ns + offset_ns))
    assert error_ns <= model.error_ns + 1  # a conversion rounds to whole nanoseconds


@given(
    offset_ns=OFFSETS,
    slope=st.floats(-1e-3, 1e-3),
    since_ns=st.integers(-(10**13), 10**13),
    reference_ns=st.integers(0, 10**15),
)
def test_conversions_there_and_back_agree(
    offset_ns: int, slope: float, since_ns: int, reference_ns: int
) -> None:
    """Otherwise a time that crosses domains twice would come back as another time."""
    model = ClockModel("host:h", "device:d", reference_ns, offset_ns, slope, 0.0)
    host_ns = reference_ns + since_ns
    assert abs(model.to_host(model.to_device(host_ns)) - host_ns) <= 2


def test_one_group_makes_a_model_without_drift() -> None:
    """Otherwise a run whose end was not observed would have no clock."""
    model = fitted([probe(100, 42, 3, 1, 3)], [])
    assert (model.slope, model.offset_ns, model.error_ns) == (0.0, 42.0, 3.0)
    assert (model.host_domain, model.device_domain) == ("host:h", "device:d")


def test_error_of_one_group_grows_as_two_clocks_may_drift() -> None:
    """Otherwise ±0.1 ms would be claimed after 70 s of 40 ppm, which make 2.8 ms."""
    model = fitted([probe(NS_PER_S, 42, 100_000, 0, 100_000)])
    for away_s in (-70, 70, 600):
        host_ns = NS_PER_S + away_s * NS_PER_S
        true_ns = host_ns + 42 + away_s * 40_000
        assert abs(model.to_device(host_ns) - true_ns) <= model.error_ns_at(host_ns)
    assert model.error_ns_at(71 * NS_PER_S) == 100_000 + DRIFT_LIMIT * 70e9
    assert model.error_ns_at(NS_PER_S) == model.error_ns


@given(
    ppm=st.floats(-100, 100),
    groups=st.lists(st.tuples(st.integers(0, 10**9), DELAYS, DELAYS), min_size=1, max_size=5),
    at_s=st.floats(-1000, 1000),
)
def test_error_bound_holds_beyond_the_probes(
    ppm: float, groups: list[tuple[int, int, int]], at_s: float
) -> None:
    """Otherwise the error bound would fail far from the probes.

    Two groups of a busy network turn the line.
    """
    sent_ns = [number * 20 * NS_PER_S + early_ns for number, (early_ns, _, _) in enumerate(groups)]
    model = fitted(
        *(
            [probe(sent, round(sent * ppm / 1e6), there, 0, back)]
            for sent, (_, there, back) in zip(sent_ns, groups, strict=True)
        )
    )
    host_ns = round(at_s * NS_PER_S)
    error_ns = abs(model.to_device(host_ns) - host_ns - host_ns * ppm / 1e6)
    # Clocks show whole nanoseconds, and half a nanosecond at either end also turns the line.
    assert error_ns <= model.error_ns_at(host_ns) + 2 + 0.1 * abs(at_s)


def test_error_between_the_probes_is_that_of_the_worst() -> None:
    """Otherwise every energy would have the edges of a run whose host went away."""
    model = fitted([probe(0, 0, 50_000, 0, 50_000)], [probe(60 * NS_PER_S, 0, 9000, 0, 9000)])
    assert {model.error_ns_at(s * NS_PER_S) for s in (0, 30, 60)} == {model.error_ns}
    assert model.error_ns == 50_000
    assert model.error_ns_at(120 * NS_PER_S) == pytest.approx(150_000)


def test_groups_that_were_taken_at_once_tell_no_rate() -> None:
    """Otherwise two groups a moment apart would give a rate of any size, to be extrapolated."""
    model = fitted([probe(0, 0, 0, 0, 0)], [probe(0, 50, 0, 0, 0)])
    assert (model.slope, model.slope_error) == (0.0, DRIFT_LIMIT)


@pytest.mark.parametrize("groups", [(), ([],), ([], [])])
def test_no_probe_is_no_model(groups: tuple[list[ClockProbe], ...]) -> None:
    """Otherwise a model would be made up where nothing was measured."""
    with pytest.raises(MeasurementError, match="no clock probe"):
        fitted(*groups)


def test_one_bad_group_of_several_does_not_turn_the_line() -> None:
    """Otherwise a network that was busy once would move the whole run."""
    groups = [[probe(second * NS_PER_S, 1000, 100, 0, 100)] for second in (0, 1, 60, 61)]
    groups[1] = [probe(NS_PER_S, 1000, 4_000_000, 0, 0)]
    model = fitted(*groups)
    assert abs(model.to_device(30 * NS_PER_S) - (30 * NS_PER_S + 1000)) < 40_000
    assert model.residual_ns == pytest.approx(2_000_000, rel=0.05)
    assert model.error_ns >= model.residual_ns


def test_steady_clock_has_no_residual() -> None:
    """Otherwise a line through its own points would be called bent."""
    groups = [[probe(s * NS_PER_S, 1000 + s * 20_000, 50, 10, 50)] for s in (0, 10, 20, 60)]
    model = fitted(*groups)
    assert model.residual_ns == pytest.approx(0, abs=1)
    assert model.slope * 1e6 == pytest.approx(20, rel=1e-3)


def probed(*moments: tuple[float, float], delay_ns: int = 100_000) -> ClockModel:
    """The model of probes at these times of the host, with the device's offsets, seconds."""
    return fitted(
        *(
            [probe(round(at_s * 1e9), round(offset_s * 1e9), delay_ns, 0, delay_ns)]
            for at_s, offset_s in moments
        )
    )


@pytest.mark.parametrize("stopped_s", [3.0, -3.0, 0.3])
@pytest.mark.parametrize("times_s", [(0.0, 1.0, 7.0, 7.1), (0.0, 7.0, 7.1), (0.0, 1.0, 7.0)])
@pytest.mark.parametrize("slow_ratio", [0.0, 2e-5])
def test_clock_that_stood_still_is_no_slow_clock(
    stopped_s: float, times_s: tuple[float, ...], slow_ratio: float
) -> None:
    """Otherwise a paused virtual machine would be refused for a clock that runs 43 % slow."""
    found = probed(
        *((at_s, -slow_ratio * at_s - (stopped_s if at_s >= 7 else 0)) for at_s in times_s)
    )
    assert found.jump is not None
    assert found.jump.offset_ns == pytest.approx(-stopped_s * 1e9, abs=0.01e9)
    assert found.jump.begin_ns < 7e9 <= found.jump.end_ns + 3.1e9
    assert abs(found.slope + slow_ratio) <= found.slope_error
    assert found.error_ns >= abs(stopped_s) * 1e9


@given(
    slope=st.floats(-0.5, 0.5),
    groups=st.lists(
        st.tuples(st.integers(1, 60 * NS_PER_S), DELAYS, DELAYS), min_size=1, max_size=5
    ),
)
def test_clock_of_any_rate_stands_never_still(
    slope: float, groups: list[tuple[int, int, int]]
) -> None:
    """Otherwise a clock that loses ticks would be a pause, whose latencies are right."""
    probes, sent_ns = [], 0
    for later_ns, there_ns, back_ns in groups:
        sent_ns += later_ns
        received_ns = round((sent_ns + there_ns) * (1 + slope))
        answered_ns = sent_ns + there_ns + back_ns  # before the next group
        probes.append([ClockProbe(sent_ns, received_ns, received_ns, answered_ns)])
        sent_ns = answered_ns
    assert fitted(*probes).jump is None


def test_clock_that_a_time_server_slews_stands_never_still() -> None:
    """Otherwise each device that has found its time server would have been paused."""
    slewed = probed((0.0, 0.0), (1.0, 0.0), (101.0, -0.05), (101.1, -0.05), delay_ns=1000)
    assert slewed.jump is None


def test_two_probes_show_no_pause() -> None:
    """Otherwise any slow clock would be a pause where nothing else is known."""
    assert probed((0.0, 0.0), (7.0, -3.0)).jump is None
