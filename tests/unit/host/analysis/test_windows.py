"""Numbers of targets that timed windows themselves, and their verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.pulsed import ACTIVE_W, lpm01a_recording, sampled_j
from support.records import DEVICE, ENVIRONMENT

from edgebench.host.analysis.compare.comparison import ComparisonOutcome
from edgebench.host.analysis.compare.runs import compare_groups
from edgebench.host.analysis.measurement import TargetTraces
from edgebench.host.analysis.outputs import OutputQuality
from edgebench.host.analysis.profile import profile_of_target
from edgebench.host.analysis.run import analyse_target
from edgebench.host.analysis.run_set import find_set
from edgebench.host.analysis.verdict.judge import judge_target
from edgebench.host.analysis.verdict.table import TARGET_RULES
from edgebench.host.analysis.verdict.target import TargetEvidence
from edgebench.host.analysis.windows import measure_windows
from edgebench.host.result.document import from_document, to_document
from edgebench.host.result.energy import EdgeWindow, EnergyResult, MeterCheck
from edgebench.host.result.facts import EnergyRequest, HostFacts, SetMember
from edgebench.host.result.metrics import GROSS_ENERGY, INSTRUCTIONS, headline
from edgebench.host.result.outputs import Agreement
from edgebench.host.result.reasons.recording import samples_received
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import RuleOutcome, State, Verdict
from edgebench.host.show.sentences import sentence
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Gap
from edgebench.protocol.errors import MeasurementError, NotComparable
from edgebench.protocol.record import (
    CheckFacts,
    EmulatorFacts,
    FirmwareFacts,
    ModelFacts,
    OperatorTime,
    Outcome,
    OutputFacts,
    RunRecord,
    RuntimeFacts,
    TargetMemory,
    TargetRecord,
    Window,
)
from edgebench.protocol.spec import Engine, RunSpec

MODEL = ModelFacts("kws.tflite", "a" * 64, "tflite", 53936, "int8")
SPEC = RunSpec("firmware", engine=Engine.TARGET, duration_s=50.0, min_query_count=100)
OF_OUTPUTS = ("dataset_complete", "accuracy_floor", "accuracy", "agreement", "agreement_of_all")
"""Rules that apply only to what a run requests."""
QEMU = EmulatorFacts("QEMU", "7.2.22", "mps2-an386", instruction_ns=8.0)


def window(number: int, *, count: int = 100, ticks: int = 10_500_000) -> Window:
    """Return a window of 10.5 s by a counter of microseconds, one after another."""
    begin_ns = number * 12_000_000_000
    return Window(begin_ns, begin_ns + 1000 * ticks + 300_000, count, ticks, 1e6)


def target(emulator: EmulatorFacts | None = None) -> TargetRecord:
    """Return a microcontroller that keeps every rule."""
    return TargetRecord(
        model=MODEL,
        runtime=RuntimeFacts("firmware", "1.0"),
        inputs=(),
        outputs=(),
        firmware=FirmwareFacts("nucleo", "1.0", "b" * 64, 80e6, emulator),
        memory=TargetMemory(flash_bytes=100_000, ram_bytes=40_000, arena_bytes=16_000),
        output=OutputFacts("c" * 64, is_finite=True, sample_count=5),
        warmup_count=10,
        windows=tuple(map(window, range(5))),
        is_interrupted=False,
    )


def evidence(of: TargetRecord, outcome: Outcome = Outcome.COMPLETED) -> TargetEvidence:
    """Return what the rules examine."""
    record = RunRecord(
        "20261123-120000-000", "host", SPEC, MODEL, DEVICE, ENVIRONMENT, outcome, target=of
    )
    return TargetEvidence(record, of, measure_windows(of), HostFacts())


def changed(windows: Callable[[Window], Window]) -> TargetRecord:
    """Return a target whose last window is changed."""
    made = target()
    return replace(made, windows=(*made.windows[:-1], windows(made.windows[-1])))


def test_throughput_is_the_median_of_the_windows() -> None:
    """Otherwise the mean of the windows, or of all inferences, would be MLPerf Tiny's result."""
    made = replace(target(), windows=(window(0), window(1), window(2, ticks=42_000_000)))
    found = measure_windows(made)
    assert found.throughput_per_s == pytest.approx(100 / 10.5)
    assert found.summary.duration_ns_per_inference == pytest.approx(105e6)
    assert found.summary.range_ratio == pytest.approx(3.0)
    assert found.summary.resolution_ratio == pytest.approx(2 / 10_500_000)
    assert found.instructions_per_inference is None
    assert found.latency is None, "no single inference was timed"


