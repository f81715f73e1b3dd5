"""Tables for the terminal: complete, and safe for any name of a device or a file."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from support.board_runs import BOARD, stored_board_run
from support.changes import changed
from support.records import (
    CREATED_UTC,
    DEVICE,
    ENVIRONMENT,
    RUN_ID,
    WARMUP_COUNT,
    latencies,
    run_record,
    traces_of,
    worker_record,
)

from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_set, find_sets
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import SetMember
from edgebench.host.result.latency import LatencySummary
from edgebench.host.result.migrations import AS_STORED
from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.run import Run
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.result.units import ABSENT, format_joules_within, format_ns
from edgebench.host.result.verdict import Finding, RuleOutcome, State
from edgebench.host.show.page import run_page
from edgebench.host.show.run_list import invalid_lines, runs_table
from edgebench.host.show.tables import (
    length_line,
    mark_lines,
    results_table,
    tails_line,
)
from edgebench.host.show.verdict import UNSETTLED_FACTOR, advices, verdict_lines
from edgebench.host.store.index import summary_of
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.spec import RunSpec, Scenario

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
EVIL = "a\x1b[2J\x07\u202eb\r[red]c[/red]"


def run(count: int = 500) -> Run:
    """A synthetic run with this number of queries."""
    latency_ns = latencies(count)
    record = run_record(worker_record(latency_ns))
    traces = traces_of(latency_ns, min(WARMUP_COUNT, count - 1))
    return analyse_run(record, traces, created_utc=CREATED_UTC, clock=None)


def printed(what: RenderableType, width: int = 200) -> str:
    """The output on a terminal of this width without colours."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(what)
    return out.getvalue()


def test_results_show_the_interval_and_the_verdict() -> None:
    """Otherwise a number would be printed without its uncertainty."""
    text = printed(results_table(find_sets([run()])))
    assert re.search(r"±\d+\.\d %", text)
    assert "valid" in text
    assert "digits.tflite" in text
    assert "490" in text, "the number of timed queries"


def test_percentile_without_an_interval_is_a_dash() -> None:
    """Otherwise a p99 of two hundred queries would be printed as a number."""
    made = run(200)
    assert made.verdict.state is State.VALID
    assert made.metrics.latency_ns is not None
    assert made.metrics.latency_ns.p99 is None
    assert printed(results_table(find_sets([made]))).count(ABSENT) == 1


def test_numbers_of_an_invalid_run_are_not_printed() -> None:
    """Otherwise an untrustworthy number would be printed, and copied."""
    made = run(20)
    assert made.verdict.state is State.INVALID
    for table in (results_table(find_sets([made])), runs_table([summary_of(made)])):
        text = printed(table)
        assert "invalid" in text
        assert ABSENT in text
        assert not re.search(r"\d (ns|µs|ms|s)\b", text)


def test_number_of_an_invalid_run_is_called_refused() -> None:
    """Otherwise a dash would look as if the run had no such number, or none was requested."""
    made = run(20)
    for table in (results_table(find_sets([made])), runs_table([summary_of(made)])):
        assert printed(table).count("refused") == 1, "its p50"
    energy = EnergyResult(meter="x", gross_j_per_inference=2e-3, u95_absolute_j=1e-4)
    text = printed(results_table(find_sets([changed(made, {"metrics.energy": energy})])))
    assert text.count("refused") == 2
    assert "mJ" not in text


@pytest.mark.parametrize("width", [40, 80, 100, 120, 160])
def test_refused_energy_is_told_from_one_that_nobody_asked_for(width: int) -> None:
    """Otherwise a dash in place of an energy would suggest that there was no meter."""
    plain, reason = run(), "complete: serial port /dev/ttyACM0 is gone"
    refused = with_refused_energy(reason, "meter", {"meter": reason})
    refused = changed(refused, {"model.name": "refused.tflite", "verdict.state": State.SUSPECT})
    words = printed(results_table(find_sets([plain, refused]), width), width).split()
    assert words.count("refused") == 1
    assert words.count(ABSENT) == 1, "the other had no meter"
    [line, _] = verdict_lines(find_sets([refused]))
    doubt = "the meter's recording is in doubt"
    assert line == f"suspect: refused.tflite on tflite: {doubt}: energy refused: {reason}"


