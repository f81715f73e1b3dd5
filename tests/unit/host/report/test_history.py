"""A metric over time on a page: every point of the store, and its levels."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from support.reported import store_of_days

from edgebench.host.cli import history
from edgebench.host.lab import Lab
from edgebench.host.report.page import find_reported, run_report
from edgebench.host.store.layout import Store
from edgebench.system.exit_code import ExitCode

COUNT, CHANGE = 12, 6


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with a run each day, which takes twice as long from one day on."""
    return store_of_days(tmp_path / "store", COUNT, CHANGE)


def test_page_of_a_run_has_its_history(store: Store) -> None:
    """Otherwise the page of a run twice as slow as the week before would look fine."""
    newest = store.run_ids()[-1]
    page = run_report(find_reported(store, [newest]))
    points = re.findall(r'data-point="latency_ns.p50" data-value="([^"]+)"', page)
    expected = []
    for run_id in store.run_ids():
        latency = store.run(run_id).metrics.latency_ns
        assert latency is not None
        expected.append(latency.p50)
    assert [float(point) for point in points] == expected
    assert page.count('data-level="latency_ns.p50"') == 2
    assert "worse by" in page
    assert page.count(">this page<") == 1


def test_run_outside_of_a_store_has_no_history(store: Store) -> None:
    """Otherwise the runs of the directory next to it would be taken for its past."""
    directory = store.directory(store.run_ids()[-1])
    assert "data-point" not in run_report(find_reported(Store(store.root / "x"), [str(directory)]))


def test_anonymous_history_names_no_device(store: Store) -> None:
    """Otherwise the name would be left out of the runs, but stand above their history."""
    reported = find_reported(store, [store.run_ids()[-1]])
    named = [
        replace(
            one,
            run=replace(one.run, device=replace(one.run.device, name="kitchen-pi")),
            history=replace(one.history, subject=replace(one.history.subject, device="kitchen-pi"))
            if one.history is not None
            else None,
        )
        for one in reported
    ]
    assert "kitchen-pi" in run_report(named)
    page = run_report(named, is_anonymous=True)
    assert "kitchen-pi" not in page
    assert "data-point" in page


def test_history_command_writes_its_page(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the picture of the terminal could not be shared."""
    output = tmp_path / "history.html"
    words = ["--store", str(store.root), "-o", str(output), "--json"]
    assert history.run(history.parser().parse_args(words)) is ExitCode.DONE
    [told] = json.loads(capsys.readouterr().out)["histories"]
    page = output.read_text("utf-8")
    assert page.count("data-point") == len(told["points"]) == COUNT
    assert len(Lab(store.root, config=tmp_path).history()[0].levels) == 2
