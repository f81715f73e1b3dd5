"""Every surface, for every kind of run: no refused number is shown, and every mark is."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from support.campaigns import campaign_with
from support.commands import Run as Command
from support.exports import written
from support.kinds import KINDS, NUMBERS, RUNS_OF_A_SET, Kind, rewritten, store_of

from edgebench.host.bench import events
from edgebench.host.cli.bench_report import report_runs
from edgebench.host.cli.progress import ProgressWatcher
from edgebench.host.export.exported import find_exported
from edgebench.host.export.registry import FORMATS, ExportKind
from edgebench.host.lab import Lab
from edgebench.host.pytest_plugin.bench import _facts
from edgebench.host.pytest_plugin.summary import summary_lines
from edgebench.host.result.metrics import GROSS_ENERGY
from edgebench.host.serve.rows import run_or_none, run_row
from edgebench.host.show.notebook import set_html
from edgebench.host.show.numbers import headline_words
from edgebench.host.store.index import list_runs
from edgebench.host.store.layout import Store
from edgebench.host.stored_run import StoredRun

RATIO = r"[×x] \d|\d\.\d+ ?[×x]|[+-]\d+\.\d+ %"
"""A ratio of two numbers."""
Surface = Callable[[Store, Command, pytest.CaptureFixture[str]], str]
"""What a person sees of the runs of a store."""


def command(*arguments: str) -> Surface:
    """The output of a command."""

    def surface(store: Store, edgebench: Command, _: object) -> str:
        done = edgebench(*arguments, "--store", str(store.root))
        return done.out + done.err

    return surface


def bench(store: Store, _: object, capsys: pytest.CaptureFixture[str]) -> str:
    """Report of `edgebench bench` on the runs of a set, and the line of each finished run."""
    lab, watcher = Lab(store.root), ProgressWatcher(is_quiet=False)
    options = argparse.Namespace(json=False, store=None, meter=None, sync=None, given=[])
    watcher.notify(events.DeviceSelected("board", 1))
    for one in _runs(lab):
        if one.result.set_id == "set-1":
            watcher.notify(events.RunStored("board", one.result))
    report_runs(options, lab, watcher)
    shown = capsys.readouterr()
    return shown.out + shown.err


def ended(store: Store, *_: object) -> str:
    """The line of each finished run, in a log and in a notebook."""
    return "\n".join(headline_words(store.run(run_id)) for run_id in store.run_ids())


def _runs(lab: Lab) -> list[StoredRun]:
    return [lab.run(run_id) for run_id in lab.store.run_ids()]


def report(store: Store, edgebench: Command, _: object) -> str:
    """The HTML report of a set, with all that its script draws."""
    path = store.root / "report.html"
    done = edgebench("report", "set-1", "-o", str(path), "--store", str(store.root))
    page = path.read_text() if path.exists() else ""
    return done.err + re.sub(r"<style.*?</style>", "", page, flags=re.DOTALL)


def history(store: Store, edgebench: Command, _: object) -> str:
    """The history of latency and of energy; without a history where no run has a number."""
    metrics = ("latency_ns.p50", "energy_j")
    done = [edgebench("history", "--metric", one, "--store", str(store.root)) for one in metrics]
    return "".join(one.out + one.err.replace("no matching runs", "failed") for one in done)


def live_page(store: Store, *_: object) -> str:
    """The rows of `edgebench serve`."""
    rows = [run_row(one, run_or_none(store, one.run_id)) for one in list_runs(store)]
    return json.dumps([asdict(row) for row in rows], ensure_ascii=False)


def notebook(store: Store, *_: object) -> str:
    """Sets and runs in a notebook, without their pictures."""
    lab = Lab(store.root)
    pages = [set_html(one) for one in lab.sets(_runs(lab))]
    pages += [one._repr_html_() for one in _runs(lab)]
    return re.sub(r'src="[^"]*"', "", "\n".join(pages))


def pytest_summary(store: Store, *_: object) -> str:
    """The table of a test session, for latency and energy."""
    lab = Lab(store.root)
    measured = [
        {name: str(value) for name, value in _facts(one, path).items()}
        for one in lab.sets(_runs(lab))
        for path in ("latency_ns.p50", GROSS_ENERGY)
    ]
    return "\n".join(summary_lines([("test_it", row) for row in measured]))


def exports(store: Store, *_: object) -> str:
    """All text formats."""
    runs = find_exported(store, ["set-1"])
    texts = [one.name for one in FORMATS if one.kind is ExportKind.TEXT]
    return "\n".join(written(name, runs).decode() for name in texts)


SURFACES: dict[str, Surface] = {
    "bench": bench,
    "end of a run": ended,
    "show a run": command("show", "20260301-000000-0123abcd"),
    "show a set": command("show", "set-1"),
    "show --all": command("show", "set-1", "--all"),
    "runs": command("runs"),
    "history": history,
    "report": report,
    "live page": live_page,
    "notebook": notebook,
    "pytest": pytest_summary,
    "exports": exports,
}
OF_RUNS = {"end of a run", "show a run", "runs", "live page"}
"""Surfaces on which each run of an invalid set stands by itself, as a valid run."""


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.name)
@pytest.mark.parametrize("surface", SURFACES)
def test_surface_has_every_mark_and_no_refused_number(
    surface: str,
    kind: Kind,
    tmp_path: Path,
    edgebench: Command,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Otherwise a number would be taken for what it is not."""
    text = SURFACES[surface](store_of(tmp_path / "store", kind), edgebench, capsys)
    numbers = re.findall(NUMBERS, text)
    assert bool(numbers) != kind.is_refused, f"{numbers} in\n{text}"
    if not (kind.name == "invalid set" and surface in OF_RUNS):
        assert [mark for mark in kind.marks if mark not in text] == [], text


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: one.name)
def test_comparison_has_every_mark_or_is_refused(
    kind: Kind, tmp_path: Path, edgebench: Command
) -> None:
    """Otherwise a ratio of refused numbers would decide what is shipped."""
    store = store_of(tmp_path / "store", kind)
    done = edgebench(
        *("compare", "set-1", "--against", "set-2", "--store", str(store.root)),
        *("--metric", "latency_ns.p50", "--metric", "energy_j"),
    )
    text = done.out + done.err
    assert bool(re.search(RATIO, text)) != kind.is_refused, text
    assert [mark for mark in kind.marks if mark not in text] == [], text


@pytest.mark.parametrize(
    "kind", [one for one in KINDS if one.name != "synthetic"], ids=lambda one: one.name
)
def test_campaign_has_every_mark_and_no_refused_number(
    kind: Kind, tmp_path: Path, edgebench: Command
) -> None:
    """Otherwise an effect would be computed from refused numbers."""
    store = Store(tmp_path / "store")
    campaign = campaign_with(store, [[1.0] * RUNS_OF_A_SET] * 2)
    rewritten(store, kind)
    done = edgebench("campaign", "status", campaign.plan.id, "--store", str(store.root))
    text = done.out + done.err
    assert bool(re.search(RATIO, text)) != kind.is_refused, text
    assert bool(re.findall(NUMBERS, text)) != kind.is_refused, text
    assert [mark for mark in kind.marks if mark not in text] == [], text
