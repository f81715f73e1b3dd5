"""The failed rules of real runs in trouble fold into few causes, and the first is the trouble.

The findings are those of two runs of each of six kinds of trouble, as `trouble_corpus.py --record`
wrote them; the figures of all runs are in docs/performance.md.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.diagnosis import Diagnosis, diagnose
from edgebench.host.analysis.verdict.judge import verdict_of
from edgebench.host.result.verdict import Finding, RuleOutcome, State

FIXTURE = Path(__file__).parents[4] / "fixtures" / "troubled_runs.json"
FAILED_BAR, CAUSES_BAR = 4.5, 1.7
"""Source: issue 40, Must show 1."""
CAUSES = {
    "another process": Cause.OTHER_PROGRAMS,
    "browser": Cause.OTHER_PROGRAMS,
    "8 threads": Cause.TOO_MANY_THREADS,
    "CPU quota": Cause.CPU_LIMIT,
    "throttling": Cause.HEAT,
    "under-voltage": Cause.POWER_SUPPLY,
}
RUNS: list[dict[str, Any]] = json.loads(FIXTURE.read_text())


def findings_of(run: dict[str, Any]) -> list[Finding]:
    """The failed findings of a recorded run."""
    return [
        Finding(**plain | {"outcome": RuleOutcome.FAIL, "severity": State(plain["severity"])})
        for plain in run["failures"]
    ]


def diagnosed(run: dict[str, Any]) -> tuple[Diagnosis, ...]:
    """The causes of a recorded run."""
    return diagnose(verdict_of(findings_of(run)))


def test_every_kind_was_recorded() -> None:
    """Otherwise a kind that was not planted would not be tested."""
    assert sorted(run["kind"] for run in RUNS) == sorted([*CAUSES, *CAUSES])


@pytest.mark.parametrize("kind", CAUSES)
def test_first_cause_is_the_trouble(kind: str) -> None:
    """Otherwise the first advice would mend something else."""
    firsts = [diagnosed(run)[0].cause for run in RUNS if run["kind"] == kind]
    assert firsts == [CAUSES[kind]] * 2


def test_failed_rules_fold_into_few_causes() -> None:
    """Otherwise a person would read each symptom as a problem of its own."""
    assert mean(len(findings_of(run)) for run in RUNS) >= FAILED_BAR
    assert mean(len(diagnosed(run)) for run in RUNS) <= CAUSES_BAR
    for run in RUNS:
        placed = [finding.id for cause in diagnosed(run) for finding in cause.findings]
        assert sorted(placed) == sorted(finding.id for finding in findings_of(run))