def with_refused_energy(reason: str, refused_by: str, failed: Mapping[str, str]) -> Run:
    """A run whose energy a rule refused, and in which these rules failed with these details."""
    made = failing({**failed, "energy": f"refused: {reason}"})
    energy = EnergyResult(meter="x", refused=reason, refused_by=refused_by)
    return changed(made, {"metrics.energy": energy})


def failing(details: Mapping[str, str]) -> Run:
    """A run in which these rules failed with these details."""
    made = run()
    rules = tuple(
        replace(rule, outcome=RuleOutcome.FAIL, reason=AS_STORED, detail=details[rule.id])
        if rule.id in details
        else rule
        for rule in made.verdict.rules
    )
    return changed(made, {"verdict.rules": rules})


@pytest.mark.parametrize(
    ("rule", "detail", "reason", "refused_by", "expected"),
    [
        (
            "meter",
            "loss: 5 %; rate: 9 ppm",
            "loss: 5 %",
            "meter",
            "energy refused: loss: 5 %; rate: 9 ppm",
        ),
        (
            "energy_sync",
            "no way",
            "synchronisation: no way",
            "energy_sync",
            "energy refused: no way",
        ),
        ("energy_sync", "unseen", "too short", "energy", "energy refused: too short"),
    ],
)
def test_reason_of_a_refused_energy_is_the_one_that_counted(
    rule: str, detail: str, reason: str, refused_by: str, expected: str
) -> None:
    """Otherwise another fault of the meter would be shown in place of the reason."""
    [line, _] = verdict_lines(find_sets([with_refused_energy(reason, refused_by, {rule: detail})]))
    assert line.endswith(f" on tflite: the meter's recording is in doubt: {expected}")


@pytest.mark.parametrize("width", [40, 80, 100, 110, 160, 200])
def test_run_id_is_never_broken(width: int) -> None:
    """Otherwise a narrow terminal would show half of an id, which cannot be copied."""
    text = printed(runs_table([summary_of(run())], width))
    assert RUN_ID in text


def test_stored_runs_show_energy_where_any_has_it() -> None:
    """Otherwise a column would be empty, or a refused energy look as if none was requested."""
    plain = summary_of(run())
    assert "energy" not in printed(runs_table([plain]))
    metered = replace(
        plain,
        energy_j_per_inference=2e-3,
        energy_u95_absolute_j=1e-4,
        energy_boundary="board",
    )
    shown = format_joules_within(2e-3, 1e-4)
    refused = replace(plain, energy_refused="rate: +900 ppm")
    text = printed(runs_table([plain, metered, replace(metered, energy_boundary="synthetic")]))
    assert text.count(shown) == 2
    assert text.count(f"{shown}, synthetic") == 1
    assert ABSENT in text
    assert "refused" in printed(runs_table([plain, refused]))
    for width in (80, 120, 160):
        narrow = printed(runs_table([metered, refused], width), width)
        assert RUN_ID in narrow
        assert shown in narrow
        assert "refused" in narrow
        assert "valid" in narrow


@pytest.mark.parametrize("width", [40, 80, 100, 120, 160])
def test_narrow_terminal_shows_fewer_columns_and_whole_numbers(width: int) -> None:
    """Otherwise a number would be cut to make room, and read as a smaller number."""
    made = run()
    text = printed(results_table(find_sets([made]), width), width)
    assert made.metrics.latency_ns is not None
    assert format_ns(made.metrics.latency_ns.p50) in text


@pytest.mark.parametrize("width", [80, 100, 120, 160])
def test_devices_of_two_kinds_are_told_apart_by_whole_names_and_numbers(width: int) -> None:
    """Otherwise columns of zero width would hide the device of a number, or cut the number."""
    timed = run()
    offline = {"spec.scenario": Scenario.OFFLINE, "metrics.end_to_end_ns": None}
    [one, other] = find_sets([timed, changed(timed, offline)])
    sets = [replace(one, device="pi5/nucleo"), replace(other, device="local/qemu")]
    text = printed(results_table(sets, width, ["jetson"]), width)
    assert timed.metrics.latency_ns is not None
    for whole in ("pi5/nucleo", "local/qemu", "jetson", format_ns(timed.metrics.latency_ns.p50)):
        assert whole in text
    assert "…" not in text
    narrow = printed(results_table(sets, 60, ["jetson"]), 60)
    assert format_ns(timed.metrics.latency_ns.p50) in narrow, "a name is folded first"


