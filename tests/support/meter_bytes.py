"""What the instruments of edgebench's drivers send of given readings, as their sessions record it.

Headers are those of the real drivers on the emulators of meters.py; the readings are encoded as the
emulators encode them, on a clock that needs no waiting. An hour of a plug takes a moment.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import cast

import msgpack
import numpy as np

from edgebench.meters.base import AbsentMeter, Header, Meter, Packet
from edgebench.meters.joulescope.blocks import CURRENT, POWER, VOLTAGE, pack
from edgebench.meters.joulescope.device import Joulescope, JoulescopeSetup
from edgebench.meters.monsoon.device import Monsoon, MonsoonSetup
from edgebench.meters.monsoon.device import connect as connect_monsoon
from edgebench.meters.monsoon.packets import record_of as record_of_transfer
from edgebench.meters.rail_decoder import RAILS
from edgebench.meters.rails import TOTAL
from edgebench.meters.registry import find_meter
from support import meters
from support.fnirsi import report_of
from support.joulescope import FIRST_TICK, TICK_HZ, FakeDriver
from support.km003c import queue, reading
from support.lpm01a import Lpm01aEmulator, encode_binary, encode_stamp
from support.monsoon import Faults as MonsoonFaults
from support.monsoon import MonsoonEmulator
from support.otii import OtiiEmulator
from support.powercap import Counter
from support.ppk2 import Ppk2Emulator, words_for
from support.rounds import make_folder
from support.scpi import OVERLOAD, Server, Supply, block, steady_supply
from support.spoilt import Floats, Readings, Trait, trait_set
from support.um25c import record_of
from support.usb_bus import UsbBus

NS_PER_S = 1e9
ARRIVAL_S = 2e-3
"""Delay of what a meter with its own clock sends."""
AGX_ORIN_RAILS = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
AGX_ORIN_SHARES = (0.5, 0.2, 0.3)
"""Made-up shares of the board's power."""
Bytes = list[bytes | None]
_LPM01A_ACK = b"\r\nPowerShield > ack start\r\n\r\n"
_CHUNK_S = 0.02
"""Length of what a meter sends at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A device, as far as its power is concerned."""

    profile: str
    idle_w: float
    work_w: float


BOARD = Load(profile="raspberrypi-4b", idle_w=0.5, work_w=2.0)
JETSON = Load(profile="jetson-orin-nano-devkit", idle_w=2.5, work_w=6.0)
AGX_ORIN = Load(profile="generic-arm64", idle_w=8.0, work_w=30.0)
NANO = Load(profile="jetson-nano", idle_w=0.5, work_w=2.0)
PI5 = Load(profile="raspberrypi-5", idle_w=2.0, work_w=6.0)
PHONE = Load(profile="google-pixel-8", idle_w=0.5, work_w=2.0)
PC = Load(profile="generic-x86_64", idle_w=5.0, work_w=15.0)
GPU = Load(profile="generic-x86_64", idle_w=30.0, work_w=150.0)
MICROCONTROLLER = Load(profile="nucleo-l4r5zi", idle_w=0.01, work_w=0.06)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of power samples: the instrument of a driver, or a program that writes a file."""

    name: str
    traits: frozenset[Trait]
    load: Load = BOARD
    supply_v: float = 5.0
    full_a: float = 5.0
    """Current at the end of its range, if a driver declares none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument(Source):
    """A driver's instrument, and how it sends readings."""

    open: Callable[[Path], AbstractContextManager[Meter]]
    packets: Callable[[Header, Readings], Iterator[Packet]]
    has_own_clock: bool = False
    first_rail_ratio: float = 1.0
    """Share of the current that the first of its rails has."""
    counter_range_j: float = 262_143.328850
    """Energy at which its counter wraps by its own statement."""

    def header(self) -> Header:
        """Header of the driver."""
        return _header(self.name)

    @property
    def full_w(self) -> float:
        """Power at the end of its range."""
        limits_a = [limit.limit_a for limit in self.header().capability.current_limits]
        full_a = max(limits_a) / self.first_rail_ratio if limits_a else self.full_a
        return full_a * self.supply_v


