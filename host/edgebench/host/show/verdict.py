"""Verdicts as text: the reasons, the advice and the rules."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from edgebench.host.analysis.median import MIN_RUNS
from edgebench.host.analysis.verdict.advice import Advice, Situation, without_repeats
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.diagnosis import Diagnosis, diagnose, excess
from edgebench.host.analysis.verdict.energy import EnergyRule
from edgebench.host.analysis.verdict.run_set import RunCountRule
from edgebench.host.analysis.verdict.set_heat import DriftOfSetRule
from edgebench.host.analysis.verdict.table import BY_ID, kind_of
from edgebench.host.options.command import CommandLine
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import SetMember
from edgebench.host.result.marks import in_words
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.show.bench_command import (
    command_line_of,
    command_line_of_sets,
    is_of_demo,
    run_count_of,
)
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.hints import hint_for
from edgebench.host.show.sentences import is_counted, sentence
from edgebench.host.show.tables import is_at_query_limit, suspect_words, text, verdict_style
from edgebench.protocol.errors import ErrorCode, error_from_code
from edgebench.protocol.text import printable

_FAIL, _UNKNOWN = RuleOutcome.FAIL, RuleOutcome.UNKNOWN
_STYLES = {RuleOutcome.PASS: "green", _FAIL: "red"}
_FOLDED = {RuleOutcome.PASS: "passed", RuleOutcome.NOT_APPLICABLE: "not applicable"}
"""Labels of the outcomes for which rules are counted but not listed."""
LARGER_FACTOR = 8
"""The advised size of an open (variable) dimension is the measured size times this factor; 8 is a
usual batch size."""
UNSETTLED_FACTOR = 4
"""If the runs of a set drift until their end, the end of the warm-up was not measured. The advised
warm-up is then the detected warm-up times this factor. If an exponential approach is cut off after
one time constant, a third of its change remains. After four time constants, 2 % remains. The limit
of the drift is also 2 %."""


def verdict_rows(run_set: RunSet, made: Run | None = None) -> list[tuple[str, str | Text]]:
    """Rows with the verdict and its causes, each with advice; see `advices` for `made`."""
    state = run_set.verdict.state
    label = ", ".join([state.value, *suspect_words(run_set.marks), *run_set.marks.device])
    style = f"bold {verdict_style(state.value)}"
    diagnoses = causes_of(run_set)
    if diagnoses:
        summary = titles_of(run_set)
    elif run_set.verdict.unwatched:
        summary = (
            f"no rule failed, but {', '.join(run_set.verdict.unwatched)} could not be read, so a "
            "change of these would not have been detected"
        )
    else:
        summary = "no rule failed"
    rows: list[tuple[str, str | Text]] = [
        ("verdict", Text.assemble((label, style), f": {printable(summary)}"))
    ]
    for cause in cause_texts(run_set, made):
        why = f"{cause.titled if len(diagnoses) > 1 else cause.evidence}{cause.also_words}"
        rows.append(("why", printable(why)))
        rows += [("to improve", cause.advice)] if cause.advice else []
    if not diagnoses:
        rows += [("to improve", line) for line in advices(run_set, made)]
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseText:
    """A cause of failed rules as text."""

    cause: Cause | None
    """Cause; None for a rule of another version of edgebench."""
    title: str
    rules: tuple[str, ...]
    """Names of the cause's failed rules; the rule that gives the evidence is first."""
    evidence: str
    """Sentence of the strongest finding that shows the cause."""
    joint: str
    """Text between title and evidence; it is a colon unless the evidence continues the title."""
    advice: str
    """Advice; empty if there is none, or if an earlier cause has the same advice."""

    @property
    def also_failed(self) -> tuple[str, ...]:
        """Names of the failed rules of the cause, except the rule that gives the evidence."""
        return self.rules[1:]

    @property
    def titled(self) -> str:
        """Title and evidence, joined by `joint`."""
        return f"{self.title}{self.joint}{self.evidence}"

    @property
    def also_words(self) -> str:
        """The other failed rules, for the end of a line; empty if there are none."""
        return f" (also failed: {', '.join(self.also_failed)})" if self.also_failed else ""


