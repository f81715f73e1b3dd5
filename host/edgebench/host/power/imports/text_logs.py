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
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.host.power.imports.blocks import TableDecoder, Values, spread_rows
from edgebench.host.power.imports.clock_times import TIME_LIMIT_NS, clock_ns
from edgebench.host.power.imports.columns import ROWS, TableColumn, TableColumns
from edgebench.host.power.imports.known_tables import Samples
from edgebench.meters.base import SampleBlock
from edgebench.protocol.errors import FileRefused

BATCH_LINES = 4096
_LINE_CHARACTERS = 1 << 14
_ONE_CHANNEL = "import each as a file of its own"


@dataclass(frozen=True, slots=True)
class LogSample:
    """Sample of one line."""

    time_ns: int | None
    """None where the line has none."""
    value: float
    """Watts, or joules since the line before."""
    channel: str = ""
    """Name of what was measured, as far as the line says it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLog:
    """Log of one program."""

    name: str
    mark: re.Pattern[str]
    """Line by which it is recognised."""
    parse: Callable[[str], LogSample | None]
    """One line; None for a line of anything else, ValueError for one that is wrong."""
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


def _tegrastats(line: str) -> LogSample | None:
    """Power of the whole board: the rail that feeds all others."""
    if (total := _JETSON_TOTAL.search(line)) is None:
        return None
    time = _JETSON_TIME.match(line)
    time_ns = clock_ns(time[1], is_month_first=True) if time else None
    return LogSample(time_ns, float(total[1]) / 1e3)


def _tasmota(line: str) -> LogSample | None:
    """Power of a plug; the console's own time is finer than the one in the message."""
    message = _message(line)
    if isinstance(status := message.get("StatusSNS"), dict):
        message = status
    energy = message.get("ENERGY")
    power_w = _number(energy.get("Power")) if isinstance(energy, dict) else None
    if power_w is None:
        return None
    time_ns, inner = _time_before(line), message.get("Time")
    if time_ns is None and isinstance(inner, str):
        time_ns = clock_ns(inner)
    # tele/plug/SENSOR, each TelePeriod, and stat/plug/STATUS8, when asked, are of one plug.
    topic = line[: line.find("{")].rstrip(" \t=").rpartition(" ")[2].split("/")[:-1]
    plug = "/".join(part for part in topic if part not in ("tele", "stat"))
    return LogSample(time_ns, power_w, plug)


def _shelly(line: str) -> LogSample | None:
    """Power of a plug or a meter, by its notifications or by its status."""
    message = _message(line)
    params = message.get("params") if isinstance(message.get("params"), dict) else message
    assert isinstance(params, dict)
    parts = {"": params} | {name: one for name, one in params.items() if isinstance(one, dict)}
    for name in ("apower", "act_power"):
        powers = [(key, _number(part.get(name))) for key, part in parts.items()]
        powers_w = {key: power_w for key, power_w in powers if power_w is not None}
        if len(powers_w) > 1:
            first, second = (key[:40] for key in islice(powers_w, 2))
            raise ValueError(f"channel {second!r} beside {first!r}: {_ONE_CHANNEL}")
        for component, power_w in powers_w.items():
            seconds = _number(params.get("ts"))
            time_ns = _time_before(line) if seconds is None else _seconds_ns(seconds)
            # An answer to Switch.GetStatus names its switch by its id only.
            named = component if ":" in component else parts[component].get("id", "")
            return LogSample(time_ns, power_w, f"{message.get('src', '')} {named}".strip())
    return None


def _perf(line: str) -> LogSample | None:
    """Energy of the package since the line before."""
    fields = line.strip().split(";" if ";" in line else ",")
    if len(fields) < 4 or fields[2] != "Joules" or "energy-pkg" not in fields[3]:
        return None
    return LogSample(_seconds_ns(float(fields[0])), float(fields[1]))


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
    """Time that was written in front of a message."""
    if (match := _PREFIX_TIME.match(line)) is not None:
        return clock_ns(match[1])
    if (match := _PREFIX_EPOCH.match(line)) is not None:
        return _seconds_ns(float(match[1]))
    return None


