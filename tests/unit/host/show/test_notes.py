"""Notes on runs: settings that were not in effect as requested, a clock that was set."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields, replace
from string import Formatter

from support.records import latencies, run_record, traces_of, worker_record

from edgebench.host.analysis import settings as analysis
from edgebench.host.analysis.run import analyse_run
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.result.facts import SetMember
from edgebench.host.result.reason import Fact
from edgebench.host.result.run import Run
from edgebench.host.result.settings import EffectiveSettings, Setting, SettingState
from edgebench.host.result.verdict import RuleOutcome, State
from edgebench.host.show.notes import note_lines, run_notes
from edgebench.host.show.settings import SENTENCES, setting_sentence
from edgebench.protocol.record import ThreadTime

FEWER = Setting(requested=2, effective=1, state=SettingState.DIFFERENT, reason="fewer")


def measured_run() -> Run:
    """A run of one thread, which was active."""
    of_all = latencies()
    worker = worker_record(of_all)
    loop_s = (worker.after.monotonic_ns - worker.before.monotonic_ns) / 1e9
    worker = replace(
        worker,
        before=replace(worker.before, threads=(ThreadTime(1, 1.0, 0.0),)),
        after=replace(worker.after, threads=(ThreadTime(1, 1.0 + loop_s, 0.0),)),
    )
    return analyse_run(
        run_record(worker), traces_of(of_all), created_utc="2026-11-22T00:00:00+00:00", clock=None
    )


def noted(setting: Setting, name: str = "threads", run: Run | None = None) -> Run:
    """A run with this setting."""
    run = run or measured_run()
    assert run.conditions.settings is not None
    changed = replace(run.conditions.settings, **{name: setting})
    return replace(run, conditions=replace(run.conditions, settings=changed))


def test_reasons_and_sentences_are_of_the_same_names() -> None:
    """Otherwise a rare difference would not be noted."""
    assert SENTENCES.keys() == {field.name for field in fields(EffectiveSettings)}
    given: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(analysis))):
        match node:
            case (
                ast.keyword(arg="reason", value=value)
                | ast.Assign(targets=[ast.Name(id="reason")], value=value)
            ):
                # A condition compares a setting with None, and has no text.
                texts = [one.value for one in ast.walk(value) if isinstance(one, ast.Constant)]
                given |= {text for text in texts if isinstance(text, str)}
            case _:
                pass
    assert given == set().union(*SENTENCES.values())


def test_every_word_of_a_sentence_is_given() -> None:
    """Otherwise a note would be dropped for lack of a fact."""
    facts: dict[str, Fact] = {"threads": 2, "others": "b", "example": "b", "count": 1, "total": 3}
    for name, sentences in SENTENCES.items():
        for reason, template in sentences.items():
            setting = Setting(
                requested=2, effective=0.5, state=SettingState.DIFFERENT, reason=reason, facts=facts
            )
            assert setting_sentence(name, setting), f"{name}: {reason}"
            words = {word for _, word, _, _ in Formatter().parse(template) if word}
            assert words <= {"requested", "effective", *facts}


def test_difference_is_noted_beside_the_numbers() -> None:
    """Otherwise 2 threads would be printed for the speed of a single thread."""
    assert run_notes(measured_run()) == []
    line = "2 threads requested, 1 used CPU time: the runtime does not use more for this model"
    assert run_notes(noted(FEWER)) == [line]
    assert note_lines(find_sets([noted(FEWER)])) == [f"note: {line}"]


def test_counts_of_threads_that_differ_between_runs_share_a_note_without_a_reason() -> None:
    """Otherwise a busy device would have a note per run, each with a claim about the runtime."""
    runs = [
        replace(
            noted(replace(FEWER, effective=count)),
            run_id=f"run-{number}",
            member=SetMember("set-1", number, 4),
        )
        for number, count in enumerate((1, 4, 1, 3))
    ]
    line = "note: 2 threads requested, 1 to 4 used CPU time"
    assert note_lines(find_sets(runs)) == [line]


def test_unknown_is_not_noted() -> None:
    """Otherwise each run on a kernel without per-thread accounting would have a note."""
    unknown = Setting(requested=1, effective=None, state=SettingState.UNKNOWN, reason="not_told")
    assert run_notes(noted(unknown)) == []


def test_note_of_some_sets_names_them() -> None:
    """Otherwise a reader would apply it to the whole table."""
    other = replace(measured_run(), run_id="20261122-000000-other")
    other = replace(other, model=replace(other.model, name="other.tflite"))
    lines = note_lines(find_sets([noted(FEWER), other]))
    assert len(lines) == 1
    assert lines[0].startswith(f"note: {measured_run().model.name} on ")


def test_rule_with_the_same_difference_is_enough() -> None:
    """Otherwise an invalid run would have its reason twice."""
    unused = Setting(
        requested="cuda", effective="cpu", state=SettingState.DIFFERENT, reason="unused"
    )
    run = noted(unused, "delegate")
    assert run_notes(run) == ["cuda requested, but it ran no operators"]
    rules = tuple(
        replace(rule, outcome=RuleOutcome.FAIL) if rule.id == "delegation" else rule
        for rule in run.verdict.rules
    )
    failed = replace(run, verdict=replace(run.verdict, state=State.INVALID, rules=rules))
    assert run_notes(failed) == []


def test_name_of_a_signature_cannot_write_on_the_terminal() -> None:
    """Otherwise a hostile model would clear the screen by its signature."""
    hostile = Setting(
        requested=None,
        effective="\x1b[2J",
        state=SettingState.NOT_CHOSEN,
        reason="not_chosen",
        facts={"others": "a\nb", "example": "a"},
    )
    (line,) = note_lines(find_sets([noted(hostile, "signature")]))
    assert line.isprintable()


def test_wall_clock_that_was_set_is_a_single_note() -> None:
    """Otherwise nobody would see why the times of the run's files jump, or see it twice."""
    run = measured_run()
    was_set: dict[str, Fact] = {"step_s": 10_800.0, "is_back": False, "error_ratio": 1e-4}
    rules = tuple(
        replace(rule, reason="set", value=0.0, limit=0.01, facts=was_set, detail="set by +3 h")
        if rule.id in {"clock", "clock_drift"}
        else rule
        for rule in run.verdict.rules
    )
    assert run_notes(replace(run, verdict=replace(run.verdict, rules=rules))) == ["set by +3 h"]