def test_percentiles_are_of_inferences_that_were_timed() -> None:
    """Otherwise percentiles would be derived from means of windows."""
    found = measure_windows(replace(target(), inference_ticks=tuple(range(8_000_000, 8_000_900))))
    assert found.latency is not None
    assert (found.latency.min, found.latency.count) == (100_000_000, 900)


def test_instructions_follow_from_virtual_time() -> None:
    """Otherwise a count of an emulator would be off by a factor, or be called a latency."""
    made = replace(
        target(QEMU),
        windows=(Window(0, 1, 10, 17_785_043, 25e6),),
        firmware=FirmwareFacts("mps2-an386", "1", "b" * 64, 25e6, QEMU),
    )
    found = measure_windows(made)
    # 40 ns a tick, 8 ns an instruction.
    assert found.instructions_per_inference == pytest.approx(17_785_043 * 5 / 10)
    assert (found.throughput_per_s, found.latency) == (None, None)
    assert found.summary.resolution_ratio == pytest.approx(2 / 17_785_043)
    single = measure_windows(replace(made, inference_ticks=(1_778_000, 1_778_002, 1_778_004)))
    assert single.instructions_per_inference == pytest.approx(1_778_002 * 5, abs=1)
    assert single.summary.resolution_ratio == pytest.approx(2 / 1_778_000)


def test_emulator_that_counts_no_instructions_gives_no_number() -> None:
    """Otherwise its clock would follow that of a busy machine, and the number vary each time."""
    found = evidence(target(replace(QEMU, instruction_ns=None)))
    assert found.measured.instructions_per_inference is None
    verdict = judge_target(found)
    assert verdict.state is State.INVALID
    assert [rule.id for rule in verdict.failures] == ["real_time"]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (Window(0, 1, 0, 5, 1e6), "0 inferences"),
        (Window(0, 1, 5, 0, 1e6), "0 ticks"),
        (Window(0, 1, 5, 5, float("nan")), "nan Hz"),
        (Window(0, 1, 5, 5, None), "5 ticks at None Hz"),
        (Window(0, 1, 5, None, 1e6), "None ticks"),
        (Window(5, 4, 5, 5, 1e6), "before it begins"),
        (Window(5, 5, 5, 5, 1e6), "no time"),
    ],
)
def test_window_that_cannot_be_is_refused(wrong: Window, text: str) -> None:
    """Otherwise a counter that wrapped around would give an infinite throughput."""
    with pytest.raises(MeasurementError, match=text):
        measure_windows(replace(target(), windows=(wrong,)))
    with pytest.raises(MeasurementError, match="no window"):
        measure_windows(replace(target(), windows=()))


def outcomes(verdict: Verdict) -> dict[str, RuleOutcome]:
    """Return the outcome by rule."""
    return {rule.id: rule.outcome for rule in verdict.rules}


def test_good_target_is_valid_and_nobody_watched_its_heat() -> None:
    """Otherwise a microcontroller would be suspect without a governor, or its heat seem watched."""
    verdict = judge_target(evidence(target()))
    assert (verdict.state, verdict.unwatched) == (State.VALID, ("heat",))
    assert list(outcomes(verdict)) == [rule.id for rule in TARGET_RULES]
    on_request = {"meter", "energy_windows", "energy", "keeps_pace", "profile", *OF_OUTPUTS}
    rest = {found for rule, found in outcomes(verdict).items() if rule not in on_request}
    assert rest == {RuleOutcome.PASS, RuleOutcome.UNKNOWN}


def profiled(*total_ns: int, emulator: EmulatorFacts | None = None) -> TargetEvidence:
    """Return evidence of a target that ran each operator twice; an inference takes 105 ms."""
    operators = tuple(
        OperatorTime(index, "CONV_2D", "", "dsp", 2, ns) for index, ns in enumerate(total_ns)
    )
    check = CheckFacts(operators=operators, profile_run_count=2, profile_reading_ns=1000.0)
    found = evidence(replace(target(emulator), check=check))
    return replace(found, record=replace(found.record, spec=replace(SPEC, is_profiled=True)))


