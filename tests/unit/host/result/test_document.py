"""run.json as types: what is written is read back, and nothing that is not ours is lost."""

from __future__ import annotations

import pytest
from support.records import CREATED_UTC, RUN_ID

from edgebench.host.result.document import created_utc


@pytest.mark.parametrize(
    ("run_id", "expected"),
    [(RUN_ID, CREATED_UTC), ("20261301-000000-x", None), ("my-run", None), ("", None)],
)
def test_time_of_a_run_comes_from_its_id(run_id: str, expected: str | None) -> None:
    """A run that was collected a week later says that it was made then."""
    assert created_utc(run_id) == expected
