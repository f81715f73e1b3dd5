"""Files of programs of given readings, in the layouts that edgebench imports.

The layouts are those of tests/unit/host/power/imports/test_formats.py, which states their sources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.result.facts import ImportOptions
from support.lpm01a import encode_ascii, encode_stamp
from support.meter_bytes import (
    AGX_ORIN,
    AGX_ORIN_RAILS,
    AGX_ORIN_SHARES,
    JETSON,
    MICROCONTROLLER,
    PC,
    Source,
    ptdaemon_line,
)
from support.ppk2_files import write_ppk2
from support.spoilt import Readings, Trait, trait_set

ZERO = datetime(2026, 11, 22, 9, 0, 0)
"""Time of a program's clock at the device's zero."""
EPOCH_S = 1_795_000_000.0
"""The same in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Row:
    """A reading as a program writes it down."""

    time_s: float
    passed_s: float
    """Time since the row before, for programs that count energy."""
    power_w: float
    current_a: float
    voltage_v: float
    energy_j: float
    """Energy since the row before."""
    counter_j: float
    """Energy since the begin of the file."""
    is_error: bool
    parts_w: float
    """Power of a rail behind the input."""

    @property
    def clock(self) -> datetime:
        """Time of the computer's clock."""
        return ZERO + timedelta(seconds=self.time_s)


def rows_of(readings: Readings) -> Iterator[Row]:
    """All readings, in the order in which they are written."""
    last_s, last_j = 0.0, 0.0
    for row in readings.rows.tolist():
        time_s, energy_j = float(readings.time_s[row]), float(readings.energy_j[row])
        power_w = float(readings.power_w[row])
        yield Row(
            time_s=time_s,
            passed_s=time_s - last_s,
            power_w=power_w,
            current_a=float(readings.current_a[row]),
            voltage_v=float(readings.voltage_v[row]),
            energy_j=energy_j - last_j,
            counter_j=energy_j,
            is_error=bool(readings.is_error[row]),
            parts_w=power_w * readings.part_ratio,
        )
        last_s, last_j = time_s, energy_j


@dataclass(frozen=True, slots=True, kw_only=True)
class Program(Source):
    """A program and the file that it writes."""

    write: Callable[[Path, Readings], Path]
    """Writes the file into a folder."""
    rate_hz: float = 100.0
    trace_rate_hz: float | None = None
    """Rate that the user states to bench, if the program smears changes; None: its rate."""
    is_averaging: bool = True
    window_s: float = 0.0
    """Shortest timed loop that the analysis accepts, for a program that smears."""
    options: ImportOptions = field(default_factory=ImportOptions)


Line = Callable[[Row], str]


def _lines(
    name: str, head: str, line: Line, encoding: str = "utf-8"
) -> Callable[[Path, Readings], Path]:
    """A text with this head, and a line for each row."""

    def write(folder: Path, readings: Readings) -> Path:
        path = folder / name
        text = head + "".join(f"{line(row)}\n" for row in rows_of(readings))
        path.write_text(text, encoding=encoding)
        return path

    return write


def _or(text: str, error: str, row: Row) -> str:
    return error if row.is_error else text


def _home_assistant(row: Row) -> str:
    stamp = f"{row.clock.replace(tzinfo=timezone.utc):%Y-%m-%dT%H:%M:%S.%f}Z"
    return f"sensor.plug_power,{_or(f'{row.power_w:.3f}', 'unavailable', row)},{stamp}"


def _tegrastats(row: Row) -> str:
    total, part = round(1e3 * row.power_w), round(1e3 * row.parts_w)
    return (
        f"{row.clock:%m-%d-%Y %H:%M:%S} RAM 3162/7620MB (lfb 8x4MB) CPU [1%@1510] "
        f"VDD_IN {total}mW/4952mW VDD_CPU_GPU_CV {part}mW/600mW VDD_SOC {part}mW/600mW"
    )