@pytest.mark.parametrize(
    ("last_ns", "outcome"), [(69_998_000, RuleOutcome.PASS), (69_700_000, RuleOutcome.FAIL)]
)
def test_operators_add_up_to_the_inference(last_ns: int, outcome: RuleOutcome) -> None:
    """Otherwise a profile with an operator that was not timed would look complete."""
    found = profiled(140_000_000, last_ns)
    profile = profile_of_target(found.target, found.measured)
    assert profile.sum_ns_per_inference == pytest.approx((140_000_000 + last_ns) / 2)
    assert (profile.unprofiled_p50_ns, profile.resolution_ns) == (105_000_000, 12.5)
    verdict = judge_target(found)
    assert outcomes(verdict)["profile"] is outcome
    assert verdict.state is (State.VALID if outcome is RuleOutcome.PASS else State.SUSPECT)


def test_run_without_the_requested_profile_is_invalid() -> None:
    """Otherwise the table of operators would be missing from a valid profile."""
    found = profiled()
    assert judge_target(found).state is State.INVALID


def test_counted_instructions_are_valid_and_claim_no_time() -> None:
    """Otherwise an emulated run would be refused for a time that it does not claim."""
    made = replace(target(QEMU), windows=target().windows[:1])
    verdict = judge_target(evidence(made))
    assert (verdict.state, verdict.unwatched) == (State.VALID, ())
    assert outcomes(verdict)["real_time"] is RuleOutcome.NOT_APPLICABLE


FAILING = [
    ("complete", target(), Outcome.INTERRUPTED),
    ("real_time", target(replace(QEMU, instruction_ns=None)), Outcome.COMPLETED),
    ("enough_queries", changed(lambda one: replace(one, count=1)), Outcome.COMPLETED),
    ("enough_time", replace(target(), windows=(window(0), window(1))), Outcome.COMPLETED),
    ("enough_windows", replace(target(), windows=target().windows[:4]), Outcome.COMPLETED),
    (
        "finite_outputs",
        replace(target(), output=OutputFacts("c" * 64, is_finite=False)),
        Outcome.COMPLETED,
    ),
    ("window_range", changed(lambda one: replace(one, count=98)), Outcome.COMPLETED),
    (
        "target_clock",
        changed(lambda one: replace(one, end_ns=one.end_ns + 4_000_000_000)),
        Outcome.COMPLETED,
    ),
]


@pytest.mark.parametrize(("rule", "made", "outcome"), FAILING, ids=[one[0] for one in FAILING])
def test_rule_fails_on_its_evidence(rule: str, made: TargetRecord, outcome: Outcome) -> None:
    """Otherwise a number of a microcontroller that cannot be trusted would be valid."""
    found = evidence(made, outcome)
    if rule == "enough_queries":
        few = replace(found.record, spec=replace(SPEC, min_query_count=402))
        found = replace(found, record=few)
    verdict = judge_target(found)
    (severity,) = [target_rule.severity for target_rule in TARGET_RULES if target_rule.id == rule]
    failed = {failure.id: failure.severity for failure in verdict.failures}
    assert failed[rule] is severity
    assert verdict.state is not State.VALID


def untimed() -> TargetRecord:
    """Return a board in energy mode: windows without ticks."""
    windows = (replace(one, ticks=None, tick_rate_hz=None) for one in target().windows)
    return replace(target(), windows=tuple(windows))


def edge_window(duration_s: float) -> EdgeWindow:
    """Return a window of 100 inferences between two edges."""
    return EdgeWindow(inference_count=100, duration_s=duration_s, energy_j_per_inference=1e-6)


METERED = EnergyResult(
    meter="LPM01A",
    checks=(MeterCheck("complete", True, (samples_received(sample_count=9),)),),
    gross_j_per_inference=1e-6,
    u95_absolute_j=1e-8,
    boundary="what the meter supplies",
    edge_windows=(edge_window(10.5),) * 5,
)


def metered(energy: EnergyResult | None) -> TargetEvidence:
    """Return a board in energy mode, with a meter or without."""
    found, made = evidence(target()), untimed()
    edges = energy.edge_windows if energy else ()
    measured = measure_windows(made, [edge.duration_s for edge in edges] or None)
    return replace(found, target=made, measured=measured, energy=energy)