@cache
def _header(name: str) -> Header:
    [instrument] = [known for known in INSTRUMENTS if known.name == name]
    with tempfile.TemporaryDirectory() as folder, instrument.open(Path(folder)) as meter:
        header = meter.open()
        assert not isinstance(header, AbsentMeter), header.reason
        meter.close()
    return header


def _bench(name: str) -> Callable[[Path], AbstractContextManager[Meter]]:
    @contextmanager
    def opened(root: Path) -> Iterator[Meter]:
        with meters.BENCHES[name](root, lambda: None) as (meter, _):
            yield meter

    return opened


def _of(make: Callable[[Path], Iterator[Meter]]) -> Callable[[Path], AbstractContextManager[Meter]]:
    return contextmanager(make)


def _rapl(root: Path) -> Iterator[Meter]:
    Counter(root)
    yield find_meter(f"rapl:{root}")


def _monitor(chip: str, files: dict[str, object]) -> Callable[[Path], Iterator[Meter]]:
    """A power monitor of the kernel on the input of a Jetson's module."""

    def make(root: Path) -> Iterator[Meter]:
        shown = {"name": chip, "label": "VDD_IN", "shunt_resistor": 5000}
        make_folder(root / "sys/class/hwmon/hwmon1", shown | files)
        yield find_meter(f"hwmon:{root}")

    return make


def _agx_orin(root: Path) -> Iterator[Meter]:
    """The monitor of an AGX Orin, which has no input: its rails add up to the board."""
    files: dict[str, object] = {"name": "ina3221"}
    for place, name in enumerate(AGX_ORIN_RAILS, 1):
        files |= {f"in{place}_label": name, f"curr{place}_input": 500, f"in{place}_input": 5000}
    make_folder(root / "sys/class/hwmon/hwmon1", files)
    yield find_meter(f"hwmon:{root}")


def _lpm01a(root: Path) -> Iterator[Meter]:
    with Lpm01aEmulator() as emulator:
        yield find_meter(f"lpm01a:{emulator.path},supply=3.3,rate=1k")


def _ppk2(root: Path) -> Iterator[Meter]:
    with Ppk2Emulator() as emulator:
        yield find_meter(f"ppk2:{emulator.path},supply=5")


def _joulescope(root: Path) -> Iterator[Meter]:
    driver = FakeDriver()
    yield Joulescope(lambda: driver, JoulescopeSetup(rate_hz=20_000))


def _monsoon(root: Path) -> Iterator[Meter]:
    bus = UsbBus(MonsoonEmulator())
    yield Monsoon(lambda: connect_monsoon(backend=bus), MonsoonSetup(is_averaging=True))


def _otii(root: Path) -> Iterator[Meter]:
    with OtiiEmulator(rate_hz=20_000) as server:
        yield find_meter(f"otii:{server.address}")


def _query(root: Path) -> Iterator[Meter]:
    with Server(steady_supply(b"1.5")) as server:
        yield find_meter(f"scpi:{server.address},query=MEAS:POW?,rate=20,gain=1%,offset=0.005")


def _current_query(root: Path) -> Iterator[Meter]:
    options = "query=MEAS?,answer=voltage+current,mean=0.1,gain=1%,offset=0.005"
    with Server(Supply({"MEAS?": lambda place: b"5.0;0.3"})) as server:
        yield find_meter(f"scpi:{server.address},{options}")


def _polled(
    contents: Callable[[Header, Readings], Sequence[Bytes]],
) -> Callable[[Header, Readings], Iterator[Packet]]:
    """Packets of a meter that is polled: a round for each row."""

    def packets(header: Header, readings: Readings) -> Iterator[Packet]:
        times_ns = np.rint(readings.time_s * NS_PER_S).astype(np.int64).tolist()
        rounds = contents(header, readings)
        last_ns = 0
        for row in readings.rows.tolist():
            # The second of two equal rows was read a moment later.
            time_ns = last_ns = max(times_ns[row], last_ns + 1_000_000)
            data = cast(bytes, msgpack.packb([(time_ns, content) for content in rounds[row]]))
            yield Packet(time_ns, time_ns, data)

    return packets


