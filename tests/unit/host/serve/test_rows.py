"""Rows of stored runs: numbers with their uncertainty, and no number of a refused run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from edgebench.host.result.verdict import State
from edgebench.host.serve.rows import run_row
from edgebench.host.show.numbers import REFUSED
from edgebench.host.store.index import summary_of
from edgebench.host.store.layout import Store

RUNS = Path(__file__).parents[3] / "fixtures" / "runs" / "v7"


@pytest.mark.parametrize("run_id", sorted(path.name for path in RUNS.iterdir()))
def test_row_of_a_run_has_its_uncertainty_or_no_number(run_id: str, tmp_path: Path) -> None:
    """Otherwise the page would show a refused number, or a number without its uncertainty."""
    (tmp_path / "runs").symlink_to(RUNS)
    run = Store(tmp_path).run(run_id)
    row = run_row(summary_of(run), run)
    if run.failure is not None:
        assert not any(char.isdigit() for char in row.number)
        assert row.remark == run.failure.code
    elif run.verdict.state is State.INVALID:
        assert row.number == REFUSED
        assert row.energy in ("", REFUSED)
    else:
        is_without = run.emulated or run.kind == "profile"  # Exact, or about its operators
        assert re.search(r"±|/\+|no interval", row.number) or is_without
        assert row.energy in ("", REFUSED) or "±" in row.energy
    assert ("simulated" in row.remark, "emulated" in row.remark) == (run.simulated, run.emulated)