def test_board_in_energy_mode_is_timed_by_the_edges_of_a_meter() -> None:
    """Otherwise a board that reports no time would be invalid, or have an unmeasured time."""
    found = metered(METERED)
    verdict = judge_target(found)
    assert verdict.state is State.VALID, verdict.failures
    assert outcomes(verdict)["target_clock"] is RuleOutcome.NOT_APPLICABLE
    assert found.measured.throughput_per_s == pytest.approx(100 / 10.5)
    assert found.measured.summary.is_timed_by_meter


@pytest.mark.parametrize(("longest_ms", "state"), [(31, State.VALID), (41, State.SUSPECT)])
def test_board_that_is_too_slow_for_its_audio_is_a_result(longest_ms: int, state: State) -> None:
    """Otherwise the one result that matters for a wake word would be discarded as inconsistent."""
    made = replace(
        untimed(),
        pace_ns=32_000_000,
        inference_ticks=(2500,) * 399 + (longest_ms * 100,),
        firmware=replace(target().firmware, tick_rate_hz=100_000.0),
    )
    found = evidence(made)
    verdict = judge_target(found)
    assert found.measured.latency is not None
    assert found.measured.latency.max == longest_ms * 1_000_000
    assert verdict.state is state, verdict.failures
    [failure] = verdict.failures or [None]
    text = "too slow for real time: an audio frame took up to 41 ms, and frames arrive every 32 ms"
    assert failure is None or (failure.id, sentence(failure)) == ("keeps_pace", text)


def test_windows_of_streaming_firmware_are_not_compared() -> None:
    """Otherwise a sound that ends late would make a run suspect, and the board be blamed."""
    found = metered(METERED)
    heard = replace(found.target, pace_ns=32_000_000)
    measured = measure_windows(heard, [10.5] * 4 + [11.5])
    assert measured.summary.range_ratio is None
    verdict = judge_target(replace(found, target=heard, measured=measured))
    assert outcomes(verdict)["window_range"] is RuleOutcome.NOT_APPLICABLE


def test_board_in_energy_mode_without_edges_has_no_time() -> None:
    """Otherwise its run would be valid without any number in it."""
    for energy in (None, replace(METERED, edge_windows=(), gross_j_per_inference=None)):
        verdict = judge_target(metered(energy))
        assert verdict.state is State.INVALID
        assert "enough_time" in {failure.id for failure in verdict.failures}
    record = replace(evidence(target()).record, target=untimed())
    made_utc = "2026-11-23T12:00:00+00:00"
    run = analyse_target(record, TargetTraces(), created_utc=made_utc, clock=None)
    assert from_document(to_document(run)) == run
    assert run.metrics.throughput_per_s is None


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> TargetTraces:
    """Return the recording of a meter that saw the windows' pulses, 2 s after they began."""
    edges_s = np.array([(one.begin_ns, one.end_ns) for one in untimed().windows]) / 1e9 + 2
    energies_j = sampled_j(edges_s, np.random.default_rng(0))
    pulses_s = [0.5, *edges_s.reshape(-1)]
    power = lpm01a_recording(energies_j, pulses_s, tmp_path_factory.mktemp("power"))
    return TargetTraces(facts=HostFacts(energy=EnergyRequest(meter="lpm01a")), power=power)


def metered_run(of: TargetRecord, traces: TargetTraces, run_id: str = "one") -> Run:
    """Return a run with the meter."""
    record = replace(evidence(target()).record, target=of, run_id=run_id)
    return analyse_target(record, traces, created_utc="2026-11-23T12:00:00+00:00", clock=None)


def test_energy_of_a_board_is_compared(traces: TargetTraces) -> None:
    """Otherwise joules by edges would be no metric, or be compared without meter uncertainty."""
    runs = [metered_run(untimed(), traces, name) for name in ("one", "other")]
    energy = runs[0].metrics.energy
    assert energy is not None
    assert energy.gross_j_per_inference == pytest.approx(ACTIVE_W * 10.5 / 100, rel=1e-3)
    assert runs[0].verdict.state is State.VALID
    assert headline(runs[0]).path == GROSS_ENERGY
    (found,) = compare_groups([([runs[0]], [runs[1]])])
    assert found.metric == GROSS_ENERGY
    assert from_document(to_document(runs[0])) == runs[0]


