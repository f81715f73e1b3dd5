"""Verdicts as text: the reasons, the advice and the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rich.console import RenderableType
from rich.text import Text

from edgebench.host.analysis.median import MIN_RUNS
from edgebench.host.analysis.verdict.advice import Advice, Situation, without_repeats
from edgebench.host.analysis.verdict.energy import EnergyRule
from edgebench.host.analysis.verdict.rule import Cause
from edgebench.host.analysis.verdict.run import CompleteRule
from edgebench.host.analysis.verdict.table import ALL_RULES, BY_ID, cause_of, kind_of
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import SetMember
from edgebench.host.result.marks import in_words
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.show.bench_command import command_line_of
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.hints import hint_for
from edgebench.host.show.sentences import sentence
from edgebench.host.show.tables import is_at_query_limit, suspect_words, text, verdict_style
from edgebench.protocol.errors import ErrorCode, error_from_code
from edgebench.protocol.text import printable

_FAIL, _UNKNOWN = RuleOutcome.FAIL, RuleOutcome.UNKNOWN
_STYLES = {RuleOutcome.PASS: "green", _FAIL: "red"}
_FOLDED = {RuleOutcome.PASS: "passed", RuleOutcome.NOT_APPLICABLE: "not applicable"}
"""Labels of the outcomes whose rules are counted but not listed."""


def verdict_rows(run_set: RunSet, made: Run | None = None) -> list[tuple[str, str | Text]]:
    """Rows with the verdict, its reasons and the advice; see `advices` for `made`."""
    state = run_set.verdict.state
    reasons = _reasons(run_set)
    if reasons:
        sentences = "; ".join(reasons.values())
    elif run_set.verdict.unwatched:
        sentences = (
            f"no rule failed, but {', '.join(run_set.verdict.unwatched)} could not be read: a "
            "change would not have been detected"
        )
    else:
        sentences = "no rule failed"
    label = ", ".join([state.value, *suspect_words(run_set.marks), *run_set.marks.device])
    style = f"bold {verdict_style(state.value)}"
    rows: list[tuple[str, str | Text]] = [
        ("verdict", Text.assemble((label, style), f": {printable(sentences)}"))
    ]
    return [*rows, *(("to improve", line) for line in advices(run_set, made))]


def advices(run_set: RunSet, made: Run | None = None) -> list[str]:
    """Advice for a set in lines; if no run measured anything, the step after the failure."""
    if all(run.failure is not None for run in run_set.runs):
        return list(dict.fromkeys(map(failure_advice, run_set.runs)))
    return list(map(str, advised(run_set, made)))


def advised(run_set: RunSet, made: Run | None = None) -> list[Advice]:
    """Advice for failed rules, or else for quantities that were not watched, without duplicates.

    Args:
        run_set: The set.
        made: The original run, if the set shows a single run out of several; the advised command
            then repeats all of these runs. None: the first run of the set.
    """
    made = made or run_set.first
    failed = _reasons(run_set)
    unwatched = run_set.verdict.unwatched if not failed else ()
    rules = {rule.id: rule for rule in run_set.verdict.rules if rule.outcome is _FAIL}
    if run_set.verdict.is_refused:  # the rules that make it invalid come first
        rules = {name: rule for name, rule in rules.items() if rule.severity is State.INVALID}
    if run_set.planned_count >= MIN_RUNS:  # more runs would be lost for the same reason
        rules.pop("run_count", None)
    findings = [
        *(rules[name] for name in _to_mend(failed) if name in rules),
        *(
            rule
            for run in run_set.counted[:1]
            for rule in run.verdict.rules
            if _hides(rule, unwatched)
        ),
    ]
    before = made.conditions.before
    # Queries of the longest warm-up of the set, rounded up to two digits.
    cuts = [run.metrics.warmup for run in run_set.runs]
    longest = max((cut.query_count for cut in cuts if cut is not None), default=0)
    step: int = 10 ** max(len(str(longest)) - 2, 0)
    situation = Situation(
        given=command_line_of(made, _run_count(made)),
        free_cpus=free_cpus(made),
        own_cpus=own_cpus(made),
        has_governors=before is None or bool(before.governors),
        can_be_longer=not any(map(is_at_query_limit, run_set.runs)),
        warmup_query_count=-(-longest // step) * step,
    )
    found = (advice_for(rule, situation) for rule in findings)
    return without_repeats(advice for advice in found if advice is not None)


def advice_for(finding: Finding, situation: Situation) -> Advice | None:
    """Advice for a finding; None if the rule passed, or if no advice exists.

    A rule that could not be checked has advice only if its reason defines it.
    """
    if finding.id not in BY_ID or finding.outcome not in (_FAIL, _UNKNOWN):
        return None
    kind = kind_of(finding)
    own = kind.advice_for(finding, situation) if kind is not None else None
    if own is not None or finding.outcome is _UNKNOWN:
        return own
    return BY_ID[finding.id].advise(situation)


def failure_advice(run: Run) -> str:
    """The next step after a run that failed."""
    assert run.failure is not None
    code = ErrorCode.__members__.get(run.failure.code.upper(), ErrorCode.UNKNOWN)
    error = error_from_code(code, run.failure.message)
    return hint_for(error, command_line_of(run, _run_count(run)))


def _run_count(run: Run) -> int:
    """Number of runs needed to repeat the measurement that this run belongs to."""
    if run.member is not None:
        return run.member.count
    return 1 if run.pair is None else MIN_RUNS


def free_cpus(run: Run) -> tuple[int, ...]:
    """CPUs for the model, one per thread, that leave other CPUs free; empty if there are none.

    The last CPUs are chosen: most machines serve their interrupts on the first CPU.
    """
    scheduling, count = run.conditions.scheduling, max(1, run.spec.threads)
    if scheduling is None or run.spec.cpus or len(scheduling.cpus) <= count:
        return ()
    return tuple(sorted(scheduling.cpus)[-count:])


def own_cpus(run: Run) -> tuple[int, ...]:
    """CPUs of the fastest type for the model, one per thread; as in `Situation`."""
    scheduling, count = run.conditions.scheduling, max(1, run.spec.threads)
    cpus = free_cpus(run)
    if scheduling is None or not cpus:
        return ()
    usable = set(scheduling.cpus)
    kinds = [sorted(usable & set(kind)) for kind in run.environment.cpu.kinds or ()]
    kinds = [kind for kind in kinds if kind]
    thermal = run.metrics.thermal
    has_moved = thermal is not None and bool(thermal.moved_ratio)
    if len(kinds) > 1:
        return next((tuple(kind[-count:]) for kind in kinds if len(kind) >= count), ())
    return cpus if has_moved else ()


def _hides(finding: Finding, unwatched: Sequence[str]) -> bool:
    """Whether this finding is the reason why a quantity was not watched."""
    rule = BY_ID.get(finding.id)
    if rule is None or rule.watches is None or finding.outcome is not _UNKNOWN:
        return False
    return rule.watches.value in unwatched


def rules_parts(verdict: Verdict, *, is_all: bool) -> list[RenderableType]:
    """Table of the rules that failed or could not be checked, and a line that counts the others.

    Args:
        verdict: The verdict.
        is_all: Whether the table lists every rule.
    """
    listed = [rule for rule in verdict.rules if is_all or rule.outcome not in _FOLDED]
    parts: list[RenderableType] = []
    if listed:
        table = DataTable("rule", "outcome", "detail")
        for rule in listed:
            outcome = Text(rule.outcome.value, style=_STYLES.get(rule.outcome, "yellow"))
            table.add_row(rule.id, outcome, text(sentence(rule)))
        parts.append(table)
    counts = Counter(rule.outcome for rule in verdict.rules)
    folded = [f"{counts[one]} {words}" for one, words in _FOLDED.items() if counts[one]]
    if folded and not is_all:
        parts.append(f"rules: {', '.join(folded)} (--all lists them)")
    return parts


def verdict_lines(
    sets: Sequence[RunSet], settings: Callable[[RunSet], str] | None = None
) -> list[str]:
    """Reasons of verdicts that are not valid; sets with the same reasons share a line.

    Args:
        sets: The sets.
        settings: Text that distinguishes sets of the same model and device; None: their ids.
    """
    sharing: dict[tuple[str, str], list[int]] = {}
    for index, run_set in enumerate(sets):
        reasons_of = _reasons(run_set)
        for reason in dict.fromkeys(reasons_of.values()):
            names = {name for name, line in reasons_of.items() if line == reason}
            sharing.setdefault((_reach(run_set, names), reason), []).append(index)
    reasons: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (state, reason), indexes in sharing.items():
        reasons.setdefault((state, tuple(indexes)), []).append(reason)
    lines = [
        f"{state}: {named_sets(sets, indexes, settings)}: {'; '.join(shared)}"
        for (state, indexes), shared in reasons.items()
    ]
    return [printable(line, keep_lines=True) for line in lines]


def named_sets(
    sets: Sequence[RunSet],
    indexes: Sequence[int],
    settings: Callable[[RunSet], str] | None,
) -> str:
    """Titles of the sets at these indexes; "all 3" if these are all sets, and at least three.

    Sets with the same title are counted; if only some of them are listed, their ids are added.
    """
    if len(indexes) == len(sets) > 2:
        return f"all {len(sets)}"
    # Model and runtime of each set, its settings, and its device if there are several.
    is_of_several_devices = len({run_set.device for run_set in sets}) > 1
    titles = [
        ", ".join(
            filter(
                None,
                [
                    f"{run_set.model} on {run_set.runtime}",
                    settings(run_set) if settings is not None else "",
                    run_set.device if is_of_several_devices else "",
                ],
            )
        )
        for run_set in sets
    ]
    parts: list[str] = []
    for title in dict.fromkeys(titles[index] for index in indexes):
        meant = [sets[index] for index in indexes if titles[index] == title]
        if titles.count(title) == 1:
            parts.append(title)
        elif titles.count(title) == len(meant):
            parts.append(f"{len(meant)} × {title}")
        else:
            ids = ", ".join(one.set_id or one.first.run_id for one in meant)
            parts.append(f"{title} ({ids})")
    *others, last = parts
    return " and ".join(filter(None, (", ".join(others), last)))


def extra_run_words(member: SetMember) -> str:
    """Which run a further run replaces, and why."""
    assert member.replaces is not None, "a further run replaces another"
    rules = ", ".join(member.replaces.rules)
    disturbed = f"run {member.number + 1} of {member.count} was disturbed ({rules})"
    return f"{disturbed}; a further run replaces it"


def _reach(run_set: RunSet, names: Iterable[str]) -> str:
    """Verdict by these rules, with the affected kinds of numbers if the headline is unaffected."""
    harmed = {kind for rule in run_set.verdict.failures if rule.id in names for kind in rule.harmed}
    also = [kind for kind in run_set.marks.also_suspect if kind in harmed]
    return f"suspect {in_words(also)}" if also else run_set.verdict.state.value


def _reasons(run_set: RunSet) -> dict[str, str]:
    """Sentences of the failed rules by name, one per cause."""
    lines = {rule.id: sentence(rule) for rule in run_set.verdict.failures if rule.harmed}
    refused = (run.metrics.energy for run in run_set.runs if run.metrics.energy is not None)
    _name_refused_energy(lines, next((one for one in refused if one.refused is not None), None))
    for rule, milder in {rule.id: rule.includes for rule in ALL_RULES}.items():
        if rule in lines and milder is not None:
            lines.pop(milder, None)
    # Of several rules with the same cause, keep the rule that failed in most runs.
    counts = {rule.id: _failed_count(rule) for rule in run_set.verdict.rules}
    causes = {rule.id: cause_of(rule) for rule in run_set.verdict.rules}
    for cause in Cause:
        names = [name for name in lines if causes.get(name) is cause]
        kept = max(names, key=lambda name: counts[name], default=None)
        for name in names:
            if name != kept:
                del lines[name]
    if run_set.set_id is None and CompleteRule.id in lines:
        # The other failures concern only the part of the run that exists.
        return {CompleteRule.id: lines[CompleteRule.id]}
    # Latencies scatter because other programs use the machine or it is hot: the cause comes first.
    if not _has_cause(lines):
        return lines
    return dict(sorted(lines.items(), key=lambda line: _is_scatter(line[0])))


def _failed_count(finding: Finding) -> int:
    """Number of runs of a set that failed the rule; 0 for a finding of a single run."""
    count = finding.facts.get("failed_count")
    return count if isinstance(count, int) else 0


def _to_mend(names: Iterable[str]) -> list[str]:
    """The failed rules that need advice; scatter is dropped if another failed rule explains it."""
    names = list(names)
    return [name for name in names if not (_has_cause(names) and _is_scatter(name))]


def _has_cause(names: Iterable[str]) -> bool:
    causes = {BY_ID[name].cause for name in names if name in BY_ID}
    return bool(causes & {Cause.BUSY_MACHINE, Cause.MEMORY, Cause.HEAT, Cause.QUOTA})


def _is_scatter(name: str) -> bool:
    return name in BY_ID and BY_ID[name].cause is Cause.SCATTER


def _name_refused_energy(lines: dict[str, str], energy: EnergyResult | None) -> None:
    """State the reason for refused energy once, under the rule that caused the refusal."""
    if EnergyRule.id not in lines or energy is None or energy.refused is None:
        return
    refused_by = energy.refused_by or EnergyRule.id
    why = energy.refused
    if refused_by != EnergyRule.id:
        del lines[EnergyRule.id]
        why = lines.get(refused_by, why)
    lines[refused_by] = f"energy refused: {why}"
