"""Reasons of a run's results: data in run.json, a sentence when shown."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.findings import some_facts

import edgebench.host.analysis
from edgebench.host.analysis.verdict.table import kind_of
from edgebench.host.result.document import from_document, to_document
from edgebench.host.result.reason import Reason, ReasonKind
from edgebench.host.result.reasons import thermal
from edgebench.host.result.reasons.table import KINDS, MODULES, text_of
from edgebench.host.result.run import Run
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.result.verdict import Finding, RuleOutcome, State

ANALYSIS = Path(next(iter(edgebench.host.analysis.__path__)))
WITH_REASONS = ("thermal/*.py", "compare/comparison.py")
"""Modules of `analysis/` whose results hold reasons."""
STORED = Path(__file__).parents[3] / "fixtures/runs/v7/20261123-031049-420b03bc/run.json"


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_has_a_sentence(kind: ReasonKind[Any]) -> None:
    """Otherwise a rare result could not be put into words, or would take several lines."""
    text = text_of([Reason(kind.id, some_facts(kind))])
    assert len(text.split()) > 1
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
        {"id": "firmware_bits", "facts": {"bits": 6, "cause": "thermal"}},
        {"id": "other_causes", "facts": {"causes": "x"}},
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
    """Literals of four words or more, except docstrings and the texts of errors and assertions."""
    hidden: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Raise() | ast.Assert():
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
