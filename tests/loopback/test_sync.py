"""The method that `--sync` names, with an emulated PPK2 whose current follows the device."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.commands import METERED
from support.energy_trial import DEVICE, Bench, bench
from support.ppk2 import Faults, Ppk2Emulator
from support.undisturbed import undisturbed

from edgebench.host.result.reasons.alignment import clocks_not_aligned
from edgebench.host.result.reasons.table import text_of

pytestmark = pytest.mark.alone

UNALIGNED = text_of([clocks_not_aligned()])


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One agent, with a wire to the meter."""
    with bench(tmp_path_factory.mktemp("wired")) as made:
        yield made


Outcome = tuple[int, str, dict[str, Any]]
"""Exit code, standard error and document."""


def disturbance(outcome: Outcome) -> str | None:
    """What another process did to the code, the pulses, the rate or the power; None: nothing."""
    energy = outcome[2]["metrics"]["energy"]
    refused: str | None = energy["refused"]
    if energy["sync"] is None:
        return refused  # the power cannot be that of this run
    reasons = f"{UNALIGNED}; coded_load: ", f"{UNALIGNED}; edge: ", "rate: "
    return refused if refused is not None and refused.startswith(reasons) else None


def measured(wired: Bench, method: str, *, delay_s: float = 0.0) -> Outcome:
    """An undisturbed run with this method."""
    return undisturbed(lambda: run_of(wired, method, delay_s), disturbance)


def run_of(wired: Bench, method: str, delay_s: float) -> Outcome:
    """A run with this method."""
    wired.activity.begin(rest_a=2e-3, work_a=20e-3, noise_a=0.0, seed=1)
    unit = Ppk2Emulator(faults=Faults(delay_s=delay_s))
    unit.waveform = lambda time_s: wired.activity.waveform(unit, time_s)
    with unit:
        result = wired.host.run(
            *("bench", "digits_fp32.tflite", "--on", DEVICE, *METERED, "--sync", method),
            *("--meter", f"ppk2:{unit.path},supply=3.3", "--json"),
        )
    (document,) = json.loads(result.stdout)["runs"]
    assert len(document["conditions"]["marks"]["pulses"]) == 10
    return result.returncode, result.stderr, document


@pytest.mark.parametrize(("method", "code_count"), [("edge", 0), ("coded_load", 2)])
def test_way_that_is_asked_for_is_taken_and_named(
    wired: Bench, method: str, code_count: int
) -> None:
    """Otherwise the best method would replace the requested one, or codes be played in vain."""
    code, said, document = measured(wired, method)
    assert code == 0, said
    sync = document["metrics"]["energy"]["sync"]
    assert (sync["method"], sync["asked"]) == (method, method)
    assert {one["method"] for one in sync["tried"]} == {"arrival", "edge", "coded_load"}
    assert len(document["conditions"]["marks"]["codes"]) == code_count


def test_best_way_is_taken_where_none_is_asked_for(wired: Bench) -> None:
    """Otherwise the first method that works would be used, whatever its error."""
    code, said, document = measured(wired, "auto")
    assert code == 0, said
    sync = document["metrics"]["energy"]["sync"]
    errors = {one["method"]: one["error_ns"] for one in sync["tried"] if one["error_ns"]}
    assert sync["method"] == min(errors, key=lambda name: errors[name])
    assert sync["asked"] is None


def test_arrivals_that_the_wire_contradicts_are_refused_though_asked_for(wired: Bench) -> None:
    """Otherwise the window would miss the inferences, and no part of the output would show it."""
    code, said, document = measured(wired, "arrival", delay_s=0.3)
    energy = document["metrics"]["energy"]
    assert code == 3, said
    assert energy["refused"].startswith(UNALIGNED)
    reasons = {one["method"]: one["reason"] for one in energy["sync"]["tried"]}
    assert reasons["arrival"].startswith("samples arrive ")
    assert reasons["arrival"].endswith(" ms late, as edge shows")
    assert energy["gross_j_per_inference"] is None
