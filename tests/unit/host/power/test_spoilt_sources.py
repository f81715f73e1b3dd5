"""Sources that are spoilt in a plausible way: no energy is printed that the truth is not in.

`benchmarks/energy_faults.py` has every fault of every source.
"""

from __future__ import annotations

import pytest
from support.energy_simulation import Outcome
from support.meter_bytes import INSTRUMENTS
from support.meter_texts import PROGRAMS
from support.sources import SWAPS, filed_run, metered_run, swapped_file
from support.spoilt import FAULTS, Fault

[RAPL] = [known for known in INSTRUMENTS if known.name == "rapl"]
[MONITOR] = [known for known in INSTRUMENTS if known.name == "hwmon, power"]
[TABLE] = [known for known in PROGRAMS if known.name == "CSV, power with current and voltage"]
[TEGRASTATS] = [known for known in PROGRAMS if known.name == "tegrastats"]


def outcomes(fault: Fault | None) -> dict[str, Outcome | str]:
    """The outcome of a run beside each of four sources that can have the fault."""
    found: dict[str, Outcome | str] = {}
    for instrument in (RAPL, MONITOR):
        if fault is None or fault.applies_to(instrument.traits):
            found[instrument.name] = metered_run(instrument, 1, fault)
    for program in (TABLE, TEGRASTATS):
        if fault is None or fault.applies_to(program.traits):
            found[program.name] = filed_run(program, 1, fault)
    return found


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_energy_of_a_spoilt_source_holds_the_truth_or_is_refused(fault: Fault) -> None:
    """Otherwise a dead counter would be 0 J, and milliwatts read as watts a thousandth."""
    found = outcomes(fault)
    assert found
    for name, outcome in found.items():
        assert isinstance(outcome, str) or outcome.is_refused or outcome.is_inside, name


def test_energy_of_a_good_source_is_printed_and_holds_the_truth() -> None:
    """Otherwise the checks of spoilt sources would refuse good ones."""
    for name, outcome in outcomes(None).items():
        assert isinstance(outcome, Outcome), name
        assert outcome.is_inside, (name, outcome.energy.refused)


@pytest.mark.parametrize("seed", range(len(SWAPS)), ids=SWAPS)
def test_file_of_another_run_is_refused(seed: int) -> None:
    """Otherwise a run would have the energy of another one."""
    _, outcome = swapped_file(TABLE, seed)
    assert isinstance(outcome, str) or outcome.is_refused
