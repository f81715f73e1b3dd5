"""Layouts of power files as people have them, with the same course of power in each.

The course has two levels and a ripple, so that a shifted, cut or misread file has another energy.
`layouts()` returns each file's bytes, its true energy, and the options it needs. Layouts of
instruments are written from memory unless a source is named: their columns, separators and units
are those that the instrument's users post, not copies of a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

import numpy as np
from numpy.typing import NDArray

from edgebench.host.result.facts import ImportOptions

Floats = NDArray[np.float64]
VOLTS = 5.0
COUNT = 1500
STEP_S = 0.02
BEGIN = datetime(2026, 11, 27, 9, 0, 0, tzinfo=timezone.utc)


@dataclass(frozen=True, slots=True)
class FileLayout:
    """A file of one layout."""

    content: bytes
    energy_j: float
    options: ImportOptions = field(default_factory=ImportOptions)
    """Options that the layout needs, because the file does not state something."""
    suffix: str = ".csv"
    is_refused: bool = False
    """Whether the file is refused without options, with a command that works."""
    notes: tuple[str, ...] = ()
    """Ids of notes on the reading that must be made."""


def power_w(time_s: Floats) -> Floats:
    """Power over time: 1 W and 3 W in turn, with a ripple."""
    busy = np.where((time_s % 6.0) < 2.5, 3.0, 1.0)
    rounded: Floats = np.round(busy + 0.2 * np.sin(7.0 * time_s), 4)
    return rounded


TIMES = np.arange(COUNT) * STEP_S
POWERS = power_w(TIMES)
AMPS = np.round(POWERS / VOLTS, 6)
POWERS = AMPS * VOLTS


def energy_of(time_s: Floats, values_w: Floats) -> float:
    """Energy of instants, by the trapezoidal rule."""
    return float(np.dot(np.diff(time_s), (values_w[1:] + values_w[:-1]) / 2))


ENERGY_J = energy_of(TIMES, POWERS)
MEANS_J = float(POWERS.sum() * STEP_S)
"""Energy if each value is the mean of the interval before its time."""


def text(
    rows: Iterable[Sequence[object]], head: str = "", separator: str = ",", end: str = "\n"
) -> str:
    """A table in text."""
    lines = [separator.join(map(str, row)) for row in rows]
    return end.join([*([head] if head else []), *lines]) + end


def point(value: float, digits: int = 6) -> str:
    """A number with a decimal point."""
    return f"{value:.{digits}f}"


def comma(value: float, digits: int = 6) -> str:
    """A number with a decimal comma."""
    return point(value, digits).replace(".", ",")


def clock(at_s: float, form: str = "%Y-%m-%d %H:%M:%S.%f", cut: int = 3) -> str:
    """A clock time, cut to milliseconds unless `cut` says otherwise."""
    written = (BEGIN + timedelta(seconds=float(at_s))).strftime(form)
    return written[:-cut] if cut else written


def pairs(
    first: Callable[[float], str] = point, second: Callable[[float], str] = point
) -> list[tuple[str, str]]:
    """Rows of seconds and watts."""
    return [(first(at), second(p)) for at, p in zip(TIMES, POWERS, strict=True)]


def triples(amps: float = 1.0, volts: float = 1.0) -> list[tuple[str, str, str]]:
    """Rows of seconds, volts and amperes, times a factor."""
    return [
        (point(at), point(VOLTS * volts, 4), point(a * amps))
        for at, a in zip(TIMES, AMPS, strict=True)
    ]


def layouts() -> dict[str, FileLayout]:
    """All layouts, by name."""
    return {**_plain(), **_numbers(), **_irregular(), **_times(), **_instruments(), **_logs()}


def _plain() -> dict[str, FileLayout]:
    simple = text(pairs(), "time_s,power_W")
    european = text(pairs(comma, comma), "Time (s);Power (W)", ";")
    files = {
        "plain": simple.encode(),
        "CRLF": simple.replace("\n", "\r\n").encode(),
        "no line end at the end": simple.rstrip("\n").encode(),
        "UTF-8 with a byte order mark": b"\xef\xbb\xbf" + european.encode(),
        "UTF-16 with tabs": text(pairs(), "time [s]\tpower [W]", "\t").encode("utf-16"),
        "Latin 1": text(
            [(a, b, "21.5") for a, b in pairs()], "t_s,power_W,temperature (\u00b0C)"
        ).encode("latin-1"),
        "tabs": text(pairs(), "t_s\tpower_W", "\t").encode(),
        "semicolons": text(pairs(), "t_s;power_W", ";").encode(),
        "quotes everywhere": text(
            [(f'"{a}"', f'"{b}"') for a, b in pairs()], '"time_s","power_W"'
        ).encode(),
        "header behind #": text(pairs(), "#time_s,power_W").encode(),
        "comments, then a header behind #": text(
            pairs(), "# logger 1.2\n# cal 2025-01-01\n# time_s,power_W"
        ).encode(),
        "preamble": text(
            pairs(), "Model: X100\nSerial,123\nDate,2026-11-27\n\nTime (s),Power (W)"
        ).encode(),
        "row of units": text(pairs(), "time,power\ns,W").encode(),
        "row of units in brackets": text(pairs(), "Time,Power\n(s),(W)").encode(),
        "row of unit words": text(pairs(), "Time;Power\nseconds;watts", ";").encode(),
        "space behind the comma": text(pairs(), "time_s, power_W", ", ").encode(),
        "trailing separators": text([(*row, "") for row in pairs()], "t_s,power_W,").encode(),
        "aligned with blanks": text(
            [(f"{a:>12}", f"{b:>12}") for a, b in pairs()], "    Time (s)   Power (W)", " "
        ).encode(),
        "aligned, units behind single blanks": text(
            [(f"{a:<14}", b) for a, b in pairs()], "Time [s] Power [W]", " "
        ).encode(),
        "JSON lines": "".join(
            json.dumps({"time_s": float(a), "power_W": float(b), "note": None}) + "\n"
            for a, b in pairs()
        ).encode(),
    }
    return {name: FileLayout(content, ENERGY_J) for name, content in files.items()}


def _numbers() -> dict[str, FileLayout]:
    mw = [1000 * p for p in POWERS]

    def table(grouped: Callable[[float], str], separator: str, at: Callable[[float], str]) -> bytes:
        rows = [(at(t), grouped(p)) for t, p in zip(TIMES, mw, strict=True)]
        return text(rows, separator.join(("time_s", "power_mW")), separator).encode()

    swiss = lambda p: f"{p:,.2f}".replace(",", "'")  # noqa: E731 short in a table
    german = lambda p: f"{p:,.2f}".translate(str.maketrans(",.", ".,"))  # noqa: E731
    french = lambda p: f"{p:,.2f}".translate(str.maketrans(",.", "\u202f,"))  # noqa: E731
    return {
        "decimal commas": FileLayout(
            text(pairs(comma, comma), "time_s;power_W", ";").encode(), ENERGY_J
        ),
        "decimal commas in quotes": FileLayout(
            text([(f'"{a}"', f'"{b}"') for a, b in pairs(comma, comma)], "time_s,power_W").encode(),
            ENERGY_J,
            notes=("numbers_written",),
        ),
        "decimal commas with tabs": FileLayout(
            text(pairs(comma, comma), "time_s\tpower_W", "\t").encode(), ENERGY_J
        ),
        "thousands with commas in quotes": FileLayout(
            table(lambda p: f'"{p:,.2f}"', ",", point), ENERGY_J, notes=("numbers_written",)
        ),
        "thousands with points": FileLayout(table(german, ";", comma), ENERGY_J),
        "thousands with apostrophes": FileLayout(table(swiss, ";", point), ENERGY_J),
        "thousands with narrow blanks": FileLayout(table(french, ";", comma), ENERGY_J),
        "exponents": FileLayout(
            text(
                [(f"{t:.6E}", f"{p:.6E}") for t, p in zip(TIMES, POWERS, strict=True)], "t_s,W"
            ).encode(),
            ENERGY_J,
        ),
        "units behind the values": FileLayout(
            text([(a, f"{b} W") for a, b in pairs()], "time_s,power_W").encode(), ENERGY_J
        ),
    }


def _irregular() -> dict[str, FileLayout]:
    rows = text(pairs(), "time_s,power_W").splitlines(keepends=True)

    def with_line(*lines: str, at: int = 700) -> bytes:
        return "".join([*rows[:at], *lines, *rows[at:]]).encode()

    def with_value(value: str) -> bytes:
        changed = list(rows)
        changed[800] = changed[800].partition(",")[0] + f",{value}\n"
        return "".join(changed).encode()

    return {
        "message inside": FileLayout(
            with_line("ERROR: read timeout, retrying\n"), ENERGY_J, notes=("lines_skipped",)
        ),
        "reset message of a microcontroller": FileLayout(
            with_line("ets Jun  8 2016 00:22:57\n", "rst:0x1 (POWERON_RESET)\n"), ENERGY_J
        ),
        "comment inside": FileLayout(
            with_line("# load switched on\n"), ENERGY_J, notes=("comments_skipped",)
        ),
        "trailing comment": FileLayout(
            "".join([*rows[:900], rows[900].strip() + "  # spike?\n", *rows[901:]]).encode(),
            ENERGY_J,
        ),
        "header again": FileLayout(
            with_line("time_s,power_W\n"), ENERGY_J, notes=("header_repeated",)
        ),
        "blank lines": FileLayout(with_line("\n", "\n"), ENERGY_J),
        "truncated last line": FileLayout("".join(rows).encode() + b"30.0", ENERGY_J),
        "NaN": FileLayout(with_value("nan"), ENERGY_J, notes=("values_missing",)),
        "blank value": FileLayout(with_value(""), ENERGY_J, notes=("values_missing",)),
        "text for a value": FileLayout(with_value("err"), ENERGY_J, notes=("values_missing",)),
        "row out of order": FileLayout(
            with_line("3.000000,1.000000\n"), ENERGY_J, notes=("rows_disordered",)
        ),
    }


def _times() -> dict[str, FileLayout]:
    rows = list(zip(TIMES, POWERS, strict=True))
    watts = [point(p) for p in POWERS]

    def counted(begin: int, period: int, per_s: float, unit: str) -> FileLayout:
        counts = [(begin + round(t * per_s)) % period for t in TIMES]
        content = text(zip(counts, watts, strict=True), f"time_{unit},power_W").encode()
        return FileLayout(content, ENERGY_J, notes=("times_unwrapped",))

    # A loop of 7 rows per second, written with whole seconds.
    slow_s = np.arange(2100) / 7.0 + 0.4
    slow_w = power_w(slow_s)
    slow_j = energy_of(slow_s, slow_w)
    whole = [(int(t), point(p)) for t, p in zip(slow_s, slow_w, strict=True)]
    fallen_s = np.concatenate([TIMES[:1000] + 4000.0, TIMES[1000:] + 1600.0])
    set_back = [t if t < 15 else t - 3600 for t in TIMES]
    return {
        "milliseconds": FileLayout(
            text(
                [(f"{1e3 * t:.0f}", point(p)) for t, p in rows], "Timestamp(ms),Power(W)"
            ).encode(),
            ENERGY_J,
        ),
        "millis() wraps": counted(2**32 - 10_000, 2**32, 1e3, "ms"),
        "micros() wraps": counted(2**32 - 9_000_000, 2**32, 1e6, "us"),
        "16 bits of milliseconds wrap": counted(60_000, 2**16, 1e3, "ms"),
        "seconds since 1970, whole": FileLayout(
            text([(1_795_000_000 + at, p) for at, p in whole], "timestamp,power_W").encode(),
            slow_j,
            notes=("times_spread",),
        ),
        "clock in whole seconds": FileLayout(
            text(
                [(clock(at, "%Y-%m-%d %H:%M:%S", 0), p) for at, p in whole], "Time,Power (W)"
            ).encode(),
            slow_j,
            notes=("times_spread",),
        ),
        "time falls back": FileLayout(
            text(
                [(point(t), p) for t, p in zip(fallen_s, watts, strict=True)], "time_s,power_W"
            ).encode(),
            energy_of(TIMES[:1000], POWERS[:1000]),
            notes=("part_used",),
        ),
        "logger restarted, header again": FileLayout(
            (text(pairs()[:400], "time_s,power_W") + text(pairs(), "time_s,power_W")).encode(),
            ENERGY_J,
            notes=("part_used", "header_repeated"),
        ),
        "clock set back by an hour": FileLayout(
            text(
                [(clock(t), p) for t, p in zip(set_back, watts, strict=True)], "time,power_W"
            ).encode(),
            ENERGY_J,
            notes=("clock_set_back",),
        ),
        "ISO 8601 with a zone": FileLayout(
            text(
                [
                    (clock(t, "%Y-%m-%dT%H:%M:%S.%f", 3) + "+01:00", p)
                    for t, p in zip(TIMES, watts, strict=True)
                ],
                "time,power_W",
            ).encode(),
            ENERGY_J,
        ),
        "time of day across midnight": FileLayout(
            text(
                [(clock(t + 53_990, "%H:%M:%S.%f"), p) for t, p in zip(TIMES, watts, strict=True)],
                "time,power_W",
            ).encode(),
            ENERGY_J,
        ),
        "12-hour clock": FileLayout(
            text(
                [
                    (clock(t, "%m/%d/%Y %I:%M:%S.%f") + " AM", p)
                    for t, p in zip(TIMES, watts, strict=True)
                ],
                "Timestamp,Power (W)",
            ).encode(),
            ENERGY_J,
        ),
        "spreadsheet's local format": FileLayout(
            text(
                [(clock(t, "%d.%m.%Y %H:%M:%S,%f"), comma(p)) for t, p in rows],
                "Zeitstempel;Power (W)",
                ";",
            ).encode(),
            ENERGY_J,
        ),
        "sample counter with missing counts": FileLayout(
            text(
                [(n, point(1e3 * a)) for n, a in enumerate(AMPS, 1) if n != 700],
                "Sample,Current (mA)",
            ).encode(),
            ENERGY_J,
            ImportOptions(supply_v=VOLTS, rate_hz=1 / STEP_S),
            is_refused=True,
            notes=("counter_used",),
        ),
        "no times": FileLayout(
            text([(p,) for p in watts], "power_W").encode(),
            ENERGY_J,
            ImportOptions(rate_hz=1 / STEP_S),
            is_refused=True,
        ),
        "no header": FileLayout(
            text(pairs()).encode(),
            ENERGY_J,
            ImportOptions(time="#1:s", power="#2:W"),
            is_refused=True,
        ),
        "no units": FileLayout(
            text(pairs(), "time,power").encode(),
            ENERGY_J,
            ImportOptions(time="time:s", power="power:W"),
            is_refused=True,
        ),
        "names of another language, no units": FileLayout(
            text(pairs(comma, comma), "Zeit;Leistung", ";").encode(),
            ENERGY_J,
            ImportOptions(time="Zeit:s", power="Leistung:W"),
            is_refused=True,
        ),
    }


def _instruments() -> dict[str, FileLayout]:
    rows = list(zip(TIMES, AMPS, POWERS, strict=True))
    charge = np.cumsum(AMPS) * STEP_S
    energy = np.cumsum(POWERS) * STEP_S
    supply = ImportOptions(supply_v=VOLTS)
    return {
        # Columns as in ../shared/cases/12-joulescope-statistics, from pyjoulescope_ui#291.
        "Joulescope UI statistics": FileLayout(
            text(
                [
                    (point(t + STEP_S, 2), point(a), VOLTS, point(p), point(c), point(e))
                    for (t, a, p), c, e in zip(rows, charge, energy, strict=True)
                ],
                "#time,current,voltage,power,charge,energy",
            ).encode(),
            MEANS_J,
        ),
        # NordicSemiconductor/pc-nrfconnect-ppk, CSV export.
        "nRF Connect Power Profiler": FileLayout(
            text(
                [(point(1e3 * t, 3), point(1e6 * a, 3), 0) for t, a, _ in rows],
                "Timestamp(ms),Current(uA),D0",
            ).encode(),
            MEANS_J,
            supply,
            is_refused=True,
        ),
        "Otii": FileLayout(
            text(
                [(point(t), point(a), VOLTS) for t, a, _ in rows],
                "Time (s),Main current - Arc (A),Main voltage - Arc (V)",
            ).encode(),
            ENERGY_J,
        ),
        # Monsoon Solutions, PowerTool manual, "Export".
        "Monsoon PowerTool": FileLayout(
            text(
                [(point(t), point(1e3 * a, 3), VOLTS) for t, a, _ in rows],
                "Time (s),Main Avg Current (mA),Main Avg Voltage (V)",
            ).encode(),
            MEANS_J,
        ),
        # msoon/PyMonsoon, Monsoon/sampleEngine.py.
        "Monsoon Python library": FileLayout(
            text(
                [(point(t), point(1e3 * a, 3), VOLTS, "") for t, a, _ in rows],
                "Time(ms),Main(mA),Main Voltage(V),",
            ).encode(),
            ENERGY_J,
        ),
        "Keysight power analyser": FileLayout(
            text(
                [(n, point(t), VOLTS, point(a)) for n, (t, a, _) in enumerate(rows)],
                "Model,N6705C\nDate,11/27/2026\nSample interval,0.02\n\n"
                "Sample,Time (s),Volt avg 1 (V),Curr avg 1 (A)",
            ).encode(),
            ENERGY_J,
        ),
        "Keithley source meter": FileLayout(
            text(
                [(n, point(t), VOLTS, point(a)) for n, (t, a, _) in enumerate(rows, 1)],
                "Index,Relative Time (s),Voltage (V),Current (A)",
            ).encode(),
            ENERGY_J,
        ),
        "Rigol electronic load": FileLayout(
            text(
                [(point(t), VOLTS, point(a), point(p)) for t, a, p in rows],
                "Time,Voltage,Current,Power\nS,V,A,W".replace("\nS,", "\ns,"),
            ).encode(),
            ENERGY_J,
        ),
        "Siglent power supply": FileLayout(
            text(
                [(clock(t), VOLTS, point(a), point(p)) for t, a, p in rows],
                "Time,CH1 Voltage(V),CH1 Current(A),CH1 Power(W)",
            ).encode(),
            ENERGY_J,
        ),
        "INA219, aligned serial log": FileLayout(
            text(
                [(f"{1e3 * t:>10.0f}", f"{VOLTS:>8.3f}", f"{1e3 * a:>10.3f}") for t, a, _ in rows],
                "time_ms   bus_V   current_mA",
                "",
            ).encode(),
            ENERGY_J,
        ),
        "INA226, serial monitor with times": FileLayout(
            text(
                [(f"{clock(t, '%H:%M:%S.%f')} -> {VOLTS}", point(1e3 * a, 3)) for t, a, _ in rows],
                "09:00:00.000 -> Bus Voltage (V),Current (mA)",
            ).encode(),
            ENERGY_J,
        ),
        "INA219, all columns": FileLayout(
            text(
                [
                    (
                        f"{1e3 * t:.0f}",
                        VOLTS,
                        0.01,
                        point(VOLTS),
                        point(1e3 * a, 3),
                        point(1e3 * p, 3),
                    )
                    for t, a, p in rows
                ],
                "millis,Bus Voltage (V),Shunt Voltage (mV),Load Voltage (V),Current (mA),"
                "Power (mW)",
            ).encode(),
            ENERGY_J,
        ),
        "UM25C app": FileLayout(
            text(
                [(clock(t), VOLTS, point(a), point(p), 25) for t, a, p in rows],
                "Time,Voltage(V),Current(A),Power(W),Temperature(C)",
            ).encode(),
            ENERGY_J,
        ),
        "FNIRSI app": FileLayout(
            text(
                [(point(t), VOLTS, point(a), point(p), 0.6, 0.6) for t, a, p in rows],
                "time(s),voltage(V),current(A),power(W),D+(V),D-(V)",
            ).encode(),
            ENERGY_J,
        ),
        "AVHzY, Shizuku Toolbox": FileLayout(
            text(
                [(point(t), VOLTS, point(a), point(p)) for t, a, p in rows],
                "Elapsed(s)\tVBUS(V)\tIBUS(A)\tPOWER(W)",
                "\t",
            ).encode(),
            ENERGY_J,
        ),
        "Battlab-One": FileLayout(
            text(
                [(n, point(1e3 * a, 5)) for n, (_, a, _) in enumerate(rows, 1)],
                "Sample,Current (mA)",
            ).encode(),
            ENERGY_J,
            ImportOptions(supply_v=VOLTS, rate_hz=1 / STEP_S),
            is_refused=True,
        ),
        # CurrentRanger desktop app, "Workspaces and export".
        "CurrentRanger": FileLayout(
            text(
                [(point(1_795_000_000 + t), point(a), VOLTS) for t, a, _ in rows],
                "timestamp,amps,voltage_v",
            ).encode(),
            ENERGY_J,
        ),
        "Yokogawa WTViewer": FileLayout(
            text(
                [
                    (
                        n,
                        clock(t, "%Y/%m/%d", 0),
                        clock(t, "%H:%M:%S", 0),
                        round(1e3 * t) % 1000,
                        point(p),
                    )
                    for n, (t, _, p) in enumerate(rows, 1)
                ],
                "StoreNo,Date,Time,Millisecond,P-1",
            ).encode(),
            MEANS_J,
        ),
        "multimeter, current only": FileLayout(
            text(
                [(point(t), point(1e3 * a, 4)) for t, a, _ in rows], "Time [s],Current [mA]"
            ).encode(),
            ENERGY_J,
            supply,
            is_refused=True,
        ),
    }


def _logs() -> dict[str, FileLayout]:
    # One sample per second with the power of that second, from programs that log slowly.
    slow_s = np.arange(1, 601, dtype=np.float64)
    slow_w = power_w(slow_s)
    means_j = float(slow_w.sum())
    instants_j = energy_of(slow_s, slow_w)
    head = " Time    User  Nice   Sys  Idle    IO  Run Ctxt/s  IRQ/s  Watts"
    rule = "-------- ----- ----- ----- ----- ----- ---- ------ ------ ------"
    stat = "  0.5   0.0   0.1  99.4   0.0    1    300    200"
    held_j = float(slow_w[:-1].sum())

    def lines(form: Callable[[float, float], str]) -> str:
        return "".join(form(t, p) + "\n" for t, p in zip(slow_s, slow_w, strict=True))

    return {
        # NVIDIA Jetson Linux Developer Guide, "tegrastats Utility".
        "tegrastats": FileLayout(
            lines(
                lambda t, p: (
                    f"{clock(t, '%m-%d-%Y %H:%M:%S', 0)} RAM 3162/7620MB (lfb 2x4MB) "
                    f"CPU [5%@1420] VDD_IN {1e3 * p:.0f}mW/4952mW VDD_SOC 1mW/1mW"
                )
            ).encode(),
            energy_of(slow_s, np.round(slow_w, 3)),
            suffix=".log",
        ),
        # powerstat(8): the power of a row is the mean since the row before it.
        "powerstat": FileLayout(
            (
                "Running for 600.0 seconds (600 samples at 1.0 second intervals).\n\n"
                + head
                + "\n"
                + lines(lambda t, p: f"{clock(t, '%H:%M:%S', 0)} {stat} {p:>7.3f}")
                + f"{rule}\n Average {stat} 2.0\n"
            ).encode(),
            float(np.round(slow_w, 3).sum()),
            suffix=".log",
        ),
        # turbostat(8), with --Summary --show Time_Of_Day_Seconds,PkgWatt; header every few rows.
        "turbostat": FileLayout(
            "".join(
                ("Time_Of_Day_Seconds\tPkgWatt\n" if n % 20 == 0 else "")
                + f"{1_795_000_000 + t:.6f}\t{p:.4f}\n"
                for n, (t, p) in enumerate(zip(slow_s, slow_w, strict=True))
            ).encode(),
            means_j,
            suffix=".log",
            notes=("header_repeated",),
        ),
        # Shelly Gen2+ device API, "Notifications".
        "Shelly": FileLayout(
            lines(
                lambda t, p: json.dumps(
                    {"src": "plug", "params": {"ts": 1_795_000_000 + t, "switch:0": {"apower": p}}}
                )
            ).encode(),
            held_j,
            suffix=".log",
        ),
        # Tasmota documentation, "Power Monitoring" and "MQTT".
        "Tasmota": FileLayout(
            lines(
                lambda t, p: (
                    f"{clock(t, '%H:%M:%S.%f')} MQT: tele/plug/SENSOR = "
                    + json.dumps({"ENERGY": {"Power": p}})
                )
            ).encode(),
            instants_j,
            suffix=".log",
        ),
        # Home Assistant, History panel, "Download data".
        "Home Assistant": FileLayout(
            (
                "entity_id,state,last_changed\n"
                + lines(lambda t, p: f"sensor.plug,{p},{clock(t, '%Y-%m-%dT%H:%M:%S.%f')}Z")
            ).encode(),
            held_j,
        ),
        "Home Assistant, decimal commas in quotes": FileLayout(
            (
                "entity_id,state,last_changed\n"
                + lines(
                    lambda t, p: f'sensor.plug,"{comma(p, 4)}",{clock(t, "%Y-%m-%dT%H:%M:%S.%f")}Z'
                )
            ).encode(),
            held_j,
        ),
        # NVIDIA, nvidia-smi manual.
        "nvidia-smi": FileLayout(
            (
                "timestamp, power.draw [W]\n"
                + lines(lambda t, p: f"{clock(t, '%Y/%m/%d %H:%M:%S.%f')}, {p:.4f} W")
            ).encode(),
            instants_j,
        ),
        # perf-stat(1).
        "perf stat": FileLayout(
            lines(
                lambda t, p: f"{t:.9f},{p:.6f},Joules,power/energy-pkg/,1000000000,100.00,,"
            ).encode(),
            means_j,
            suffix=".log",
        ),
        # Intel Power Gadget, PowerLog.
        "Intel Power Gadget": FileLayout(
            (
                "System Time,Elapsed Time (sec),Processor Power_0(Watt)\n"
                + lines(lambda t, p: f"{clock(t, '%H:%M:%S:%f')},{t:.3f},{p:.6f}")
                + '\n"Total Elapsed Time (sec) = 600"\n"Average Processor Power_0 (Watt) = 2"\n'
            ).encode(),
            means_j,
        ),
        # HWiNFO, "Logging start".
        "HWiNFO": FileLayout(
            (
                "Date,Time,CPU Package Power [W]\n"
                + lines(lambda t, p: f"{clock(t, '%d.%m.%Y', 0)},{clock(t, '%H:%M:%S.%f')},{p:.4f}")
                + "Date,Time,CPU Package Power [W]\n,,CPU [#0]\n"
            ).encode(),
            means_j,
        ),
        # mlcommons/power-dev.
        "PTDaemon": FileLayout(
            lines(
                lambda t, p: (
                    f"Time,{clock(t, '%d-%m-%Y %H:%M:%S.%f')},Watts,{p:.4f},Volts,5.0,"
                    "Amps,0.4,PF,1.0,Mark,x"
                )
            ).encode(),
            means_j,
            suffix=".txt",
        ),
        "Grafana": FileLayout(
            (
                '"Time","Power"\n'
                + lines(lambda t, p: f'"{clock(t, "%Y-%m-%d %H:%M:%S", 0)}","{p:.4f} W"')
            ).encode(),
            instants_j,
        ),
    }
