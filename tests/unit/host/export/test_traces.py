"""Perfetto's and Chrome's traces, parsed back, reproduce the run's numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from support.board_runs import stored_board_run
from support.exports import (
    ALL,
    HOSTILE,
    INVALID,
    METERED,
    PLAIN,
    PROFILE,
    Stored,
    judged,
    renamed,
    written,
)
from support.metered import BEGIN_NS, LOAD_W, WORK_W, store_coded_run, write_trace_csv
from support.records import RUN_ID
from support.traces import (
    Parsed,
    assert_is_read_back,
    mean_power_w,
    parse_chrome,
    parse_perfetto,
    window_ns,
)

from edgebench.host.bench.energy import TraceOptions, add_energy
from edgebench.host.export import run_trace
from edgebench.host.export.exported import ExportedRun, find_exported
from edgebench.host.export.perfetto import padded_varints, varint
from edgebench.host.export.run_trace import INFERENCE, NO_READING, WARM_UP, run_trace_of
from edgebench.host.result.facts import ImportOptions
from edgebench.host.result.verdict import State
from edgebench.host.series.envelope import Points
from edgebench.host.series.run_series import read_series
from edgebench.host.store.files import read_queries
from edgebench.host.store.layout import Store
from edgebench.protocol.spec import Scenario

STATED = TraceOptions(columns=ImportOptions(is_averaging=True), gain_ratio=0.01)
PARSERS = {"perfetto": parse_perfetto, "chrome": parse_chrome}


def first_counted_ns(exported_run: ExportedRun) -> int:
    """Start of the first counted query, on the device's clock."""
    assert exported_run.run.metrics.warmup is not None
    return int(
        read_queries(exported_run.directory).start_ns[exported_run.run.metrics.warmup.query_count]
    )


@pytest.fixture(params=PARSERS)
def parsed(request: pytest.FixtureRequest, metered: ExportedRun) -> Parsed:
    """That run in each of the formats."""
    [found] = PARSERS[request.param](written(request.param, [metered]))
    return found


