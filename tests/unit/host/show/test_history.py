"""The sentence of a history's outcome."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.console import Console

from edgebench.host.analysis.history.history import (
    History,
    HistoryOutcome,
    HistoryRun,
    HistorySubject,
    find_history,
)
from edgebench.host.result.marks import ResultMarks
from edgebench.host.result.metrics import METRICS
from edgebench.host.show.history import histories_page, outcome_sentence, subject_lines

SUBJECT = HistorySubject(
    model="m.tflite", device="pi5", runtime="litert", scenario="offline", threads=1, kind=""
)


def history(*values: float) -> History:
    """The throughput of a run per value, with a margin of 3 %."""
    commands = [
        [
            HistoryRun(
                run_id=str(number),
                created_utc="",
                set_id=None,
                marks=ResultMarks("valid"),
                value=value,
                conditions={},
            )
        ]
        for number, value in enumerate(values)
    ]
    return find_history(SUBJECT, commands, METRICS["throughput_per_s"], margin_ratio=0.03)


def level(rate: float) -> list[float]:
    """Twenty rates that differ by up to 0.2 %."""
    return [rate * (1 + 0.0005 * (number * 3 % 5)) for number in range(20)]


@pytest.mark.parametrize(
    ("rates", "sentence"),
    [
        (level(100)[:4], "too few points: 4, at least 5 needed"),
        (level(100), "no change of the level was found"),
        ([*level(100), *level(90)], "worse by at least 11"),
        ([*level(100), *level(99)], "worse by at most 1"),
        ([*level(100), *level(110)], "better by at least 9."),
        ([*level(100), *level(97.1)], "the worsening is between +2.9"),
    ],
)
def test_sentence_has_the_sign_and_the_size_of_the_change(
    rates: list[float], sentence: str
) -> None:
    """Otherwise a lower throughput would be called better, or its reciprocal be judged."""
    assert outcome_sentence(history(*rates)).startswith(sentence)


def test_change_without_an_interval_is_called_that() -> None:
    """Otherwise a change of meter would end the command, or be judged without meter errors."""
    found = history(*level(100), *level(90))
    levels = (found.levels[0], replace(found.levels[1], ratio_interval=None))
    unknown = replace(found, levels=levels, outcome=HistoryOutcome.INCONCLUSIVE)
    assert outcome_sentence(unknown).startswith("the change has no interval")


def with_settings(**settings: str) -> History:
    """A short history with these settings."""
    one = history(100.0)
    return replace(one, subject=replace(one.subject, settings=settings))


def test_histories_of_one_model_say_in_which_settings_they_differ() -> None:
    """Otherwise three rows would look alike, and it would be unclear which of them is slower."""
    one, other = with_settings(cpus="0", duration="2.0"), with_settings(cpus="0", duration="60.0")
    assert subject_lines([one, other]) == [
        "m.tflite on pi5, litert, offline, duration 2 s per run",
        "m.tflite on pi5, litert, offline, duration 60 s per run",
    ]
    assert subject_lines([one]) == ["m.tflite on pi5, litert, offline"]


def test_settings_of_another_device_do_not_count() -> None:
    """Otherwise two boards, each measured in one way, would be listed with their settings."""
    one, other = with_settings(cpus="0"), with_settings(cpus="1")
    there = replace(other, subject=replace(other.subject, device="pi4"))
    assert subject_lines([one, there]) == [
        "m.tflite on pi5, litert, offline",
        "m.tflite on pi4, litert, offline",
    ]


def test_many_histories_are_a_table_of_what_differs_at_80_columns() -> None:
    """Otherwise columns of equal names would take the space, and numbers would be folded."""
    out = Console(width=80, record=True)
    out.print(histories_page([with_settings(cpus=str(number)) for number in range(5)], 80))
    lines = out.export_text().splitlines()
    assert lines[0].startswith(
        "all: metric throughput_per_s, model m.tflite, device pi5, runtime litert"
    )
    rows = [line.split() for line in lines if "cpus" in line]
    assert rows == [
        ["offline,", "cpus", str(number), "1", "of", "5", "100/s", "100/s", "—", "inconclusive"]
        for number in range(5)
    ]


def test_many_histories_on_a_narrow_terminal_are_a_list() -> None:
    """Otherwise a column that is too narrow for its number would show `7.10 …`."""
    out = Console(width=40, record=True)
    out.print(histories_page([with_settings(cpus=str(number)) for number in range(5)], 40))
    words = " ".join(out.export_text().split())
    for number in range(5):
        numbers = "points 1 of 5 suspect level 100/s newest 100/s — outcome inconclusive"
        assert f"settings offline, cpus {number} {numbers}" in words


def test_page_at_80_columns_cuts_nothing() -> None:
    """Otherwise the interval of a change would be cut, or the settings be beyond the edge."""
    slow = history(*level(100), *level(80))
    run_id, model = "20261126-012511-755be043", "mobilenet_v2_int8.tflite"
    points = tuple(replace(point, run_ids=(run_id,)) for point in slow.points)
    subject = replace(slow.subject, model=model, device="raspberry-pi-5-cooled")
    histories = [
        replace(slow, points=points, subject=replace(subject, settings={"cpus": cpus}))
        for cpus in ("0, 1", "2")
    ]
    out = Console(width=80, record=True)
    out.print(histories_page(histories, 80))
    shown = out.export_text()
    words = shown.split()
    assert [words.count(one) for one in ("0,1:", "2:", "throughput_per_s")] == [1, 1, 2]
    change = re.compile(rf"{run_id} .* -?[\d.]+ % \.\. -?[\d.]+ %")
    assert len(change.findall(shown)) == 2
