"""A run or a set of runs as HTML, for notebooks.

Notebooks strip scripts, styles and inline SVG from untrusted output, but keep images with embedded
data. Therefore the picture is an SVG image, in colours that are visible on light and dark
backgrounds.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from edgebench.host.analysis.run_set import alone
from edgebench.host.result.metrics import INSTRUCTIONS, LATENCY_SPANS, METRICS
from edgebench.host.result.numbers import headline_number
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import (
    format_instructions,
    format_interval_ns,
    format_ns,
    format_number,
)
from edgebench.host.result.verdict import State
from edgebench.host.series.envelope import Floats
from edgebench.host.series.latency_line import (
    OVERVIEW_COUNT,
    AxisLimits,
    LatencyLine,
    above_count,
    distribution_limits,
    latency_line,
    shared_limits,
)
from edgebench.host.series.run_series import LatencySeries
from edgebench.host.show.accuracy import accuracy_words
from edgebench.host.show.energy import energy_lines
from edgebench.host.show.headline import Settings, headlines
from edgebench.host.show.numbers import headline_words
from edgebench.host.show.times import local_time
from edgebench.host.show.verdict import cause_texts
from edgebench.protocol.percent import format_percent
from edgebench.protocol.text import printable

BINS = 60
_HEIGHT, _TOP, _BASE = 170, 20, 140
_LEFT, _RIGHT = (70, 480), (530, 690)
"""Horizontal extent of both drawings, pixels."""
_INK, _BAND, _ABOVE, _TEXT = "#3b82c4", "#8ab8dd", "#d55e00", "#808080"
_OVERLAID = ("#3b82c4", "#d55e00", "#2e8b57", "#a8478a", "#b8860b", "#6f7f8f")
"""Colours of overlaid distributions."""
_COLOURS = {State.VALID: "#2e8b57", State.SUSPECT: "#b8860b", State.INVALID: "#c0392b"}


def run_html(run: Run, latency: LatencySeries | None, missing: str | None = None) -> str:
    """HTML of a run with its verdict and reasons, its numbers with intervals, and a picture.

    Args:
        run: The run.
        latency: Latency of its inferences; None if inferences were not timed individually.
        missing: If the picture is missing because a file cannot be read, the reason.
    """
    title = f"{run.model.name} on {run.runtime.name} {run.runtime.version or ''}, {run.device.name}"
    rows = [("run", f"{run.run_id}, {local_time(run.created_utc)}")]
    if run.failure is not None:
        rows.append(("failed", f"{run.failure.message} ({run.failure.code})"))
    elif not run.verdict.is_refused:
        rows += _numbers(run)
    parts = [_head(title, run), _table(rows)]
    if missing is not None:
        parts.append(f"<p>{_text(f'no picture: {missing}')}</p>")
    elif latency is not None and len(latency.steady_ns) > 1 and not run.verdict.is_refused:
        parts.append(_picture([latency]))
    return f"<div>{''.join(parts)}</div>"


def set_html(run_set: RunSet, latencies: Sequence[LatencySeries] = ()) -> str:
    """HTML of a set with its verdict and reasons, its headline, each run, and a picture.

    Args:
        run_set: The set.
        latencies: Latencies of the counted runs, in order; if empty, no picture.
    """
    title = f"{run_set.model} on {run_set.runtime}, {run_set.device}, {len(run_set.run_ids)} runs"
    rows = [("set", run_set.set_id or "of one run")]
    if (number := headline_number(run_set)) is not None:
        where = "" if run_set.set_id is None else ", between runs"
        rows.append((run_set.headline, f"{format_number(number)}{where}"))
    rows += [(run.run_id, headline_words(run)) for run in run_set.runs]
    drawn = [latency for latency in latencies if len(latency.steady_ns) > 1]
    picture = _picture(drawn) if drawn and not run_set.verdict.is_refused else ""
    return f"<div>{_head(title, run_set)}{_table(rows)}{picture}</div>"


def sets_html(
    sets: Sequence[RunSet],
    latencies: Sequence[Sequence[LatencySeries]] = (),
    settings: Settings | None = None,
) -> str:
    """HTML of several sets with their main results, each set, and pictures of the latencies.

    The first picture overlays the distributions of at most six sets.

    Args:
        sets: The sets.
        latencies: Latencies of the counted runs of each set. If empty, there are no pictures.
        settings: Text that distinguishes sets of the same model and device. None selects the ids of
            the sets.
    """
    answers = "".join(
        f"<p><b>{_text(headline.line)}</b></p>" for headline in headlines(sets, settings)
    )
    shown = list(latencies) or [()] * len(sets)
    parts = [set_html(run_set, own) for run_set, own in zip(sets, shown, strict=True)]
    pooled = [
        (run_set.model, np.concatenate([latency.steady_ns for latency in own]))
        for run_set, own in zip(sets, shown, strict=True)
        if own and not run_set.verdict.is_refused
    ]
    overlay = _overlay(pooled[: len(_OVERLAID)]) if len(pooled) > 1 else ""
    if len(pooled) > len(_OVERLAID):
        overlay += f"<p>{len(_OVERLAID)} of {len(pooled)} results</p>"
    return f"<div>{answers}{overlay}{''.join(parts)}</div>"


def _head(title: str, result: Run | RunSet) -> str:
    """Title, verdict, main result, and a line for each cause of failed rules."""
    run_set = alone(result) if isinstance(result, Run) else result
    colour = _COLOURS[result.headline_state if isinstance(result, Run) else result.verdict.state]
    marks = f'<b style="color: {colour}">{_text(result.marks.label)}</b>'
    answers = "".join(f"<p>{_text(answer.line)}</p>" for answer in headlines([run_set]))
    causes = "".join(
        f"<li><b>{_text(cause.title)}</b>{_text(f'{cause.joint}{cause.evidence}{cause.also_words}')}"
        + (f"<p>To improve: {_text(cause.advice)}</p>" if cause.advice else "")
        + "</li>"
        for cause in cause_texts(run_set)
    )
    return f"<p><b>{_text(title)}</b>: {marks}</p>{answers}<ul>{causes}</ul>"


def _numbers(run: Run) -> list[tuple[str, str]]:
    """Numbers of a run, each with its uncertainty."""
    rows: list[tuple[str, str]] = []
    for label, span in zip(("invocation", "query"), LATENCY_SPANS, strict=True):
        for name in ("p50", "p90", "p99"):
            metric = METRICS[f"{span}.{name}"]
            value, interval = metric.value(run), metric.interval(run)
            if value is not None and interval is not None:
                rows.append((f"{label}, {name}", format_interval_ns(value, interval)))
            elif value is not None and name == "p50":
                rows.append((f"{label}, {name}", f"{format_ns(value)} (no interval)"))
    if (count := METRICS[INSTRUCTIONS].value(run)) is not None:
        rows.append(("instructions per inference", format_instructions(count)))
    if run.metrics.accuracy is not None:
        rows.append(("accuracy", accuracy_words(run.metrics.accuracy)))
    return rows + energy_lines(run.metrics.energy)[:2]


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = (f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>" for name, value in rows)
    return f"<table>{''.join(cells)}</table>"


def _text(words: str) -> str:
    return escape(printable(words))


def _picture(latencies: Sequence[LatencySeries]) -> str:
    """Latency of the runs over time, one run after the other, and its distribution, as an image."""
    steady_ns = np.concatenate([latency.steady_ns for latency in latencies])
    ends = distribution_limits(steady_ns)
    counts, edges_ns = np.histogram(steady_ns, BINS, (ends.low_ns, ends.high_ns))
    lines = [
        latency_line(latency, max(1, OVERVIEW_COUNT // len(latencies))) for latency in latencies
    ]
    limits = shared_limits(lines)
    duration_s = sum(end_s - begin_s for begin_s, end_s in (line.steady_span_s for line in lines))
    above = sum(above_count(latency, limits) for latency in latencies)
    drawn = format_percent(counts.sum() / len(steady_ns), 1)
    parts = [
        *_over_time(lines, limits, f"{duration_s:.3g} s"),
        *_distribution(counts.astype(np.float64), edges_ns),
        _label(_LEFT[0], 12, f"p50, p10 to p90{f'; {above:,} above' if above else ''}"),
        _label(_RIGHT[0], 12, f"{drawn} of the inferences"),
    ]
    about = (
        f"Latency of {len(steady_ns)} inferences over {duration_s:.3g} s, "
        f"{format_ns(float(steady_ns.min()))} to {format_ns(float(steady_ns.max()))}, and its "
        "distribution"
    )
    return _image(parts, about)


def _overlay(latencies_ns: Sequence[tuple[str, Floats]]) -> str:
    """Overlaid distributions as an image; equal areas mean equal fractions of the latencies."""
    limits = [distribution_limits(values) for _, values in latencies_ns]
    ends = min(limit.low_ns for limit in limits), max(limit.high_ns for limit in limits)
    left, right = _LEFT[0], _RIGHT[1]
    shares = [np.histogram(values, 2 * BINS, ends)[0] / len(values) for _, values in latencies_ns]
    width, most = (right - left) / (2 * BINS), float(max(share.max() for share in shares))
    parts = _axis(left, right, format_ns(ends[0]), format_ns(ends[1]))
    for place, ((name, _), share) in enumerate(zip(latencies_ns, shares, strict=True)):
        outline = "".join(
            f"V{_y(float(height), 0.0, most):.1f}H{left + width * (number + 1):.1f}"
            for number, height in enumerate(share)
        )
        colour = _OVERLAID[place]
        parts.append(
            f'<path d="M{left} {_BASE}{outline}V{_BASE}Z" fill="{colour}" fill-opacity="0.35" '
            f'stroke="{colour}"/>'
        )
        words = _label(right, 12 + 14 * place, printable(name), "end")
        parts.append(words.replace("<text ", f'<text fill="{colour}" '))
    names = ", ".join(name for name, _ in latencies_ns)
    about = f"Distributions of the latency of {names}, from {' to '.join(map(format_ns, ends))}"
    return _image(parts, about)


def _image(parts: Iterable[str], about: str) -> str:
    """A drawing as an image with a description."""
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {_HEIGHT}" width="700" '
        f'height="{_HEIGHT}" font-family="sans-serif" font-size="12" fill="{_TEXT}">'
        f"{''.join(parts)}</svg>"
    )
    data = base64.b64encode(svg.encode()).decode()
    return f'<img width="700" alt="{_text(about)}" src="data:image/svg+xml;base64,{data}">'


def _over_time(lines: Sequence[LatencyLine], limits: AxisLimits, duration: str) -> list[str]:
    """Line of p50 and band from p10 to p90 of each run, with ticks for latencies above the axis."""
    left, right = _LEFT
    width = (right - left) / len(lines)
    bands, medians, above = "", "", ""
    for number, line in enumerate(lines):
        steady = slice(line.warmup_count, None)
        begin_s, end_s = line.steady_span_s
        gap = 2.0 if len(lines) > 1 else 0.0
        scale = (width - gap) / ((end_s - begin_s) or 1.0)
        x = left + width * number + scale * (line.middle_s[steady] - begin_s)
        p10, p50, p90 = (
            _BASE - (_BASE - _TOP) * limits.places(values[steady])
            for values in (line.p10_ns, line.p50_ns, line.p90_ns)
        )
        medians += _path(x, p50)
        bands += f"{_path(np.append(x, x[::-1]), np.append(p90, p10[::-1]))}Z"
        is_above = line.max_ns[steady] > limits.high_ns
        above += "".join(f"M{at:.1f} {_TOP}v4" for at in x[is_above])
    return [
        f'<path d="{bands}" fill="{_BAND}" fill-opacity="0.6" stroke="{_BAND}"/>',
        f'<path d="{above}" stroke="{_ABOVE}" fill="none"/>',
        f'<path class="p50" d="{medians}" stroke="{_INK}" stroke-width="1.5" fill="none"/>',
        *_axis(left, right, "0 s", duration),
        _label(left - 6, _TOP + 4, format_ns(limits.high_ns), "end"),
        _label(left - 6, _BASE, format_ns(limits.low_ns), "end"),
    ]


def _path(x: Floats, y: Floats) -> str:
    points = "L".join(f"{at:.1f} {height:.1f}" for at, height in zip(x, y, strict=True))
    return f"M{points}" if len(x) > 1 else f"M{points}h1"


def _distribution(counts: Floats, edges_ns: Floats) -> list[str]:
    left, right = _RIGHT
    width = (right - left) / len(counts)
    bars = [
        f"M{left + width * (number + 0.5):.2f} {_BASE}V{_y(count, 0, float(counts.max())):.1f}"
        for number, count in enumerate(counts)
        if count
    ]
    return [
        f'<path d="{"".join(bars)}" stroke="{_INK}" stroke-width="{width:.2f}" fill="none"/>',
        *_axis(left, right, format_ns(float(edges_ns[0])), format_ns(float(edges_ns[-1]))),
    ]


def _axis(left: int, right: int, begin: str, end: str) -> list[str]:
    return [
        f'<path d="M{left} {_BASE + 0.5}H{right}" stroke="{_TEXT}"/>',
        _label(left, _BASE + 18, begin),
        _label(right, _BASE + 18, end, "end"),
    ]


def _label(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(words)}</text>'


def _y(value: float, low: float, high: float) -> float:
    """Vertical position of a value, pixels."""
    return _BASE - (_BASE - _TOP) * ((value - low) / (high - low) if high > low else 0.5)
