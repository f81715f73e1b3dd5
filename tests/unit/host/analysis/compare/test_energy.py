"""Energies compared side by side: by the uncertainty that two runs do not share."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from support.metered import store_metered_run
from support.records import RUN_ID

from edgebench.host.analysis.compare.comparison import Comparison, ComparisonOutcome
from edgebench.host.analysis.compare.runs import check_metrics, compare_groups, split_sides
from edgebench.host.result.document import from_document
from edgebench.host.result.metrics import METRICS, Better
from edgebench.host.result.run import Run
from edgebench.host.show.hints import hint_for
from edgebench.host.store.layout import Store
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit
from edgebench.protocol.errors import MeasurementError, MetersDiffer, NotMetered, UsageError

Document = dict[str, Any]
ENERGY_METRICS = [metric.path for metric in METRICS.values() if metric.budget is not None]
Sides = tuple[list[Document], list[Document]]
GAIN = UncertaintyTerm(kind=Kind.GAIN, value=0.10, unit=Unit.RATIO)
NOISE = UncertaintyTerm(kind=Kind.NOISE, value=1.0, unit=Unit.WATT, is_common=False)
GROSS = "energy.gross_j_per_inference"
LESS_IS_BETTER = ("gross_j_per_inference", "net_j_per_inference", "energy_delay_js", "power_w_mean")


def measured(folder: Path, *terms: UncertaintyTerm) -> Document:
    """Return the document of a run whose meter has these error terms."""
    store = Store(folder)
    store_metered_run(store, terms=terms)
    return store.document(RUN_ID)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """Return the document of a run whose meter has no error."""
    return measured(tmp_path_factory.mktemp("made"))


def side(document: Document, name: str, ratio: float = 1.0, count: int = 10) -> list[Document]:
    """Return runs that differ by 0.2 %."""
    chance, found = random.Random(name), []
    for number in range(count):
        factor = ratio * chance.uniform(0.999, 1.001)
        energy = deepcopy(document["metrics"]["energy"])
        for metric in LESS_IS_BETTER:
            energy[metric] *= factor
        for metric in ("inferences_per_j", "inferences_per_s_per_w"):
            energy[metric] /= factor
        for metric in ("inference_count", "duration_s"):
            energy["battery"][metric] /= factor
        found.append(
            document
            | {
                "run_id": f"{name}-{number}",
                "pair": {"comparison_id": "c", "number": number, "side": name},
                "model": document["model"] | {"sha256": name, "name": f"{name}.tflite"},
                "metrics": document["metrics"] | {"energy": energy},
            }
        )
    return found


def sides(document: Document, ratio: float = 1.0) -> Sides:
    """Return both sides; the candidate takes `ratio` times the energy."""
    return side(document, "baseline"), side(document, "candidate", ratio)


def read(documents: Sequence[Document]) -> list[Run]:
    """Return the runs of these documents."""
    return [from_document(document) for document in documents]


def compared(pair: Sides, metric: str = "energy_j") -> Comparison:
    """Return the result of the comparison."""
    return compared_runs((read(pair[0]), read(pair[1])), metric)


def compared_runs(pair: tuple[list[Run], list[Run]], metric: str) -> Comparison:
    """Return the result of the comparison of runs that are read."""
    (found,) = compare_groups([pair], metrics=[metric])
    return found.result


def width(result: Comparison) -> float:
    """Return the width of the interval on the logarithmic scale."""
    assert result.ratio_interval is not None
    low, high = result.ratio_interval
    return math.log(high / low)


def with_energy(runs: Sequence[Document], **changes: object) -> list[Document]:
    """Return copies of these runs with changed energies."""
    return [
        document
        | {
            "metrics": document["metrics"]
            | {"energy": deepcopy(document["metrics"]["energy"]) | changes}
        }
        for document in runs
    ]


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [
        (1.05, ComparisonOutcome.WORSE),
        (0.95, ComparisonOutcome.BETTER),
        (1.0, ComparisonOutcome.EQUIVALENT),
    ],
)
def test_less_energy_is_better(made: Document, ratio: float, outcome: ComparisonOutcome) -> None:
    """Otherwise a model that drains the battery would pass the gate."""
    before, after = sides(made, ratio)
    (found,) = compare_groups([(read(before), read(after))], metrics=["energy_j"])
    assert found.metric == GROSS
    assert found.result.outcome is outcome
    assert found.result.ratio == pytest.approx(ratio, rel=2e-3)


@pytest.mark.parametrize("metric", ENERGY_METRICS)
def test_less_energy_is_better_by_whatever_name(made: Document, metric: str) -> None:
    """Otherwise twice the work for the same charge, or a longer battery life, would be worse."""
    result = compared(sides(made, 0.9), metric)
    is_inverse = metric.removeprefix("energy.") not in LESS_IS_BETTER
    assert result.rules.better is (Better.HIGHER if is_inverse else Better.LOWER)
    assert result.ratio == pytest.approx(1 / 0.9 if is_inverse else 0.9, rel=2e-3)
    assert result.outcome is ComparisonOutcome.BETTER


def numbers_in(value: object, place: str) -> Iterator[str]:
    """Yield the paths of all numbers from this value downwards."""
    if isinstance(value, dict):
        for key, child in value.items():
            yield from numbers_in(child, f"{place}.{key}")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield place


def test_share_of_the_meter_is_that_of_the_energy_by_whatever_name(tmp_path: Path) -> None:
    """Otherwise a power or a battery would be compared with the meter error of another number."""
    document = measured(tmp_path, GAIN, NOISE)
    energy = document["metrics"]["energy"]
    gross_j, power_w, battery = (
        energy[name] for name in ("gross_j_per_inference", "power_w_mean", "battery")
    )
    # Each is the energy, or its inverse, times a factor that the meter does not contribute to …
    assert energy["inferences_per_j"] * gross_j == pytest.approx(1)
    assert energy["inferences_per_s_per_w"] * gross_j == pytest.approx(1)
    assert power_w * energy["duration_s"] == pytest.approx(gross_j * energy["inference_count"])
    assert battery["inference_count"] * gross_j == pytest.approx(battery["capacity_j"])
    assert battery["duration_s"] * power_w == pytest.approx(battery["capacity_j"])
    # … and so is the uncertainty, where it is stored.
    u95_ratio = energy["u95_absolute_j"] / gross_j
    assert battery["u95_ratio"] == pytest.approx(u95_ratio)
    assert energy["power_w_mean_u95_absolute"] / power_w == pytest.approx(u95_ratio)
    baseline, candidate = sides(document)
    both = read(baseline), read(candidate)
    for metric in ENERGY_METRICS:
        short = "net_energy_j" if "net_" in metric else "energy_j"
        found = compared_runs(both, metric).rules.instrument_ratio
        assert found == compared_runs(both, short).rules.instrument_ratio


def test_energies_that_are_no_goal_are_refused_before_and_after_the_runs(made: Document) -> None:
    """Otherwise more inferences in a window would be a regression, with a wrong meter error."""
    check_metrics(ENERGY_METRICS, is_metered=True, has_battery=True)
    baseline, candidate = sides(made)
    pair = read(baseline), read(candidate)
    found = set(numbers_in(made["metrics"]["energy"], "energy")) - set(ENERGY_METRICS)
    assert {"energy.inference_count", "energy.duration_s", "energy.phases.load.energy_j"} < found
    for metric in found:
        with pytest.raises(UsageError) as before:
            check_metrics([metric], is_metered=True)
        with pytest.raises(UsageError) as after:
            compared_runs(pair, metric)
        assert str(before.value) == str(after.value)


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("energy.inference_count", "comparable metrics: energy_j, net_energy_j, "),
        ("energy.duration_s", "energy.battery.inference_count, energy.battery.duration_s"),
        ("energy.u95_absolute_j", "cannot be compared"),
        ("energy.battery.capacity_j", "cannot be compared"),
        ("energy.phases.steady.energy_j", "its uncertainty is not computed; compare e"),
        ("energy.per_query.p50_j", "its uncertainty is not computed; compare energy_j"),
        ("energy.power_w_idle_before", "its uncertainty is not computed"),
        ("energy.power_w_peak", "its uncertainty is not computed"),
    ],
)
def test_refusal_says_why_and_what_can_be_compared(metric: str, said: str) -> None:
    """Otherwise the user would try one name after the other."""
    with pytest.raises(UsageError) as caught:
        check_metrics([metric], is_metered=True)
    assert str(caught.value).startswith(f"metric '{metric}' ")
    assert said in str(caught.value)


def test_two_batteries_are_refused(made: Document) -> None:
    """Otherwise the model that was given the larger battery would last for longer."""
    before, after = sides(made)
    for document in after:
        document["metrics"]["energy"]["battery"]["capacity_j"] *= 2
    with pytest.raises(UsageError, match=r"differ in the battery \(66600 J / 133200 J\)"):
        compared((before, after), "energy.battery.duration_s")
    assert compared((before, after)).ratio == pytest.approx(1, rel=2e-3)


def test_what_two_runs_do_not_share_widens_the_interval(made: Document, tmp_path: Path) -> None:
    """Otherwise a meter that is noisier than the change would decide which model takes less."""
    exact, noisy = compared(sides(made)), compared(sides(measured(tmp_path, NOISE)))
    assert width(noisy) > 2 * width(exact)
    assert noisy.rules.instrument_ratio > 10 * exact.rules.instrument_ratio
    assert noisy.outcome is ComparisonOutcome.INCONCLUSIVE


def test_error_that_two_runs_share_does_not_widen_it(made: Document, tmp_path: Path) -> None:
    """Otherwise a 10 % meter could never tell two models apart, though they share its error."""
    document = measured(tmp_path, GAIN)
    energy, exact = document["metrics"]["energy"], made["metrics"]["energy"]
    assert energy["u95_absolute_j"] > 0.1 * energy["gross_j_per_inference"]
    assert energy["u95_comparative_j"] == pytest.approx(exact["u95_comparative_j"])
    assert width(compared(sides(document))) == pytest.approx(width(compared(sides(made))), rel=1e-3)


def test_share_of_the_meter_is_that_of_both_sides(made: Document) -> None:
    """Otherwise the uncertainty would be expanded twice, or be that of one side only."""
    energy = made["metrics"]["energy"]
    value_j = energy["gross_j_per_inference"]
    runs = with_energy([made], components_j={"edges": 0.01 * value_j}, common_j={})
    result = compared((side(runs[0], "baseline", count=1), side(runs[0], "candidate", count=1)))
    # 1 % a side; both are independent.
    assert result.rules.instrument_ratio == pytest.approx(0.01 * math.sqrt(2), rel=3e-3)


def test_net_energy_has_an_uncertainty_of_its_own(made: Document) -> None:
    """Otherwise a difference of two energies would be as certain as either of them."""
    gross, net = compared(sides(made)), compared(sides(made), "net_energy_j")
    assert net.rules.instrument_ratio > 1.5 * gross.rules.instrument_ratio


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"meter": "other"}, "(edgebench synthetic, nothing is measured, synthetic / other, "),
        ({"boundary": "wall"}, "measured, synthetic / edgebench synthetic, nothing is measured, w"),
    ],
)
def test_two_meters_or_boundaries_are_refused(
    made: Document, change: dict[str, str], said: str
) -> None:
    """Otherwise a processor's joules would be compared with those of a wall meter, and win."""
    before, after = sides(made)
    with pytest.raises(MetersDiffer) as caught:
        compared((before, with_energy(after, **change)))
    assert "differ in the meter" in str(caught.value)
    assert said in str(caught.value)
    assert "edgebench bench A --against B --meter" in hint_for(caught.value)
    assert compared((before, with_energy(after, **change)), "latency_ns.p50").ratio == 1.0