def test_meter_beside_a_board_without_pulses_gives_no_energy(traces: TargetTraces) -> None:
    """Otherwise any edges would be taken for windows, or latencies be lost with the energy."""
    timed = metered_run(target(), traces)
    assert timed.metrics.energy is not None
    assert "performance mode" in (timed.metrics.energy.refused or "")
    assert timed.metrics.throughput_per_s is not None
    stopped = metered_run(replace(untimed(), is_interrupted=True), traces)
    assert stopped.metrics.energy is not None
    assert "stopped in a window" in (stopped.metrics.energy.refused or "")


@pytest.mark.parametrize("is_of_meter", [True, False])
def test_board_without_its_energy_still_has_its_time(
    traces: TargetTraces, is_of_meter: bool
) -> None:
    """Otherwise missing samples would make a run invalid, as if no meter had seen its pulses."""
    power = traces.power
    assert isinstance(power, PowerFile)
    loss = replace(power.loss, trouble="the cable was pulled")
    if not is_of_meter:  # 20 of the 10 500 samples of a window
        gap = Gap(30_000_000_000, 30_020_000_000, 20, "counter")
        loss = replace(power.loss, lost_count=20, gaps=(gap,))
    lossy = replace(traces, power=replace(power, facts=replace(power.facts, loss=loss)))
    run = metered_run(untimed(), lossy)
    energy = run.metrics.energy
    assert energy is not None
    assert (energy.is_measured, energy.refused_by) == (False, "meter" if is_of_meter else "energy")
    assert [one.energy_j_per_inference for one in energy.edge_windows] == [None] * 5
    assert run.metrics.throughput_per_s == pytest.approx(100 / 10.5, rel=1e-3)
    assert run.verdict.state is State.SUSPECT
    assert from_document(to_document(run)) == run


def test_windows_below_ten_seconds_are_marked() -> None:
    """Otherwise an energy over a second would look like one that may be submitted."""
    short = replace(METERED, edge_windows=(*METERED.edge_windows[:4], edge_window(9.9)))
    assert "energy_windows" in {failure.id for failure in judge_target(metered(short)).failures}


def with_dataset(count: int, error: str | None = None) -> TargetEvidence:
    """Return evidence of a run that was to run ten samples of a data set."""
    check = CheckFacts(dataset_sample_count=count, dataset_wanted_count=10, dataset_error=error)
    found = evidence(replace(target(), check=check))
    spec = replace(SPEC, dataset_sha256="d" * 64)
    return replace(found, record=replace(found.record, spec=spec))


def test_part_of_a_data_set_is_no_whole_one() -> None:
    """Otherwise an accuracy on four of ten samples would look like one on all of them."""
    assert outcomes(judge_target(with_dataset(10)))["dataset_complete"] is RuleOutcome.PASS
    failed = {
        failure.id: failure
        for failure in judge_target(with_dataset(4, "the board is gone")).failures
    }
    assert (failed["dataset_complete"].value, failed["dataset_complete"].limit) == (4.0, 10.0)
    assert sentence(failed["dataset_complete"]) == (
        "4 of 10 samples of the data set were run: the board is gone"
    )


def test_data_set_that_fails_at_once_costs_no_windows() -> None:
    """Otherwise five good windows would be invalid, as a line was damaged after them."""
    verdict = judge_target(with_dataset(0, "the line is damaged"))
    assert [failure.id for failure in verdict.failures] == ["dataset_complete"]
    assert verdict.state is State.SUSPECT
    found = outcomes(verdict)
    assert (found["accuracy_floor"], found["accuracy"]) == (RuleOutcome.UNKNOWN,) * 2


def agreeing(share: float, rounding: str | None, version: str) -> Verdict:
    """Return the verdict of outputs that differ by `share` from LiteRT's reference kernels."""
    made = replace(
        target(),
        firmware=replace(target().firmware, rounding=rounding),
        check=CheckFacts(reference="r", reference_runtime=RuntimeFacts("litert", version)),
    )
    found = evidence(made)
    agreement = Agreement("r", 5, share, 0.9, 1.0, share, share)
    quality = OutputQuality(agreement=agreement)
    return judge_target(replace(found, measured=replace(found.measured, quality=quality)))


