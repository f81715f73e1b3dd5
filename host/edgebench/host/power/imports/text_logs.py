"""Formats and parsers of logs in which a program prints one line for each sample.

    tegrastats     11-22-2026 09:00:00 RAM 3162/7620MB … VDD_IN 4952mW/4952mW VDD_SOC …
    Tasmota        09:00:00.123 MQT: tele/plug/SENSOR = {"Time":"…","ENERGY":{"Power":17.15,…}}
    Shelly         {"src":…,"method":"NotifyStatus","params":{"ts":1652704957.52,
                   "switch:0":{"apower":8.4}}}
    perf stat      1.000982343,12.74,Joules,power/energy-pkg/,…

Other lines are skipped, because a console also prints other messages.
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
from edgebench.host.result.reasons.energy import parts_above_whole
from edgebench.host.result.reasons.table import text_of
from edgebench.meters.base import SampleBlock
from edgebench.meters.jetson import PARTS_LIMIT_RATIO, parts_of, rails_of_tegrastats, total_of
from edgebench.protocol.errors import FileRefused

BATCH_LINES = 4096
_LINE_CHARACTERS = 1 << 14
_ONE_CHANNEL = "import each channel from its own file"


@dataclass(frozen=True, slots=True)
class InsideRails:
    """Powers of rails whose total was also measured."""

    whole: tuple[str, ...]
    """Names of the rails that add up to the total."""
    parts: tuple[str, ...]
    power_w: float
    """Sum of the powers of the parts."""


@dataclass(frozen=True, slots=True)
class LogSample:
    """Sample from a line."""

    time_ns: int | None
    """Time of the sample; None if the line has no time."""
    value: float
    """Power in W, or energy in J since the previous line."""
    channel: str = ""
    """Name of the measured device, if the line states a name."""
    inside: InsideRails | None = None
    """Rails that are part of a total, if the value is the power of that total. None if no such
    rails are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLog:
    """Log format of a program."""

    name: str
    mark: re.Pattern[str]
    """Pattern of a line that identifies the format."""
    parse: Callable[[str], LogSample | None]
    """Function that parses a line; returns None for an unrelated line, and raises ValueError for an
    invalid line."""
    samples: Samples | None = None
    """What a sample represents; None if the program's documentation does not state it."""
    is_energy: bool = False
    """Whether values are joules since the previous line, instead of watts."""
    may_repeat: bool = False
    """Whether successive lines may share a time, because times are in whole seconds."""


_JETSON_TIME = re.compile(r"\s*(\d\d-\d\d-\d{4} \d\d:\d\d:\d\d(?:\.\d+)?)\s")
_PREFIX_TIME = re.compile(
    r"\s*\[?((?:\d{4}-\d\d-\d\d[T ])?\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\]?\s"
)
_PREFIX_EPOCH = re.compile(r"\s*(\d{10}(?:\.\d+)?)\s")


def _tegrastats(line: str) -> LogSample | None:
    """Power of the module or board, from the rail that supplies it or as a sum of rails."""
    if not (rails_w := rails_of_tegrastats(line)):
        return None
    if not (total := total_of(rails_w)):
        names = ", ".join(rails_w)[:200]
        raise ValueError(f"it is not known which rails add up to the board's power: {names}")
    time = _JETSON_TIME.match(line)
    time_ns = clock_ns(time[1], is_month_first=True) if time else None
    parts = parts_of(rails_w, total)
    inside = InsideRails(total, parts, sum(rails_w[name] for name in parts)) if parts else None
    return LogSample(time_ns, sum(rails_w[name] for name in total), inside=inside)


def _tasmota(line: str) -> LogSample | None:
    """Power of a plug; the console's timestamp is used if possible, as it is the finest."""
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
    # tele/plug/SENSOR (every TelePeriod) and stat/plug/STATUS8 (on request) are the same plug.
    topic = line[: line.find("{")].rstrip(" \t=").rpartition(" ")[2].split("/")[:-1]
    plug = "/".join(part for part in topic if part not in ("tele", "stat"))
    return LogSample(time_ns, power_w, plug)


def _shelly(line: str) -> LogSample | None:
    """Power of a plug or a meter, from its notifications or its status."""
    message = _message(line)
    params = message.get("params") if isinstance(message.get("params"), dict) else message
    assert isinstance(params, dict)
    parts = {"": params} | {
        name: param for name, param in params.items() if isinstance(param, dict)
    }
    for name in ("apower", "act_power"):
        powers = [(key, _number(part.get(name))) for key, part in parts.items()]
        powers_w = {key: power_w for key, power_w in powers if power_w is not None}
        if len(powers_w) > 1:
            first, second = (key[:40] for key in islice(powers_w, 2))
            raise ValueError(f"channel {second!r} in addition to {first!r}: {_ONE_CHANNEL}")
        for component, power_w in powers_w.items():
            seconds = _number(params.get("ts"))
            time_ns = _time_before(line) if seconds is None else _seconds_ns(seconds)
            # A response to Switch.GetStatus identifies its switch only by id.
            named = component if ":" in component else parts[component].get("id", "")
            return LogSample(time_ns, power_w, f"{message.get('src', '')} {named}".strip())
    return None


def _perf(line: str) -> LogSample | None:
    """Energy of the package since the previous line."""
    fields = line.strip().split(";" if ";" in line else ",")
    if len(fields) < 4 or fields[2] != "Joules" or "energy-pkg" not in fields[3]:
        return None
    return LogSample(_seconds_ns(float(fields[0])), float(fields[1]))


