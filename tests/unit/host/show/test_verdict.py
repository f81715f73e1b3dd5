"""Causes of a verdict as text."""

from __future__ import annotations

from dataclasses import replace

from support.changes import changed
from support.reported import PLAIN, runs_of_set, stored_run
from support.screens import BUSY

from edgebench.host.analysis.run_set import alone, find_set
from edgebench.host.result.facts import CommandFacts
from edgebench.host.result.verdict import Finding, RuleOutcome, State, Verdict
from edgebench.host.show.notes import run_notes
from edgebench.host.show.verdict import cause_texts, verdict_lines
from edgebench.protocol.record import Outcome


def test_cause_of_a_refusal_ends_with_what_is_refused() -> None:
    """Otherwise a wait that made other sets suspect would seem to make this one invalid."""
    base = stored_run(BUSY)
    busy = [replace(run, verdict=base.verdict) for run in runs_of_set(base)]
    spread = [
        changed(run, {"metrics.latency_ns.p50": 100_000 * 2**place})
        for place, run in enumerate(busy)
    ]
    kept, refused = (cause_texts(find_set(runs))[0] for runs in (busy, spread))
    assert kept.cause is refused.cause
    assert "as a result" not in kept.evidence
    begin, _, result = refused.evidence.partition("; as a result, ")
    assert begin == kept.evidence
    assert result.startswith("p50 ±")
    assert result.endswith("between runs (95 % CI), limit 25 %")


def test_nothing_is_advised_for_the_board_of_a_demonstration() -> None:
    """Otherwise the printed command would name a device that was gone when it was printed."""
    busy = stored_run(BUSY)
    demo = replace(busy, simulated=True, command=CommandFacts("c", (("digits_fp32.tflite",),)))
    stays = replace(busy, simulated=True, command=CommandFacts("c", (("a",), ("--on", "pi"))))
    for run, is_advised in ((busy, True), (demo, False), (stays, True)):
        lines = verdict_lines([alone(run)])
        assert any(line.startswith("to improve: ") for line in lines) is is_advised
        assert any("demo is gone" in note for note in run_notes(run)) is not is_advised


def test_sets_of_an_interrupted_command_lack_runs_for_that_reason() -> None:
    """Otherwise Ctrl-C would be followed by two different commands that repair the same."""
    command = CommandFacts("c", (("a.tflite",), ("--against", "b.tflite")))
    first, other = (
        [replace(run, command=command, member=replace(run.member, set_id=name, count=1))]
        for name, run in zip(("a", "b"), runs_of_set(stored_run(PLAIN))[:2], strict=True)
        if run.member is not None
    )
    facts = {"ended": Outcome.INTERRUPTED.value, "why": None}
    finding = Finding(
        id="complete", outcome=RuleOutcome.FAIL, severity=State.INVALID, reason="", facts=facts
    )
    cut = replace(first[0], run_id="cut", verdict=Verdict(state=State.INVALID, rules=(finding,)))
    short = "too little was measured"
    alone_short = verdict_lines([find_set(other)])
    assert any(short in line for line in alone_short), alone_short
    lines = verdict_lines([find_set([*first, cut]), find_set(other)])
    assert any("did not complete" in line for line in lines), lines
    assert not any(short in line for line in lines), lines
    elsewhere = [replace(other[0], command=CommandFacts("d", (("b.tflite",),)))]
    lines = verdict_lines([find_set([*first, cut]), find_set(elsewhere)])
    assert any(short in line for line in lines), "another command was not interrupted"
