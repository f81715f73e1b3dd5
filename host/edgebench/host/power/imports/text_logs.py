"""Logs of programs that print a line for each sample: what their lines look like, and how to read.

    tegrastats     11-22-2026 09:00:00 RAM 3162/7620MB … VDD_IN 4952mW/4952mW VDD_SOC …
    Tasmota        09:00:00.123 MQT: tele/plug/SENSOR = {"Time":"…","ENERGY":{"Power":17.15,…}}
    Shelly         {"src":…,"method":"NotifyStatus","params":{"ts":1652704957.52,
                   "switch:0":{"apower":8.4}}}
    perf stat      1.000982343,12.74,Joules,power/energy-pkg/,…

Lines of anything else are passed over: a console prints more than power.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.host.power.imports.blocks import TableDecoder, Values, spread_ns
from edgebench.host.power.imports.clock_times import clock_ns
from edgebench.host.power.imports.columns import ROWS, TableColumn, TableColumns
from edgebench.host.power.imports.known_tables import Samples
from edgebench.meters.base import SampleBlock
from edgebench.protocol.errors import FileRefused

BATCH_LINES = 4096
_LINE_CHARACTERS = 1 << 14
Parsed = tuple[int | None, float]
"""Time in nanoseconds, None where the line has none, and watts, or joules since the last line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLog:
    """Log of one program."""

    name: str
    mark: re.Pattern[str]
    """Line by which it is recognised."""
    parse: Callable[[str], Parsed | None]
    """One line; None for a line of anything else."""
    samples: Samples | None = None
    """None: its documentation does not say."""
    is_energy: bool = False
    """Values are joules since the line before, not watts."""
    may_repeat: bool = False
    """Successive lines may have one time, of whole seconds."""


_JETSON_TOTAL = re.compile(r"\b(?:VDD_IN|POM_5V_IN|VIN_SYS_5V0|VIN) (\d+)(?:mW)?/\d+")
_JETSON_TIME = re.compile(r"\s*(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d(?:\.\d+)?)\s")
_PREFIX_TIME = re.compile(
    r"\s*\[?((?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?\s"
)
_PREFIX_EPOCH = re.compile(r"\s*(\d{10}(?:\.\d+)?)\s")


def _tegrastats(line: str) -> Parsed | None:
    """Power of the whole board: the rail that feeds all others."""
    if (total := _JETSON_TOTAL.search(line)) is None:
        return None
    time = _JETSON_TIME.match(line)
    return clock_ns(time[1], is_month_first=True) if time else None, int(total[1]) / 1e3


def _tasmota(line: str) -> Parsed | None:
    """Power of a plug; the console's own time is finer than the one in the message."""
    message = _message(line)
    energy = message.get("ENERGY") or message.get("StatusSNS", {}).get("ENERGY")
    if not isinstance(energy, dict) or not isinstance(energy.get("Power"), (int, float)):
        return None
    inner = message.get("Time") or message.get("StatusSNS", {}).get("Time")
    return _time_before(line) or (clock_ns(inner) if inner else None), float(energy["Power"])


def _shelly(line: str) -> Parsed | None:
    """Power of a plug or a meter, by its notifications or by its status."""
    message = _message(line)
    params = message.get("params") if isinstance(message.get("params"), dict) else message
    assert isinstance(params, dict)
    parts = [params, *(part for part in params.values() if isinstance(part, dict))]
    for name in ("apower", "act_power"):
        powers = [part[name] for part in parts if isinstance(part.get(name), (int, float))]
        if len(powers) == 1:
            stamp = params.get("ts")
            at_ns = round(stamp * 1e9) if isinstance(stamp, (int, float)) else _time_before(line)
            return at_ns, float(powers[0])
    return None


def _perf(line: str) -> Parsed | None:
    """Energy of the package since the line before."""
    fields = line.strip().split(";" if ";" in line else ",")
    if len(fields) < 4 or fields[2] != "Joules" or "energy-pkg" not in fields[3]:
        return None
    return round(float(fields[0]) * 1e9), float(fields[1])


def _message(line: str) -> dict[str, Any]:
    """JSON object of a line; empty where there is none."""
    begin = line.find("{")
    if begin < 0:
        return {}
    try:
        message = json.loads(line[begin:])
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _time_before(line: str) -> int | None:
    """Time that somebody wrote in front of a message."""
    if (match := _PREFIX_TIME.match(line)) is not None:
        return clock_ns(match[1])
    if (match := _PREFIX_EPOCH.match(line)) is not None:
        return round(float(match[1]) * 1e9)
    return None