def _texts(values: Floats, is_error: Sequence[bool], error: bytes | None) -> list[bytes | None]:
    return [
        error if wrong else b"%d\n" % round(value)
        for value, wrong in zip(values.tolist(), is_error, strict=True)
    ]


def _counter(
    scale: float, error: bytes | None, offset_j: float = 1000.0
) -> Callable[[Header, Readings], Sequence[Bytes]]:
    """Rounds of one counter, whose step is 1 / scale joules."""

    def rounds(header: Header, readings: Readings) -> Sequence[Bytes]:
        counts = np.floor((readings.energy_j + offset_j) * scale)
        return [[text] for text in _texts(counts, readings.is_error.tolist(), error)]

    return rounds


def _rails(header: Header, readings: Readings) -> Sequence[Bytes]:
    """Rounds of rails: an input has all of the power, and those behind it a share each."""
    columns: list[list[bytes | None]] = []
    is_error = readings.is_error.tolist()
    total: list[str] = header.facts[TOTAL]
    plans = zip(header.capability.channels, header.facts[RAILS], strict=True)
    for place, (channel, plan) in enumerate(plans):
        share = readings.part_ratio if channel.name not in total else 1.0
        if len(total) > 1:
            share = AGX_ORIN_SHARES[place]
        quantities = {
            "energy": (1000.0 + readings.energy_j * share, readings.current_a * share),
            # The power register of the chips has no sign.
            "power": (np.abs(readings.power_w) * share, readings.current_a * share),
            "product": (readings.current_a * share, readings.voltage_v),
        }[plan["kind"]]
        columns += [
            _texts(values / scale, is_error, None)
            for values, scale in zip(quantities, plan["scales"], strict=False)
        ]
    return list(map(list, zip(*columns, strict=True)))


def _rpi5(header: Header, readings: Readings) -> Sequence[Bytes]:
    names = [channel.name for channel in header.capability.channels]
    rounds: list[Bytes] = []
    rows = zip(readings.current_a, readings.voltage_v, readings.is_error, strict=True)
    for current_a, voltage_v, is_error in rows:
        lines = "".join(
            f"{name}_A current({place})={current_a / len(names):.8f}A\n"
            f"{name}_V volt({place})={voltage_v:.8f}V\n"
            for place, name in enumerate(names)
        )
        rounds.append([None if is_error else lines.encode()])
    return rounds


def _battery(header: Header, readings: Readings) -> Sequence[Bytes]:
    rows = zip(readings.current_a, readings.voltage_v, readings.is_error, strict=True)
    return [
        [
            b"%d\n" % (-(2**31) if is_error else round(-1e6 * current_a)),
            b"%d\n" % round(1e6 * voltage_v),
            b"Discharging\n",
        ]
        for current_a, voltage_v, is_error in rows
    ]


def _plug(
    document: Callable[[float, float, float], object], error: bytes | None
) -> Callable[[Header, Readings], Sequence[Bytes]]:
    def rounds(header: Header, readings: Readings) -> Sequence[Bytes]:
        columns = (readings.power_w, readings.current_a, readings.voltage_v)
        rows = zip(
            *(column.tolist() for column in columns), readings.is_error.tolist(), strict=True
        )
        return [[error if wrong else json.dumps(document(*row)).encode()] for *row, wrong in rows]

    return rounds


def _shelly(power_w: float, current_a: float, voltage_v: float) -> object:
    return {
        "id": 0,
        "output": True,
        "apower": round(power_w, 1),
        "voltage": round(voltage_v, 1),
        "current": round(current_a, 3),
    }


def _tasmota(power_w: float, current_a: float, voltage_v: float) -> object:
    values = {"Power": round(power_w, 1), "Voltage": round(voltage_v), "Current": current_a}
    return {"StatusSNS": {"Time": "2026-01-01T00:00:00", "ENERGY": values}}


