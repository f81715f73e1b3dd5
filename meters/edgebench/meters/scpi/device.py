"""Identifies SCPI instruments, and chooses the module that controls their family of models.

N6700 … N6705    elog.py          the external data log
WT310 … WT5000   power_meter.py   the displayed values
344xxA, SDM3xxx  multimeter.py    a current
any other        query.py         the numbers returned by the user's query
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from edgebench.meters.base import Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options
from edgebench.meters.recorder import Recorder
from edgebench.meters.scpi.elog import Elog
from edgebench.meters.scpi.instrument import Instrument
from edgebench.meters.scpi.link import ScpiLink, open_link
from edgebench.meters.scpi.multimeter import MEMORY_MODELS, MemoryMultimeter, Multimeter
from edgebench.meters.scpi.power_meter import ElementWt, Wt300
from edgebench.meters.scpi.query import QueryInstrument
from edgebench.meters.scpi.setup import ScpiSetup, parse_setup
from edgebench.protocol.errors import TargetError, UsageError

FAMILIES: tuple[tuple[re.Pattern[str], type[Instrument]], ...] = (
    (re.compile(r"N670\d\w?"), Elog),
    (re.compile(r"WT3[13]\dE?H?C?"), Wt300),
    (re.compile(r"(WT50[0-3]|76020[1-3]|WT18\d\dE?R?|WT30\d\dE?|WT5000)(-\S*)?"), ElementWt),
    (MEMORY_MODELS, MemoryMultimeter),
    (re.compile(r"344\d\dA|SDM3\d{3}\S*"), Multimeter),
)
"""Pairs of a pattern for the reported model and the class of its family; the first match
applies."""
_KNOWN = "N6700 to N6705, WT300 to WT5000, 344xxA, SDM3000"


class Scpi(InstrumentMeter[ScpiLink]):
    """A SCPI instrument of any supported family."""

    name = "scpi"

    def __init__(self, connect: Callable[[], ScpiLink], setup: ScpiSetup) -> None:
        super().__init__(connect)
        self._setup = setup

    def _describe(self, connection: ScpiLink) -> Header:
        """Identify the instrument and describe its session; only the session configures it."""
        info = identity_of(connection, 4 if self._setup.query is None else 1)
        self._instrument = self._family(info, connection.name)(connection, self._setup, info)
        return self._instrument.describe()

    def _family(self, info: MeterInfo, address: str) -> type[Instrument]:
        if self._setup.query is not None:
            return QueryInstrument
        for model, make in FAMILIES:
            if model.fullmatch(info.model):
                return make
        raise TargetError(
            f"{address} is a {info.vendor} {info.model}, which has no driver; supported: {_KNOWN}; "
            "for any other instrument, add the query for its power, as in query=MEAS:POW?"
        )

    def _record(self, connection: ScpiLink, header: Header, path: Path) -> Recorder:
        return self._instrument.session(header, path)


def identity_of(link: ScpiLink, least_count: int = 4) -> MeterInfo:
    """Identify an instrument by its response to `*IDN?`.

    Source: IEEE 488.2-1992, 10.14: four fields, separated by commas.

    Args:
        link: Link to the instrument.
        least_count: Minimum number of fields; simple instruments return fewer than four.

    Raises:
        TargetError: the instrument does not respond, or the response is invalid.
    """
    response = link.query_text("*IDN?")
    fields = [field.strip() for field in response.split(",")]
    if len(fields) < least_count or not response:
        raise TargetError(
            f"the reply of {link.name} to `*IDN?` is not an identity: {response[:60]!r}"
        )
    fields += [""] * (4 - len(fields))
    return MeterInfo(
        vendor=fields[0],
        model=fields[1] or fields[0],
        serial=fields[2],
        firmware=",".join(fields[3:]),
        raw_metadata=response,
    )


def make_meter(options: Options) -> Scpi:
    """Create the meter for options like `TCPIP::192.168.1.5::5025::SOCKET,channel=2,rate=1000`."""
    setup = parse_setup(options)
    address = options.finish().address

    def connect() -> ScpiLink:
        if not address:
            raise UsageError(
                "SCPI instruments are not searched for: name the address, as in "
                "scpi:TCPIP::192.168.1.5::5025::SOCKET"
            )
        return open_link(address, baud_rate=setup.baud_rate)

    return Scpi(connect, setup)
