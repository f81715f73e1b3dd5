"""`edgebench history`: the picture, the document, and the exit codes of a gate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.agents import Host
from support.commands import Run
from support.records import store_run

from edgebench.host.store.layout import RUN_FILE, Store


def fill(host: Host, medians: list[int]) -> None:
    """Store a run for each day of March, with these medians."""
    store = Store(host.folder / "data" / "edgebench")
    first = "20260301-000000-0123abcd"
    store_run(store, first)
    document = json.loads((store.directory(first) / RUN_FILE).read_text())
    for day, p50 in enumerate(medians, start=1):
        document["run_id"] = f"202603{day:02}-000000-0123abcd"
        document["created_utc"] = f"2026-03-{day:02}T00:00:00+00:00"
        document["metrics"]["latency_ns"]["p50"] = p50
        folder = store.directory(document["run_id"])
        folder.mkdir(exist_ok=True)
        (folder / RUN_FILE).write_text(json.dumps(document))


def level(us: int) -> list[int]:
    """Ten medians around a value, nanoseconds."""
    return [1000 * us + 500 * (number * 7 % 10) for number in range(10)]


@pytest.mark.parametrize(
    ("medians", "code"),
    [
        ([*level(1000), *level(1100)], 4),
        ([*level(1000), *level(1030)], 5),
        ([*level(1000), *level(1010)], 0),
        (level(1000), 0),
        (level(1000)[:4], 5),
    ],
)
def test_exit_code_is_the_answer(edgebench: Run, host: Host, medians: list[int], code: int) -> None:
    """Otherwise a nightly job would pass a regression, or fail without a regression or a gate."""
    fill(host, medians)
    assert edgebench("history", "--fail-on", "3%").code == code
    assert edgebench("history").code == 0


@pytest.mark.parametrize("is_json", [False, True])
def test_histories_that_decide_the_exit_code_are_named(
    edgebench: Run, host: Host, is_json: bool
) -> None:
    """Otherwise a history with a single point would set the exit code without being named."""
    store = Store(host.folder / "data" / "edgebench")
    fill(host, level(1000))
    document = json.loads((store.directory("20260301-000000-0123abcd") / RUN_FILE).read_text())
    for number in range(5):
        document["run_id"] = f"20260401-00000{number}-0123abcd"
        document["model"]["name"] = f"other-{number}.tflite"
        store.directory(document["run_id"]).mkdir()
        (store.directory(document["run_id"]) / RUN_FILE).write_text(json.dumps(document))
    output = ["--json"] if is_json else []
    said = edgebench("history", "--fail-on", "3%", *output)
    assert said.code == 5
    first, *named, more = said.err.splitlines()
    assert first == "note: exit code 5: 5 of 6 histories are inconclusive:"
    assert named == [
        f"  other-{number}.tflite on board, tflite, single_stream: "
        "too few points: 1, at least 5 needed"
        for number in range(3)
    ]
    assert more == "  and 2 more"
    if is_json:
        assert len(json.loads(said.out)["histories"]) == 6
    assert edgebench("history", "--fail-on", "3%", "--model", "digits*", *output).err == ""
    assert edgebench("history", *output).err == ""


def test_history_that_became_worse_is_named(edgebench: Run, host: Host) -> None:
    """Otherwise the log of a failed nightly job would not name the slower model."""
    fill(host, [*level(1000), *level(1100)])
    first, named = edgebench("history", "--fail-on", "3%").err.splitlines()
    assert first == "note: exit code 4: 1 of 1 histories is worse:"
    assert named.startswith("  digits.tflite on board, tflite, single_stream: worse by ")


def test_page_shows_points_levels_and_the_change(edgebench: Run, host: Host) -> None:
    """Otherwise the page would not show when the model became slower, and by how much."""
    fill(host, [*level(1000), *level(1100)])
    result = edgebench("history", "--model", "digits*")
    assert "digits.tflite on board, tflite, single_stream: latency_ns.p50" in result.out
    assert "20 points, 2026-03-01 to 2026-03-20" in result.out
    assert result.out.count("▲") == 2, "one in the picture, one in the legend"
    assert "2026-03-11" in result.out
    assert "+10.00 %" in result.out or "+9.9" in result.out
    assert "worse: worse by" in result.out


def test_document_has_the_numbers_of_the_page(edgebench: Run, host: Host) -> None:
    """Otherwise a script would read other numbers than the page shows."""
    fill(host, [*level(1000), *level(1100)])
    result = edgebench("history", "--json", "--fail-on", "3%")
    assert result.code == 4
    [found] = json.loads(result.out)["histories"]
    assert found["outcome"] == "worse"
    assert found["reason"].startswith("worse by")
    assert len(found["points"]) == 20
    first, newest = found["levels"]
    assert first["ratio"] is None
    assert newest["first"] == 10
    assert newest["ratio_interval"][0] < newest["ratio"] < newest["ratio_interval"][1]


def test_many_histories_are_a_table(edgebench: Run, host: Host, tmp_path: Path) -> None:
    """Otherwise fifty models would fill the terminal with pictures."""
    fill(host, level(1000))
    store = Store(host.folder / "data" / "edgebench")
    for number, folder in enumerate(sorted(store.runs.iterdir())):
        document = json.loads((folder / RUN_FILE).read_text())
        document["model"]["name"] = f"model-{number}.tflite"
        (folder / RUN_FILE).write_text(json.dumps(document))
    result = edgebench("history")
    assert "model-9.tflite" in result.out
    assert "┤" not in result.out
    assert "choose at most four" in result.out


def test_mistakes_are_one_line(edgebench: Run, host: Host) -> None:
    """A mistake such as an unknown metric is reported without a traceback."""
    fill(host, level(1000))
    assert edgebench("history", "--metric", "nonsense").code == 2
    assert edgebench("history", "--model", "other").code == 2