def cause_texts(run_set: RunSet, made: Run | None = None) -> list[CauseText]:
    """The causes of a set's failed rules as text, each with advice; see `advices` for `made`."""
    texts: list[CauseText] = []
    given: set[Advice] = set()
    for diagnosis in causes_of(run_set):
        strongest = strongest_of(run_set, diagnosis)
        advice = advice_against(run_set, diagnosis, made)
        is_new = advice is not None and advice not in given
        given |= {advice} if advice is not None else set()
        others = (finding.id for finding in diagnosis.findings if finding is not strongest)
        texts.append(
            CauseText(
                cause=diagnosis.cause,
                title=diagnosis.title,
                rules=(strongest.id, *others),
                evidence=evidence_words(run_set, diagnosis),
                joint=_joint(run_set, diagnosis),
                advice=str(advice) if is_new else "",
            )
        )
    return texts


def causes_of(run_set: RunSet) -> tuple[Diagnosis, ...]:
    """Causes of the failed rules of a set, in the order in which to fix them."""
    return diagnose(run_set.verdict)


def titles_of(run_set: RunSet) -> str:
    """Causes of a verdict in a few words; for an invalid set, only the causes that make it invalid.

    If no failed rule explains the verdict, another version with other rules stored the verdict.
    """
    is_refused = run_set.verdict.is_refused
    diagnoses = [
        diagnosis for diagnosis in causes_of(run_set) if diagnosis.is_refusal or not is_refused
    ]
    return (
        "; ".join(diagnosis.title for diagnosis in diagnoses) or "as judged by an earlier version"
    )


def strongest_of(run_set: RunSet, diagnosis: Diagnosis) -> Finding:
    """The finding that shows a cause best; for a refused energy, the finding that refused it."""
    energy = _refused_energy(run_set, diagnosis)
    if energy is None:
        return diagnosis.evidence[0]
    by_id = {finding.id: finding for finding in diagnosis.evidence}
    return by_id.get(energy.refused_by or EnergyRule.id, by_id[EnergyRule.id])


def evidence_words(run_set: RunSet, diagnosis: Diagnosis) -> str:
    """Sentence of the strongest finding that shows a cause; for a refused energy, its reason.

    If only an effect of the cause makes the result invalid, the sentence of this effect is
    appended.
    """
    energy, strongest = _refused_energy(run_set, diagnosis), strongest_of(run_set, diagnosis)
    if energy is None:
        refusing = [effect for effect in diagnosis.effects if effect.severity is State.INVALID]
        if not refusing or strongest.severity is State.INVALID:
            return sentence(strongest)
        return f"{sentence(strongest)}; as a result, {sentence(refusing[0])}"
    is_own = strongest.id == EnergyRule.id
    return f"energy refused: {energy.refused if is_own else sentence(strongest)}"


def _joint(run_set: RunSet, diagnosis: Diagnosis) -> str:
    """Text between the title of a cause and its evidence, which may begin with a count."""
    is_energy = _refused_energy(run_set, diagnosis) is not None
    return " " if is_counted(strongest_of(run_set, diagnosis)) and not is_energy else ": "


def _refused_energy(run_set: RunSet, diagnosis: Diagnosis) -> EnergyResult | None:
    """The refused energy if it is evidence of the cause; otherwise None."""
    if all(finding.id != EnergyRule.id for finding in diagnosis.evidence):
        return None
    energies = (run.metrics.energy for run in run_set.runs if run.metrics.energy is not None)
    return next((energy for energy in energies if energy.refused is not None), None)


def advices(run_set: RunSet, made: Run | None = None) -> list[str]:
    """Advice for a set as lines; if no run measured anything, the next step after the failures."""
    if all(run.failure is not None for run in run_set.runs):
        return list(dict.fromkeys(map(failure_advice, run_set.runs)))
    return list(map(str, advised(run_set, made)))


def advised(run_set: RunSet, made: Run | None = None) -> list[Advice]:
    """Advice against each cause; without a cause, about quantities that were not watched.

    Each advice is given once.

    Args:
        run_set: The set.
        made: The original run, if the set is a copy of a single run of a larger set. The advised
            command then repeats all runs of the larger set. None selects the first run of the set.
    """
    if diagnoses := causes_of(run_set):
        found = [advice_against(run_set, diagnosis, made) for diagnosis in diagnoses]
    else:
        hidden = (
            rule
            for run in run_set.counted[:1]
            for rule in run.verdict.rules
            if _hides(rule, run_set.verdict.unwatched)
        )
        situation = _situation(run_set, made)
        found = [advice_for(rule, situation) for rule in hidden]
    return without_repeats(advice for advice in found if advice is not None)