@pytest.mark.parametrize(
    ("before", "after", "words", "p50"),
    [
        (
            None,
            9_000_000,
            "; throttled from the start, so",
            "p50 9.0 ms (8.0 ms..10.0 ms) after the",
        ),
        (
            7_000_000,
            9_000_000,
            "; throttled almost from the start, so",
            "p50 7.0 ms (6.0 ms..8.0 ms) before",
        ),
    ],
)
def test_run_that_is_throttled_from_the_start_shows_what_is_known(
    before: int | None, after: int, words: str, p50: str
) -> None:
    """Otherwise the only latency before the throttling would be in the document alone."""
    made = run()
    latency = made.metrics.latency_ns
    assert latency is not None

    def part(p50: int | None) -> LatencySummary | None:
        if p50 is None:
            return None
        return replace(latency, p50=p50, p50_ci95=(p50 - 1_000_000, p50 + 1_000_000))

    thermal = ThermalResult(
        state=ThermalState.THROTTLED,
        cause="thermal",
        is_certain=True,
        reason="hot",
        sustained_latency_ns=9e6,
        sustained_throughput_per_s=110.0,
        latency_ns_before=part(before),
        latency_ns_after=part(after),
    )
    made = changed(made, {"metrics.thermal": thermal})
    text = printed(run_page(made))
    assert words in text
    assert p50 in text


def test_page_of_a_run_shows_every_rule() -> None:
    """Otherwise a rule that failed would not be shown."""
    made = run()
    text = printed(run_page(made, is_all=True))
    for rule in made.verdict.rules:
        assert rule.id in text
    for expected in (RUN_ID, "digits.tflite", "xnnpack", DEVICE.soc):
        assert expected in text


def test_valid_run_that_nobody_watched_says_so() -> None:
    """Otherwise a run with twelve unknown rules would look as if clock and heat were watched."""
    made = replace(run(), verdict=replace(run().verdict, unwatched=("clock", "heat")))
    assert made.marks.label == "valid, unwatched: clock, heat"
    assert "valid*" in printed(results_table(find_sets([made])))
    assert mark_lines(find_sets([made])) == ["* unwatched: clock, heat could not be read"]
    assert "* unwatched: clock, heat could not be read" in printed(run_page(made))
    assert "valid*" in printed(runs_table([summary_of(made)]))
    watched = replace(made, verdict=replace(made.verdict, unwatched=()))
    suspect = replace(made, verdict=replace(made.verdict, state=State.SUSPECT))
    assert mark_lines(find_sets([watched, suspect])) == []
    for one in (watched, suspect):
        assert "*" not in printed(results_table(find_sets([one])))
        assert "*" not in printed(runs_table([summary_of(one)]))
    assert suspect.marks.label == "suspect"


def test_lopsided_energy_of_a_set_has_both_sides() -> None:
    """Otherwise ±31 % would be shown where the upper bound is 49 % above the median."""
    values_j = [52e-6, 53e-6, 60.6e-6, 61e-6, 90e-6]
    runs = [
        changed(
            run(),
            {
                "run_id": f"20260102-00000{number}-0123abcd",
                "member": SetMember("set-a", number, 5),
                "metrics.energy": EnergyResult(
                    meter="x", gross_j_per_inference=value_j, u95_absolute_j=1e-7
                ),
            },
        )
        for number, value_j in enumerate(values_j)
    ]
    assert re.search(r"60\.6 µJ -14/\+49 %", printed(results_table(find_sets(runs))))


def test_list_of_runs_names_sets_that_are_invalid() -> None:
    """Otherwise five suspect runs from 6 to 12 ms would not be marked as an invalid set."""
    row = replace(summary_of(run()), set_id="set-1")
    far = [replace(row, latency_ns_p50=value) for value in (6510, 7000, 9000, 11000, 11800)]
    near = [replace(row, set_id="set-2", latency_ns_p50=9000 + n) for n in range(5)]
    sides = [replace(one, set_id=None, comparison_id="pairs-1", side="candidate") for one in far]
    lines = invalid_lines([*far, *near, *sides])
    assert [line.partition(" has no result")[0] for line in lines] == [
        "invalid: set-1",
        "invalid: pairs-1-candidate",
    ]
    assert lines[0].endswith("edgebench show set-1")
    assert invalid_lines(far[:4]) == []
    # A disturbed run that was made again does not count.
    extra = replace(row, run_id="extra", latency_ns_p50=9003, replaces="disturbed")
    disturbed = replace(row, run_id="disturbed", latency_ns_p50=90000)
    [*whole] = [replace(one, set_id="set-1", run_id=str(n)) for n, one in enumerate(near[:4])]
    assert invalid_lines([*whole, disturbed, extra]) == []
    assert invalid_lines([*whole, disturbed, replace(extra, verdict="invalid")]) != []