def without(runs: Sequence[Document], how: str) -> list[Document]:
    """Return these runs, of which one has no energy."""
    found = deepcopy(list(runs))
    metrics = found[3]["metrics"]
    if how == "older":
        del metrics["energy"]
    elif how == "unmetered":
        metrics["energy"] = None
    else:
        names = metrics["energy"].keys() - {"meter", "checks", "edge_windows"}
        metrics["energy"] |= dict.fromkeys(names)
        metrics["energy"] |= {"refusal": [], "net_refusal": []}
        metrics["energy"]["refused"] = "complete: port /dev/x is gone"
    return found


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("older", "it was made without a meter"),
        ("unmetered", "it was made without a meter"),
        ("refused", "complete: port /dev/x is gone"),
    ],
)
def test_run_without_energy_is_named(made: Document, which: int, how: str, reason: str) -> None:
    """Otherwise a candidate without energy would cause a traceback, or count as zero if refused."""
    pair = list(sides(made))
    pair[which] = without(pair[which], how)
    name = ("baseline", "candidate")[which]
    with pytest.raises(MeasurementError) as caught:
        compared((pair[0], pair[1]))
    assert str(caught.value) == f"run {name}-3 has no {GROSS}: {reason}"
    assert isinstance(caught.value, NotMetered) is (how != "refused"), "its hint is another one"