def _agx_orin(row: Row) -> str:
    rails = " ".join(
        f"{name} {round(1e3 * share * row.power_w)}mW/7200mW"
        for name, share in zip(AGX_ORIN_RAILS, AGX_ORIN_SHARES, strict=True)
    )
    return f"{row.clock:%m-%d-%Y %H:%M:%S} RAM 5210/62780MB (lfb 9x4MB) {rails} NC 0mW/0mW"


def _tasmota(row: Row) -> str:
    power = "null" if row.is_error else f"{row.power_w:.1f}"
    return (
        f"{row.clock:%H:%M:%S}.{row.clock.microsecond // 1000:03d} MQT: tele/plug/SENSOR = "
        f'{{"Time":"{row.clock:%Y-%m-%dT%H:%M:%S}","ENERGY":{{"Total":1.5,"Power":{power},'
        f'"Voltage":230,"Current":{row.current_a:.3f}}}}}'
    )


def _shelly(row: Row) -> str:
    power = None if row.is_error else round(row.power_w, 1)
    status = {"id": 0, "apower": power, "voltage": row.voltage_v, "current": row.current_a}
    params = {"ts": round(EPOCH_S + row.time_s, 2), "switch:0": status}
    return json.dumps({"src": "shellyplusplugs-a", "method": "NotifyStatus", "params": params})


def _spl(row: Row) -> str:
    return ptdaemon_line(
        row.clock, row.power_w, row.voltage_v, row.current_a, is_error=row.is_error
    )


def _yokogawa(row: Row) -> str:
    clock = row.clock
    power = _or(f"{row.power_w:.4f}", "", row)
    return (
        f"{round(100 * row.time_s)},{clock:%Y/%m/%d},{clock:%H:%M:%S},{clock.microsecond // 1000},"
        f"{row.voltage_v:.2f},{row.current_a:.4f},{power}"
    )


def _hwinfo(row: Row) -> str:
    clock = row.clock
    return f"{clock:%d.%m.%Y},{clock:%H:%M:%S}.{clock.microsecond // 1000:03},40,{row.power_w:.3f},"


def _nvidia(row: Row) -> str:
    clock = row.clock
    stamp = f"{clock:%Y/%m/%d %H:%M:%S}.{clock.microsecond // 1000:03}"
    return f"{stamp}, {_or(f'{row.power_w:.2f} W', '[N/A]', row)}"


def _power_gadget(row: Row) -> str:
    return f"09:00:00:101,1,{row.time_s:.3f},2.0,1800,{row.power_w:.3f},{row.counter_j:.3f}"


def _fnirsi(row: Row) -> str:
    electrical = f"{row.voltage_v:.5f} {row.current_a:.5f} 1 1 30 {row.counter_j:.5f} 0"
    return f"{EPOCH_S + row.time_s:.3f} 0 {electrical}"


def _powershield(folder: Path, readings: Readings) -> Path:
    """A log of the serial port: energies of a millisecond, with a stamp each second."""
    path = folder / "powershield.log"
    pieces = [b"PowerShield > ack output energy\r\nPowerShield > ack freq 1k\r\n"]
    for row in readings.rows.tolist():
        if row % 1000 == 0:
            pieces.append(encode_stamp(row, 7, is_ascii=True))
        pieces.append(encode_ascii(max(0.0, float(readings.power_w[row])) / 1000))
    path.write_bytes(b"".join(pieces))
    return path


def _ppk2(folder: Path, readings: Readings) -> Path:
    """A recording of Nordic's program, at a thousand samples a second."""
    path = folder / "recording.ppk2"
    write_ppk2(path, 1e6 * readings.current_a[readings.rows], rate=1000)
    return path


def _parquet(folder: Path, readings: Readings) -> Path:
    path = folder / "trace.parquet"
    rows = readings.rows
    power_w = np.where(readings.is_error, np.nan, readings.power_w)[rows]
    pq.write_table(pa.table({"t_s": readings.time_s[rows], "power_W": power_w}), path)
    return path


