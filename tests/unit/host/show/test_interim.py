"""Rows of sets while their runs are made: each narrows, and no refused number is shown."""

from __future__ import annotations

from dataclasses import replace

from support.reported import PLAIN, runs_of_set, stored_run

from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.host.show.interim import interim_lines, interim_row

RUN = stored_run(PLAIN)
RUNS = runs_of_set(RUN)
SUITE = tuple(
    f"mobilenet_v1_0.25_224_{end}"
    for end in ("float.tflite", "ptq_int8.tflite", "qat_uint8.tflite")
)


def named(runs: list[Run], model: str) -> list[Run]:
    """The runs with another name of their model."""
    return [replace(run, model=replace(run.model, name=model)) for run in runs]


def test_row_narrows_while_runs_come_in() -> None:
    """The interval of one run is not called one between runs, and the verdict comes last."""
    rows = [interim_row(RUNS[:count]).numbers for count in range(1, 6)]
    counts, values, spreads, marks = zip(*rows, strict=True)
    assert counts == tuple(f"{count} of 5 runs" for count in range(1, 6))
    assert all(value.startswith("p50 ") for value in values)
    assert spreads[0].endswith(" in this run")
    assert all(spread.startswith("lowest ") for spread in spreads[1:4])
    assert spreads[4].startswith("±")
    assert marks[:4] == ("",) * 4
    assert marks[4].startswith(("valid", "suspect"))


def test_number_of_runs_that_are_too_far_apart_is_not_shown() -> None:
    """Otherwise a number would stand on the screen that the finished set refuses."""
    apart = [
        run
        for number, scale in enumerate((1, 1.1, 2, 3, 3.1))
        for run in runs_of_set(RUN, scale=scale)[number : number + 1]
    ]
    _, value, spread, marks = interim_row(apart).numbers
    assert value == "p50 refused"
    assert "%" in spread
    assert marks.startswith("invalid")


def test_runs_that_are_refused_do_not_count() -> None:
    """Otherwise the median would be that of a run whose verdict refuses it."""
    refused = replace(RUNS[0], verdict=replace(RUNS[0].verdict, state=State.INVALID))
    assert interim_row([refused]).numbers[1:3] == ("refused", "")
    assert interim_row([refused, RUNS[1]]).numbers[2].endswith(" in this run")


def test_names_are_short_and_differ_at_80_columns() -> None:
    """Otherwise four models of a suite would be one and the same `mobilenet_v1…`."""
    rows = [interim_row(named(RUNS[:1], model)) for model in SUITE]
    lines = interim_lines(rows, 60)
    assert [line.split()[0] for line in lines] == ["…float", "…ptq_int8", "…qat_uint8"]
    assert all(len(line) <= 60 for line in lines)
    assert [line.split()[0] for line in interim_lines(rows, 120)] == list(SUITE)


def test_rows_state_in_what_they_differ() -> None:
    """Runtimes, devices and settings are shown if rows of the same model differ in them."""
    other = replace(RUNS[0], runtime=replace(RUNS[0].runtime, name="onnx"))
    board = replace(RUNS[0], device=replace(RUNS[0].device, name="pi5"))
    first, second = interim_lines([interim_row(RUNS[:1]), interim_row([other])], 120)
    assert f", {RUN.runtime.name} " in first
    assert ", onnx " in second
    assert ", pi5 " in interim_lines([interim_row(RUNS[:1]), interim_row([board])], 120)[1]
    assert ", threads 2 " in interim_lines([interim_row(RUNS[:1], "threads 2")], 120)[0]