@pytest.mark.parametrize(
    ("share", "rounding", "version", "is_failed"),
    [
        (0.0, "litert", "2.3.0", False),
        (0.01, "litert", "1.4.0", True),
        (0.01, "litert", "1.2.0", False),
        (0.01, "litert", "unknown", False),
        (0.01, "tflm", "2.3.0", False),
        (0.01, None, "2.3.0", False),
    ],
)
def test_exact_firmware_is_held_to_the_last_bit(
    share: float, rounding: str | None, version: str, is_failed: bool
) -> None:
    """Otherwise a kernel with one wrong bit would pass, or other rounding would be blamed."""
    failures = [failure.id for failure in agreeing(share, rounding, version).failures]
    assert failures == (["agreement_of_all"] if is_failed else [])


def test_simulated_target_is_suspect() -> None:
    """Otherwise a simulated board would pass for a real board."""
    found = evidence(target())
    verdict = judge_target(replace(found, record=replace(found.record, simulated=True)))
    assert [failure.id for failure in verdict.failures] == ["real_device"]


@pytest.mark.parametrize("emulator", [None, QEMU])
def test_run_of_a_target_is_written_and_read(emulator: EmulatorFacts | None) -> None:
    """Otherwise a stored run of a microcontroller would be unreadable, or headed by a latency."""
    record = evidence(target(emulator)).record
    run = analyse_target(
        record, TargetTraces(), created_utc="2026-11-23T12:00:00+00:00", clock=None
    )
    assert from_document(to_document(run)) == run
    assert run.emulated is (emulator is not None)
    expected = "instructions_per_inference" if emulator else "throughput_per_s"
    assert headline(run).path == expected
    assert run.conditions.firmware == record.target.firmware if record.target else False


def counted_run(run_id: str, ticks: int, **emulator: Any) -> Run:
    """Return a stored run of an emulated board, on some machine."""
    made = replace(target(replace(QEMU, **emulator)), windows=(Window(0, 1, 10, ticks, 25e6),))
    machine = replace(ENVIRONMENT, kernel=f"Linux of {run_id}")
    device = replace(DEVICE, id=f"beside {run_id}")
    record = replace(evidence(made).record, run_id=run_id, environment=machine, device=device)
    return analyse_target(
        record, TargetTraces(), created_utc="2026-11-23T12:00:00+00:00", clock=None
    )


def test_set_of_counts_needs_no_five_runs() -> None:
    """Otherwise two emulated runs with equal counts would be suspect, as they are not five."""
    first, second, other = (
        replace(counted_run(name, ticks), member=SetMember("set-00000001", number, 2))
        for number, (name, ticks) in enumerate(
            [("a", 17_785_043), ("b", 17_785_044), ("b", 57_785_044)]
        )
    )
    assert find_set([first, second]).verdict.state is State.VALID
    assert find_set([first, replace(other, member=second.member)]).verdict.is_refused


def test_counts_of_two_machines_are_compared() -> None:
    """Otherwise the gate would refuse to compare, as CI's next machine has another kernel."""
    before, after = counted_run("before", 17_785_043), counted_run("after", 17_802_829)
    (found,) = compare_groups([([before], [after])])
    assert (found.metric, found.result.outcome) == (INSTRUCTIONS, ComparisonOutcome.WORSE)
    assert found.result.ratio == pytest.approx(1.001)


@pytest.mark.parametrize("change", [{"version": "8.2.0"}, {"instruction_ns": 1.0}])
def test_counts_of_two_emulators_are_not_compared(change: dict[str, Any]) -> None:
    """Otherwise an emulator update would make its users look for a regression of theirs."""
    before, after = counted_run("before", 17_785_043), counted_run("after", 17_785_043, **change)
    with pytest.raises(NotComparable, match="emulator"):
        compare_groups([([before], [after])])


def test_documentation_lists_the_rules_of_targets() -> None:
    """Otherwise a rule of a microcontroller would be missing from the documentation."""
    page = (Path(__file__).parents[4] / "docs/target-timing.md").read_text()
    table = page[page.index("| rule | fails if") :]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    told = {row[0].strip("|` "): row[-1].strip("| ") for row in rows}
    assert told == {rule.id: rule.severity.value for rule in TARGET_RULES}