LOGS = (
    # NVIDIA Jetson Linux Developer Guide, "tegrastats Utility": X/Y is the present power over its
    # mean since the start; JetPack 4 writes neither times nor units.
    TextLog(
        name="tegrastats log",
        mark=re.compile(r"\bRAM \d+/\d+MB.*" + _JETSON_TOTAL.pattern),
        parse=_tegrastats,
        may_repeat=True,
    ),
    # Tasmota documentation, "Power Monitoring" and "MQTT": tele/…/SENSOR each TelePeriod.
    TextLog(
        name="Tasmota log",
        mark=re.compile(r'"ENERGY":\s*\{.*"Power":'),
        parse=_tasmota,
        may_repeat=True,
    ),
    # Shelly Gen2+ device API, "Notifications" (NotifyStatus: what changed, with its time `ts`) and
    # "Switch" (apower: last measured active power, W).
    TextLog(
        name="Shelly log",
        mark=re.compile(r'"(?:apower|act_power)":'),
        parse=_shelly,
        samples=Samples.HELD,
    ),
    # perf-stat(1), -I with -x and "CSV FORMAT": time stamp, value, unit, event; the counter's
    # value since the line before.
    TextLog(
        name="perf stat log",
        mark=re.compile(r"^\s*[\d.]+[,;][\d.]+[,;]Joules[,;]power/energy-pkg", re.MULTILINE),
        parse=_perf,
        samples=Samples.MEANS,
        is_energy=True,
    ),
)


def log_of(head: bytes) -> TextLog | None:
    """The program that wrote a file with these first bytes."""
    text = head.decode("utf-8", errors="replace")
    return next((one for one in LOGS if one.mark.search(text)), None)


def log_columns(rate_hz: float | None) -> TableColumns:
    """Columns of a log: its time, its power, and what is missing."""
    time = TableColumn("time", 0, 1) if rate_hz is None else TableColumn(ROWS, -1, 1e9 / rate_hz)
    return TableColumns(time=time, power=TableColumn("power", 1, 1.0))


def read_log(path: Path, log: TextLog, table: TableDecoder) -> Iterator[SampleBlock]:
    """All samples, a batch of lines at a time.

    Raises:
        FileRefused: it has no times and nobody gave a rate, or a time does not ascend.
    """
    times, values = _parsed(path, log)
    has_times = all(time is not None for time in times)
    is_by_rate = table.columns.time.name == ROWS
    if not has_times and not is_by_rate:
        raise FileRefused(f"this {log.name} has no times: say its rate, as in --rate 10")
    time_ns = np.array([time or 0 for time in times], np.int64)
    if has_times and log.may_repeat and len(time_ns):
        time_ns = spread_ns(_past_midnight(time_ns))
    power_w = np.array(values)
    if log.is_energy:
        passed_s = np.diff(time_ns, prepend=0) / 1e9
        power_w = power_w / np.where(passed_s > 0, passed_s, np.nan)
    for first in range(0, len(power_w), BATCH_LINES):
        rows = slice(first, first + BATCH_LINES)
        block: dict[str, Values] = {"power": power_w[rows]}
        if not is_by_rate:
            block["time"] = time_ns[rows]
        yield table.block(block)


def _parsed(path: Path, log: TextLog) -> tuple[list[int | None], list[float]]:
    """Times and values of all lines that have some."""
    times: list[int | None] = []
    values: list[float] = []
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = iter(lambda: file.readline(_LINE_CHARACTERS), "")
        number = 0
        while batch := list(islice(lines, BATCH_LINES)):
            for line in batch:
                number += 1
                try:
                    found = log.parse(line)
                except ValueError as exc:
                    raise FileRefused(f"line {number}: no line of a {log.name}: {exc}") from exc
                if found is not None:
                    times.append(found[0])
                    values.append(found[1])
    return times, values


def _past_midnight(time_ns: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    """Times of day that go on after midnight; times with a date are left alone."""
    day_ns = 86_400_000_000_000
    if time_ns.max(initial=0) >= day_ns:
        return time_ns
    is_midnight = np.diff(time_ns, prepend=time_ns[0]) < -day_ns // 2
    return time_ns + day_ns * np.cumsum(is_midnight)