def test_numbers_of_the_run_are_computed_from_its_trace_again(
    parsed: Parsed, metered: ExportedRun
) -> None:
    """Otherwise slices would be rounded, on the wrong clock, or include the warm-up."""
    summary, warmup = metered.run.metrics.latency_ns, metered.run.metrics.warmup
    assert summary is not None
    assert warmup is not None
    assert summary.p50 is not None
    latencies_ns = parsed.latencies_ns(INFERENCE)
    assert len(latencies_ns) == summary.count
    assert latencies_ns[(len(latencies_ns) - 1) // 2] <= summary.p50
    assert latencies_ns[len(latencies_ns) // 2] >= summary.p50
    assert (latencies_ns[0], latencies_ns[-1]) == (summary.min, summary.max)
    assert len(parsed.latencies_ns(WARM_UP)) == warmup.query_count


def test_numbers_of_runs_of_every_kind_are_computed_again(stored: Stored) -> None:
    """Otherwise the traces of only some kinds of runs would agree with them."""
    runs = stored(ALL)
    assert len(runs) == 10
    kinds = [set(assert_is_read_back(run).slices) for run in runs]
    assert {"run"} in kinds, "one of them is invalid"


def test_power_is_on_the_clock_of_the_inferences(parsed: Parsed, metered: ExportedRun) -> None:
    """Otherwise the power next to a query would be another's, or its mean not be the run's."""
    energy = metered.run.metrics.energy
    assert energy is not None
    mean_w = mean_power_w(parsed, "power synthetic")
    assert mean_w == pytest.approx(energy.power_w_mean, rel=5e-3)
    assert mean_w == pytest.approx(WORK_W, rel=5e-3)
    assert mean_w != pytest.approx(LOAD_W, rel=0.1)
    assert parsed.units["power synthetic"] == "W"


def test_phases_and_facts_are_in_the_trace(parsed: Parsed, metered: ExportedRun) -> None:
    """Otherwise a trace would show neither what the device did nor whether its numbers count."""
    phases = [name for name, *_ in parsed.slices["phases"]]
    assert phases[:2] == ["idle", "starting"]
    assert "measuring" in phases
    [(title, begin_ns, end_ns)] = parsed.slices["run"]
    assert title == parsed.title
    every = [times for track in parsed.slices.values() for _, *times in track]
    assert begin_ns == 0 == min(times[0] for times in every)
    assert end_ns == max(times[1] for times in every)
    assert parsed.facts["run_id"] == metered.run.run_id
    assert metered.run.verdict.state.value in parsed.title
    assert "95 %" in parsed.facts["latency_ns.p50"]
    assert "length of a block is 0.001 s" in parsed.facts["power"]


def test_sensors_are_counters_with_units(parsed: Parsed, metered: ExportedRun) -> None:
    """Otherwise temperature and clock would be missing next to the latency."""
    series = read_series(metered.directory, metered.run)
    for name, points in series.sensors.items():
        assert [value for _, value in parsed.counters[name]] == points.value.tolist()
    assert parsed.units["thermal.cpu.0.temp_c"] == "°C"


def test_both_formats_have_the_same_content(stored: Stored) -> None:
    """Otherwise an addition would be forgotten in one of them."""
    runs = [*stored(PLAIN), *stored(PROFILE), *stored(METERED), *stored(INVALID)]
    pairs = zip(
        parse_perfetto(written("perfetto", runs)),
        parse_chrome(written("chrome", runs)),
        strict=True,
    )
    for one, other in pairs:
        assert one == replace(other, units=one.units)
        assert {unit or "value" for unit in one.units.values()} == set(other.units.values())


def test_invalid_run_has_no_slice_and_no_counter(stored: Stored) -> None:
    """Otherwise refused numbers could be read off the screen."""
    [one] = stored(INVALID)
    made = run_trace_of(one)
    assert (made.slices, made.counters, made.end_ns) == ((), (), 0)
    assert "invalid" in made.title
    assert made.facts["reasons"]


def test_queries_of_a_server_are_counted_while_they_wait(stored: Stored) -> None:
    """Otherwise a trace would show evenly fast inferences while a queue builds up."""
    [one] = [judged(one, State.SUSPECT) for one in stored(INVALID)]
    summary = one.run.metrics.end_to_end_ns
    assert summary is not None
    counters = {counter.name: counter for counter in run_trace_of(one).counters}
    waiting = counters["queries due and not done"]
    assert waiting.value.min() == waiting.value[-1] == 0
    # Little's law: the area under the count is the sum of all latencies.
    area_ns = float(np.diff(waiting.time_ns) @ waiting.value[:-1])
    assert area_ns == pytest.approx(summary.mean * summary.count, rel=1e-9)


def test_queries_of_several_inferences_are_slices(stored: Stored) -> None:
    """Otherwise it would be invisible which eight inferences belong to one query."""
    [one] = stored(PLAIN)
    spec = replace(one.run.spec, scenario=Scenario.MULTI_STREAM, samples_per_query=4)
    metrics = replace(one.run.metrics, end_to_end_ns=one.run.metrics.latency_ns)
    grouped = replace(one, run=replace(one.run, spec=spec, metrics=metrics))
    tracks = {track.name: track for track in run_trace_of(grouped).slices}
    [queries], [_, inferences] = tracks["queries"].groups, tracks["inferences"].groups
    assert len(queries.begin_ns) == len(inferences.begin_ns) // 4
    last = inferences.end_ns[3::4][: len(queries.end_ns)]
    assert (queries.begin_ns <= inferences.begin_ns[::4][: len(queries.begin_ns)]).all()
    assert (queries.end_ns >= last).all()


def test_throttled_stretches_are_slices(metered: ExportedRun) -> None:
    """Otherwise the trace would not show when the device slows down."""
    run = metered.run
    assert run.metrics.thermal is not None
    thermal = replace(run.metrics.thermal, cause="thermal", throttled_spans_s=((0.1, 0.3),))
    hot = replace(metered, run=replace(run, metrics=replace(run.metrics, thermal=thermal)))
    tracks = {track.name: track for track in run_trace_of(hot).slices}
    [group] = tracks["throttled"].groups
    counted = tracks["inferences"].groups[-1]
    assert group.name == "thermal"
    assert int(group.begin_ns[0] - counted.begin_ns[0]) == 100_000_000
    assert int(group.end_ns[0] - group.begin_ns[0]) == 200_000_000


def test_operators_of_a_profile_are_laid_end_to_end(stored: Stored) -> None:
    """Otherwise a profile, which has no latency to claim, would show no operators."""
    [one] = stored(PROFILE)
    assert one.run.metrics.profile is not None
    tracks = {track.name: track for track in run_trace_of(one).slices}
    assert "inferences" not in tracks
    groups = tracks["operators, median times laid end to end"].groups
    operators = one.run.metrics.profile.operators
    assert [group.name for group in groups] == [operator.operator for operator in operators]
    for group, following in pairwise(groups):
        assert group.end_ns == following.begin_ns
    took_ns = [int(group.end_ns[0] - group.begin_ns[0]) for group in groups]
    assert took_ns == [round(operator.typical_ns) for operator in operators]


def test_operators_of_an_emulator_are_marked_and_have_no_time(stored: Stored) -> None:
    """Otherwise virtual times would look like those of a board."""
    [exported] = stored(PROFILE)
    profile = exported.run.metrics.profile
    assert profile is not None
    counted = tuple(replace(operator, instructions=2e3) for operator in profile.operators)
    metrics = replace(exported.run.metrics, profile=replace(profile, operators=counted))
    run = replace(exported.run, metrics=metrics, emulated=True)
    tracks = {track.name: track for track in run_trace_of(replace(exported, run=run)).slices}
    name = "operators, median times laid end to end, emulated: virtual time, in proportion to the "
    group, *_ = tracks[f"{name}instructions"].groups
    assert group.facts["instructions"] == "2000"
    assert "total_ns" not in group.facts


def test_power_without_a_place_on_the_clock_is_left_out(metered: ExportedRun) -> None:
    """Otherwise a trace would show the power of one moment next to the inference of another."""
    run = metered.run
    assert run.metrics.energy is not None
    energy = replace(run.metrics.energy, sync=None, refused="no marks")
    apart = replace(metered, run=replace(run, metrics=replace(run.metrics, energy=energy)))
    made = run_trace_of(apart)
    assert not any(counter.name.startswith("power") for counter in made.counters)
    assert made.facts["power"].endswith("no marks")


def test_power_is_thinned_by_blocks_with_their_extremes(
    metered: ExportedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a long recording would fill the memory, lose its peaks, or change its mean."""
    whole = {counter.name: counter for counter in run_trace_of(metered).counters}
    monkeypatch.setattr(run_trace, "MAX_RATE_HZ", 100.0)
    thin = {counter.name: counter for counter in run_trace_of(metered).counters}
    assert len(thin["power synthetic"].value) * 9 < len(whole["power synthetic"].value)
    names = ["power synthetic, lowest", "power synthetic", "power synthetic, highest"]
    low, mean, high = (thin[name].value for name in names)
    assert (low <= mean).all()
    assert (mean <= high).all()
    assert high.max() == whole["power synthetic"].value.max()
    energies_j = [
        float(np.diff(one["power synthetic"].time_ns) @ one["power synthetic"].value[:-1]) / 1e9
        for one in (whole, thin)
    ]
    assert energies_j[0] == pytest.approx(energies_j[1], rel=1e-6)


def test_runs_are_processes_of_one_trace(stored: Stored) -> None:
    """Otherwise two runs would lie on top of each other."""
    runs = [*stored(PLAIN), *stored(METERED)]
    found = parse_perfetto(written("perfetto", runs))
    assert [one.facts["run_id"] for one in found] == [run.run.run_id for run in runs]


def test_hostile_name_is_text_in_a_trace(stored: Stored) -> None:
    """Otherwise a name would end a field of the encoding."""
    [found] = parse_perfetto(written("perfetto", list(map(renamed, stored(PLAIN)))))
    assert found.title.startswith(f"{HOSTILE} on {HOSTILE}: ")


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2**40 + 5, 2**56 - 1])
def test_padded_number_is_the_same_number(value: int) -> None:
    """Otherwise a long trace would have its last hour at its beginning."""
    packed = bytes(padded_varints(np.array([value]))[0])
    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(packed)) == value
    assert all(byte & 0x80 for byte in packed[:-1])
    assert not packed[-1] & 0x80
    bare = varint(value)
    assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(bare)) == value


def test_file_is_whole_or_not_there(tmp_path: Path, stored: Stored) -> None:
    """Otherwise half a trace on a full disk would look like a short run."""
    from edgebench.host.export.files import export_runs
    from edgebench.host.export.registry import named_format
    from edgebench.protocol.errors import RunDamaged

    [one] = stored(METERED)
    lost = replace(one, directory=tmp_path / "nothing")
    path = tmp_path / "run.pftrace"
    path.write_bytes(b"before")
    with pytest.raises(RunDamaged):
        export_runs([one, lost], named_format("perfetto"), path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("parse", PARSERS)
def test_lost_samples_of_power_are_a_gap_of_the_trace(parse: str, tmp_path: Path) -> None:
    """Otherwise a counter would keep its value over a gap, as if it had been measured."""
    store, path = Store(tmp_path / "store"), tmp_path / "trace.csv"
    store_coded_run(store)
    write_trace_csv(path)
    head, *rows = path.read_text().splitlines()
    lost = range(4430, 4435)  # milliseconds of the file; more, or elsewhere, is refused
    path.write_text("\n".join([head, *(row for n, row in enumerate(rows) if n not in lost)]))
    add_energy(store, RUN_ID, path, STATED)
    [one] = find_exported(store, [RUN_ID])
    [found] = PARSERS[parse](written(parse, [one]))
    counter = min((name for name in found.counters if name.startswith("power ")), key=len)
    [(name, begin_ns, end_ns)] = found.slices[f"{counter}, gaps"]
    assert name == NO_READING
    assert end_ns - begin_ns == pytest.approx(6e6, abs=2e4)
    # The file's clock begins when the device's clock showed one second.
    behind_ns = begin_ns - int(found.facts["first_query_ns"])
    assert behind_ns == pytest.approx(4.429e9 + BEGIN_NS - first_counted_ns(one), abs=2e6)
    times_ns = [time_ns for time_ns, _ in found.counters[counter]]
    assert times_ns[0] < begin_ns < end_ns < times_ns[-1]


def test_sensor_that_was_not_read_for_long_has_a_gap(metered: ExportedRun) -> None:
    """Otherwise the temperature would look constant while it was not read."""
    name = "thermal.cpu.0.temp_c"
    whole = read_series(metered.directory, metered.run)
    points = whole.sensors[name]
    is_kept = np.ones(len(points), bool)
    is_kept[5:15] = False
    sensors = {name: Points(points.time_s[is_kept], points.value[is_kept])}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_trace, "read_series", lambda *_: replace(whole, sensors=sensors))
        tracks = {track.name: track for track in run_trace_of(metered).slices}
    [group] = tracks[f"{name}, gaps"].groups
    length_ns = int(group.end_ns[0] - group.begin_ns[0])
    assert length_ns == round(1e9 * (points.time_s[15] - points.time_s[4]))


@pytest.mark.parametrize("parse", PARSERS)
def test_numbers_of_a_board_are_computed_from_its_trace_again(parse: str, tmp_path: Path) -> None:
    """Otherwise a microcontroller's timings would be missing, or come from another counter."""
    one = stored_board_run(tmp_path / "run")
    [found] = PARSERS[parse](written(parse, [one]))
    summary, windows = one.run.metrics.latency_ns, one.run.metrics.windows
    assert summary is not None
    assert windows is not None
    latencies_ns = found.latencies_ns(INFERENCE)
    assert len(latencies_ns) == summary.count == windows.inference_count
    assert (latencies_ns[0], latencies_ns[-1]) == (summary.min, summary.max)
    each_ns = [window_ns(facts) / int(facts["inferences"]) for facts in found.windows]
    assert float(np.median(each_ns)) == pytest.approx(windows.duration_ns_per_inference)
    assert 1e9 / float(np.median(each_ns)) == pytest.approx(one.run.metrics.throughput_per_s)
    spans = found.slices["windows"]
    assert [name for name, *_ in spans] == ["1", "2", "3", "4", "5"]
    assert all(begin < end for _, begin, end in spans)
    for _, begin_ns, end_ns in found.slices["inferences"]:
        assert any(begin <= begin_ns and end_ns <= end for _, begin, end in spans)


def test_channel_with_a_single_sample_makes_no_trace_fail(metered: ExportedRun) -> None:
    """Otherwise a meter that failed at once would cost the trace of a whole run."""
    whole = read_series(metered.directory, metered.run)
    empty = [
        replace(one, begin_s=none, end_s=none, low_w=none, mean_w=none, high_w=none)
        for one in whole.power
        for none in [np.zeros(0)]
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_trace, "read_series", lambda *_: replace(whole, power=tuple(empty)))
        made = run_trace_of(metered)
    assert [counter.name for counter in made.counters if counter.name.startswith("power")] == []
    assert "power" not in made.facts
