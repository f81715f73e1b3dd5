"""Six questions: every surface begins with the same sentence, which answers the question."""

from __future__ import annotations

import json
import re
import shutil
from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.browser import opened_page, started_browser
from support.changes import changed
from support.records import (
    MODEL,
    RUN_ID,
    latencies,
    put_into_store,
    run_record,
    store_run,
    worker_record,
)

from edgebench.host.bench.events import DeviceSelected, RunStored
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.journal import begin_journal
from edgebench.host.campaign.plan import AttemptName, new_plan
from edgebench.host.campaign.spec import Axes, CampaignSpec
from edgebench.host.cli.bench_report import report_runs
from edgebench.host.cli.main import main
from edgebench.host.cli.progress import ProgressWatcher
from edgebench.host.lab import Lab
from edgebench.host.report.page import campaign_report, find_reported, run_report
from edgebench.host.result.document import to_document
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import HostFacts, SetMember
from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.thermal import ThermalResult, ThermalState
from edgebench.host.result.verdict import State, Verdict
from edgebench.host.store.layout import Store

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LEVELS_NS = (1_000_000, 1_004_000, 996_000, 1_008_000, 1_002_000)
VALID = Verdict(state=State.VALID, rules=())


@dataclass(frozen=True, slots=True)
class Surfaces:
    """What each surface begins with."""

    terminal: str
    """First three lines."""
    page: str
    """HTML of the page."""
    notebook: str
    sentences: list[str]
    """Sentences of `headlines` in JSON."""


def stored_sets(store: Store, *models: str, count: int = 5, **values: object) -> None:
    """Sets of runs of models, each 1.3 times as slow as the one before; one run without a set."""
    base_directory = store_run(store, RUN_ID)
    base = store.run(RUN_ID)
    for place, model in enumerate(models):
        for number, level_ns in enumerate(LEVELS_NS[:count]):
            p50_ns = round(1.3**place * level_ns)
            changes: Mapping[str, object] = {
                "model.name": model,
                "verdict": VALID,
                "metrics.warmup": None,
                "metrics.stability": None,
                "metrics.latency_ns.p50": p50_ns,
                "metrics.latency_ns.p50_ci95": (round(0.99 * p50_ns), round(1.01 * p50_ns)),
                **{name.replace("__", "."): value for name, value in values.items()},
            }
            member = SetMember(f"set-0000000{place}", number, count) if count > 1 else None
            run_id = f"20260102-03040{place}-0123abc{number}"
            directory = shutil.copytree(base_directory, store.runs / run_id)
            run = replace(changed(base, changes), run_id=run_id, member=member)
            (directory / "run.json").write_text(json.dumps(to_document(run)))
    shutil.rmtree(base_directory)


def stored_campaign(store: Store) -> Campaign:
    """A campaign of two models on a device."""
    models = ("digits_int8.tflite", "digits_fp32.tflite")
    spec = CampaignSpec(schema=1, name="two", axes=Axes(model=models), repeats=5)
    plan = new_plan(spec, store.root / "campaign.toml", lambda _: ["board"])
    begin_journal(store, plan)
    for planned in plan.planned:
        when = datetime(2026, 11, 23, tzinfo=timezone.utc)
        run_id = AttemptName(plan.id, planned, 1).run_id(when)
        factor = (1 + planned.repeat / 250) * 1.3**planned.cell
        latency_ns = (latencies() * factor).astype("int64")
        worker = worker_record(latency_ns)
        named = replace(worker, model=replace(MODEL, name=models[planned.cell]))
        record = run_record(named, run_id)
        facts = HostFacts(member=plan.member(planned))
        put_into_store(store, replace(record, model=named.model), latency_ns, facts=facts)
    return Campaign(store, plan.id)


