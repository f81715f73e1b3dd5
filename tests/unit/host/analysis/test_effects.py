"""Effects of factors, compared with simulated data whose effects are known."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from edgebench.host.analysis.effects import Observation, factor_effects
from edgebench.host.result.marks import ResultMarks
from edgebench.host.result.verdict import State

VALID = ResultMarks("valid")
MODELS, THREADS = ("fp32", "int8"), (1, 4)


def observed(seed: int, *, rounds: int = 5, interaction: float = 0.0) -> list[Observation]:
    """Return runs in which int8 takes 0.5 of fp32, and 4 threads 0.8 of one; 5 % between runs."""
    chance = random.Random(seed)
    return [
        Observation(
            {"model": model, "threads": threads},
            number,
            1e6
            * (0.5 if model == "int8" else 1)
            * (0.8 if threads == 4 else 1)
            * (1 + interaction * (model == "int8" and threads == 4))
            * math.exp(chance.gauss(0.02 * number, 0.05)),
            VALID,
        )
        for number in range(rounds)
        for model in MODELS
        for threads in THREADS
    ]


def test_interval_holds_the_effect_as_often_as_it_says() -> None:
    """Otherwise the 95 % would be a decoration."""
    inside = {"model": 0, "threads": 0}
    for seed in range(400):
        for factor_effect in factor_effects(observed(seed), ["model", "threads"]):
            true = {"model": 0.5, "threads": 0.8}[factor_effect.factor]
            inside[factor_effect.factor] += factor_effect.ci95[0] <= true <= factor_effect.ci95[1]
    # 380 are expected; 366 to 393 is where 99.8 % of binomial draws lie.
    assert all(366 <= count <= 394 for count in inside.values()), inside


def test_effect_that_differs_from_place_to_place_shows_its_range() -> None:
    """Otherwise a factor that helps here and harms there would be reported as without effect."""
    [effect] = factor_effects(observed(1, rounds=50, interaction=0.5), ["threads"])
    assert effect.place_count == 2
    assert effect.pair_count == 100
    assert effect.lowest_ratio == pytest.approx(0.8, rel=0.05)
    assert effect.highest_ratio == pytest.approx(1.2, rel=0.05)
    assert effect.ratio == pytest.approx(math.sqrt(0.8 * 1.2), rel=0.05)


def test_one_suspect_run_makes_its_effects_suspect() -> None:
    """Otherwise a ratio of untrusted numbers would be printed like any other."""
    rows = observed(1)
    assert {factor_effect.verdict for factor_effect in factor_effects(rows, ["model"])} == {
        State.VALID
    }
    rows[-1] = replace(rows[-1], marks=ResultMarks("suspect"))
    assert {factor_effect.verdict for factor_effect in factor_effects(rows, ["model"])} == {
        State.SUSPECT
    }


def test_what_was_never_measured_side_by_side_has_no_effect() -> None:
    """Otherwise other models on other devices would be compared as if only the device differed."""
    apart = [
        Observation({"model": model, "device": device}, number, 1.0 + number, VALID)
        for number in range(5)
        for model, device in (("a", "pi4"), ("b", "pi5"))
    ]
    assert factor_effects(apart, ["model", "device"]) == []
    assert factor_effects([], ["model"]) == []


def test_rounds_that_one_level_lacks_do_not_count() -> None:
    """Otherwise a run that failed would shift the effect by what its round was like."""
    rows = [one for one in observed(3) if not (one.levels["threads"] == 4 and one.round in (0, 1))]
    [effect] = factor_effects(rows, ["threads"])
    assert effect.pair_count == 6
    few = [row for row in rows if not (row.levels["threads"] == 4 and row.round == 2)]
    assert factor_effects(few, ["threads"]) == []
