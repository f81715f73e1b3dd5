"""Every meter that there is, with something behind it to measure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from edgebench.meters.base import Meter
from edgebench.meters.joulescope.device import Joulescope, JoulescopeSetup
from edgebench.meters.km003c.device import Km003c, Km003cSetup, connect
from edgebench.meters.monsoon.device import Monsoon
from edgebench.meters.monsoon.device import connect as connect_monsoon
from edgebench.meters.registry import find_meter
from support.agents import wait_until
from support.boards import BOARDS, make_board
from support.fnirsi import FnirsiEmulator
from support.joulescope import FakeDriver
from support.km003c import Km003cEmulator
from support.lpm01a import Lpm01aEmulator
from support.monsoon import MonsoonEmulator
from support.nvml import fake_gpu
from support.otii import OtiiEmulator
from support.plugs import KasaEmulator, ShellyEmulator, TasmotaEmulator
from support.ppk2 import Ppk2Emulator
from support.ptdaemon import PtdEmulator
from support.rounds import make_folder
from support.scpi import DataLogger, Model, Multimeter, Server, WattMeter, steady_supply
from support.sigrok import SigrokMultimeter, connection_of
from support.tools import need_tool
from support.um25c import Um25cEmulator
from support.usb_bus import UsbBus

Wait = Callable[[], None]
"""Lets a meter measure for a while."""
Bench = Callable[[Path, Wait], AbstractContextManager[tuple[Meter, Wait]]]
"""A meter under this root, and how it is let measure."""
_SIGLENT = "Siglent Technologies,SDM3065X,SDM36FBX5R0123,3.01.01.10"


def _named(text: str) -> Bench:
    @contextmanager
    def bench(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
        yield find_meter(text.format(root=root)), wait

    return bench


def _on_board(name: str, text: str) -> Bench:
    @contextmanager
    def bench(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
        yield find_meter(text.format(root=make_board(root, BOARDS[name]))), wait

    return bench


@contextmanager
def _ppk2(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    with Ppk2Emulator() as emulator:
        yield find_meter(f"ppk2:{emulator.path},supply=3.3"), wait


@contextmanager
def _lpm01a(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    with Lpm01aEmulator() as emulator:
        yield find_meter(f"lpm01a:{emulator.path},supply=3.3,rate=10k"), wait


@contextmanager
def _joulescope(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    driver = FakeDriver()

    def measure() -> None:
        driver.push(5)
        wait()

    yield Joulescope(lambda: driver, JoulescopeSetup()), measure


@contextmanager
def _fnirsi(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    with FnirsiEmulator() as emulator:
        yield find_meter(f"fnirsi:{emulator.path}"), wait


def _km003c(setup: Km003cSetup) -> Bench:
    @contextmanager
    def bench(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
        bus = UsbBus(Km003cEmulator())
        yield Km003c(lambda: connect(backend=bus), setup), wait

    return bench


@contextmanager
def _monsoon(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    bus = UsbBus(MonsoonEmulator())
    yield Monsoon(lambda: connect_monsoon(backend=bus)), wait


@contextmanager
def _um25c(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    with Um25cEmulator() as emulator:
        yield find_meter(f"um25c:{emulator.path},rate=10"), wait


def _scpi(make: Callable[[], Model], options: str = "") -> Bench:
    @contextmanager
    def bench(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
        with Server(make()) as server:
            yield find_meter(f"scpi:{server.address}{options}"), wait

    return bench


@contextmanager
def _ptdaemon(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    with PtdEmulator() as daemon:
        yield find_meter(f"ptdaemon:{daemon.address}"), wait


@contextmanager
def _nvml(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    with fake_gpu(root):
        yield find_meter("nvml"), wait


def _plug(make: Callable[[], ShellyEmulator | TasmotaEmulator | KasaEmulator]) -> Bench:
    @contextmanager
    def bench(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
        with make() as plug:
            name = type(plug).__name__.removesuffix("Emulator").lower()
            yield find_meter(f"{name}:{plug.address},rate=5"), wait

    return bench


@contextmanager
def _otii(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    with OtiiEmulator() as server:
        yield find_meter(f"otii:{server.address}"), wait


@contextmanager
def _sigrok(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    need_tool("sigrok-cli")
    yield find_meter("sigrok:demo,rate=1000,current=A1,shunt=1,voltage=A2"), wait


@contextmanager
def _sigrok_multimeter(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    need_tool("sigrok-cli")
    instrument = SigrokMultimeter()

    def measure() -> None:
        """Its program takes a while to begin, the longer the busier the machine is."""
        before = instrument.values_asked
        wait_until(lambda: instrument.values_asked > before + 1, "program asks for values")
        wait()

    with Server(instrument) as server:
        yield find_meter(f"sigrok:scpi-dmm,{connection_of(server)},supply=5,mean=0.02"), measure


@contextmanager
def _battery(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    files = {"type": "Battery", "status": "Discharging", "current_now": -423125}
    make_folder(root / "sys/class/power_supply/battery", files | {"voltage_now": 4231562})
    yield find_meter(f"battery:{root}"), wait


@contextmanager
def _odpm(root: Path, wait: Wait) -> Iterator[tuple[Meter, Wait]]:
    files = {"name": "s2mpg10-odpm", "energy_value": "t=176103444\nCH0(T=176103444)[S1M], 45602150"}
    make_folder(root / "sys/bus/iio/devices/iio:device0", files)
    yield find_meter(f"odpm:{root}"), wait


BENCHES: dict[str, Bench] = {
    "ppk2": _ppk2,
    "lpm01a": _lpm01a,
    "joulescope": _joulescope,
    "fnirsi": _fnirsi,
    "km003c": _km003c(Km003cSetup()),
    "km003c queue": _km003c(Km003cSetup(rate_hz=1000, is_queue=True)),
    "monsoon": _monsoon,
    "um25c": _um25c,
    "scpi data logger": _scpi(DataLogger),
    "scpi power meter": _scpi(WattMeter),
    "scpi multimeter": _scpi(lambda: Multimeter(identity=_SIGLENT), ",supply=3.3,rate=2"),
    "scpi multimeter with memory": _scpi(Multimeter, ",supply=3.3"),
    "scpi query": _scpi(lambda: steady_supply(b"1.5"), ",query=MEAS:POW?,rate=20"),
    "otii": _otii,
    "sigrok": _sigrok,
    "sigrok multimeter": _sigrok_multimeter,
    "ptdaemon": _ptdaemon,
    "nvml": _nvml,
    "shelly": _plug(ShellyEmulator),
    "tasmota": _plug(TasmotaEmulator),
    "kasa": _plug(KasaEmulator),
    "rapl": _on_board("x86_laptop", "rapl:{root}"),
    "hwmon": _on_board("jetson_orin_nano", "hwmon:{root}"),
    "iio": _on_board("jetson_nano", "iio:{root}"),
    "rpi5": _on_board("raspberry_pi_5", "rpi5:{root}"),
    "battery": _battery,
    "odpm": _odpm,
    "synthetic": _named("synthetic:square,low=0.2,high=1.0"),
}
"""By driver, and what it is connected to."""