def test_run_without_net_energy_says_why(made: Document) -> None:
    """Otherwise it would not be reported that the device was not idle."""
    before, after = sides(made)
    changes = {"net_j_per_inference": None, "net_u95_comparative_j": None}
    reason = "the device was not idle beside the run"
    with pytest.raises(MeasurementError, match=rf"has no energy\.net_j_per_inference: {reason}"):
        compared((before, with_energy(after, **changes, net_refused=reason)), "net_energy_j")


@pytest.mark.parametrize("how", ["unmetered", "refused"])
def test_pairs_without_an_energy_are_left_out(made: Document, how: str) -> None:
    """Otherwise one lost sample would cost nine good pairs, or the wrong runs would be paired."""
    before, after = sides(made)
    runs = read([*before, *without(after, how)])
    assert [len(one) for one in split_sides(runs, ["energy_j"])] == [9, 9]
    assert [len(one) for one in split_sides(runs, ["latency_ns.p50"])] == [10, 10]
    kept = split_sides(runs, ["energy_j"])
    assert {one.pair.number for one in kept[0] if one.pair} == set(range(10)) - {3}


@pytest.mark.parametrize(
    ("metric", "is_metered", "said"),
    [
        ("energy_j", False, f"metric {GROSS} needs a meter: --meter METER"),
        ("net_energy_j", False, "needs a meter"),
        ("energy.battery.duration_s", True, "needs a capacity: --battery 18.5Wh"),
        ("joules", True, "metric 'joules' cannot be compared; comparable metrics"),
    ],
)
def test_metric_that_no_run_can_have_is_refused_before_the_runs(
    metric: str, is_metered: bool, said: str
) -> None:
    """Otherwise twenty runs would be made, and then there would be nothing to compare."""
    with pytest.raises(UsageError) as caught:
        check_metrics([metric], is_metered=is_metered)
    assert said in str(caught.value)
    check_metrics(["energy_j", "latency_ns.p50", "throughput_per_s"], is_metered=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"supply_v": 5.0}, "supply 5 V"),
        ({"settings_sha256": "other"}, "settings of the meter"),
    ],
)
def test_meter_that_was_set_otherwise_is_another_one(
    made: Document, change: dict[str, Any], reason: str
) -> None:
    """Otherwise a voltage that was typed differently would be called a change of the model."""
    before, after = sides(made)
    for document in after:
        document["metrics"]["energy"] |= change
    with pytest.raises(MetersDiffer, match=reason):
        compared((before, after))


def test_offset_cancels_as_far_as_the_powers_are_alike(made: Document) -> None:
    """Otherwise an offset of a tenth of the smaller energy would cancel between 2 and 8 W."""
    before, after = sides(made, ratio=4.0)
    gross = "gross_j_per_inference"
    effect = 0.1 * before[0]["metrics"]["energy"][gross]
    for document in (*before, *after):
        document["metrics"]["energy"] |= {
            "common_j": {"offset": effect, "gain": 0.1 * document["metrics"]["energy"][gross]},
            "components_j": {"offset": effect, "gain": 1.0},
        }
    found = compared((before, after)).rules.instrument_ratio
    assert found == pytest.approx(0.1 - 0.1 / 4, rel=0.01)


def test_energy_that_is_not_above_its_uncertainty_is_not_compared(made: Document) -> None:
    """Otherwise a net energy near zero would give an interval of billions of percent."""
    before, after = sides(made)
    after[0]["metrics"]["energy"]["components_j"] = {"edges of the window": 1.0}
    with pytest.raises(MeasurementError, match="not above the error of the meter"):
        compared((before, after))