THERMAL = ThermalResult(ThermalState.THROTTLED, "thermal", True, onset_s=10.2, retention_ratio=0.82)
ENERGY = EnergyResult(meter="x", gross_j_per_inference=3.1e-3, u95_absolute_j=1e-4)
ACCURACY = Accuracy("top1", 0.912, (0.9, 0.924), 1000, dataset="digits")
QUESTIONS: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {
    "one model": (("a.tflite",), {}, r"a.tflite on tflite takes 1.00 ms ±.* % per inference"),
    "two models": (("a.tflite", "b.tflite"), {}, r"a.tflite is 1.30× .*faster than b.tflite"),
    "sustained": (
        ("a.tflite",),
        {"count": 1, "spec__is_sustained": True, "metrics__thermal": THERMAL},
        r"a.tflite on tflite slowed down after 10 s by heat: at the end, 82 % of its peak "
        r"performance is left, measured by latency",
    ),
    "energy": (
        ("a.tflite",),
        {"metrics__energy": ENERGY},
        r"a.tflite on tflite uses 3.10 mJ ±.* % per inference, gross",
    ),
    "accuracy with latency": (
        ("a.tflite",),
        {"metrics__accuracy": ACCURACY},
        r"a.tflite on tflite takes 1.00 ms .* per inference, with an accuracy of 91\.2 %.*",
    ),
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for all pages."""
    with started_browser() as started:
        yield started


def first_lines(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """First three lines of a command, without the ends of lines."""
    main(words)
    return " ".join(" ".join(capsys.readouterr().out.splitlines()[:3]).split())


def surfaces_of_runs(store: Store, capsys: pytest.CaptureFixture[str]) -> Surfaces:
    """The surfaces of all runs of a store, as those of one command."""
    lab = Lab(store.root)
    runs = [lab.run(run_id) for run_id in store.run_ids()]
    sets = lab.sets(runs)
    names = [run_set.set_id or run_set.first.run_id for run_set in sets]
    shown = first_lines(capsys, "show", *names, "--store", str(store.root))
    with ProgressWatcher(is_quiet=False) as watcher:
        watcher.notify(DeviceSelected("board", 1))
        for run in runs:
            watcher.notify(RunStored("board", run.result))
        report_runs(Namespace(json=True, store=store.root), None, watcher)
    document = json.loads(capsys.readouterr().out)
    notebook = sets if len(sets) > 1 else sets[0] if sets[0].set_id else runs[0]
    return Surfaces(
        terminal=shown,
        page=run_report(find_reported(store, names)),
        notebook=notebook._repr_html_(),
        sentences=[each["sentence"] for each in document["headlines"]],
    )


def surfaces_of_campaign(store: Store, capsys: pytest.CaptureFixture[str]) -> Surfaces:
    """The surfaces of a campaign."""
    campaign = stored_campaign(store)
    words = ("campaign", "status", campaign.plan.id, "--store", str(store.root))
    shown = first_lines(capsys, *words)
    main((*words, "--json"))
    document = json.loads(capsys.readouterr().out)
    return Surfaces(
        terminal=shown,
        page=campaign_report(campaign.report_facts()),
        notebook=campaign._repr_html_(),
        sentences=[each["sentence"] for each in document["headlines"]],
    )


def text_above(browser: Browser, path: Path, width: int, height: int) -> str:
    """Text of the elements that end within a part of the page."""
    with opened_page(browser, path, width=width) as watched:
        texts: list[str] = watched.page.evaluate(
            "height => [...document.querySelectorAll('main p, header h1')]"
            ".filter((one) => one.getBoundingClientRect().bottom <= height)"
            ".map((one) => one.textContent)",
            height,
        )
    return " ".join(" ".join(texts).split())


def surfaces_of(
    question: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[Surfaces, str]:
    """Surfaces that answer a question, and the pattern of the answer; made once for both tests."""
    if question not in KNOWN:
        store = Store(directory / "store")
        if question == "campaign":
            expected = r"digits_int8.tflite is 1.30× .*faster than digits_fp32.tflite"
            KNOWN[question] = surfaces_of_campaign(store, capsys), expected
        else:
            models, values, expected = QUESTIONS[question]
            stored_sets(store, *models, **values)
            KNOWN[question] = surfaces_of_runs(store, capsys), expected
    return KNOWN[question]


KNOWN: dict[str, tuple[Surfaces, str]] = {}
"""What `surfaces_of` made, by question."""


@pytest.mark.parametrize("question", [*QUESTIONS, "campaign"])
def test_every_surface_begins_with_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    """Otherwise the answer to what was asked would be the fifth row of a table."""
    surfaces, expected = surfaces_of(question, tmp_path, capsys)
    [sentence] = surfaces.sentences
    assert re.match(expected, sentence), sentence
    assert sentence in surfaces.terminal
    assert sentence in unescape(surfaces.notebook)
    assert sentence in unescape(surfaces.page)


@pytest.mark.slow
@pytest.mark.parametrize("question", [*QUESTIONS, "campaign"])
def test_answer_is_seen_without_scrolling(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str], question: str
) -> None:
    """Otherwise the answer would be on the page, but below other parts, on a screen or a phone."""
    surfaces, _ = surfaces_of(question, tmp_path, capsys)
    [sentence] = surfaces.sentences
    (tmp_path / "page.html").write_text(surfaces.page, "utf-8")
    for width, height in ((1280, 400), (390, 600)):
        assert sentence in text_above(browser, tmp_path / "page.html", width, height), width
