"""Shelly plugs and power meters of all generations, by their web server.

    generation 2 and later  GET /shelly  {"gen":3,"model":…,"mac":…,"ver":…,"app":…}
                            GET /rpc/Shelly.GetStatus          every component: "switch:0", "pm1:0"
                            GET /rpc/Switch.GetStatus?id=0     {"apower":22.9,"voltage":230.1,…}
    generation 1            GET /shelly  {"type":"SHPLG-S","mac":…,"fw":…,"num_meters":1}
                            GET /meter/0                       {"power":22.95,"is_valid":true,…}

EM1 calls its power `act_power`, EM `total_act_power`. A Shelly of generation 2 has a new value
about once a second, in steps of 0.1 W.

Source: https://shelly-api-docs.shelly.cloud (Switch, PM1, EM1, EM, Cover, generation 1: Shelly
Plug S). The emulator of the tests is held against aioshelly.
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
"""RPC name of each kind of component that may measure."""
_POWERS = ("apower", "act_power", "total_act_power", "power")
_TRAITS = PlugTraits(
    gain_ratio=0.02,
    gain_reference="assumed: Shelly states 1 % for its meters, and nothing for most plugs",
    offset_w=0.5,
    lag_s=5.0,
)
"""Lag: assumed for all of them what pulses of a HLW8012 take at 2.4 W."""


class ShellyLink:
    """One component of a Shelly."""

    def __init__(self, address: str, channel: int) -> None:
        """Find out what measures there.

        Raises:
            UsageError: there is no address.
            TargetError: nothing does, or it is switched off.
        """
        refuse_nameless("shelly", address)
        self._host = HttpHost("shelly", address)
        who = self._host.get_json("/shelly")
        if "mac" not in who or not ("gen" in who or "type" in who):
            raise TargetError(f"{address} is no shelly: it does not say so at /shelly")
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

    def ask(self) -> bytes:
        """One answer with a power."""
        return self._host.get(self._path)

    def close(self) -> None:
        """Each question has a connection of its own."""

    def _component(self, model: str, channel: int) -> str:
        """Path of the component with this number that has a power."""
        status = self._host.get_json("/rpc/Shelly.GetStatus")
        for kind, method in _METHODS.items():
            part: Any = status.get(f"{kind}:{channel}")
            if isinstance(part, dict) and any(name in part for name in _POWERS):
                if part.get("output") is False:
                    raise TargetError(f"output {channel} of this {model} is off: switch it on")
                return f"/rpc/{method}.GetStatus?id={channel}"
        parts = ", ".join(sorted(name for name in status if ":" in name))
        raise TargetError(f"nothing with number {channel} measures power: this {model} has {parts}")


class ShellyDecoder(PlugDecoder):
    """Status of a component, or of a meter of generation 1."""

    @staticmethod
    def read(answer: bytes) -> PlugReading | None:
        """Values of an answer; None where it has none."""
        document = object_of(answer)
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
    """Meter by the address of a Shelly."""
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