def test_list_of_runs_says_what_its_numbers_are() -> None:
    """Otherwise 93,971/s would stand below p50, or runs of two runtimes look like scatter."""
    row = summary_of(run())
    assert " p50 " in printed(runs_table([row], 80), 80)
    offline = replace(row, scenario="offline", end_to_end_ns_p50=None, throughput_per_s=93971.0)
    assert " p50, or rate " in printed(runs_table([row, offline], 80), 80)
    in_sets = [replace(row, set_id="set-1"), replace(row, set_id="set-2", runtime="onnx")]
    assert re.search(r" tflite .*\n.* onnx ", printed(runs_table(in_sets, 80), 80))
    simulated = replace(row, kind="simulated measurement")
    assert "valid*, simulated" in printed(runs_table([simulated], 80), 80)


def test_short_runs_are_said_to_be_short() -> None:
    """Otherwise a number of ten seconds would be taken for a result by MLPerf's rules."""
    short = run()
    assert short.spec.duration_s < 60
    asked = replace(short, spec=replace(short.spec, duration_s=60.0))
    assert length_line(find_sets([asked])) is not None, "it ended by its number of queries"
    unclocked = replace(asked.conditions, before=None, after=None)
    long = replace(asked, conditions=unclocked)
    assert length_line(find_sets([long])) is None
    assert length_line([]) is None
    assert (
        length_line(find_sets([long, short]))
        == "note: runs are shorter than the 60 s that MLPerf Mobile requires"
    )


def test_missing_tail_is_explained_below_the_table() -> None:
    """Otherwise a dash in place of p90 would be taken for a fault of the program."""
    whole = run()
    without = changed(whole, {"metrics.latency_ns.p90": None, "metrics.latency_ns.p90_ci95": None})
    sets = find_sets([whole, without])
    assert tails_line(sets[:1], results_table(sets[:1], 200)) is None
    line = tails_line(sets, results_table(sets, 200))
    assert line is not None
    assert line.startswith("note: p90 is missing (—)")
    assert tails_line(sets, results_table(sets, 40)) is None


@pytest.mark.parametrize("width", [80, 100, 120, 140, 200])
def test_ids_of_sets_stand_in_the_list_and_break_no_other_cell(width: int) -> None:
    """Otherwise the id of a set could be found only by piping the list into a file."""
    row = replace(summary_of(run()), set_id="set-1f2e3d4c", model="digits_int8.tflite")
    shown = printed(runs_table([row, replace(row, set_id=None)], width), width)
    for word in (row.run_id, "set-1f2e3d4c", "digits_int8.tflite", "p50"):
        assert word in shown, shown


def test_runs_of_one_model_are_told_apart() -> None:
    """Otherwise two runs of a model would share a line, and their reasons could not be assigned."""
    slow, hot, both = (failing(one) for one in ({"thermal": "hot"}, {"swap": "swaps"}, {}))
    sets = find_sets(
        [replace(slow, run_id="a"), replace(hot, run_id="b"), replace(both, run_id="c")]
    )
    first, _, second, _ = verdict_lines(sets)
    assert re.search(r" on \S+ \(a\): the device was hot: hot$", first)
    assert re.search(r" on \S+ \(b\): the device was short of memory: swaps$", second)
    cooler = (
        "to improve: improve the cooling, or wait for longer before each run: "
        f"{ASKED} --cooldown 20m"
    )
    assert verdict_lines(find_sets([slow, slow])) == [
        "suspect: both: the device was hot: hot",
        cooler,
    ]
    other = changed(both, {"model.name": "other.tflite"})
    assert verdict_lines(find_sets([slow, other, slow])) == [
        "suspect: 2 × digits.tflite on tflite: the device was hot: hot",
        cooler.replace("digits.tflite", "digits.tflite other.tflite"),
    ]


