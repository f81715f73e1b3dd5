"""Files of any size: they are read piece by piece, whatever their lines look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgebench.host.power.imports import blocks, text_logs
from edgebench.host.power.imports.blocks import TableDecoder, Values, spread_rows
from edgebench.host.power.imports.importer import import_file
from edgebench.host.power.imports.known_tables import Samples
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import FileRefused

PTDAEMON = "Time,28-12-2020 15:21:14.682,Watts,22.95,Volts,228.57,Amps,0.20643,PF,0.4864,Mark,x\n"


def rows_of(time_ns: list[int], size: int, taken: list[int]) -> Iterator[dict[str, Values]]:
    """Rows with their numbers, in batches; records how many were taken."""
    for first in range(0, len(time_ns), size):
        taken.append(first)
        part = time_ns[first : first + size]
        number = np.arange(first, first + len(part))
        yield {"time": np.array(part, np.int64), "number": number}


@pytest.mark.parametrize("size", [1, 2, 5, 7, 100])
def test_rows_of_one_time_are_spread_whatever_the_batches_are(size: int) -> None:
    """Otherwise a packet whose rows are in two pieces of the file would be spread twice."""
    time_ns = [1000 * (row // 5) for row in range(33)]
    time_ns[8] -= 900  # a stamp that steps back
    batches = list(spread_rows(rows_of(time_ns, size, []), "time"))
    times = np.concatenate([rows["time"] for rows in batches])
    assert times.tolist() == [200 * row for row in range(33)]
    assert np.concatenate([rows["number"] for rows in batches]).tolist() == list(range(33))


def test_only_rows_of_one_time_are_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a file of two gigabytes would take 16 of memory."""
    taken: list[int] = []
    spread = spread_rows(rows_of([1000 * (row // 5) for row in range(1000)], 10, taken), "time")
    next(spread)
    assert len(taken) == 2
    monkeypatch.setattr(blocks, "MAX_ROWS_OF_ONE_TIME", 50)
    with pytest.raises(FileRefused, match="more than 50 samples have the same time: export finer"):
        list(spread_rows(rows_of([0] * 1000, 10, taken), "time"))


@pytest.mark.parametrize("program", ["tegrastats", "Shelly", "perf"])
def test_log_is_read_as_it_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    """Otherwise a log of a year would be in memory before its first sample is written."""
    lines = {
        "tegrastats": "11-22-2026 09:{0:02d}:{1:02d} RAM 1/2MB VDD_IN 4952mW/4952mW",
        "Shelly": '{{"params":{{"ts":{2},"switch:0":{{"apower":5}}}}}}',
        "perf": "{2},12,Joules,power/energy-pkg/,1,1,,",
    }[program]
    path = tmp_path / "a.log"
    path.write_text("".join(lines.format(i // 60, i % 60, i + 1) + "\n" for i in range(1000)))
    log = text_logs.log_of(path.read_bytes()[:4096])
    assert log is not None
    parsed: list[str] = []

    def parse(line: str) -> text_logs.LogSample | None:
        parsed.append(line)
        return log.parse(line)

    monkeypatch.setattr(text_logs, "BATCH_LINES", 20)
    decoder = TableDecoder(text_logs.log_columns(None), None, str, samples=Samples.INSTANTS)
    samples = text_logs.read_log(path, replace(log, parse=parse), decoder)
    count = len(next(samples).time_ns)
    assert len(parsed) <= 40
    assert count + sum(len(block.time_ns) for block in samples) == 1000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1," * 500_000, "a header of more than 1000 columns"),
        ("t_s,power_W\n0,1\n1,1\n" + "x" * 200_000, "line 4 is longer than 65536 characters"),
        (PTDAEMON + "Time," * 2000, "line 2 is longer than 4096 characters"),
    ],
    ids=["header", "row", "PTDaemon"],
)
def test_line_that_does_not_end_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    """Otherwise a file without line ends would be read whole.

    Or its million columns would be compared for minutes.
    """
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(FileRefused, match=reason):
        import_file(path, tmp_path / "session", ImportOptions(is_averaging=True))
