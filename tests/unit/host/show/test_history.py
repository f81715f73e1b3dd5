"""The sentence of a history's outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgebench.host.analysis.history.history import (
    History,
    HistoryOutcome,
    HistoryRun,
    HistorySubject,
    find_history,
)
from edgebench.host.result.metrics import METRICS
from edgebench.host.show.history import outcome_sentence

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
                is_suspect=False,
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
        ([*level(100), *level(90)], "worse by 11"),
        ([*level(100), *level(99)], "worse by 1"),
        ([*level(100), *level(110)], "better by 9."),
        ([*level(100), *level(97.1)], "the interval reaches from +2.9"),
    ],
)
def test_sentence_has_the_sign_and_the_size_of_the_change(
    rates: list[float], sentence: str
) -> None:
    """A throughput that fell is called better, or its change is that of the reciprocal."""
    assert outcome_sentence(history(*rates)).startswith(sentence)


def test_change_without_an_interval_is_called_that() -> None:
    """A change of the meter ends the command, or is judged without the meters' errors."""
    found = history(*level(100), *level(90))
    levels = (found.levels[0], replace(found.levels[1], ratio_interval=None))
    unknown = replace(found, levels=levels, outcome=HistoryOutcome.INCONCLUSIVE)
    assert outcome_sentence(unknown).startswith("the change has no interval")