def advice_against(
    run_set: RunSet, diagnosis: Diagnosis, made: Run | None = None, given: CommandLine | None = None
) -> Advice | None:
    """Advice against a cause; None if there is none, or if it cannot help yet.

    For an invalid set, only the causes that make the set invalid have advice, because these causes
    must be fixed first. The advice is about the evidence. If there is no advice about the evidence,
    the advice is about an effect of the cause.

    Args:
        run_set: The set.
        diagnosis: The cause.
        made: As for `advised`.
        given: The command from which the advised command is made. None selects the command of
            `made` or, if `made` is None, the command of the set.
    """
    if run_set.verdict.is_refused and not diagnosis.is_refusal:
        return None
    if is_of_demo(made or run_set.first):
        return None  # nothing can be measured on its board
    situation = _situation(run_set, made, given)
    for finding in diagnosis.findings:
        if finding.id == RunCountRule.id and run_set.planned_count >= MIN_RUNS:
            continue  # more runs would be lost for the same reason
        if (advice := advice_for(finding, situation)) is not None:
            return advice
    return None


def _situation(run_set: RunSet, made: Run | None, given: CommandLine | None = None) -> Situation:
    """Settings of a set's runs, and the changes that its device permits."""
    made = made or run_set.first
    before = made.conditions.before
    # Queries of the longest warm-up of the set, rounded up to two digits.
    cuts = [run.metrics.warmup for run in run_set.runs]
    longest = max((cut.query_count for cut in cuts if cut is not None), default=0)
    if any(finding.id == DriftOfSetRule.id for finding in run_set.verdict.failures):
        longest *= UNSETTLED_FACTOR
    step: int = 10 ** max(len(str(longest)) - 2, 0)
    return Situation(
        given=given or command_line_of(made, run_count_of(made)),
        free_cpus=free_cpus(made),
        own_cpus=own_cpus(made),
        has_governors=before is None or bool(before.governors),
        can_be_longer=not any(map(is_at_query_limit, run_set.runs)),
        warmup_query_count=-(-longest // step) * step,
        # Another model of the same command may have no input of that name.
        larger_shapes={} if given is not None else _larger_shapes(made),
    )


def _larger_shapes(run: Run) -> dict[str, tuple[int, ...]]:
    """Shapes of the inputs that have open dimensions; the first open dimension is enlarged."""
    larger: dict[str, tuple[int, ...]] = {}
    for spec in run.conditions.inputs:
        shape = list(spec.shape)
        for axis in spec.open_axes[:1]:
            if axis < len(shape):  # otherwise the record is damaged
                shape[axis] *= LARGER_FACTOR
                larger[spec.name] = tuple(shape)
    return larger


def advice_for(finding: Finding, situation: Situation) -> Advice | None:
    """Advice for a finding; None if the rule passed, or if no advice exists.

    For a rule that could not be checked, advice exists only if the reason has its own advice.
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
    given = command_line_of(run, run_count_of(run))
    for path in _model_files(run):
        given = replace(given, names={**given.names, "MODEL": (str(path),)})
    return hint_for(error, given)


def _model_files(run: Run) -> list[Path]:
    """Model files that the command of a run names, if their size is unchanged since the run."""
    words = run.command.arguments if run.command is not None else ()
    paths = [Path(word) for word, *values in words if not values]
    return [
        path
        for path in paths
        if path.name == run.model.name and _size_bytes(path) == run.model.size_bytes
    ]


def _size_bytes(path: Path) -> int | None:
    """Size of a file, bytes; None if the file does not exist or may not be read."""
    try:
        return path.stat().st_size if os.path.isfile(path) else None
    except OSError:
        return None


def free_cpus(run: Run) -> tuple[int, ...]:
    """CPUs for the model, one per thread, if other CPUs then stay free; otherwise empty.

    The last CPUs are chosen: most machines serve their interrupts on the first CPU.
    """
    scheduling, count = run.conditions.scheduling, max(1, run.spec.threads)
    if scheduling is None or run.spec.cpus or len(scheduling.cpus) <= count:
        return ()
    return tuple(sorted(scheduling.cpus)[-count:])


def own_cpus(run: Run) -> tuple[int, ...]:
    """CPUs of the fastest type for the model, one per thread; see `Situation.own_cpus`."""
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
    """Table of rules that failed or could not be checked, and a line that counts other rules."""
    listed = [rule for rule in verdict.rules if is_all or rule.outcome not in _FOLDED]
    parts: list[RenderableType] = []
    if listed:
        table = DataTable("rule", "outcome", "detail")
        for rule in listed:
            outcome = Text(rule.outcome.value, style=_STYLES.get(rule.outcome, "yellow"))
            table.add_row(rule.id, outcome, text(sentence(rule)))
        parts.append(table)
    counts = Counter(rule.outcome for rule in verdict.rules)
    folded = [f"{counts[outcome]} {words}" for outcome, words in _FOLDED.items() if counts[outcome]]
    if folded and not is_all:
        parts.append(f"rules: {', '.join(folded)} (--all lists them)")
    return parts


def verdict_lines(
    sets: Sequence[RunSet], settings: Callable[[RunSet], str] | None = None
) -> list[str]:
    """A line for each cause of verdicts that are not valid, and a line with its advice.

    Sets with the same cause share both lines. The advised command measures all of these sets, if a
    single command can.

    Args:
        sets: The sets.
        settings: Text that distinguishes sets of the same model and device; None selects their ids.
    """
    sharing: dict[tuple[str, str], list[tuple[int, Diagnosis]]] = {}
    causes = [causes_of(run_set) for run_set in sets]
    stopped = {
        run_set.first.command
        for run_set, diagnoses in zip(sets, causes, strict=True)
        if any(diagnosis.cause is Cause.STOPPED for diagnosis in diagnoses)
    } - {None}
    for index, run_set in enumerate(sets):
        for diagnosis in causes[index]:
            # The other sets of a command that was interrupted have too few runs for that reason.
            is_short = all(finding.id == RunCountRule.id for finding in diagnosis.findings)
            if is_short and run_set.first.command in stopped:
                continue
            key = _reach(run_set, diagnosis), diagnosis.title
            sharing.setdefault(key, []).append((index, diagnosis))
    given = command_line_of_sets(sets) if len(sets) > 1 else None
    lines: list[str] = []
    for (reach, title), members in sharing.items():
        named = named_sets(sets, [index for index, _ in members], settings)
        index, worst = max(members, key=lambda member: excess(member[1].evidence[0]))
        where = ""
        if len({evidence_words(sets[index], diagnosis) for index, diagnosis in members}) > 1:
            where = f", most in {named_sets(sets, [index], settings)}"
        shown = f"{title}{_joint(sets[index], worst)}{evidence_words(sets[index], worst)}"
        lines.append(f"{reach}: {named}: {shown}{where}")
        first, advice = sets[index].first, advice_against(sets[index], worst, given=given)
        if first.failure is not None:
            lines.append(f"to improve: {failure_advice(first)}")
        elif advice is not None:
            lines.append(f"to improve: {advice}")
    # An advice that several causes share stands once.
    return [printable(line, keep_lines=True) for line in dict.fromkeys(lines)]


def named_sets(
    sets: Sequence[RunSet], indexes: Sequence[int], settings: Callable[[RunSet], str] | None
) -> str:
    """Titles of the sets at these indexes; "both" or "all 3" if the indexes select all sets.

    Sets with the same title are counted; if only some of them are listed, their ids are added.
    """
    if len(indexes) == len(sets) > 1:
        return "both" if len(sets) == 2 else f"all {len(sets)}"
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
            ids = ", ".join(run_set.set_id or run_set.first.run_id for run_set in meant)
            parts.append(f"{title} ({ids})")
    *others, last = parts
    return " and ".join(filter(None, (", ".join(others), last)))


def extra_run_words(member: SetMember) -> str:
    """Id of the run that a further run replaces, and the reason."""
    assert member.replaces is not None, "a further run replaces another"
    rules = ", ".join(member.replaces.rules)
    disturbed = f"run {member.number + 1} of {member.count}, {member.replaces.run_id},"
    return f"{disturbed} was disturbed ({rules}); a further run replaces it"


def _reach(run_set: RunSet, diagnosis: Diagnosis) -> str:
    """Verdict due to a cause; if the headline is valid, the kinds of numbers that are suspect."""
    harmed = {kind for finding in diagnosis.findings for kind in finding.harmed}
    also = [kind for kind in run_set.marks.also_suspect if kind in harmed]
    if also:
        return f"suspect {in_words(also)}"
    is_milder = run_set.verdict.is_refused and not diagnosis.is_refusal
    return State.SUSPECT.value if is_milder else run_set.verdict.state.value
