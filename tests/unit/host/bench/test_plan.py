"""The order of the runs on a device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.records import DEVICE, ENVIRONMENT

from edgebench.host.bench.model import Model
from edgebench.host.bench.plan import (
    ALL_RUNTIMES,
    Step,
    plan_steps,
    refuse_impossible,
    refuse_unseen_edges,
    run_request,
)
from edgebench.host.bench.request import BenchRequest, ComparisonRequest
from edgebench.host.power.metering import OpenMeter
from edgebench.host.result.facts import EnergyRequest, Pair, SetMember
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.errors import RuntimeUnavailable, TooLarge, UsageError
from edgebench.protocol.spec import MAX_SEED, SpecChanges, from_preset

if TYPE_CHECKING:
    from typing_extensions import Unpack

A = Model(Path("a.tflite"), "a.tflite", 5, 0)
B = Model(Path("b.tflite"), "b.tflite", 5, 0)
C = Model(Path("c.onnx"), "c.onnx", 5, 0)
SYSTEM = SystemDescription(
    DEVICE,
    ENVIRONMENT,
    (
        RuntimeReport("litert", ("tflite",), "2"),
        RuntimeReport("tflite", ("tflite",), "2"),
        RuntimeReport("onnx", ("onnx",), "1"),
        RuntimeReport("broken", ("onnx",), reason="no wheel"),
    ),
)


def steps(*models: Model, runtime: str | None = None) -> list[Step]:
    """Return the runs of these models."""
    return plan_steps(BenchRequest(models=models, runtime=runtime), SYSTEM)


def against(
    count: int,
    *,
    candidate: Model = B,
    runtime: str | None = None,
    allowed: tuple[str, ...] = (),
) -> list[Step]:
    """Return the runs of a comparison with A."""
    wanted = ComparisonRequest(candidate=candidate, pair_count=count, allowed=allowed)
    return plan_steps(BenchRequest(models=(A,), runtime=runtime, against=wanted), SYSTEM)


def test_each_model_runs_on_the_preferred_runtime_or_on_all() -> None:
    """Otherwise a model would be measured on a runtime that was not requested."""
    assert [(s.model.name, s.runtime) for s in steps(A, C)] == [
        ("a.tflite", "litert"),
        ("c.onnx", "onnx"),
    ]
    names = [(s.model.name, s.runtime) for s in steps(A, C, runtime=ALL_RUNTIMES)]
    assert names == [("a.tflite", "litert"), ("a.tflite", "tflite"), ("c.onnx", "onnx")]
    assert all(step.pair is None for step in steps(A))


@pytest.mark.parametrize("idle_s", [0.0, 0.2])
def test_idle_time_that_ends_before_the_edges_is_refused(idle_s: float) -> None:
    """Otherwise a run of minutes would have no energy, as its recording lacks the last pulses."""
    request, board = BenchRequest(models=(A,)), [Step(A, "firmware", is_target=True)]

    def meter(asked_s: float | None) -> OpenMeter:
        energy = EnergyRequest(meter="ppk2", idle_duration_s=asked_s)
        return OpenMeter(request=energy, meter=None, header=None)

    with pytest.raises(UsageError, match=f"--idle must be at least 0.5 s .* got {idle_s:g} s"):
        refuse_unseen_edges(request, board, meter(idle_s))
    for enough_s in (None, 0.5):
        refuse_unseen_edges(request, board, meter(enough_s))
    refuse_unseen_edges(request, [Step(A, "litert")], meter(idle_s))
    refuse_unseen_edges(request, board, None)


def test_every_pair_has_both_sides_next_to_each_other() -> None:
    """Otherwise all baselines would run on the cool device, all candidates on the hot one."""
    made = against(20)
    assert len(made) == 40
    for first, second in zip(made[::2], made[1::2], strict=True):
        assert first.pair
        assert second.pair
        assert first.pair.number == second.pair.number
        assert {first.pair.side, second.pair.side} == {"baseline", "candidate"}
        for step in (first, second):
            assert step.pair
            assert step.model is (A if step.pair.side == "baseline" else B)


def test_each_side_is_first_in_half_of_the_pairs_and_the_order_changes() -> None:
    """Otherwise the baseline would always run first, and the second would always be slower."""
    orders = [tuple(step.pair.side for step in against(20)[::2] if step.pair) for _ in range(5)]
    assert {order.count("baseline") for order in orders} == {10}
    assert len(set(orders)) > 1


def test_each_runtime_is_a_comparison_of_its_own() -> None:
    """Otherwise runs of two runtimes would be paired with each other."""
    made = against(3, runtime=ALL_RUNTIMES)
    ids = {(step.runtime, step.pair.comparison_id) for step in made if step.pair}
    assert len(ids) == len({runtime for runtime, _ in ids}) == 2


def test_models_without_a_common_runtime_are_refused() -> None:
    """Otherwise a tflite file would be compared with an ONNX file, runtime against runtime."""
    with pytest.raises(UsageError, match=r"no runtime loads both a\.tflite and c\.onnx"):
        against(3, candidate=C)


def test_runtimes_are_compared_where_that_was_allowed() -> None:
    """Otherwise pairs could not be used at all to find which runtime is faster."""
    made = against(3, candidate=C, allowed=("runtime",))
    assert len(made) == 6
    assert {(s.model.name, s.runtime, s.pair.side) for s in made if s.pair} == {
        ("a.tflite", "litert", "baseline"),
        ("c.onnx", "onnx", "candidate"),
    }
    assert len({s.pair.comparison_id for s in made if s.pair}) == 1


def test_runtime_that_does_not_work_is_refused() -> None:
    """Otherwise a run would fail on the device after a minute of preparation."""
    with pytest.raises(RuntimeUnavailable, match="broken is not usable: no wheel"):
        steps(C, runtime="broken")
    with pytest.raises(UsageError, match="does not load"):
        steps(C, runtime="litert")


def in_rounds(count: int, *models: Model, **changes: Unpack[SpecChanges]) -> list[Step]:
    """Return the runs of a request for so many of each model."""
    spec = from_preset("quick", **changes)
    return plan_steps(BenchRequest(models=models, spec=spec, run_count=count), SYSTEM)


def test_runs_of_the_models_are_made_in_rounds() -> None:
    """Otherwise a machine's drift would be in one set, and look like a difference of models."""
    made = in_rounds(3, A, C)
    assert [step.model for step in made] == [A, C] * 3
    members = [step.member for step in made]
    assert [member.number for member in members if member] == [0, 0, 1, 1, 2, 2]
    assert len({member.set_id for member in members if member}) == 2
    assert all(member and member.count == 3 for member in members)


