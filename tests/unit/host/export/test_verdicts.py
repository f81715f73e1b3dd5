"""Rules of all formats: no number of an invalid run, labels, and names as text."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from support.exports import (
    HOSTILE,
    INVALID,
    PLAIN,
    SET,
    Stored,
    judged,
    renamed,
    written,
)

from edgebench.host.export.exported import (
    ExportedRun,
    benchmark_names,
    exported_numbers,
    mark,
    sets_of,
)
from edgebench.host.export.registry import FORMATS, ExportKind
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.verdict import State

TEXTS = [one.name for one in FORMATS if one.kind is ExportKind.TEXT]
WRITTEN = [one.name for one in FORMATS if one.kind is not ExportKind.DIRECTORY]


def test_invalid_run_has_no_number(stored: Stored) -> None:
    """Otherwise an untrustworthy number would appear in a dashboard."""
    [one] = stored(INVALID)
    assert one.run.metrics.latency_ns is not None
    assert exported_numbers(one.run) == []


@pytest.mark.parametrize("name", TEXTS)
def test_invalid_run_is_written_without_any_of_its_numbers(name: str, stored: Stored) -> None:
    """Otherwise a format would take a number from elsewhere than the others do."""
    [one] = stored(INVALID)
    text = written(name, [one]).decode()
    values = [metric.value(one.run) for metric in METRICS.values()]
    telling = {str(value) for value in values if value is not None and len(str(value)) > 5}
    assert len(telling) > 10
    assert [value for value in telling if value in text] == []


@pytest.mark.parametrize("name", WRITTEN)
def test_no_run_at_all_is_written_too(name: str) -> None:
    """Otherwise `bench --export` would fail a second time where nothing could be measured."""
    assert written(name, []) is not None


@pytest.mark.parametrize("state", [State.SUSPECT, State.VALID])
@pytest.mark.parametrize("name", TEXTS)
def test_suspect_run_carries_its_label(name: str, state: State, stored: Stored) -> None:
    """Otherwise a suspect number would look like any other, or every number look suspect."""
    [one] = [judged(one, state) for one in stored(PLAIN)]
    valid = replace(one.run.verdict, rules=())
    one = replace(one, run=replace(one.run, verdict=valid))
    words = re.findall(r"\w+", written(name, [one]).decode())
    assert ("suspect" in words) == (state is State.SUSPECT)


@pytest.mark.parametrize("name", WRITTEN)
def test_simulated_run_is_called_that(name: str, stored: Stored) -> None:
    """Otherwise times of a simulated board would be compared with those of a real board."""
    [one] = stored(PLAIN)
    simulated = replace(one, run=replace(one.run, simulated=True))
    label_of = simulated.run.marks.label
    assert label_of.endswith(", simulated")
    assert b"simulated" in written(name, [simulated])


def test_synthetic_power_is_called_that(metered: ExportedRun) -> None:
    """Otherwise synthetic joules would be passed on as measured."""
    assert "synthetic power" in metered.run.marks.label
    assert "synthetic power" in mark(sets_of([metered])[0])


@pytest.mark.parametrize("name", ["bmf", "github-smaller", "chrome"])
def test_hostile_name_is_text_in_json(name: str, stored: Stored) -> None:
    """Otherwise a quote in a name would end the text, and the rest be taken for a key."""
    [one] = map(renamed, stored(PLAIN))
    texts: list[str] = []

    def collect(found: object) -> None:
        if isinstance(found, dict):
            texts.extend(found)
            list(map(collect, found.values()))
        elif isinstance(found, list):
            list(map(collect, found))
        elif isinstance(found, str):
            texts.append(found)

    collect(json.loads(written(name, [one])))
    assert any(HOSTILE in text for text in texts)


def test_names_of_benchmarks_are_the_same_every_time_and_of_one_set_each(
    stored: Stored,
) -> None:
    """Otherwise a series would break off with every run, or two series would be merged."""
    runs = stored(PLAIN)
    assert benchmark_names(sets_of(runs)) == benchmark_names(sets_of(runs))
    first, second = benchmark_names(sets_of([*runs, *runs]))
    assert second == f"{first} #2"
    [of_set] = benchmark_names(sets_of(stored(SET)))
    assert of_set.startswith("digits_int8.tflite/board/")
    valid = [judged(run, State.VALID) for run in runs]
    assert benchmark_names(sets_of(valid))[0] + " [suspect]" == first


NOT_FINITE = [float("nan"), float("inf"), float("-inf")]


def not_a_number(text: str) -> float:
    """Reject a constant that the JSON standard does not have."""
    raise AssertionError(f"{text} is no JSON")


@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_number_is_absent(name: str, value: float, stored: Stored) -> None:
    """Otherwise a file would be refused for one word, as JSON has neither NaN nor infinity."""
    [one] = stored(PLAIN)
    latency = one.run.metrics.latency_ns
    assert latency is not None
    latency = replace(latency, mean_ci95=(latency.mean, value))
    metrics = replace(one.run.metrics, throughput_per_s=value, latency_ns=latency)
    text = written(name, [replace(one, run=replace(one.run, metrics=metrics))]).decode()
    if name in ("bmf", "github-smaller", "github-bigger", "chrome"):
        json.loads(text, parse_constant=not_a_number)
    assert re.findall(r"\b(?:nan|inf|infinity)\b", text, re.IGNORECASE) == []


def test_number_without_an_end_of_its_interval_has_no_interval(stored: Stored) -> None:
    """Otherwise the number itself would be lost, or a band have one edge."""
    [one] = stored(PLAIN)
    latency = one.run.metrics.latency_ns
    assert latency is not None
    bounded = replace(latency, mean_ci95=(latency.mean, float("inf")))
    run = replace(one.run, metrics=replace(one.run.metrics, latency_ns=bounded))
    [number] = [
        exported_number
        for exported_number in exported_numbers(run)
        if exported_number.metric.path == "latency_ns.mean"
    ]
    assert (number.value, number.interval) == (latency.mean, None)


UNPRINTABLE = "a\x00\x1b[2J\u202eb\udcff\r\t\ufffe\x85\u2028c" + "x" * 5000
"""Text that moves a cursor, reverses a line, or is not allowed in UTF-8 or XML."""


@pytest.mark.parametrize("name", WRITTEN)
def test_unprintable_name_is_escaped(name: str, stored: Stored) -> None:
    """Otherwise a name that is not UTF-8 would end the export, or rewrite a terminal's lines."""
    [one] = [renamed(one, UNPRINTABLE) for one in stored(PLAIN)]
    runtime = replace(one.run.runtime, name=UNPRINTABLE, delegates_used=(UNPRINTABLE,))
    model = replace(one.run.model, sha256=UNPRINTABLE, precision=UNPRINTABLE)
    device = replace(one.run.device, soc=UNPRINTABLE, os=UNPRINTABLE)
    run = replace(one.run, runtime=runtime, model=model, device=device)
    data = written(name, [replace(one, run=run)])
    shown = "a??[2J?b??????c"
    if name == "parquet":
        return  # compressed; see the test of the tables
    assert shown.encode() in data
    if name != "perfetto":
        text = data.decode().replace("\r\n", "\n")
        assert all(char.isprintable() or char == "\n" for char in text)


def test_names_of_benchmarks_are_short_and_keep_their_mark(stored: Stored) -> None:
    """Otherwise Bencher would refuse a long name, or its end, the suspect mark, be cut off."""
    [one] = [renamed(one, UNPRINTABLE) for one in stored(PLAIN)]
    runtime = replace(one.run.runtime, name=UNPRINTABLE, delegates_used=(UNPRINTABLE,) * 3)
    one = replace(one, run=replace(one.run, runtime=runtime))
    [name] = benchmark_names(sets_of([one]))
    assert len(name) <= 1000
    assert name.endswith("… [suspect]")
    assert "/single_stream/" in name
