"""Logs of SPEC PTDaemon, such as spl.txt of MLPerf Power.

Each line of a log is a sample and lists names and values.

    Time,28-12-2020 15:21:14.682,Watts,22.95,Volts,228.57,Amps,0.20643,PF,0.4864,Mark,x_testing

Times are wall-clock times of the daemon's machine, without a zone; only their differences are used.
A sample counts as missing if the analyser supplied no value, as defined in meters/ptdaemon.py.

Source: mlcommons/power-dev, ptd_client_server: the daemon's reply to RL, and its checks; SPEC,
PTDaemon documentation: a sample is the analyser's average over the interval, as in
meters/ptdaemon.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

import numpy as np

from edgebench.host.power.imports.blocks import TableDecoder, Values
from edgebench.host.power.imports.clock_times import TIME_LIMIT_NS
from edgebench.host.power.imports.columns import TableColumn, TableColumns
from edgebench.meters.base import Flag, SampleBlock
from edgebench.meters.ptdaemon import power_of
from edgebench.protocol.errors import FileRefused

FIRST_LINE = re.compile(rb"\s*Time,\d\d-\d\d-\d{4} \d\d:\d\d:\d\d")
COLUMNS = TableColumns(
    time=TableColumn("Time", 0, 1),
    power=TableColumn("Watts", 1, 1.0),
    flags=TableColumn("flags", 2, 1.0),
)
"""Columns of a log. The analyser's own power is used, because volts times amperes would ignore the
power factor."""
_EPOCH = datetime(1970, 1, 1)
_BATCH_LINES = 4096
_LINE_CHARACTERS = 1 << 12


def read_rows(path: Path, table: TableDecoder) -> Iterator[SampleBlock]:
    """Yield all samples, a batch of lines at a time.

    Raises:
        FileRefused: a line is not a PTDaemon sample, or the times do not ascend.
    """
    with path.open(encoding="ascii", errors="replace") as file:
        lines = iter(lambda: file.readline(_LINE_CHARACTERS), "")
        written = ((number, line) for number, line in enumerate(lines, 1) if line.strip())
        while batch := list(islice(written, _BATCH_LINES)):
            parsed = [_parse(line, number) for number, line in batch]
            power_w = np.array([power_w for _, power_w in parsed])
            values: dict[str, Values] = {
                "Time": np.array([time_ns for time_ns, _ in parsed], np.int64),
                "Watts": np.nan_to_num(power_w),
                "flags": np.where(np.isnan(power_w), int(Flag.MISSING), 0).astype(np.int64),
            }
            yield table.block(values)


def _parse(line: str, number: int) -> tuple[int, float]:
    """Time in nanoseconds and power in W; the power is NaN if the analyser supplied no value."""
    if not line.endswith("\n"):  # a truncated number is a wrong number
        if len(line) == _LINE_CHARACTERS:
            raise FileRefused(f"line {number} is longer than {_LINE_CHARACTERS} characters")
        raise FileRefused(f"line {number}: the log was cut off in this line")
    fields = line.strip().split(",")
    names, texts = fields[0::2], fields[1::2]
    try:
        if names[0] != "Time" or len(names) != len(texts) or names.count("Watts") != 1:
            raise ValueError("names and values are not in pairs")
        values = dict(zip(names, texts, strict=True))
        time = datetime.strptime(values["Time"], "%d-%m-%Y %H:%M:%S.%f")
        time_ns = (time - _EPOCH) // timedelta(microseconds=1) * 1000
        if abs(time_ns) >= TIME_LIMIT_NS:
            raise ValueError(f"not a time: {values['Time']!r}")
        power_w = power_of(values)
        if not math.isfinite(float(values["Watts"])):
            raise ValueError(f"not a number: {values['Watts']!r}")
    except ValueError as exc:
        raise FileRefused(f"line {number}: not a PTDaemon sample: {exc}") from exc
    return time_ns, power_w