def test_one_run_is_no_set() -> None:
    """Otherwise a run on its own would name a set that cannot be shown."""
    assert [step.member for step in in_rounds(1, A, C)] == [None, None]


def test_only_the_first_run_is_checked_and_answers_the_data_set() -> None:
    """Otherwise reference kernels would run for a minute in each of five runs."""
    spec = from_preset("quick", dataset_sha256="d" * 64)
    specs = [step.spec(spec) for step in in_rounds(3, A)]
    assert [one.is_checked for one in specs] == [True, False, False]
    assert [one.dataset_sha256 is not None for one in specs] == [True, False, False]


def test_each_run_draws_its_own_inputs_and_arrivals() -> None:
    """Otherwise five runs would share a schedule of arrivals, whose luck is in no interval."""
    specs = [step.spec(from_preset("quick", seed=7)) for step in in_rounds(3, A)]
    assert [spec.seed for spec in specs] == [7, 8, 9]
    last = from_preset("quick", seed=MAX_SEED - 1)
    assert [step.spec(last).seed for step in in_rounds(2, A)] == [MAX_SEED - 1, 0]
    assert {step.spec(from_preset("quick", seed=7)).seed for step in against(2)} == {7}


@pytest.mark.parametrize(("room", "is_taken"), [(None, True), (5, True), (4, False)])
def test_file_that_a_device_has_no_room_for_is_refused_unread(
    room: int | None, is_taken: bool
) -> None:
    """Otherwise gigabytes would be hashed and sent, only to be refused."""
    request = BenchRequest(models=(A, B))  # there are no such files
    system = replace(SYSTEM, models_room_bytes=room)
    if is_taken:
        refuse_impossible("pi", request, system, None)
        return
    with pytest.raises(TooLarge, match=r"^file has 5 B, pi has room for 4 B: a\.tflite$"):
        refuse_impossible("pi", request, system, None)


@pytest.mark.parametrize("usable", [None, (0, 1, 2), (0, 1)])
def test_cpu_that_a_device_does_not_have_is_refused(usable: tuple[int, ...] | None) -> None:
    """Otherwise a wrong number would be reported at the first run, after the model was sent."""
    system = replace(SYSTEM, usable_cpus=usable)
    request = BenchRequest(models=(A,), spec=from_preset("default", cpus=(0, 2)))
    if usable != (0, 1):  # an older agent refuses it itself
        refuse_impossible("pi", request, system, None)
        return
    refusal = r"^CPU 2 is not available to models on pi; available: 0,1$"
    with pytest.raises(UsageError, match=refusal) as raised:
        refuse_impossible("pi", request, system, None)
    assert raised.value.meant == "--cpus 0,1"


def test_one_run_of_a_target_is_as_long_as_all_runs_of_a_model() -> None:
    """Otherwise a campaign would measure a board five times too long, or `bench` a fifth."""
    request = BenchRequest(models=(A,), spec=from_preset("default", duration_s=2.0), run_count=5)
    alone = Step(A, "firmware", is_target=True)
    lengths_s = [
        run_request(request, step, None, None).spec.duration_s
        for step in (
            alone,
            replace(alone, member=SetMember("set-1", 0, 5)),
            replace(alone, pair=Pair("1", 0, "baseline")),
            replace(alone, is_target=False),
        )
    ]
    assert lengths_s == [10.0, 2.0, 2.0, 2.0]
