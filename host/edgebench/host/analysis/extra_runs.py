"""Further runs of a set, which replace runs that were disturbed for a moment.

If another program is active for one second during a set, it may spoil a run or two, although the
device is quiet again when the set ends. Such runs are made again, after the planned runs.

The choice must not bias the result, so no run is chosen by its value. A slow run without a recorded
disturbance stays in the set, and a disturbed run is replaced whether it was slow or fast. A run is
replaced if all of the following hold:

1. A rule whose cause is in `_PASSING` failed in the run, so the disturbance itself was recorded.
2. All other rules that failed in the run are consequences of a disturbance (`_CONSEQUENCES`). A
   throttled device or a wrong output would occur in the next run, too.
3. Fewer than half of the runs of the set are disturbed. Otherwise the disturbance belongs to the
   conditions of the measurement, and results without it would not be those of this machine.
4. The set is not valid without a replacement, or more than one of eight runs is disturbed. If only
   one of eight is disturbed, the other runs outvote it in every number of the set.

In a comparison, whole sets are left out if they are disturbed (`compare/blocks.py`). The number of
such sets is not limited. If latencies counted as evidence, the sets of a model that slows itself
down would be left out as well. So whole sets are left out only for disturbances that were recorded
independently of the model's latencies. A slowdown without a known cause does not count.

Source: NIST/SEMATECH, e-Handbook of Statistical Methods, 7.1.6: before a value is left out, find
out why it appeared, and whether similar values will continue to appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from edgebench.host.analysis.median import MIN_RUNS
from edgebench.host.analysis.run_set import find_set
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.run_set import OUTVOTED_RATIO
from edgebench.host.analysis.verdict.table import cause_of
from edgebench.host.analysis.verdict.thermal import InterferenceRule
from edgebench.host.result.facts import Replacement, SetMember
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State

DEFAULT_EXTRA_RUNS = 3
"""Maximum number of further runs of a set. If each of eight runs is disturbed with a probability of
10 %, more than three are disturbed in only 1 of 200 sets (binomial distribution)."""
_PASSING = frozenset({Cause.OTHER_PROGRAMS, Cause.OTHER_CORES, Cause.UNKNOWN_SLOWDOWN})
"""Causes of disturbances that may have passed before the next run."""
_CONSEQUENCES = frozenset({Cause.VARIATION})
RunT = TypeVar("RunT")
"""Type of a run, or of a run's row in the index of the store."""


def disturbances_of(run: Run) -> tuple[str, ...]:
    """Ids of the rules that failed because of a disturbance that may have passed.

    There are none if the run also failed for a reason that would also affect a further run.
    """
    causes = {failure.id: cause_of(failure) for failure in run.verdict.failures}
    if not set(causes.values()) <= _PASSING | _CONSEQUENCES:
        return ()
    return tuple(name for name, cause in causes.items() if cause in _PASSING)


def external_disturbances_of(run: Run) -> tuple[str, ...]:
    """`disturbances_of(run)` without disturbances that the model itself may have caused.

    The rule `interference` judges the latencies of the model, which also rise if the model itself
    leaks memory. So this rule counts only if the model was moved to other cores.
    """
    own = {
        failure.id
        for failure in run.verdict.failures
        if failure.id == InterferenceRule.id and cause_of(failure) is Cause.UNKNOWN_SLOWDOWN
    }
    return tuple(name for name in disturbances_of(run) if name not in own)


def is_mostly(disturbed_count: int, run_count: int) -> bool:
    """Whether at least half of a set's runs are disturbed, which shows a lasting disturbance."""
    return 2 * disturbed_count >= run_count


def without_disturbed_sets(
    runs: Iterable[RunT],
    set_of: Callable[[RunT], str | None],
    is_disturbed: Callable[[RunT], bool],
) -> list[RunT]:
    """The runs, except all runs of sets in which at least half are disturbed.

    Args:
        runs: The runs.
        set_of: Function that returns the id of a run's set, or of the run's side of a comparison in
            pairs. For a run that belongs to neither, the function returns None. All such runs count
            as one set.
        is_disturbed: Function that returns whether a run was disturbed.
    """
    sets: dict[str | None, list[RunT]] = {}
    for run in runs:
        sets.setdefault(set_of(run), []).append(run)
    return [
        run
        for group in sets.values()
        if not is_mostly(sum(map(is_disturbed, group)), len(group))
        for run in group
    ]


def next_extra_run(runs: Sequence[Run]) -> SetMember | None:
    """Position of the next further run in its set; None if no run is to be replaced.

    Args:
        runs: All runs of the set so far, including replaced runs; at least one.
    """
    run_set = find_set(runs)
    if run_set.planned_count < MIN_RUNS:
        return None
    disturbed = [run for run in run_set.counted if disturbances_of(run)]
    if not disturbed or is_mostly(len(disturbed), len(run_set.counted)):
        return None
    is_outvoted = len(disturbed) <= OUTVOTED_RATIO * len(run_set.counted)
    if run_set.verdict.state is State.VALID and is_outvoted:
        return None
    member, run_id = disturbed[0].member, disturbed[0].run_id
    assert member is not None, "each run in a set of several runs is a member"
    return replace(member, replaces=Replacement(run_id, disturbances_of(disturbed[0])))