def _kasa(power_w: float, current_a: float, voltage_v: float) -> object:
    values = {
        "power_mw": round(1e3 * power_w),
        "voltage_mv": round(1e3 * voltage_v),
        "current_ma": round(1e3 * current_a),
        "err_code": 0,
    }
    return {"emeter": {"get_realtime": values}}


def _um25c(header: Header, readings: Readings) -> Sequence[Bytes]:
    rows = zip(readings.voltage_v.tolist(), readings.current_a.tolist(), strict=True)
    wrong = readings.is_error.tolist()
    limits = (65.535, 6.5535)
    return [
        [b"" if wrong[place] else record_of("UM25C", min(volt, limits[0]), _up_to(ampere, limits))]
        for place, (volt, ampere) in enumerate(rows)
    ]


def _up_to(ampere: float, limits: tuple[float, float]) -> float:
    """A tester without a sign shows the size of a current."""
    return min(abs(ampere), limits[1])


def _km003c(header: Header, readings: Readings) -> Sequence[Bytes]:
    rows = zip(readings.voltage_v.tolist(), readings.current_a.tolist(), strict=True)
    wrong = readings.is_error.tolist()
    return [
        [None if wrong[place] else reading(place % 256, volt, _in_micro(ampere))]
        for place, (volt, ampere) in enumerate(rows)
    ]


def _in_micro(ampere: float) -> float:
    return max(-2000.0, min(2000.0, ampere))


def ptdaemon_line(
    taken: datetime, power_w: float, volt: float, ampere: float, *, is_error: bool
) -> str:
    """Sample of a PTDaemon, at a power factor of 0.6; -2 stands for a value that is missing."""
    values = (-2.0,) * 4 if is_error else (power_w, volt, ampere / 0.6, 0.6)
    stamp = f"{taken:%d-%m-%Y %H:%M:%S}.{taken.microsecond // 1000:03}"
    return "Time,{},Watts,{:f},Volts,{:f},Amps,{:f},PF,{:f},Mark,x".format(stamp, *values)


def _ptdaemon(header: Header, readings: Readings) -> Sequence[Bytes]:
    """A response for each sample; the daemon's clock has another zero."""
    zero = datetime(2026, 11, 22)
    columns = (readings.time_s, readings.power_w, readings.voltage_v, readings.current_a)
    rows = zip(*(column.tolist() for column in columns), readings.is_error.tolist(), strict=True)
    return [
        [ptdaemon_line(zero + timedelta(seconds=time_s), *values, is_error=bool(is_error)).encode()]
        for time_s, *values, is_error in rows
    ]


def _watt_meter(header: Header, readings: Readings) -> Sequence[Bytes]:
    columns = (readings.voltage_v, readings.current_a, readings.power_w)
    rows = zip(*(column.tolist() for column in columns), readings.is_error.tolist(), strict=True)
    return [
        [b"NAN,NAN,NAN" if wrong else ",".join(f"{value:.4E}" for value in row).encode()]
        for *row, wrong in rows
    ]


def _numbers(
    *names: str, error: bytes = b"9.91E+37"
) -> Callable[[Header, Readings], Sequence[Bytes]]:
    """Rounds of these quantities as an instrument prints them, in six digits."""

    def rounds(header: Header, readings: Readings) -> Sequence[Bytes]:
        columns = [getattr(readings, name).tolist() for name in names]
        rows = zip(*columns, strict=True)
        return [
            [error if wrong else ";".join(f"{value:+.6E}" for value in row).encode()]
            for row, wrong in zip(rows, readings.is_error.tolist(), strict=True)
        ]

    return rounds