def test_run_beside_a_set_has_its_interval_in_its_own_column() -> None:
    """Otherwise the interval within a run would be read as an interval between runs."""
    members = [
        replace(run(), run_id=f"a{number}", member=SetMember("set-a", number, 5))
        for number in range(5)
    ]
    lines = printed(results_table(find_sets([*members, run()]))).splitlines()
    of_set, alone = (re.findall(r"(±\S* %|—)", line)[:2] for line in lines[3:5])
    assert (of_set[0], alone[1]) == (ABSENT, ABSENT)
    assert alone[0] != ABSENT


def test_page_tells_the_conditions_and_what_was_seen_beside_the_latency() -> None:
    """Otherwise cold start, memory and settings of a run would be in the document alone."""
    spec = RunSpec("tflite", scenario=Scenario.SERVER, target_qps=50.0, target_latency_s=0.04)
    made = replace(run(), spec=spec)
    text = printed(run_page(made))
    for expected in ("target qps 50", "target latency 40.0 ms", "preset", "seed 0"):
        assert expected in text
    for expected in ("import ", "load ", "first inference ", "peak 40.0 MiB", "inferences/s"):
        assert expected in text
    assert re.search(r"invocation +\S+ [µm]s \(\S+ [µm]s\.\.\S+ [µm]s\)", text)


def test_page_of_an_invalid_run_has_no_numbers() -> None:
    """Otherwise an untrustworthy throughput would be printed next to the verdict."""
    text = printed(run_page(run(20)))
    assert "inferences/s" not in text
    assert "cold start" not in text


def test_offline_shows_its_throughput_and_others_do_not() -> None:
    """Otherwise an offline run would lack its main number, or others have a column of dashes."""
    other = run()
    made = changed(other, {"spec.scenario": Scenario.OFFLINE, "metrics.end_to_end_ns": None})
    assert "per second" in printed(results_table(find_sets([made, other])))
    assert "per second" not in printed(results_table(find_sets([other])))


def test_accuracy_is_shown_where_it_was_asked_for() -> None:
    """Otherwise the requested accuracy would be in the document alone."""
    made = run()
    assert "accuracy" not in printed(results_table(find_sets([made])))
    accuracy = Accuracy("top1", 0.975, None, 360)
    made = changed(made, {"metrics.accuracy": accuracy})
    assert "top1 97.5 %" in printed(results_table(find_sets([made])))


GIVEN = "edgebench bench digits.tflite --on board --runtime tflite"
SHORT = "--duration 0.01s"
QUERIES = "--min-queries 100"
ALONE = "end other programs on the device"


ASKED = f"{GIVEN} {SHORT} {QUERIES} --runs 1"
END_OTHERS = f"{ALONE} (top lists them)"
LONGER = f"measure for longer: {GIVEN} {QUERIES} --runs 1 --duration"


TWO_KINDS = ((1, 2), (0, 3))
OF_ITS_OWN = f"{ALONE} (top lists them), or give the model CPUs of its own: {GIVEN}"


@pytest.mark.parametrize(
    ("threads", "cpus", "kinds", "moved_ratio", "advised"),
    [
        (1, (), TWO_KINDS, 0.0, f"{OF_ITS_OWN} {SHORT} {QUERIES} --runs 1 --cpus 2"),
        (2, (), TWO_KINDS, 0.0, f"{OF_ITS_OWN} --threads 2 {SHORT} {QUERIES} --runs 1 --cpus 1,2"),
        (3, (), TWO_KINDS, 0.0, END_OTHERS),
        (1, (), ((8, 9), (0, 3)), 0.0, END_OTHERS),
        (1, (), None, 0.2, f"{OF_ITS_OWN} {SHORT} {QUERIES} --runs 1 --cpus 3"),
        (1, (), None, 0.0, END_OTHERS),
        (1, (), ((0, 1, 2, 3),), 0.0, END_OTHERS),
        (4, (), TWO_KINDS, 0.0, END_OTHERS),
        (1, (0,), TWO_KINDS, 0.0, END_OTHERS),
    ],
)
def test_cpus_are_advised_where_they_differ_and_others_are_left(
    threads: int,
    cpus: tuple[int, ...],
    kinds: tuple[tuple[int, ...], ...] | None,
    moved_ratio: float,
    advised: str,
) -> None:
    """Otherwise a model would be sent to a little CPU, to all of them, or bound for nothing."""
    made = failing({"background_load": "others took 40 %"})
    made = replace(made, spec=replace(made.spec, threads=threads, cpus=cpus))
    made = changed(
        made, {"environment.cpu.kinds": kinds, "metrics.thermal.moved_ratio": moved_ratio}
    )
    [one] = find_sets([made])
    assert advices(one) == [advised]


