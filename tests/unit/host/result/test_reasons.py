"""Reasons of a run's results: data in run.json, a sentence when shown."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.findings import some_facts

import edgebench.host.analysis
from edgebench.host.analysis.verdict.table import kind_of
from edgebench.host.result.document import from_document, to_document
from edgebench.host.result.energy import EnergySync, MeterCheck, SyncAttempt, SyncMethod
from edgebench.host.result.reason import Reason, ReasonKind, about
from edgebench.host.result.reasons import alignment, recording, thermal
from edgebench.host.result.reasons.table import KINDS, MODULES, text_of
from edgebench.host.result.run import Run
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.result.verdict import Finding, RuleOutcome, State

ANALYSIS = Path(next(iter(edgebench.host.analysis.__path__)))
WITH_REASONS = (
    "thermal/*.py",
    *("energy/checks.py", "energy/run.py", "energy/windows.py", "energy/integrate.py"),
    *("energy/in_step.py", "energy/pulses.py", "energy/site.py", "energy/sync/*.py"),
    "compare/comparison.py",
)
"""Modules of `analysis/` whose results hold reasons."""
STORED = Path(__file__).parents[3] / "fixtures/runs/v7/20261123-031049-420b03bc/run.json"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_has_a_sentence(kind: ReasonKind[Any]) -> None:
    """Otherwise a rare result could not be put into words, or would take several lines."""
    text = text_of([Reason(kind.id, some_facts(kind))])
    assert text
    assert not {"{", "}", "\n"} & set(text)
    assert "None" not in text


def test_kinds_have_different_ids() -> None:
    """Otherwise a reason would be shown with the sentence of another."""
    kinds = [
        kind for module in MODULES for kind in vars(module).values() if isinstance(kind, ReasonKind)
    ]
    assert len(kinds) == len(KINDS) > 15


def stored() -> Run:
    """A stored run with a thermal result."""
    return from_document(json.loads(STORED.read_bytes()))


def with_thermal(result: ThermalResult) -> Run:
    """The stored run with another thermal result."""
    run = stored()
    return replace(run, metrics=replace(run.metrics, thermal=result))


def test_reasons_are_stored_as_data_beside_their_text() -> None:
    """Otherwise a reader of run.json would have to search the text for its numbers."""
    reasons = (thermal.firmware_bits(bits=6, cause="thermal"), thermal.other_causes(causes="x"))
    run = with_thermal(ThermalResult(ThermalState.THROTTLED, "thermal", True, reasons))
    document = json.loads(json.dumps(to_document(run)))
    assert document["metrics"]["thermal"]["reasons"] == [
        {"id": "firmware_bits", "facts": {"bits": 6, "cause": "thermal"}, "subject": None},
        {"id": "other_causes", "facts": {"causes": "x"}, "subject": None},
    ]
    assert document["metrics"]["thermal"]["reason"] == "firmware bits 0x6: thermal; also x"
    assert from_document(document) == run


@pytest.mark.parametrize(
    "reasons",
    [
        [],
        [{"id": "of_a_newer_version", "facts": {}}],
        [{"id": "firmware_bits", "facts": {"bits": "six", "cause": "thermal"}}],
        [{"id": "firmware_bits", "facts": {}}],
    ],
    ids=["older", "newer", "fact of another type", "no facts"],
)
def test_text_is_kept_where_the_reasons_have_no_sentence(reasons: list[Any]) -> None:
    """Otherwise a run of an older or newer version would be shown without its reason."""
    document = json.loads(STORED.read_bytes())
    document["metrics"]["thermal"] |= {"reasons": reasons, "reason": "as it was"}
    result = from_document(document).metrics.thermal
    assert result is not None
    assert result.reason == "as it was"


def test_text_of_stored_reasons_is_printable() -> None:
    """Otherwise an edited run.json could send control sequences to the terminal."""
    document = json.loads(STORED.read_bytes())
    facts = {"causes": "\x1b[2J"}
    document["metrics"]["thermal"]["reasons"] = [{"id": "other_causes", "facts": facts}]
    result = from_document(document).metrics.thermal
    assert result is not None
    assert result.reason.isprintable()


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e300, -3.0])
def test_number_out_of_bounds_is_stored_in_a_reason(number: float) -> None:
    """Otherwise a meter whose clock is damaged would discard the latencies of the run."""
    check = MeterCheck("direction", False, (recording.mean_power(power_w_mean=number),))
    late = SyncAttempt(
        SyncMethod.EDGE, None, (alignment.pulses_off_line(off_ns=number, limit_ns=1),)
    )
    run = stored()
    assert run.metrics.energy is not None
    energy = replace(run.metrics.energy, checks=(check,), sync=EnergySync(tried=(late,)))
    run = replace(run, metrics=replace(run.metrics, energy=energy))
    text = json.dumps(to_document(run), allow_nan=False)
    assert from_document(json.loads(text)) == run
    assert check.detail == f"{number:.3g} W on average"


def test_subject_precedes_the_first_of_its_reasons() -> None:
    """Otherwise the reasons of several checks would be read as those of one."""
    lost = [recording.no_samples(), recording.framing_lost(desync_count=1)]
    text = "loss: no sample was received; framing lost 1 time; rate: not stated in the file"
    assert text_of([*about("loss", lost), *about("rate", [recording.not_in_file()])]) == text


@pytest.mark.parametrize("why", ["the words of an older version", (Reason("clock_fell", {}),)])
def test_finding_with_the_text_of_an_older_version_is_read(why: str | tuple[Reason, ...]) -> None:
    """Checks a reason that was stored as text, and one whose facts are those of another version."""
    found = Finding(
        id="thermal",
        outcome=RuleOutcome.PASS,
        severity=State.SUSPECT,
        reason="not_throttled",
        facts={"why": why},
    )
    kind = kind_of(found)
    assert kind is not None
    assert kind.sentence(found) == (why if isinstance(why, str) else None)


def sentences_in(tree: ast.AST) -> Iterator[str]:
    """Literals of four words or more, except docstrings and texts of errors and logs."""
    hidden: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Raise() | ast.Assert():
                hidden |= set(ast.walk(node))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="logger"))):
                hidden |= set(ast.walk(node))
            case _:
                pass
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if node not in hidden and len(text.split()) >= 4:
                yield text
            case _:
                pass


@pytest.mark.parametrize("modules", WITH_REASONS)
def test_analysis_makes_no_sentences(modules: str) -> None:
    """Otherwise a result would be stored in words that no later version could change."""
    files = sorted(ANALYSIS.glob(modules))
    assert files
    found = [text for path in files for text in sentences_in(ast.parse(path.read_text("utf-8")))]
    assert found == []