def _number(value: object) -> float | None:
    """A number of a message; None for anything else, infinite where no float is as great."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _seconds_ns(seconds: float) -> int:
    if not abs(seconds) < TIME_LIMIT_NS / 1e9:  # also where they are NaN
        raise ValueError(f"no time: {seconds:g} s")
    return round(seconds * 1e9)


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
    """All samples, a batch at a time.

    Raises:
        FileRefused: it has no times and nobody gave a rate, a time does not ascend, or it has
            several channels.
    """
    is_by_rate = table.columns.time.name == ROWS
    batches: Iterator[dict[str, Values]] = map(
        _columns, _batches(path, log, has_times=not is_by_rate)
    )
    if not is_by_rate and log.may_repeat:
        batches = spread_rows(_past_midnight(batches), "time")
    if log.is_energy:
        batches = _mean_powers(batches)
    for rows in batches:
        yield table.block(rows)


def _columns(samples: list[LogSample]) -> dict[str, Values]:
    """Values of a batch by the name of their column."""
    return {
        "power": np.array([one.value for one in samples]),
        "time": np.array([one.time_ns or 0 for one in samples], np.int64),
    }


def _batches(path: Path, log: TextLog, *, has_times: bool) -> Iterator[list[LogSample]]:
    """Samples of all lines that have one, some thousands at a time.

    Raises:
        FileRefused: a line is wrong, of another channel, or without a time where it needs one.
    """
    batch: list[LogSample] = []
    first: str | None = None
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = iter(lambda: file.readline(_LINE_CHARACTERS), "")
        for number, line in enumerate(lines, 1):
            try:
                sample = log.parse(line)
            except ValueError as exc:
                raise FileRefused(f"line {number}: no line of a {log.name}: {exc}") from exc
            if sample is None:
                continue
            first = sample.channel if first is None else first
            if sample.channel != first:
                channel = f"channel {sample.channel[:40]!r} beside {first[:40]!r}"
                raise FileRefused(f"line {number}: {channel}: {_ONE_CHANNEL}")
            if has_times and sample.time_ns is None:
                raise FileRefused(f"this {log.name} has no times: say its rate, as in --rate 10")
            batch.append(sample)
            if len(batch) == BATCH_LINES:
                yield batch
                batch = []
    if batch:
        yield batch


def _past_midnight(batches: Iterator[dict[str, Values]]) -> Iterator[dict[str, Values]]:
    """Times of day that go on after midnight; times with a date are left alone."""
    day_ns = 86_400_000_000_000
    last_ns: int | None = None
    days = 0
    for rows in batches:
        time_ns = rows["time"]
        if time_ns.max() < day_ns:
            before_ns = time_ns[0] if last_ns is None else last_ns
            day = days + np.cumsum(np.diff(time_ns, prepend=before_ns) < -day_ns // 2)
            last_ns, days = int(time_ns[-1]), int(day[-1])
            later_ns: Values = time_ns + day_ns * day
            rows = {**rows, "time": later_ns}
        yield rows


def _mean_powers(batches: Iterator[dict[str, Values]]) -> Iterator[dict[str, Values]]:
    """Powers, of joules since the line before."""
    last_ns: int | None = None
    for rows in batches:
        time_ns, value_j = rows["time"], rows["power"]
        passed_s = np.diff(time_ns, prepend=last_ns or 0) / 1e9
        power_w = value_j / np.where(passed_s > 0, passed_s, np.nan)
        if last_ns is None:
            # Times count from the program's start: where the log was cut, nothing tells the
            # interval of its first line.
            typical_s = float(np.median(passed_s[1:])) if len(passed_s) > 1 else 0.0
            if abs(passed_s[0] - typical_s) > typical_s / 2:
                time_ns, power_w = time_ns[1:], power_w[1:]
        last_ns = int(rows["time"][-1])
        if len(time_ns):
            yield {"time": time_ns, "power": power_w}