def test_advice_to_measure_for_longer_is_longer_than_what_was_asked_for() -> None:
    """Otherwise two minutes would be advised where five were too short."""
    made = failing({"precision": "p50 is not known"})
    long = replace(made, spec=replace(made.spec, duration_s=300.0))
    [advice] = advices(find_sets([long])[0])
    assert advice.endswith("--duration 10m")


def test_advice_about_a_run_of_this_machine_names_no_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the command would contain an unnecessary name."""
    made = failing({"precision": "p50 is not known"})
    monkeypatch.setattr("platform.node", lambda: made.device.name)
    [advice] = advices(find_sets([made])[0])
    assert "edgebench bench digits.tflite --runtime tflite" in advice


def test_warm_up_without_an_end_is_advised_to_be_far_longer() -> None:
    """Otherwise a cold device, whose warm-up outlasts the runs, would be as cold the next time."""
    [settled] = find_sets([failing({"steady_share": "31 % come after the warm-up"})])
    drift = Finding(id="set_drift", outcome=RuleOutcome.FAIL, severity=State.SUSPECT)
    verdict = replace(settled.verdict, rules=(*settled.verdict.rules, drift))
    both = settled, replace(settled, verdict=verdict)
    counts = [int(line.split()[-1]) for each in both for line in advices(each)]
    assert counts == [WARMUP_COUNT, UNSETTLED_FACTOR * WARMUP_COUNT]


def test_of_several_reasons_with_one_cause_that_of_the_most_runs_is_told() -> None:
    """Otherwise the failure of one run of six would be shown in place of that of all six."""
    made = failing({"steady_state": "it drifts", "precision": "p50 is not known"})
    counts = {"steady_state": 1, "precision": 6}
    rules = tuple(
        replace(rule, facts={"failed_count": counts.get(rule.id, 0), "of_count": 6})
        for rule in made.verdict.rules
    )
    [one] = find_sets([changed(made, {"verdict.rules": rules})])
    [line, _] = verdict_lines([one])
    assert line.endswith("in 6 of 6 runs; in one of them, p50 is not known")


def test_cause_is_told_before_what_follows_from_it() -> None:
    """Otherwise, with a browser on the CPU, the first advice would be to fix the frequency."""
    scatter, cause = {"steady_state": "it switches"}, {"background_load": "others took 40 %"}
    [both] = find_sets([failing({**scatter, **cause})])
    [line, _] = verdict_lines([both])
    assert line.endswith(": other programs used the device: others took 40 %")
    assert advices(both) == [END_OTHERS]
    [alone] = find_sets([failing(scatter)])
    assert advices(alone) == [f"{LONGER} 300s"]
    [cut] = find_sets([failing({"complete": "interrupted", "enough_time": "4 s"})])
    assert advices(cut) == [f"let the run finish: {ASKED}"], "a longer run is not needed"
    [line, _] = verdict_lines([cut])
    assert line.endswith(": interrupted")


def test_advice_of_an_invalid_run_is_about_what_makes_it_invalid() -> None:
    """Otherwise the user would lower the load first, and then still have no numbers."""
    details = {"enough_queries": "12 of 100", "background_load": "others took 40 %"}
    suspect = failing(details)
    refused = changed(suspect, {"verdict.state": State.INVALID})
    both = [END_OTHERS, f"{LONGER} 120s"]
    assert sorted(advices(find_sets([suspect])[0])) == sorted(both)
    assert advices(find_sets([refused])[0]) == both[1:]


def test_one_cut_run_hides_no_reason_of_the_others_of_its_set() -> None:
    """Otherwise four of five runs on a busy machine would seem to be merely one run short."""
    cut = failing({"complete": "interrupted", "enough_time": "4 s"})
    busy = failing({"background_load": "others took 40 %"})
    members = [
        replace(one, run_id=f"a{number}", member=SetMember("set-a", number, 5))
        for number, one in enumerate([cut, busy, busy, busy, busy])
    ]
    named = "suspect: digits.tflite on tflite: "
    assert verdict_lines(find_sets(members)) == [
        f"{named}the measurement did not complete in 1 of 5 runs: interrupted",
        f"to improve: let the run finish: {GIVEN} --duration 0.05s --min-queries 500",
        f"{named}other programs used the device in 4 of 5 runs; in the worst, others took 40 %",
        f"to improve: {END_OTHERS}",
    ]


def test_reasons_are_the_rules_that_failed() -> None:
    """Otherwise a run would be reported as invalid without a reason."""
    suspect = failing({"enough_queries": "10 queries", "background_load": "others took 40 %"})
    made = changed(suspect, {"verdict.state": State.INVALID})
    assert verdict_lines(find_sets([made])) == [
        "invalid: digits.tflite on tflite: too little was measured: 10 queries",
        f"to improve: {LONGER} 120s",
        "suspect: digits.tflite on tflite: other programs used the device: others took 40 %",
    ]
    assert verdict_lines(find_sets([run()])) == []


def test_reason_of_a_short_run_is_its_number_of_queries() -> None:
    """The findings are those of the rules of a run with 20 queries, not typed by hand."""
    short = run(20)
    assert short.verdict.failures, "too short to pass"
    assert any("queries, at least 100 needed" in line for line in verdict_lines(find_sets([short])))


def test_reason_that_several_sets_share_is_said_once() -> None:
    """Otherwise one sentence for six models on a busy machine would hide a fault of one model."""
    busy = failing({"background_load": "others took 100 %"})
    both = failing({"background_load": "others took 100 %", "enough_queries": "too few"})
    other = changed(both, {"model.name": "other.tflite"})
    valid = changed(run(), {"model.name": "good.tflite"})
    state = find_set([busy]).verdict.state.value
    assert verdict_lines(find_sets([busy, valid, other, busy])) == [
        f"{state}: 2 × digits.tflite on tflite and other.tflite on tflite: "
        "other programs used the device: others took 100 %",
        f"to improve: {END_OTHERS}",
        f"{state}: other.tflite on tflite: too little was measured: too few",
        f"to improve: {LONGER} 120s".replace(
            "digits.tflite", "digits.tflite good.tflite other.tflite"
        ),
    ]


@pytest.mark.parametrize(
    ("firmware", "flash", "ram"),
    [
        ({}, "97.7 KiB", "39.1 KiB"),
        (
            {
                "firmware_flash_bytes": 57_000,
                "firmware_ram_bytes": 3_000,
                "stack_bytes": 9_000,
                "stack_peak_bytes": 2_000,
            },
            "153 KiB",
            "43.9 KiB",
        ),
        ({"firmware_flash_bytes": 57_000, "firmware_ram_bytes": 3_000}, "153 KiB", ABSENT),
    ],
)
def test_memory_of_a_board_is_that_which_comparisons_have(
    tmp_path: Path, firmware: dict[str, int], flash: str, ram: str
) -> None:
    """Otherwise two columns of a row would be of the model and of the whole firmware."""
    memory = replace(BOARD.memory, **firmware)
    sets = find_sets([stored_board_run(tmp_path, replace(BOARD, memory=memory)).run])
    cells = {column.header: list(column.cells) for column in results_table(sets).columns}
    assert (cells["flash"], cells["RAM"]) == ([flash], [ram])


@pytest.mark.parametrize("place", ["device", "model", "runtime"])
def test_names_cannot_reach_the_terminal(place: str) -> None:
    """Otherwise a device or a file would clear the screen, hide its name, or reverse the text."""
    made = changed(run(), {f"{place}.name": EVIL})
    for what in (results_table(find_sets([made])), runs_table([summary_of(made)]), run_page(made)):
        text = printed(what)
        assert not CONTROL.search(text), repr(CONTROL.search(text))
        assert place == "runtime" or "[red]" in text, "markup in a name is text"


def test_descriptions_of_a_device_cannot_reach_the_terminal() -> None:
    """Otherwise a device's description of its chip and system would move the cursor."""
    from edgebench.host.devices.discovery import Access, DiscoveredDevice
    from edgebench.host.show.devices import devices_table

    evil = {"device.soc": EVIL, "device.os": EVIL, "environment.virtualization": EVIL}
    made = changed(run(), evil)
    assert not CONTROL.search(printed(run_page(made)))
    runtime = RuntimeReport(EVIL, ("tflite",), reason=EVIL, install=EVIL)
    system = SystemDescription(replace(DEVICE, name=EVIL, profile=EVIL), ENVIRONMENT, (runtime,))
    found = DiscoveredDevice(EVIL, EVIL, Access.READY, EVIL, EVIL, system)
    assert not CONTROL.search(printed(devices_table([found])))
