"""Markdown for a pull request: a row per set, with verdict, interval and ratio to the first set.

The outcome of a paired comparison follows the table, in the words of `edgebench compare`.

Names are in code spans, and sentences are in a fenced block. So a viewer interprets no part of them
as a mention, a link or the end of a cell. Some viewers interpret tags even in a code span. For this
reason, text with `<` or `&` is written as the equivalent HTML element with character references.

Source: GitHub Flavored Markdown, 6.3 (code spans), 4.5 (fenced code blocks), 4.10 (tables)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import BinaryIO

from edgebench.host.analysis.compare.runs import compare_pairs
from edgebench.host.export.exported import ExportedRun, exported_numbers, sets_of
from edgebench.host.result.facts import BASELINE, CANDIDATE
from edgebench.host.result.metrics import GROSS_ENERGY, METRICS
from edgebench.host.result.numbers import Number
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import ABSENT, format_metric, half_width_of
from edgebench.host.show.accuracy import accuracy_in, value_words
from edgebench.host.show.comparisons import comparison_lines
from edgebench.host.show.notes import note_lines
from edgebench.host.show.numbers import REFUSED
from edgebench.host.show.ratios import ratio_to_first
from edgebench.host.show.tables import mark_lines
from edgebench.host.show.verdict import verdict_lines
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.text import printable

_HTML = re.compile("[<&]")
_SPECIAL = re.compile(r"[!-/:-@\[-`{-~]")
"""ASCII punctuation, the only special characters of CommonMark. Source: CommonMark 0.31, 2.4."""
_COLUMNS = ("model", "device", "runtime", "runs", "metric", "value", "95 % interval")


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write a table with a row for each set, and the reasons of verdicts that are not valid."""
    sets = sets_of(runs)
    is_metered = any(run.metrics.energy is not None for run_set in sets for run in run_set.runs)
    titles = [*_COLUMNS, *(["to the first"] if len(sets) > 1 else [])]
    titles += [*(["energy per inference"] if is_metered else [])]
    has_accuracy = any(run_set.first.metrics.accuracy is not None for run_set in sets)
    titles += [*(["accuracy"] if has_accuracy else []), "verdict"]
    lines = [_row(titles), _row(["---"] * len(titles))]
    for run_set in sets:
        cells = _cells(run_set)
        cells += [ratio_to_first(sets, run_set)] if len(sets) > 1 else []
        if is_metered:
            energy = _number(run_set, GROSS_ENERGY)
            cells.append(REFUSED if energy is None else "{} ({})".format(*_shown(energy)))
        cells += [_accuracy(run_set)] if has_accuracy else []
        lines.append(_row([*cells, run_set.marks.label]))
    sentences = [*_outcomes(runs), *verdict_lines(sets), *mark_lines(sets), *note_lines(sets)]
    if sentences and _HTML.search("".join(sentences)):
        referenced = [_referenced(sentence) or "&#32;" for sentence in sentences]
        lines += ["", "<pre>", *referenced, "</pre>"]
    elif sentences:
        ticks = max(map(len, re.findall("`+", "\n".join(sentences))), default=0)
        fence = "`" * max(3, ticks + 1)
        lines += ["", f"{fence}text", *sentences, fence]
    ids = ", ".join(code_span(run_set.set_id or run_set.first.run_id) for run_set in sets)
    out.write("\n".join([*lines, "", f"edgebench: {ids}", ""]).encode())


def _outcomes(runs: Sequence[ExportedRun]) -> list[str]:
    """Outcomes of the paired comparisons as lines; if a side is missing, a line about this."""
    by_id: dict[str, list[ExportedRun]] = {}
    for run in runs:
        if run.run.pair is not None:
            by_id.setdefault(run.run.pair.comparison_id, []).append(run)
    both: list[list[ExportedRun]] = []
    alone: list[str] = []
    for name, group in by_id.items():
        sides = {exported.run.pair.side for exported in group if exported.run.pair}
        if sides == {BASELINE, CANDIDATE}:
            both.append(group)
        else:
            alone.append(
                f"{printable(name)} is not compared, because only its {min(sides)} is exported"
            )
    return [*(_compared(both) if both else []), *alone]


def _compared(comparisons: Sequence[Sequence[ExportedRun]]) -> list[str]:
    """Outcomes of comparisons, which are judged together.

    If the joint comparison is refused, each comparison is judged separately.
    """
    judgement = comparisons[0][0].judgement
    try:
        compared = compare_pairs(
            [exported.run for group in comparisons for exported in group],
            metrics=judgement.metrics,
            margin_ratio=judgement.margin_ratio,
            allowed=judgement.allowed,
        )
    except EdgebenchError as exc:
        if len(comparisons) == 1:
            return [f"not compared: {printable(exc)}"]
        return [line for group in comparisons for line in _compared([group])]
    return comparison_lines(compared)


def code_span(text: str) -> str:
    r"""Text as a code span, with a fence longer than any run of backticks in it.

    >>> code_span("a|b"), code_span("a`b"), code_span("<b>*")
    ('`a\\|b`', '`` a`b ``', '<code>&#60;b&#62;&#42;</code>')
    """
    if _HTML.search(text):
        return f"<code>{_referenced(printable(text))}</code>"
    fence = "`" * (1 + max((len(found) for found in re.findall("`+", text)), default=0))
    blank = " " if "`" in text or text != text.strip() or not text else ""
    return f"{fence}{blank}{printable(text).replace('|', chr(92) + '|')}{blank}{fence}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _referenced(text: str) -> str:
    """Text with a character reference for each character that Markdown or HTML may interpret."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


def _cells(run_set: RunSet) -> list[str]:
    metric = METRICS[run_set.headline]
    number = _number(run_set, run_set.headline)
    names = [code_span(name) for name in (run_set.model, run_set.device, run_set.runtime)]
    counts = f"{len(run_set.run_ids)} of {len(run_set.runs) - len(run_set.replaced_run_ids)}"
    if number is None:
        shown = REFUSED if run_set.verdict.is_refused else ABSENT
        return [*names, counts, f"`{metric.path}`", shown, ABSENT]
    return [*names, counts, f"`{metric.path}`", *_shown(number)]


def _number(run_set: RunSet, path: str) -> Number | None:
    return next(iter(exported_numbers(run_set, [path])), None)


def _shown(number: Number) -> tuple[str, str]:
    """Value and interval in the unit of the metric."""
    reach = half_width_of(number.interval, number.value)
    value = format_metric(number.metric, number.value, reach)
    if number.interval is None:
        return value, "no interval"
    low, high = (format_metric(number.metric, bound, reach) for bound in number.interval)
    return value, f"{low} to {high}"


def _accuracy(run_set: RunSet) -> str:
    accuracy = accuracy_in(run_set)
    if accuracy is None:
        return REFUSED if run_set.first.metrics.accuracy is not None else ABSENT
    if _number(run_set, "accuracy.value") is None:
        return REFUSED
    return f"{code_span(accuracy.metric)} {value_words(accuracy)}"