def _stream(
    encode: Callable[[Header, Readings, slice], bytes], before: bytes = b""
) -> Callable[[Header, Readings], Iterator[Packet]]:
    """Packets of a meter that sends samples on its own, some milliseconds' worth at a time."""

    def packets(header: Header, readings: Readings) -> Iterator[Packet]:
        chunk = max(4, round(_CHUNK_S * header.capability.rate_hz) // 4 * 4)
        chance = np.random.default_rng(len(readings.rows))
        for first in range(0, len(readings.rows), chunk):
            part = slice(first, first + chunk)
            last_s = float(readings.time_s[readings.rows[part][-1]])
            came_ns = round((last_s + ARRIVAL_S + chance.exponential(2e-4)) * NS_PER_S)
            data = encode(header, readings, part)
            yield Packet(came_ns - 500_000, came_ns, before + data if first == 0 else data)

    return packets


def _ppk2_words(header: Header, readings: Readings, part: slice) -> bytes:
    rows = readings.rows[part]
    current_a = readings.current_a[rows]
    words = words_for(np.clip(current_a, 0.0, None), np.zeros(len(rows), np.uint8), supply_v=5.0)
    counters = (rows % 64).astype(np.uint32) << 18
    return ((words & ~np.uint32(63 << 18)) | counters).astype("<u4").tobytes()


def _lpm01a_words(header: Header, readings: Readings, part: slice) -> bytes:
    rate_hz = round(header.capability.rate_hz)
    pieces = []
    for row in readings.rows[part].tolist():
        if row % rate_hz == 0:
            pieces.append(encode_stamp(row // rate_hz * 1000, 7, is_ascii=False))
        pieces.append(encode_binary(max(0.0, float(readings.power_w[row])) / rate_hz))
    return b"".join(pieces)


def _joulescope_blocks(header: Header, readings: Readings, part: slice) -> bytes:
    rows = readings.rows[part]
    step = round(TICK_HZ / header.capability.rate_hz)
    data = b""
    # What comes twice comes in blocks, too.
    is_again = np.diff(rows, prepend=-1) == 0
    passes = [some for some in (rows[~is_again], rows[is_again]) if len(some)]
    runs = [
        run for some in passes for run in np.split(some, np.flatnonzero(np.diff(some) != 1) + 1)
    ]
    for run in runs:
        power_w = np.where(readings.is_error, np.nan, readings.power_w)[run]
        for topic, values in (
            (CURRENT, readings.current_a[run]),
            (VOLTAGE, readings.voltage_v[run]),
            (POWER, power_w),
        ):
            first = FIRST_TICK + int(run[0]) * step
            data += pack(
                topic,
                {
                    "sample_id": first,
                    "utc": 0,
                    "sample_rate": TICK_HZ,
                    "decimate_factor": step,
                    "time_map": {},
                    "data": values.astype(np.float32),
                },
            )
    return data


def _otii_lines(header: Header, readings: Readings, part: slice) -> bytes:
    rows = readings.rows[part]
    values = [
        None if wrong else value
        for value, wrong in zip(
            readings.current_a[rows].tolist(), readings.is_error[rows].tolist(), strict=True
        )
    ]
    message = {"type": "response", "data": {"data_type": "analog", "values": values}}
    return json.dumps(message).encode() + b"\n"


def _fnirsi_reports(header: Header, readings: Readings, part: slice) -> bytes:
    rows = readings.rows[part]
    pairs = list(zip(readings.voltage_v[rows], readings.current_a[rows], strict=True))
    limited = [(float(volt), float(np.clip(ampere, -7.0, 7.0))) for volt, ampere in pairs]
    limited = [(min(volt, 120.0), ampere) for volt, ampere in limited]
    return b"".join(report_of(limited[at : at + 4]) for at in range(0, len(limited) // 4 * 4, 4))


def _km003c_queue(header: Header, readings: Readings, part: slice) -> bytes:
    return queue(
        0,
        [
            (row, float(readings.voltage_v[row]), float(readings.current_a[row]))
            for row in readings.rows[part].tolist()
        ],
    )


def _elog(header: Header, readings: Readings, part: slice) -> bytes:
    rows = readings.rows[part]
    current_a = np.where(readings.is_error[rows], OVERLOAD, readings.current_a[rows])
    return block(np.stack([current_a, readings.voltage_v[rows]], axis=1).astype(">f4").tobytes())


def _memory(header: Header, readings: Readings, part: slice) -> bytes:
    rows = readings.rows[part]
    current_a = np.where(readings.is_error[rows], OVERLOAD, readings.current_a[rows])
    return block(",".join(f"{value:+.8E}" for value in current_a.tolist()).encode())


def _monsoon_packets(header: Header, readings: Readings) -> Iterator[Packet]:
    """Packets of three observations, with those of zero and reference in between."""
    lost = np.setdiff1d(np.arange(len(readings.time_s)), readings.rows)
    dropped = tuple(np.unique(lost // 3).tolist())

    def waveform(time_s: Floats) -> tuple[Floats, Floats]:
        row = np.minimum(np.rint(time_s * header.capability.rate_hz), len(readings.time_s) - 1)
        place = row.astype(np.int64)
        return readings.voltage_v[place].clip(0, 16.0), readings.current_a[place]

    emulator = MonsoonEmulator(
        waveform=waveform, faults=MonsoonFaults(dropped=dropped, first_dropped=0)
    )
    for first in range(0, len(readings.time_s) - 300, 300):
        came_ns = round((float(readings.time_s[first + 299]) + ARRIVAL_S) * NS_PER_S)
        data = b"".join(record_of_transfer(transfer) for transfer in emulator.packets(100))
        yield Packet(came_ns - 500_000, came_ns, data)


_CHIP = trait_set(Trait.CURRENT, Trait.NOISE, Trait.ERROR, Trait.ROWS, Trait.SIGN)
_STREAM = trait_set(Trait.CURRENT, Trait.NOISE, Trait.ROWS)
_ANALYSER = trait_set(
    Trait.POWER, Trait.NOISE, Trait.REDUNDANT, Trait.ERROR, Trait.ROWS, Trait.SIGN
)
_PLUG = trait_set(Trait.POWER, Trait.REDUNDANT, Trait.UNIT, Trait.ERROR, Trait.ROWS)

INSTRUMENTS: tuple[Instrument, ...] = (
    Instrument(
        name="rapl",
        load=PC,
        traits=trait_set(Trait.COUNTER, Trait.UNIT, Trait.ERROR, Trait.ROWS),
        open=_of(_rapl),
        packets=_polled(_counter(1e6, None)),
    ),
    Instrument(
        name="nvml",
        load=GPU,
        traits=trait_set(Trait.COUNTER, Trait.UNIT, Trait.ROWS),
        open=_bench("nvml"),
        packets=_polled(_counter(1e3, None)),
    ),
    Instrument(
        name="hwmon, three rails",
        load=JETSON,
        traits=_CHIP | {Trait.RAILS},
        open=_bench("hwmon"),
        packets=_polled(_rails),
    ),
    Instrument(
        name="hwmon, AGX Orin",
        load=AGX_ORIN,
        traits=_CHIP,
        open=_of(_agx_orin),
        packets=_polled(_rails),
        first_rail_ratio=AGX_ORIN_SHARES[0],
    ),
    Instrument(
        name="hwmon, power",
        load=JETSON,
        traits=_CHIP | {Trait.REDUNDANT, Trait.UNIT},
        open=_of(
            _monitor("ina226", {"power1_input": 2500000, "curr1_input": 500, "in1_input": 5000})
        ),
        packets=_polled(_rails),
    ),
    Instrument(
        name="hwmon, energy",
        load=JETSON,
        traits=trait_set(Trait.COUNTER, Trait.UNIT, Trait.ERROR, Trait.ROWS),
        open=_of(
            _monitor("ina228", {"energy1_input": 1000, "curr1_input": 500, "in1_input": 5000})
        ),
        packets=_polled(_rails),
    ),
    Instrument(
        name="iio",
        load=NANO,
        traits=_CHIP | {Trait.RAILS, Trait.UNIT},
        open=_bench("iio"),
        packets=_polled(_rails),
    ),
    Instrument(
        name="rpi5",
        load=PI5,
        traits=_CHIP,
        open=_bench("rpi5"),
        packets=_polled(_rpi5),
        supply_v=1.0,
        full_a=8.0,
    ),
    Instrument(
        name="battery",
        load=PHONE,
        traits=_CHIP | {Trait.UNIT},
        open=_bench("battery"),
        packets=_polled(_battery),
        supply_v=3.9,
    ),
    Instrument(
        name="shelly",
        traits=_PLUG,
        open=_bench("shelly"),
        packets=_polled(_plug(_shelly, b'{"id":0}')),
        supply_v=230.0,
    ),
    Instrument(
        name="tasmota",
        traits=_PLUG,
        open=_bench("tasmota"),
        packets=_polled(_plug(_tasmota, b"{}")),
        supply_v=230.0,
    ),
    Instrument(
        name="kasa",
        traits=_PLUG,
        open=_bench("kasa"),
        packets=_polled(_plug(_kasa, b'{"emeter":{"get_realtime":{"err_code":-1}}}')),
        supply_v=230.0,
    ),
    Instrument(
        name="um25c",
        traits=_STREAM | {Trait.ERROR},
        open=_bench("um25c"),
        packets=_polled(_um25c),
    ),
    Instrument(
        name="km003c",
        traits=_CHIP,
        open=_bench("km003c"),
        packets=_polled(_km003c),
        full_a=6.0,
    ),
    Instrument(
        name="ptdaemon",
        traits=_ANALYSER,
        open=_bench("ptdaemon"),
        packets=_polled(_ptdaemon),
        supply_v=230.0,
    ),
    Instrument(
        name="scpi power meter",
        traits=_ANALYSER,
        open=_bench("scpi power meter"),
        packets=_polled(_watt_meter),
        supply_v=230.0,
    ),
    Instrument(
        name="scpi multimeter",
        traits=_CHIP,
        open=_bench("scpi multimeter"),
        packets=_polled(_numbers("current_a", error=b"9.9E+37")),
        supply_v=3.3,
    ),
    Instrument(
        name="scpi query of a power",
        traits=_ANALYSER - {Trait.REDUNDANT} | {Trait.UNIT},
        open=_of(_query),
        packets=_polled(_numbers("power_w")),
    ),
    Instrument(
        name="scpi query of voltage and current",
        traits=_CHIP | {Trait.UNIT},
        open=_of(_current_query),
        packets=_polled(_numbers("voltage_v", "current_a")),
    ),
    Instrument(
        name="scpi data logger",
        traits=_CHIP,
        open=_bench("scpi data logger"),
        packets=_stream(_elog),
        has_own_clock=True,
    ),
    Instrument(
        name="scpi multimeter with memory",
        traits=_CHIP,
        open=_bench("scpi multimeter with memory"),
        packets=_stream(_memory),
        supply_v=3.3,
        has_own_clock=True,
    ),
    Instrument(
        name="ppk2",
        traits=_STREAM,
        open=_of(_ppk2),
        packets=_stream(_ppk2_words),
        has_own_clock=True,
        full_a=1.0,
    ),
    Instrument(
        name="lpm01a",
        load=MICROCONTROLLER,
        traits=_STREAM,
        open=_of(_lpm01a),
        packets=_stream(_lpm01a_words, _LPM01A_ACK),
        supply_v=3.3,
        has_own_clock=True,
        full_a=0.05,
    ),
    Instrument(
        name="joulescope",
        traits=_CHIP,
        open=_of(_joulescope),
        packets=_stream(_joulescope_blocks),
        has_own_clock=True,
        full_a=10.0,
    ),
    Instrument(
        name="monsoon",
        traits=_STREAM,
        open=_of(_monsoon),
        packets=_monsoon_packets,
        supply_v=4.2,
        has_own_clock=True,
        full_a=6.0,
    ),
    Instrument(
        name="otii",
        traits=_CHIP,
        open=_of(_otii),
        packets=_stream(_otii_lines),
        supply_v=3.7,
        has_own_clock=True,
    ),
    Instrument(
        name="fnirsi",
        traits=_STREAM | {Trait.SIGN},
        open=_bench("fnirsi"),
        packets=_stream(_fnirsi_reports),
        has_own_clock=True,
        full_a=7.0,
    ),
    Instrument(
        name="km003c queue",
        traits=_STREAM | {Trait.SIGN},
        open=_bench("km003c queue"),
        packets=_stream(_km003c_queue),
        has_own_clock=True,
        full_a=6.0,
    ),
)
