"""Pictures in the terminal: true to the run, on one axis, and of the stated width."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console, RenderableType

from edgebench.host.analysis.run_set import find_set
from edgebench.host.result.document import from_document
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.host.series.envelope import Points
from edgebench.host.series.run_series import (
    LatencySeries,
    RunSeries,
    Span,
    SpanKind,
    read_series,
)
from edgebench.host.show.pictures import (
    BLOCKS,
    LEAST_WIDTH,
    PLAIN,
    marks_line,
    overlaid_picture,
    run_picture,
    sparkline,
)
from edgebench.host.store.layout import QUERIES_FILE
from edgebench.protocol.errors import StoreError

STORED = Path(__file__).parents[3] / "fixtures" / "runs" / "v7"
PLAIN_RUN, METERED_RUN = "20261123-031046-26335d6d", "20261123-031057-10023550"


def stored(name: str) -> Run:
    """A stored run."""
    return from_document(json.loads((STORED / name / "run.json").read_text()))


def printed(what: list[RenderableType], width: int = 100) -> list[str]:
    """The lines on a terminal of this width."""
    out = Console(file=StringIO(), width=width, color_system=None)
    for one in what:
        out.print(one)
    assert isinstance(out.file, StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def lines_of(
    series: RunSeries, run: Run, width: int = 100, *, has_unicode: bool = True
) -> dict[str, str]:
    """The lines of a picture, by their names."""
    found = printed([*run_picture(series, run, width, has_unicode=has_unicode)], width)
    assert all(len(line) <= width for line in found)
    return {line[:12].strip(): line for line in found}


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("has_unicode", [True, False])
def test_stored_run_has_its_latencies_and_its_power(width: int, has_unicode: bool) -> None:
    """Otherwise a line would be missing or too wide, or a serial console show question marks."""
    run = stored(METERED_RUN)
    lines = lines_of(read_series(STORED / METERED_RUN, run), run, width, has_unicode=has_unicode)
    assert {"distribution", "latency p50", "time"} <= lines.keys()
    shown = "".join(lines.values())
    assert bool(set(shown) & set(BLOCKS)) == has_unicode
    assert re.search(r"\d \S?s( \.\. .* \S?s)?$", lines["latency p50"])


def test_invalid_run_shows_no_number_of_its_own() -> None:
    """Otherwise an untrustworthy latency could be read from its picture."""
    run = stored(PLAIN_RUN)
    invalid = replace(run, verdict=replace(run.verdict, state=State.INVALID))
    lines = lines_of(made_series(), invalid)
    assert lines.keys() == {"temperature", "clock", "throttled", "time"}


def made_series() -> RunSeries:
    """A run of 10 s that becomes twice as slow half-way, when the clock falls."""
    start_s = np.arange(0.0, 10.0, 0.01)
    is_slow = start_s >= 5
    sensor_s = np.arange(0.0, 10.0, 0.5)
    return RunSeries(
        latency=LatencySeries(start_s, np.where(is_slow, 2e6, 1e6), 10),
        sensors={
            "thermal.cpu.temp_c": Points(sensor_s, np.linspace(40.0, 80.0, 20)),
            "thermal.gpu.temp_c": Points(sensor_s, np.full(20, 30.0)),
            "cpufreq.policy0.freq_hz": Points(sensor_s, np.where(sensor_s < 5, 2e9, 1e9)),
        },
        spans=(
            Span(SpanKind.PHASE, "measuring", 0.0, 10.0),
            Span(SpanKind.PHASE, "cooling", -600.0, 0.0),
            Span(SpanKind.THROTTLED, "thermal", 5.0, 10.0),
        ),
    )


def test_everything_has_one_axis() -> None:
    """Otherwise the fall of the clock and the rise of the latency would be in different places."""
    lines = lines_of(made_series(), stored(PLAIN_RUN), 120)
    columns = 120 - 48
    begin = lines["time"].index("0 s")
    drawn = {name: line[begin : begin + columns] for name, line in lines.items()}
    half = columns // 2
    assert drawn["latency p50"] == "▁" * half + "█" * half
    assert drawn["clock"] == "█" * half + "▁" * half
    assert drawn["throttled"] == " " * half + "█" * half
    assert drawn["time"].split() == ["0", "s", "10", "s"]
    assert drawn["temperature"][0] == "▁"
    assert drawn["temperature"][-1] == "█"
    assert "1.00 ms .. 2.00 ms" in lines["latency p50"]
    assert "1.00 GHz .. 2.00 GHz, policy0" in lines["clock"]
    assert "40.0 °C .. 80.0 °C, cpu" in lines["temperature"], "the hottest one"


def test_gap_is_no_value() -> None:
    """Otherwise a sensor that stopped would seem to have continued."""
    sensor_s = np.concatenate([np.arange(0.0, 2.0, 0.1), np.arange(8.0, 10.0, 0.1)])
    series = replace(
        made_series(), sensors={"x.temp_c": Points(sensor_s, np.full(sensor_s.size, 50.0))}
    )
    lines = lines_of(series, stored(PLAIN_RUN))
    begin = lines["time"].index("0 s")
    drawn = lines["temperature"][begin : begin + 52]
    assert re.fullmatch(r"▁{10,13} {28,32}▁{10,12}", drawn), drawn


def test_narrow_terminal_has_a_picture_of_the_least_width() -> None:
    """Otherwise the command would end in a traceback on 40 columns."""
    found = run_picture(made_series(), stored(PLAIN_RUN), 40, has_unicode=True)
    assert LEAST_WIDTH <= 40
    assert printed([*found], 40)


def test_missing_trace_is_reported_in_one_line(tmp_path: Path) -> None:
    """Otherwise a run whose traces are gone could no longer be shown."""
    copied = tmp_path / PLAIN_RUN
    shutil.copytree(STORED / PLAIN_RUN, copied)
    (copied / QUERIES_FILE).write_bytes(b"no parquet")
    with pytest.raises(StoreError, match=r"queries\.parquet"):
        read_series(copied, stored(PLAIN_RUN))


def test_marks_do_not_touch() -> None:
    """Otherwise two adjacent names would read as one."""
    assert marks_line([("p50", 3), ("p90", 5), ("p99", 9)], 30) == "   ^p50  ^p99"
    assert marks_line([("p50", 28)], 30) == " " * 25 + "p50^"


def test_constant_and_empty_values_have_a_line() -> None:
    """Otherwise a division by zero would end the command."""
    assert sparkline(np.full(3, 7.0)) == "▁▁▁"
    assert sparkline(np.full(3, np.nan)) == "   "
    assert sparkline(np.array([0.0, 1.0]), PLAIN) == "_#"


def test_distributions_of_several_sets_have_one_axis() -> None:
    """Otherwise the distribution of the faster model could be drawn to the right of the slower."""
    base = stored(PLAIN_RUN)
    start_s = np.arange(0.0, 1.0, 0.001)
    draw = np.random.default_rng(1)
    fast, slow = (
        (
            find_set([replace(base, model=replace(base.model, name=name))]),
            [RunSeries(latency=LatencySeries(start_s, draw.normal(level_ns, 1e4, 1000), 0))],
        )
        for name, level_ns in (("fast", 1e6), ("slow", 1.3e6))
    )
    first, second, axis = printed([*overlaid_picture([fast, slow], 100, has_unicode=True)])
    begin = first.index("distribution") + len("distribution") + 2
    drawn = [line[begin : begin + 52].rstrip() for line in (first, second)]
    assert len(drawn[0]) < len(drawn[1]) - len(drawn[1].lstrip()) + 1
    assert re.search(r"fast, p50 \d", first)
    assert len(re.findall(r"\d (?:µs|ms)", axis)) == 2
    assert overlaid_picture([fast], 100, has_unicode=True) == []