MEANS = ImportOptions(is_averaging=True)
_POWER = trait_set(Trait.POWER, Trait.NOISE, Trait.UNIT, Trait.ERROR, Trait.ROWS, Trait.SIGN)
_CURRENT = trait_set(Trait.CURRENT, Trait.NOISE, Trait.UNIT, Trait.ERROR, Trait.ROWS, Trait.SIGN)
_CLEAN = trait_set(Trait.POWER, Trait.NOISE, Trait.ROWS, Trait.SIGN)
_ANALYSER = _CLEAN | {Trait.REDUNDANT, Trait.ERROR}
_PLUG = _POWER - {Trait.NOISE}

PROGRAMS: tuple[Program, ...] = (
    Program(
        name="CSV, power",
        write=_lines(
            "power.csv",
            "time_s,power_mW\n",
            lambda row: f"{row.time_s:.4f},{_or(f'{1e3 * row.power_w:.3f}', 'nan', row)}",
        ),
        traits=_POWER,
        options=MEANS,
    ),
    Program(
        name="CSV, current and voltage",
        write=_lines(
            "current.csv",
            "time_ms;current_A;voltage_V\n",
            lambda row: (
                f"{1e3 * row.time_s:.1f};{_or(f'{row.current_a:.5f}', '9.9E+37', row)};"
                f"{row.voltage_v:.4f}"
            ).replace(".", ","),
        ),
        traits=_CURRENT,
        options=MEANS,
    ),
    Program(
        name="CSV, power with current and voltage",
        write=_lines(
            "all.csv",
            "t_s,U_V,I_A,P_W\n",
            lambda row: (
                f"{row.time_s:.4f},{row.voltage_v:.4f},{row.current_a:.5f},"
                f"{_or(f'{row.power_w:.5f}', '', row)}"
            ),
        ),
        traits=_POWER | _CURRENT | {Trait.REDUNDANT},
        options=ImportOptions(is_averaging=True, time="t_s", power="P_W"),
    ),
    Program(
        name="CSV, current at a stated voltage",
        write=_lines(
            "ampere.csv",
            "time_s,current_uA\n",
            lambda row: f"{row.time_s:.4f},{_or(f'{1e6 * row.current_a:.1f}', '9.9E+37', row)}",
        ),
        traits=_CURRENT - {Trait.CURRENT} | {Trait.POWER, Trait.TINY},
        load=MICROCONTROLLER,
        supply_v=3.3,
        full_a=1.0,
        options=ImportOptions(is_averaging=True, supply_v=3.3),
    ),
    Program(name="Parquet", write=_parquet, traits=_POWER, options=MEANS),
    Program(
        name=".ppk2",
        write=_ppk2,
        traits=trait_set(Trait.POWER, Trait.NOISE, Trait.ROWS),
        rate_hz=1000.0,
        full_a=1.0,
        options=ImportOptions(supply_v=5.0),
    ),
    Program(
        name="nRF Connect CSV",
        write=_lines(
            "nrf.csv",
            "Timestamp(ms),Current(uA)\n",
            lambda row: f"{1e3 * row.time_s:.3f},{1e6 * row.current_a:.3f}",
        ),
        traits=_CLEAN | {Trait.UNIT},
        full_a=1.0,
        options=ImportOptions(supply_v=5.0),
    ),
    Program(
        name="Monsoon PowerTool CSV",
        write=_lines(
            "powertool.csv",
            "Time (s),Main Avg Power (mW)\n",
            lambda row: f"{row.time_s:.4f},{1e3 * row.power_w:.3f}",
        ),
        traits=_CLEAN | {Trait.UNIT},
        supply_v=4.2,
    ),
    Program(
        name="Monsoon PowerTool CSV, current",
        write=_lines(
            "powertool.csv",
            "Time (s),Main Avg Current (mA),Main Avg Voltage (V)\n",
            lambda row: f"{row.time_s:.4f},{1e3 * row.current_a:.4f},{row.voltage_v:.4f}",
        ),
        traits=_CURRENT - {Trait.ERROR},
        supply_v=4.2,
    ),
    Program(
        name="Home Assistant history",
        write=_lines("history.csv", "entity_id,state,last_changed\n", _home_assistant),
        traits=_POWER,
        rate_hz=2.0,
        supply_v=230.0,
    ),
    Program(
        name="nvidia-smi",
        write=_lines("smi.csv", "timestamp, power.draw [W]\n", _nvidia),
        traits=_POWER - {Trait.UNIT},
        load=PC,
        rate_hz=10.0,
        options=MEANS,
    ),
    Program(
        name="tegrastats",
        write=_lines("tegrastats.log", "", _tegrastats),
        traits=_CLEAN | {Trait.RAILS},
        load=JETSON,
        rate_hz=10.0,
        options=MEANS,
    ),
    Program(
        name="tegrastats of an AGX Orin",
        write=_lines("tegrastats.log", "", _agx_orin),
        traits=_CLEAN,
        load=AGX_ORIN,
        rate_hz=10.0,
        options=MEANS,
    ),
    Program(
        name="Tasmota log",
        write=_lines("tasmota.log", "", _tasmota),
        traits=_PLUG,
        rate_hz=1.0,
        supply_v=230.0,
        options=MEANS,
    ),
    Program(
        name="Shelly log",
        write=_lines("shelly.log", "", _shelly),
        traits=_PLUG,
        rate_hz=1.0,
        supply_v=230.0,
    ),
    Program(
        name="PTDaemon log",
        write=_lines("spl.txt", "", _spl),
        traits=_ANALYSER,
        rate_hz=5.0,
        supply_v=230.0,
    ),
    Program(
        name="Yokogawa WTViewer CSV",
        write=_lines("store.csv", "StoreNo,Date,Time,Millisecond,Urms-1,Irms-1,P-1\n", _yokogawa),
        traits=_ANALYSER,
        rate_hz=10.0,
        supply_v=230.0,
    ),
    Program(
        name="Intel Power Gadget",
        write=_lines(
            "gadget.csv",
            "System Time,RDTSC,Elapsed Time (sec),CPU Utilization(%),CPU Frequency_0(MHz),"
            "Processor Power_0(Watt),Cumulative Processor Energy_0(Joules)\n",
            _power_gadget,
        ),
        traits=_CLEAN,
        load=PC,
        rate_hz=10.0,
    ),
    Program(
        name="HWiNFO",
        write=_lines(
            "hwinfo.csv",
            'Date,Time,"CPU Package [°C]","CPU Package Power [W]",\n',
            _hwinfo,
            "latin-1",
        ),
        traits=_CLEAN,
        load=PC,
        rate_hz=2.0,
    ),
    Program(
        name="perf stat",
        write=_lines(
            "perf.csv",
            "",
            lambda row: f"{row.time_s:.9f},{row.energy_j:.4f},Joules,power/energy-pkg/,1,100.00,,",
        ),
        traits=trait_set(Trait.COUNTER, Trait.ROWS),
        load=PC,
        rate_hz=10.0,
    ),
    Program(
        name="FNIRSI logger",
        write=_lines(
            "fnirsi.txt",
            "timestamp sample_in_packet voltage_V current_A dp_V dn_V temp_C_ema energy_Ws "
            "capacity_As\n",
            _fnirsi,
        ),
        traits=_CURRENT - {Trait.UNIT, Trait.ERROR},
        trace_rate_hz=4.0,
        window_s=20.0,
        full_a=7.0,
    ),
    Program(
        name="CurrentRanger CSV",
        write=_lines(
            "ranger.csv",
            "timestamp,amps,voltage_v\n",
            lambda row: f"{EPOCH_S + row.time_s:.4f},{row.current_a:.6f},{row.voltage_v:.3f}",
        ),
        traits=_CURRENT - {Trait.UNIT, Trait.ERROR},
        options=MEANS,
    ),
    Program(
        name="PowerShield log",
        write=_powershield,
        traits=trait_set(Trait.POWER, Trait.NOISE, Trait.ROWS),
        load=MICROCONTROLLER,
        rate_hz=1000.0,
        supply_v=3.3,
        full_a=0.05,
    ),
)