def _message(line: str) -> dict[str, Any]:
    """JSON object of a line; empty if the line has none."""
    begin = line.find("{")
    if begin < 0:
        return {}
    try:
        message = json.loads(line[begin:])
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _time_before(line: str) -> int | None:
    """Time in front of a message; None if there is none."""
    if (match := _PREFIX_TIME.match(line)) is not None:
        return clock_ns(match[1])
    if (match := _PREFIX_EPOCH.match(line)) is not None:
        return _seconds_ns(float(match[1]))
    return None


def _number(value: object) -> float | None:
    """A number of a message; None for any other value, infinity if it is too large for a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _seconds_ns(seconds: float) -> int:
    if not abs(seconds) < TIME_LIMIT_NS / 1e9:  # also where they are NaN
        raise ValueError(f"not a time: {seconds:g} s")
    return round(seconds * 1e9)


LOGS = (
    # NVIDIA Jetson Linux Developer Guide, "tegrastats Utility": X/Y is the present power over its
    # mean since the start; JetPack 4 writes neither times nor units.
    TextLog(
        name="tegrastats log",
        mark=re.compile(r"\bRAM \d+/\d+MB.* [A-Z]\w* \d+(?:mW)?/\d+"),
        parse=_tegrastats,
        may_repeat=True,
    ),
    # Tasmota documentation, "Power Monitoring" and "MQTT": tele/…/SENSOR every TelePeriod.
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
    # value since the previous line.
    TextLog(
        name="perf stat log",
        mark=re.compile(r"^\s*[\d.]+[,;][\d.]+[,;]Joules[,;]power/energy-pkg", re.MULTILINE),
        parse=_perf,
        samples=Samples.MEANS,
        is_energy=True,
    ),
)


def log_of(head: bytes) -> TextLog | None:
    """The log format that matches these first bytes; None if no format matches."""
    text = head.decode("utf-8", errors="replace")
    return next((log for log in LOGS if log.mark.search(text)), None)


def log_columns(rate_hz: float | None) -> TableColumns:
    """Columns of a log: time and power; if a rate is given, the time is computed from it."""
    time = TableColumn("time", 0, 1) if rate_hz is None else TableColumn(ROWS, -1, 1e9 / rate_hz)
    return TableColumns(time=time, power=TableColumn("power", 1, 1.0))


def read_log(path: Path, log: TextLog, table: TableDecoder) -> Iterator[SampleBlock]:
    """Yield all samples, a batch at a time.

    Raises:
        FileRefused: the log has neither times nor a given rate, its times do not ascend, or it has
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
    """Values of a batch, by column name."""
    return {
        "power": np.array([sample.value for sample in samples]),
        "time": np.array([sample.time_ns or 0 for sample in samples], np.int64),
    }


def _batches(path: Path, log: TextLog, *, has_times: bool) -> Iterator[list[LogSample]]:
    """Yield the samples of all lines, up to BATCH_LINES at a time.

    Raises:
        FileRefused: a line is invalid, belongs to another channel, or lacks a required time.
            Also if the rails of a total have more power than the total itself.
    """
    batch: list[LogSample] = []
    first: str | None = None
    whole_w = parts_w = 0.0
    inside: InsideRails | None = None
    count = 0
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = iter(lambda: file.readline(_LINE_CHARACTERS), "")
        for number, line in enumerate(lines, 1):
            try:
                sample = log.parse(line)
            except ValueError as exc:
                raise FileRefused(f"line {number}: not a line of a {log.name}: {exc}") from exc
            if sample is None:
                continue
            first = sample.channel if first is None else first
            if sample.channel != first:
                channel = f"channel {sample.channel[:40]!r} in addition to {first[:40]!r}"
                raise FileRefused(f"line {number}: {channel}: {_ONE_CHANNEL}")
            if has_times and sample.time_ns is None:
                raise FileRefused(
                    f"this {log.name} has no times: pass the sample rate, as in --rate 10"
                )
            batch.append(sample)
            if sample.inside is not None:
                inside, count = sample.inside, count + 1
                whole_w, parts_w = whole_w + sample.value, parts_w + inside.power_w
            if len(batch) == BATCH_LINES:
                yield batch
                batch = []
    if batch:
        yield batch
    if inside is not None and parts_w > PARTS_LIMIT_RATIO * whole_w:
        contradiction = parts_above_whole(
            whole=" + ".join(inside.whole),
            whole_w=whole_w / count,
            parts=" + ".join(inside.parts),
            parts_w=parts_w / count,
        )
        raise FileRefused(text_of([contradiction]))


def _past_midnight(batches: Iterator[dict[str, Values]]) -> Iterator[dict[str, Values]]:
    """Continue times of day across midnight; times with a date are unchanged."""
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
    """Convert joules since the previous line to mean powers."""
    last_ns: int | None = None
    for rows in batches:
        time_ns, value_j = rows["time"], rows["power"]
        passed_s = np.diff(time_ns, prepend=last_ns or 0) / 1e9
        power_w = value_j / np.where(passed_s > 0, passed_s, np.nan)
        if last_ns is None:
            # Times count from the program's start: if the log was cut, the interval of its first
            # line is unknown.
            typical_s = float(np.median(passed_s[1:])) if len(passed_s) > 1 else 0.0
            if abs(passed_s[0] - typical_s) > typical_s / 2:
                time_ns, power_w = time_ns[1:], power_w[1:]
        last_ns = int(rows["time"][-1])
        if len(time_ns):
            yield {"time": time_ns, "power": power_w}
