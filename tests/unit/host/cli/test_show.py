"""`edgebench show` of pairs whose comparison fails."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.records import store_run

from edgebench.host.cli.main import main
from edgebench.host.result.document import to_document
from edgebench.host.result.facts import BASELINE, CANDIDATE, CommandFacts, Pair
from edgebench.host.store.layout import Store

SIDES = {"20260105-000000-00000003": BASELINE, "20260105-000000-00000004": CANDIDATE}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--metric", "nosuch"), "unknown metric 'nosuch'"),
        (
            ("--fail-on",),
            "the stored command of the pairs has a wrong option: --fail-on: not a percentage",
        ),
        (
            ("--fail-on", "x"),
            "the stored command of the pairs has a wrong option: --fail-on: not a percentage",
        ),
    ],
)
def test_pairs_that_cannot_be_compared_are_shown_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: str
) -> None:
    """Otherwise a changed bundle would end in a traceback, and JSON would not state the reason."""
    store = Store(tmp_path / "store")
    for run_id, side in SIDES.items():
        store_run(store, run_id)
        command = CommandFacts("c", (("digits.tflite",), words))
        run = replace(store.run(run_id), pair=Pair("pairs-0a1b2c3d", 0, side), command=command)
        store.document_path(run_id).write_text(json.dumps(to_document(run)))
    show = ("show", *SIDES, "--store", str(store.root))
    assert main(show) == 0
    assert f"not compared: {expected}" in capsys.readouterr().out
    assert main((*show, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["not_compared"].startswith(expected)
    assert "comparisons" not in document
