"""Further runs of a set, in place of runs that were disturbed for a moment.

A neighbour that wakes up during a second of a set may spoil a run or two, and the device is quiet
again when the set ends. Such runs are made again, after the planned runs.

The choice must not bias the result, so no run is chosen by its value: a slow launch without a
recorded disturbance stays in the set, and a disturbed run is replaced whether it was slow or fast.
A run is replaced if all of the following hold:

1. A rule with a cause of `_PASSING` failed in it, so the disturbance itself was recorded.
2. Its other failed rules are consequences of a disturbance (`_CONSEQUENCES`). A throttled device
   or a wrong output would be the same in the next run.
3. Fewer than half of the runs of the set are disturbed. Otherwise the disturbance belongs to the
   conditions of the measurement, and results without it would not be those of this machine.
4. The set is not valid without a replacement: one disturbed run of eight is outvoted.

Source: NIST/SEMATECH, e-Handbook of Statistical Methods, 7.1.6: before a value is left out, find
out why it appeared, and whether similar values will continue to appear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgebench.host.analysis.median import MIN_RUNS
from edgebench.host.analysis.run_set import find_set
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.table import cause_of
from edgebench.host.result.facts import Replacement, SetMember
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State

DEFAULT_EXTRA_RUNS = 3
"""Largest number of further runs of a set: with eight runs, of which each is disturbed with 10 %,
more than three are disturbed in 1 of 200 sets (binomial distribution)."""
_PASSING = frozenset({Cause.OTHER_PROGRAMS, Cause.OTHER_CORES, Cause.UNKNOWN_SLOWDOWN})
"""Causes that may be gone in the next run."""
_CONSEQUENCES = frozenset({Cause.VARIATION})


def disturbances_of(run: Run) -> tuple[str, ...]:
    """Ids of the rules that failed by a disturbance that may have passed.

    There are none if the run also failed for a reason that a further run would share.
    """
    causes = {failure.id: cause_of(failure) for failure in run.verdict.failures}
    if not set(causes.values()) <= _PASSING | _CONSEQUENCES:
        return ()
    return tuple(name for name, cause in causes.items() if cause in _PASSING)


def are_disturbed(runs: Sequence[Run]) -> bool:
    """Whether half of the runs of a set or more were disturbed: a condition of its occasion."""
    return 2 * sum(bool(disturbances_of(run)) for run in runs) >= len(runs)


def next_extra_run(runs: Sequence[Run]) -> SetMember | None:
    """Position of the next further run of a set; None if no run is to be replaced.

    Args:
        runs: All runs of the set so far, including replaced runs; at least one.
    """
    run_set = find_set(runs)
    if run_set.verdict.state is State.VALID or run_set.planned_count < MIN_RUNS:
        return None
    disturbed = [run for run in run_set.counted if disturbances_of(run)]
    if not disturbed or are_disturbed(run_set.counted):
        return None
    member, run_id = disturbed[0].member, disturbed[0].run_id
    assert member is not None, "a set of several runs has members"
    return replace(member, replaces=Replacement(run_id, disturbances_of(disturbed[0])))
