"""Plugs with Tasmota firmware, over HTTP.

    GET /cm?cmnd=Status%200    {"Status":{"DeviceName":…,"Power":1},"StatusFWR":{"Version":…},
                                "StatusNET":{"Mac":…},"StatusSNS":{"ENERGY":{"Power":23,…}}}
    GET /cm?cmnd=Status%2010   {"StatusSNS":{"Time":…,"ENERGY":{"Total":…,"Power":23,"Voltage":230,
                                "Current":0.105,…}}}; before version 6: Status 8

Power is in whole watts unless `PowerRes` is set. A plug with several phases sends a list of powers.
Tasmota runs on plugs of many makers, so the accuracy is unspecified unless the owner has calibrated
the plug.

Source: https://tasmota.github.io/docs/Commands (Status, PowerRes) and Power-Monitoring-Calibration.
"""

from __future__ import annotations

import math
from typing import Any

from edgebench.meters.base import MeterInfo
from edgebench.meters.options import Options
from edgebench.meters.plug import (
    HttpHost,
    Plug,
    PlugDecoder,
    PlugReading,
    PlugTraits,
    number_in,
    object_of,
    rate_of,
    refuse_nameless,
    web_address_of,
)
from edgebench.protocol.errors import TargetError

_ALL, _SENSORS, _OLD_SENSORS = (f"/cm?cmnd=Status%20{number}" for number in (0, 10, 8))
_TRAITS = PlugTraits(
    gain_ratio=0.05,
    gain_reference="assumed: an uncalibrated plug",
    offset_w=1.0,
    lag_s=5.0,
)


class TasmotaLink:
    """Connection to a plug with Tasmota firmware."""

    def __init__(self, address: str) -> None:
        """Identify the plug.

        Raises:
            UsageError: the address is missing.
            TargetError: the device is not a Tasmota plug, or the plug is switched off.
        """
        refuse_nameless("tasmota", address)
        self._host = HttpHost("tasmota", address)
        status = self._host.get_json(_ALL)
        about = status.get("Status")
        if not isinstance(about, dict):
            warning = str(status.get("WARNING", "it has no Status"))
            raise TargetError(f"the tasmota at {address} reports no status: {warning}")
        if about.get("Power") == 0:
            raise TargetError(f"the plug at {address} is off: switch it on")
        self._path = _SENSORS
        if "StatusSNS" not in self._host.get_json(_SENSORS):
            self._path = _OLD_SENSORS
        firmware: Any = status.get("StatusFWR") or {}
        network: Any = status.get("StatusNET") or {}
        if not (isinstance(firmware, dict) and isinstance(network, dict)):
            raise TargetError(f"{address} is not a tasmota: its status is malformed")
        self.info = MeterInfo(
            vendor="Tasmota",
            model=str(about.get("DeviceName") or about.get("Topic") or "plug"),
            serial=str(network.get("Mac", "")),
            firmware=str(firmware.get("Version", "")),
        )

    def query(self) -> bytes:
        """Request the present power and return the undecoded response."""
        return self._host.get(self._path)

    def close(self) -> None:
        """Do nothing, because no connection stays open between two requests."""


class TasmotaDecoder(PlugDecoder):
    """Decodes the ENERGY object of the sensors."""

    @staticmethod
    def read(response: bytes) -> PlugReading | None:
        """Parse the values in a response; None if it contains no power.

        >>> TasmotaDecoder.read(b'{"StatusSNS":{"ENERGY":{"Power":23,"Voltage":230}}}').step_w
        1.0
        """
        document = object_of(response) or {}
        sensors: Any = document.get("StatusSNS")
        energy: Any = sensors.get("ENERGY") if isinstance(sensors, dict) else None
        if not isinstance(energy, dict) or math.isnan(power_w := number_in(energy, "Power")):
            return None
        is_one = not isinstance(energy.get("Voltage"), list)
        return PlugReading(
            power_w=power_w,
            current_a=number_in(energy, "Current"),
            voltage_v=number_in(energy, "Voltage") if is_one else math.nan,
            step_w=1.0 if isinstance(energy["Power"], int) else 0.1,
        )


def make_meter(options: Options) -> Plug:
    """Create the meter of a plug by its address."""
    rate_hz = rate_of(options)
    address = web_address_of(options)
    return Plug(
        "tasmota",
        lambda: TasmotaLink(address),
        TasmotaDecoder.read,
        traits=_TRAITS,
        rate_hz=rate_hz,
    )
