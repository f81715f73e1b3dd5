"""Files of a run that people spoilt, as cases 10 and 24 beside this checkout make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import energy_simulation
from support.energy_simulation import Outcome, simulate_file
from support.tools import need_shared

SCRIPT_END = "for name, spoil in cases.items():"
"""The part of the script from here on prints all its cases."""
Spoil = Callable[..., Any]


@pytest.fixture
def outcome_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Outcome | str]:
    """Outcome of a run whose file the case's script spoils, by the name of its spoiler."""
    # The script replaces the function that writes the file.
    monkeypatch.setattr(energy_simulation, "_write_csv", energy_simulation._write_csv)
    # Case 10 has the same script.
    path = need_shared("cases/24-trace-ends-early-or-runs-at-another-rate/energy_sim_case.py")
    case: dict[str, Any] = {}
    exec(path.read_text().partition(SCRIPT_END)[0], case)

    def run(name: str) -> Outcome | str:
        case["spoil"] = case["cases"][name]
        return simulate_file(case["dev"], case["met"], case["fil"], 0)

    return run


def test_file_as_recorded_has_its_energy(outcome_of: Callable[[str], Outcome | str]) -> None:
    """Otherwise the refusals below would be those of every file."""
    outcome = outcome_of("as recorded")
    assert isinstance(outcome, Outcome)
    assert outcome.is_inside


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ends at 60 %", "the second, 5.132 s later, is missing: the trace ends at 8.824 s"),
        ("time at 32 %", "if the times of the trace are multiplied by 3.1"),
        ("a zero behind each sample (time x2)", "if the times of the trace are multiplied by 0.5"),
        ("100 ms lost in the loop, times renumbered", "samples between them are lost"),
    ],
)
def test_refusal_states_what_the_trace_shows(
    outcome_of: Callable[[str], Outcome | str], name: str, reason: str
) -> None:
    """Otherwise a user would not learn that the file ends early, or that its times are wrong."""
    outcome = outcome_of(name)
    assert isinstance(outcome, str)
    assert reason in outcome


@pytest.mark.parametrize("name", ["5 ms of zeros", "50 ms of zeros", "400 ms of zeros"])
def test_zeros_are_no_power(outcome_of: Callable[[str], Outcome | str], name: str) -> None:
    """Otherwise an energy would be 10 % too low, at a printed 0.1 % (eembc/energyrunner#24)."""
    outcome = outcome_of(name)
    assert isinstance(outcome, str) or outcome.is_refused or outcome.is_inside
