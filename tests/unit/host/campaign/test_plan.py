"""The cells of a campaign, the order of its runs, and the ids that carry both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from edgebench.host.campaign.plan import (
    AttemptName,
    CampaignPlan,
    PlannedRun,
    attempt_name,
    new_plan,
)
from edgebench.host.campaign.spec import Addition, Axes, CampaignSpec, Pattern
from edgebench.host.result.document import created_utc
from edgebench.protocol.errors import UsageError
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.protocol.record import RUN_ID

FP32, INT8 = "digits_fp32.tflite", "digits_int8.tflite"
DEVICES = {"all": ["pi4", "pi5"], "pi4": ["pi4"], "jetson": ["jetson"]}
SPEC = CampaignSpec(
    schema=1,
    name="nightly",
    axes=Axes(model=(FP32, INT8), device=("all",), threads=(1, 4)),
    repeats=3,
)


def choose(word: str) -> Sequence[str]:
    """Return the devices of a small farm."""
    return DEVICES[word]


def planned(spec: CampaignSpec = SPEC) -> CampaignPlan:
    """Return the plan of a campaign file that does not exist."""
    return new_plan(spec, Path("campaign.toml"), choose)


def test_cells_are_every_combination_once() -> None:
    """Otherwise a device that two words choose would be measured twice as often as the others."""
    plan = planned(replace(SPEC, axes=replace(SPEC.axes, device=("all", "pi4"))))
    seen = Counter(tuple(cell.factors.values()) for cell in plan.cells)
    assert len(seen) == 8
    assert set(seen.values()) == {1}
    assert [cell.number for cell in plan.cells] == list(range(8))


def test_cells_are_excluded_and_added() -> None:
    """Otherwise an excluded cell would be measured, or an empty pattern exclude all cells."""
    spec = replace(
        SPEC,
        exclude=(Pattern(model="*fp32*", threads=4), Pattern()),
        include=(
            Addition(model=INT8, device="jetson", threads=8),
            Addition(model=INT8, device="pi4", threads=4),  # one of the axes' own
        ),
    )
    cells = planned(spec).cells
    assert [(cell.device, cell.threads) for cell in cells if FP32 in cell.model] == [
        ("pi4", 1),
        ("pi5", 1),
    ]
    assert [(cell.device, cell.threads) for cell in cells if INT8 in cell.model] == [
        ("pi4", 1),
        ("pi4", 4),
        ("pi5", 1),
        ("pi5", 4),
        ("jetson", 8),
    ]


def test_models_lie_beside_the_campaign_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a campaign resumed elsewhere would find no model, or another of that name."""
    (tmp_path / "net.tflite").write_bytes(b"a model")
    monkeypatch.chdir("/")
    spec = replace(SPEC, axes=Axes(model=("net.tflite", INT8), device=("pi4",)))
    plan = new_plan(spec, tmp_path / "campaign.toml", choose)
    assert [cell.model for cell in plan.cells] == [str(tmp_path / "net.tflite"), INT8]
    assert len(plan.digests[INT8]) == 64


@pytest.mark.parametrize(
    "spec",
    [
        replace(SPEC, exclude=(Pattern(model="*"),)),
        replace(SPEC, axes=replace(SPEC.axes, threads=tuple(range(5001)))),
    ],
)
def test_campaign_without_cells_or_with_too_many_is_refused(spec: CampaignSpec) -> None:
    """Otherwise a typing error would make a million runs, or none and report that all is done."""
    with pytest.raises(UsageError, match=r"must have 1\.\.10000"):
        planned(spec)


LEVELS = tuple(f"level-{number}" for number in range(1000))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"axes": replace(SPEC.axes, runtime=LEVELS, delegate=LEVELS, scenario=LEVELS)},
            r"campaign must have 1\.\.10000 cells, got 8000000000 \(2 model × 2 device × "
            r"1000 runtime × 2 threads × 1000 delegate × 1000 scenario\)",
        ),
        (
            {
                "axes": replace(SPEC.axes, runtime=LEVELS, delegate=LEVELS),
                "exclude": (Pattern(runtime="level-*"),),
            },
            r"campaign must have 1\.\.100000 combinations, got 8000000 ",
        ),
        (
            {"axes": replace(SPEC.axes, runtime=LEVELS), "repeats": 999},
            r"campaign must have 1\.\.100000 runs, got 7992000 \(8000 cells × 999 repeats\)",
        ),
        (
            {
                "include": tuple(
                    Addition(model=INT8, threads=n, device="pi4") for n in range(10_000)
                )
            },
            "campaign has more than 10000 cells",
        ),
    ],
)
def test_product_is_counted_before_it_is_made(changes: dict[str, Any], told: str) -> None:
    """Otherwise a campaign file of 20 KB would take hours, or all memory, before its refusal."""
    with pytest.raises(UsageError, match=told):
        planned(replace(SPEC, **changes))


def test_exclusions_leave_what_no_pattern_matches_whole() -> None:
    """Otherwise a pattern of two axes would leave out cells that have one of its levels only."""
    exclude = tuple(Pattern(runtime=f"level-{n}", threads=n % 2 * 3 + 1) for n in range(300))
    spec = replace(SPEC, axes=replace(SPEC.axes, runtime=LEVELS[:300]), exclude=exclude)
    cells = planned(spec).cells
    assert len(cells) == 2 * 2 * 2 * 300 - 2 * 2 * 300
    assert not [
        cell
        for cell in cells
        for pattern in exclude
        if (cell.runtime, cell.threads) == (pattern.runtime, pattern.threads)
    ]


def test_every_round_measures_every_cell_once_in_an_order_of_its_own() -> None:
    """Otherwise drift on a device would be taken for an effect of the cell that comes last."""
    plan = planned()
    order = plan.order("pi4")
    rounds = [order[start : start + 4] for start in range(0, 12, 4)]
    for number, one in enumerate(rounds):
        assert {run.cell for run in one} == {0, 1, 4, 5}
        assert {run.repeat for run in one} == {number}
    assert len({tuple(run.cell for run in one) for one in rounds}) > 1
    assert order == plan.order("pi4")
    other = replace(plan, spec=replace(plan.spec, seed=1))
    assert other.order("pi4") != order


def test_run_id_tells_its_place_and_its_time() -> None:
    """Otherwise a campaign whose journal is lost would repeat what it has measured."""
    plan = planned()
    name = AttemptName(plan.id, PlannedRun(12, 4), 2)
    run_id = name.run_id(datetime(2026, 11, 23, 5, 6, 7, tzinfo=timezone.utc))
    assert RUN_ID.fullmatch(run_id)
    assert attempt_name(run_id) == name
    assert created_utc(run_id) == "2026-11-23T05:06:07+00:00"
    assert attempt_name("20261123-050607-123abcde") is None


def test_plan_is_read_as_it_was_written() -> None:
    """Otherwise a resumed campaign would make other runs than the campaign that was begun."""
    spec = replace(SPEC, exclude=(Pattern(threads=4),), retry={"worker_died": 3})
    plan = planned(spec)
    assert from_outside(to_plain(plan), CampaignPlan) == plan


def test_runs_of_a_cell_are_one_set() -> None:
    """Otherwise the repeats of a cell would be told apart as if they were other measurements."""
    plan = planned()
    members = [plan.member(PlannedRun(5, number)) for number in range(3)]
    assert len({member.set_id for member in members if member}) == 1
    assert [member.number for member in members if member] == [0, 1, 2]
    assert planned(replace(SPEC, repeats=1)).member(PlannedRun(0, 0)) is None
