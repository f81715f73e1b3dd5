"""Shelly plugs and power meters of all generations, over HTTP.

    generation 2 and later  GET /shelly  {"gen":3,"model":…,"mac":…,"ver":…,"app":…}
                            GET /rpc/Shelly.GetStatus          every component: "switch:0", "pm1:0"
                            GET /rpc/Switch.GetStatus?id=0     {"apower":22.9,"voltage":230.1,…}
    generation 1            GET /shelly  {"type":"SHPLG-S","mac":…,"fw":…,"num_meters":1}
                            GET /meter/0                       {"power":22.95,"is_valid":true,…}

The power is `act_power` in EM1, and `total_act_power` in EM. A Shelly of generation 2 has a new
value about once per second, in steps of 0.1 W.

Source: https://shelly-api-docs.shelly.cloud (Switch, PM1, EM1, EM, Cover, generation 1: Shelly
Plug S). The emulator in the tests is verified against aioshelly.
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

_METHODS = {"switch": "Switch", "pm1": "PM1", "em1": "EM1", "em": "EM", "cover": "Cover"}
"""Maps each kind of component that can measure power to its name in RPC methods."""
_POWERS = ("apower", "act_power", "total_act_power", "power")
_TRAITS = PlugTraits(
    gain_ratio=0.02,
    gain_reference="assumed: Shelly states 1 % for its meters, and nothing for most plugs",
    offset_w=0.5,
    lag_s=5.0,
)
"""Measurement errors of all models. The lag is an assumption, based on the pulses of a HLW8012 at
2.4 W."""


class ShellyLink:
    """Connection to a component of a Shelly that measures power."""

    def __init__(self, address: str, channel: int) -> None:
        """Find the component that measures.

        Raises:
            UsageError: the address is missing.
            TargetError: the component is missing, or switched off.
        """
        refuse_nameless("shelly", address)
        self._host = HttpHost("shelly", address)
        who = self._host.get_json("/shelly")
        if "mac" not in who or not ("gen" in who or "type" in who):
            raise TargetError(f"{address} is not a Shelly device: /shelly does not identify it")
        if "gen" in who:
            self._path = self._component(str(who.get("model", "")), channel)
        else:
            self._path = f"/meter/{channel}"
        self.info = MeterInfo(
            vendor="Shelly",
            model=str(who.get("app") or who.get("model") or who.get("type")),
            serial=str(who["mac"]),
            firmware=str(who.get("ver") or who.get("fw") or ""),
        )

    def query(self) -> bytes:
        """Request the present power and return the undecoded response."""
        return self._host.get(self._path)

    def close(self) -> None:
        """Do nothing, because no connection stays open between two requests."""

    def _component(self, model: str, channel: int) -> str:
        """Find the component with this number that measures power, and return its path."""
        status = self._host.get_json("/rpc/Shelly.GetStatus")
        for kind, method in _METHODS.items():
            part: Any = status.get(f"{kind}:{channel}")
            if isinstance(part, dict) and any(name in part for name in _POWERS):
                if part.get("output") is False:
                    raise TargetError(f"output {channel} of this {model} is off: switch it on")
                return f"/rpc/{method}.GetStatus?id={channel}"
        parts = ", ".join(sorted(name for name in status if ":" in name))
        raise TargetError(f"no component {channel} measures power: this {model} has {parts}")


class ShellyDecoder(PlugDecoder):
    """Decodes the status of a component, or of a generation 1 meter."""

    @staticmethod
    def read(response: bytes) -> PlugReading | None:
        """Parse the values in a response; None if it contains no power."""
        document = object_of(response)
        if document is None or document.get("is_valid") is False:
            return None
        power_w = next(
            (number_in(document, name) for name in _POWERS if name in document), math.nan
        )
        if math.isnan(power_w):
            return None
        return PlugReading(
            power_w=power_w,
            current_a=number_in(document, "current"),
            voltage_v=number_in(document, "voltage"),
        )


def make_meter(options: Options) -> Plug:
    """Create the meter of a component by the Shelly's address."""
    channel = int(options.within("channel", 0, (0, 63)))
    rate_hz = rate_of(options)
    address = web_address_of(options)
    return Plug(
        "shelly",
        lambda: ShellyLink(address, channel),
        ShellyDecoder.read,
        traits=_TRAITS,
        rate_hz=rate_hz,
    )
