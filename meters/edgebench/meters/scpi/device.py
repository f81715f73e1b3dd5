"""An SCPI instrument: connected, asked who it is, handed to the file that knows its family.

N6700 … N6705    elog.py          the external data log
WT310 … WT333E   power_meter.py   the values that it displays
344xxA, SDM3xxx  multimeter.py    a current
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from edgebench.meters.base import Header, MeterInfo, MeterSession, Missing
from edgebench.meters.options import Options
from edgebench.meters.scpi.elog import Elog
from edgebench.meters.scpi.link import Link, open_link
from edgebench.meters.scpi.multimeter import MEMORY_MODELS, MemoryMultimeter, Multimeter
from edgebench.meters.scpi.power_meter import PowerMeter
from edgebench.meters.scpi.setup import Instrument, Setup, parse_setup
from edgebench.protocol.errors import EdgebenchError, MeasurementError, TargetError, UsageError

FAMILIES: tuple[tuple[re.Pattern[str], Callable[[Link, Setup, MeterInfo], Instrument]], ...] = (
    (re.compile(r"N670\d\w?"), Elog),
    (re.compile(r"WT3[13]\dE?H?C?"), PowerMeter),
    (MEMORY_MODELS, MemoryMultimeter),
    (re.compile(r"344\d\dA|SDM3\d{3}\S*"), Multimeter),
)
"""By the model that the instrument says it is; the first that fits."""
_KNOWN = "N6700 to N6705, WT300, 344xxA, SDM3000"


class Scpi:
    """One instrument."""

    name = "scpi"

    def __init__(self, connect: Callable[[], Link], setup: Setup) -> None:
        self._connect = connect
        self._setup = setup
        self._link: Link | None = None
        self._instrument: Instrument | None = None
        self._header: Header | None = None

    def open(self) -> Header | Missing:
        """Connect, see who answers, say what it will do; a session is what sets it up."""
        try:
            self._link = self._connect()
            info = identity_of(self._link)
            self._instrument = self._choose(self._link, info)
            self._header = self._instrument.describe()
        except EdgebenchError as exc:
            self.close()
            return Missing(str(exc))
        return self._header

    def session(self, path: Path) -> MeterSession:
        """A recording."""
        if self._instrument is None or self._header is None:
            raise MeasurementError("the SCPI instrument is not open")
        return self._instrument.session(self._header, path)

    def close(self) -> None:
        """Let go of the connection."""
        if self._link is not None:
            self._link.close()
        self._link = self._instrument = None

    def _choose(self, link: Link, info: MeterInfo) -> Instrument:
        for model, make in FAMILIES:
            if model.fullmatch(info.model):
                return make(link, self._setup, info)
        raise TargetError(
            f"{link.name} is a {info.vendor} {info.model}, which has no driver: there are {_KNOWN}"
        )


def identity_of(link: Link) -> MeterInfo:
    """Who answers. Source: IEEE 488.2-1992, 10.14: four fields, separated by commas.

    Raises:
        TargetError: nobody does, or not like an instrument.
    """
    answer = link.ask_text("*IDN?")
    fields = [field.strip() for field in answer.split(",")]
    if len(fields) < 4:
        raise TargetError(f"{link.name} answers {answer[:60]!r} to `*IDN?`, no instrument does")
    return MeterInfo(
        vendor=fields[0],
        model=fields[1],
        serial=fields[2],
        firmware=",".join(fields[3:]),
        raw_metadata=answer,
    )


def make_meter(options: Options) -> Scpi:
    """From `TCPIP::192.168.1.5::5025::SOCKET,channel=2,rate=1000`."""
    setup = parse_setup(options)
    address = options.finish().address
    return Scpi(lambda: open_link(_named(address)), setup)


def _named(address: str) -> str:
    if not address:
        raise UsageError(
            "SCPI instruments are not searched for: name one, as in "
            "scpi:TCPIP::192.168.1.5::5025::SOCKET"
        )
    return address
