"""Markdown for a pull request."""

from __future__ import annotations

import html
import re
import string
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.changes import changed
from support.exports import (
    ACCURACY,
    HOSTILE,
    INVALID,
    METERED,
    PLAIN,
    SET,
    Stored,
    judged,
    renamed,
    set_of,
    written,
)

from edgebench.host.export.exported import ExportedRun, Judgement
from edgebench.host.export.markdown import code_span
from edgebench.host.result.facts import Pair
from edgebench.host.result.verdict import State


def rows(data: bytes) -> list[dict[str, str]]:
    """Rows of the table, by the titles of their columns."""
    lines = [line for line in data.decode().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line[2:-2].split(" | ")] for line in lines]
    assert set(cells[1]) == {"---"}
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def test_row_has_value_interval_and_verdict(stored: Stored, metered: ExportedRun) -> None:
    """Otherwise a reviewer could not tell whether a number is reliable."""
    row, short = rows(written("markdown", [metered, *stored(PLAIN)]))
    assert row["model"] == "`digits.tflite`"
    assert row["metric"] == "`latency_ns.p50`"
    assert row["value"].split()[1] in ("µs", "ms")
    assert " to " in row["95 % interval"]
    assert " to " in row["energy per inference"]
    assert short["95 % interval"] == "no interval"
    assert short["verdict"].startswith("suspect")


def test_accuracy_is_beside_the_speed(stored: Stored) -> None:
    """Otherwise a reviewer would merge a model that is faster, but wrong."""
    [plain], [one] = stored(PLAIN), stored(ACCURACY)
    accuracy = one.run.metrics.accuracy
    assert accuracy is not None
    without, row = rows(written("markdown", [plain, judged(one, State.VALID)]))
    assert without["accuracy"] == "—"
    bounds = rf"95 % CI [\d.]+ % to [\d.]+ % over {accuracy.sample_count} samples"
    assert re.search(rf"^`{accuracy.metric}` [\d.]+ % \({bounds}\)$", row["accuracy"])
    [row] = rows(written("markdown", [judged(one, State.INVALID)]))
    assert row["accuracy"] == "refused"


def test_several_sets_are_compared_with_the_first(stored: Stored) -> None:
    """Otherwise the reader of a table with two models would have to divide."""
    [one] = stored(PLAIN)
    fast = (1000, 1005, 1010, 1015, 1020)
    runs = [*set_of(one, "a", fast), *set_of(one, "b", tuple(2 * value for value in fast))]
    first, second, third = rows(written("markdown", [*runs, *stored(INVALID)]))
    assert first["to the first"] == "—"
    assert re.fullmatch(r"2\.00× slower ±[\d.]+ %", second["to the first"])
    assert third["to the first"] == "—", "the number is refused"
    assert third["value"] == "refused"
    assert third["energy per inference"] == "refused"
    assert third["verdict"].startswith("invalid")


def paired(exported_run: ExportedRun, side: str, p50s_ns: Sequence[int]) -> list[ExportedRun]:
    """The runs of one side of a comparison in pairs, with these medians."""
    return [
        replace(made, run=replace(made.run, member=None, pair=Pair("pairs-1f2e3d4c", number, side)))
        for number, made in enumerate(set_of(exported_run, side[:7], tuple(p50s_ns)))
    ]


def test_comparison_in_pairs_has_its_outcome(stored: Stored) -> None:
    """Otherwise a reviewer would read a ratio without the result of `edgebench compare`."""
    [one] = stored(PLAIN)
    p50s_ns = range(100_000, 101_000, 100)
    baseline = paired(one, "baseline", p50s_ns)
    candidate = paired(one, "candidate", [2 * value + value % 700 for value in p50s_ns])
    text = written("markdown", [*baseline, *candidate]).decode()
    assert "latency_ns.p50: candida is worse (higher) than baselin, 2.00× slower ±" in text
    assert "(10 and 10 runs, paired)" in text
    alone = written("markdown", baseline).decode()
    assert "pairs-1f2e3d4c is not compared, because only its baseline is exported" in alone
    assert "worse" not in alone


