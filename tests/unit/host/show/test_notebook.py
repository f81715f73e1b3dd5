"""The view of a run in a notebook."""

from __future__ import annotations

import base64
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edgebench.host.analysis.run_set import alone
from edgebench.host.lab import Lab
from edgebench.host.result.migrations import AS_STORED
from edgebench.host.result.run import Run
from edgebench.host.result.units import format_interval_ns
from edgebench.host.result.verdict import RuleOutcome, State
from edgebench.host.show.notebook import run_html, set_html, sets_html
from edgebench.host.show.times import local_time
from edgebench.host.store.layout import QUERIES_FILE
from edgebench.host.stored_run import StoredRun

RUNS = Path(__file__).parents[3] / "fixtures" / "runs" / "v7"
PLAIN, METERED = "20261123-031046-26335d6d", "20261123-031049-420b03bc"
PRECISE = "20261123-031112-2510a256"
"""A run with an interval."""
NUMBER = re.compile(r"\d (ns|µs|ms|s|J|mJ|µJ|W|mW)\b")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A lab with runs of every kind."""
    made = Lab(tmp_path_factory.mktemp("lab"))
    shutil.copytree(RUNS, made.store.runs)
    return made


class _Page(HTMLParser):
    """Collects text, tags and image data of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.images: list[str] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.images += [value or "" for name, value in attrs if name == "src"]

    def handle_data(self, data: str) -> None:
        self.words += f"{data}\n"


def invalid(run: Run) -> Run:
    """The same run, with a rule that refuses its numbers."""
    first, *others = run.verdict.rules
    broken = replace(
        first, outcome=RuleOutcome.FAIL, severity=State.INVALID, reason=AS_STORED, detail="no good"
    )
    verdict = replace(run.verdict, state=State.INVALID, rules=(broken, *others))
    return replace(run, verdict=verdict)


def test_every_kind_of_run_is_shown_without_what_a_notebook_removes(lab: Lab) -> None:
    """Otherwise a kind would end in a traceback, or lose its picture in a newer notebook."""
    for run_id in lab.store.run_ids():
        run = lab.run(run_id)
        page = _Page(run._repr_html_())
        assert run.result.marks.label in page.words
        assert page.tags <= {"div", "p", "b", "table", "tr", "th", "td", "img", "ul", "li"}
        for image in page.images:
            kind, _, data = image.partition(",")
            assert kind == "data:image/svg+xml;base64"
            drawn = ElementTree.fromstring(base64.b64decode(data))
            assert not [one for one in drawn.iter() if one.tag.endswith(("script", "style"))]
            assert len(data) < 40_000


def test_numbers_are_those_of_the_result_with_their_intervals(lab: Lab) -> None:
    """Otherwise a notebook would differ from the command line, or lack an uncertainty."""
    run = lab.run(PRECISE)
    page, latency = _Page(run._repr_html_()), run.metrics.latency_ns
    assert latency is not None
    assert format_interval_ns(latency.p50, latency.p50_ci95) in page.words
    assert len(page.images) == 1
    metered = lab.run(METERED).result
    trusted = replace(metered, verdict=replace(metered.verdict, state=State.VALID, rules=()))
    assert re.search(r"J ±.* per inference, gross", _Page(run_html(trusted, None)).words)


def test_invalid_run_shows_its_reasons_and_no_number(lab: Lab) -> None:
    """Otherwise a refused number would be printed all the same."""
    run = lab.run(PRECISE)
    page = _Page(run_html(invalid(run.result), run.series.latency))
    assert "no good" in page.words
    assert not NUMBER.search(page.words)
    assert page.images == []
    [one] = lab.sets([run])
    refused = replace(one, verdict=invalid(run.result).verdict, runs=(invalid(run.result),))
    assert not NUMBER.search(_Page(set_html(refused)).words)


def test_hostile_names_are_text(lab: Lab) -> None:
    """Otherwise a model's name would run as a part of the page."""
    run = lab.run(PLAIN).result
    hostile = "<script>x</script>\x1b[2J\"'&"
    named = replace(run, model=replace(run.model, name=hostile))
    page = run_html(named, None)
    assert "<script" not in page
    assert "\x1b" not in page
    assert "<script>x</script>" in _Page(page).words


def test_run_without_its_traces_is_shown_with_the_reason(tmp_path: Path) -> None:
    """Otherwise a missing file would hide the verdict, too."""
    lab = Lab(tmp_path)
    shutil.copytree(RUNS / PLAIN, lab.store.runs / PLAIN)
    (lab.store.directory(PLAIN) / QUERIES_FILE).write_bytes(b"x")
    page = _Page(StoredRun(lab.store, PLAIN)._repr_html_())
    assert "no picture: trace not readable" in page.words
    assert page.images == []


def test_set_shows_the_interval_between_its_runs(lab: Lab) -> None:
    """Otherwise the interval of one run would be taken for that of the set."""
    sets = lab.sets([lab.run(run_id) for run_id in lab.store.run_ids()])
    one = max(sets, key=lambda run_set: len(run_set.runs))
    page = _Page(one._repr_html_())
    assert one.marks.label in page.words
    assert {run.run_id for run in one.runs} <= set(page.words.split("\n"))
    assert f"<StoredSet {one.set_id} of {len(one.runs)} runs: " in repr(one)


def test_several_sets_begin_with_their_distributions_over_each_other(lab: Lab) -> None:
    """Otherwise a notebook would show two models below each other, on two axes."""
    run = lab.run(PRECISE)
    latency = run.series.latency
    assert latency is not None
    trusted = replace(run.result, verdict=replace(run.result.verdict, state=State.VALID, rules=()))
    named = [replace(trusted, model=replace(run.model, name=name)) for name in ("<a>", "b")]
    sets = [alone(one) for one in named]
    first, *others = _Page(sets_html(sets, [[latency], [latency]])).images
    assert len(others) == 2, "each set has its own picture, too"
    drawn = base64.b64decode(first.partition(",")[2]).decode()
    outlines = [one for one in ElementTree.fromstring(drawn).iter() if one.get("fill-opacity")]
    assert len({one.get("d") for one in outlines}) == 1, "the latencies are the same"
    assert len({one.get("fill") for one in outlines}) == 2
    assert "&lt;a&gt;" in drawn
    assert len(_Page(sets_html(sets[:1], [[latency]])).images) == 1
    assert "of 2 results" not in _Page(sets_html(sets, [[latency], [latency]])).words
    many = _Page(sets_html([sets[0]] * 7, [[latency]] * 7))
    assert len(many.images) == 1 + 7
    assert "6 of 7 results" in many.words


def test_time_of_a_run_is_local(lab: Lab) -> None:
    """Otherwise a notebook would differ from the terminal and the report."""
    run = lab.run(PLAIN).result
    words = _Page(run_html(run, None)).words
    assert f"{run.run_id}, {local_time(run.created_utc)}" in words