def test_comparison_in_pairs_is_judged_as_the_command_was_told(stored: Stored) -> None:
    """Otherwise the command would report equivalent, and the pull request worse."""
    [one] = stored(PLAIN)
    p50s_ns = range(100_000, 101_000, 100)
    candidate = [value + 3_000 + value % 700 for value in p50s_ns]
    runs = [*paired(one, "baseline", p50s_ns), *paired(one, "candidate", candidate)]
    assert " is worse (higher) than " in written("markdown", runs).decode()
    told = [replace(run, judgement=Judgement(margin_ratio=0.1)) for run in runs]
    assert " is equivalent to " in written("markdown", told).decode()


def test_refused_comparison_hides_no_other(stored: Stored) -> None:
    """Otherwise a difference of threads in one comparison would hide the outcome of all."""
    [one] = stored(PLAIN)
    p50s_ns = range(100_000, 101_000, 100)
    good = [*paired(one, "baseline", p50s_ns), *paired(one, "candidate", p50s_ns)]
    other = [
        replace(
            made,
            run=changed(
                made.run,
                {
                    "run_id": made.run.run_id.replace("20260102", "20260103"),
                    "pair": replace(made.run.pair, comparison_id="pairs-22222222"),
                    "spec.threads": 2 if made.run.pair.side == "candidate" else 1,
                },
            ),
        )
        for made in good
        if made.run.pair is not None
    ]
    text = written("markdown", [*good, *other]).decode()
    assert "candida is equivalent to baselin" in text
    assert "not compared: runs cannot be compared" in text


def test_sets_of_too_few_runs_have_no_ratio(stored: Stored) -> None:
    """Otherwise a ratio would be shown without an interval."""
    first, second = rows(written("markdown", [*stored(SET), *stored(METERED)]))
    assert (first["to the first"], second["to the first"]) == ("—", "—")
    assert "synthetic power" in second["verdict"]
    assert second["energy per inference"] == "refused"


def test_reasons_are_in_a_block_of_their_own(stored: Stored) -> None:
    """Otherwise a name in a sentence would mention a user, or end the block."""
    [one] = [renamed(judged(one, State.INVALID), "```\n@all") for one in stored(INVALID)]
    lines = written("markdown", [one]).decode().splitlines()
    begin, end = lines.index("````text"), lines.index("````")
    assert any(line.startswith("invalid: ") for line in lines[begin:end])
    assert not any("@all" in re.sub("`.*`", "", line) for line in lines[:begin] + lines[end:])


@pytest.mark.parametrize(
    ("name", "span"),
    [("a", "`a`"), ("a|b", "`a\\|b`"), ("``", "``` `` ```"), ("@all", "`@all`"), ("", "` `")],
)
def test_names_are_code_spans(name: str, span: str) -> None:
    """Otherwise a name would end its cell, or its span."""
    assert code_span(name).replace("  ", " ") == span


def test_hostile_name_stays_in_its_cell(stored: Stored) -> None:
    """Otherwise the columns of a row would be shifted."""
    [one] = map(renamed, stored(PLAIN))
    [row] = rows(written("markdown", [one]))
    assert row["model"] == row["device"] == code_span(HOSTILE)


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=alert(1)>", "</code></td>**a**", "a & b", "&lt;b&gt;", "<!-- `x`"]
)
def test_no_tag_is_in_the_text(name: str, stored: Stored) -> None:
    """Otherwise a viewer without code spans would load what the name of a model contains."""
    [one] = [renamed(judged(one, State.INVALID), name) for one in stored(INVALID)]
    text = written("markdown", [one]).decode()
    tags = re.findall(r"<[^>]*>?", text)
    assert set(tags) == {"<code>", "</code>", "<pre>", "</pre>"}
    assert html.unescape(text).count(name) >= 2, "the name is there, in the row and in a sentence"
    assert "|".join(line for line in text.splitlines() if "code>" in line).count("**") == 0


@given(st.text(alphabet=string.printable[:95], min_size=1))
def test_any_name_is_read_back(name: str) -> None:
    """Otherwise a reference would stand for another character, or a name would lose a character."""
    span = code_span(name)
    if span.startswith("<code>"):
        assert html.unescape(span.removeprefix("<code>").removesuffix("</code>")) == name
    else:
        assert name in span.replace("\\|", "|")
        assert not set("<&") & set(name)
