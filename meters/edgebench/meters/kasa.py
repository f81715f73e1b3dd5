"""TP-Link Kasa plugs that respond on the local network: HS110, HS300, KP115, KP125, EP25 etc.

    TCP port 9999    length u32, big-endian, then as many bytes of encoded JSON: the first byte is
                     XORed with 171, and each other byte with the previous encoded byte

    {"system":{"get_sysinfo":{}}}     model, alias, relay_state, mac, sw_ver, children
    {"emeter":{"get_realtime":{}}}    power_mw, voltage_mv, current_ma; the first HS110 sends power,
                                      voltage, current
    {"context":{"child_ids":[ID]}, …} one outlet of a strip

Newer plugs (Tapo, and Kasa with recent firmware) require the password of the owner's account and
do not respond to these requests. python-kasa supports such plugs. edgebench does not use
python-kasa, because python-kasa is under the GPL, and edgebench is not.

Source: softScheck, Reverse Engineering the TP-Link HS110 (2016). The emulator in the tests is
verified against python-kasa.
"""

from __future__ import annotations

import json
import time
from typing import Any

from edgebench.meters.base import MeterInfo
from edgebench.meters.options import Options
from edgebench.meters.plug import (
    Plug,
    PlugDecoder,
    PlugReading,
    PlugTraits,
    number_in,
    object_of,
    rate_of,
    refuse_nameless,
)
from edgebench.meters.transport import TcpTransport, split_address
from edgebench.protocol.errors import TargetError, UsageError

PORT = 9999
_FIRST_KEY = 171
_RESPONSE_S = 2.0
"""Time to wait for a response. This time is assumed to exceed the delay of a plug's busy radio."""
_RESPONSE_MAX_BYTES = 1 << 16
_SYSTEM: dict[str, Any] = {"system": {"get_sysinfo": {}}}
_METER: dict[str, Any] = {"emeter": {"get_realtime": {}}}
_TRAITS = PlugTraits(
    gain_ratio=0.03,
    gain_reference="assumed: TP-Link states no accuracy; owners report 1 to 3 %",
    offset_w=0.5,
    lag_s=5.0,
)


def scrambled(text: bytes) -> bytes:
    """Encode bytes for a plug.

    >>> unscrambled(scrambled(b"{}"))
    b'{}'
    """
    sent, key = bytearray(), _FIRST_KEY
    for byte in text:
        key ^= byte
        sent.append(key)
    return bytes(sent)


def unscrambled(data: bytes) -> bytes:
    """Decode bytes from a plug."""
    return bytes(byte ^ key for byte, key in zip(data, bytes([_FIRST_KEY]) + data, strict=False))


class KasaLink:
    """Connection to an outlet of a plug or of a power strip."""

    def __init__(self, host: str, port: int, channel: int | None) -> None:
        """Identify the plug.

        Raises:
            UsageError: the address is missing, or a strip needs the outlet's number.
            TargetError: the device is not a Kasa plug, or the outlet is switched off.
        """
        refuse_nameless("kasa", host)
        self._place = host, port
        self._context: dict[str, Any] = {}
        response: Any = (object_of(self._talk(_SYSTEM)) or {}).get("system")
        system: Any = response.get("get_sysinfo") if isinstance(response, dict) else None
        if not isinstance(system, dict) or "model" not in system:
            raise TargetError(f"not a Kasa plug at {host}:{port}: it does not report a model")
        outlet: Any = self._outlet(system, channel)
        if outlet.get("relay_state", outlet.get("state")) == 0:
            raise TargetError(f"this {system['model']} is off: switch it on")
        self.info = MeterInfo(
            vendor="TP-Link",
            model=str(system["model"]),
            serial=str(system.get("mac") or system.get("mic_mac") or ""),
            firmware=str(system.get("sw_ver", "")),
        )

    def query(self) -> bytes:
        """Request the present power and return the undecoded response."""
        return self._talk(_METER | self._context)

    def close(self) -> None:
        """Do nothing, because no connection stays open between two requests."""

    def _outlet(self, system: dict[str, Any], channel: int | None) -> Any:
        """Return the selected outlet; a power strip requires a selection."""
        children: Any = system.get("children") or []
        if not isinstance(children, list) or not all(map(_is_outlet, children)):
            raise TargetError(f"this {system['model']} does not report its outlets")
        if not children:
            if channel:
                raise UsageError(f"this {system['model']} has one outlet, got channel={channel}")
            return system
        if channel is None or channel >= len(children):
            last = len(children) - 1
            raise UsageError(f"a {system['model']} has several outlets: select channel=0 to {last}")
        child = children[channel]
        own = str(child["id"])
        # A strip whose outlet ids are short expects its own id in front of them.
        own = own if len(own) > 2 else f"{system.get('deviceId', '')}{own}"
        self._context = {"context": {"child_ids": [own]}}
        return child

    def _talk(self, request: dict[str, Any]) -> bytes:
        """Send a request over its own connection, because plugs close connections at any time."""
        transport = TcpTransport(*self._place, "Kasa plug")
        try:
            text = scrambled(json.dumps(request, separators=(",", ":")).encode())
            transport.write(len(text).to_bytes(4, "big") + text)
            return unscrambled(_message(transport))
        finally:
            transport.close()


def _is_outlet(child: object) -> bool:
    return isinstance(child, dict) and "id" in child


def _message(transport: TcpTransport) -> bytes:
    """Read a complete message, still encoded.

    Raises:
        TargetError: the message does not arrive in time, or is too long.
    """
    received, deadline_s = b"", time.monotonic() + _RESPONSE_S
    while True:
        length = int.from_bytes(received[:4], "big") if len(received) >= 4 else 0
        if length > _RESPONSE_MAX_BYTES:
            raise TargetError("not a Kasa plug: its response is too long")
        if length and len(received) >= 4 + length:
            return received[4 : 4 + length]
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise TargetError(f"the Kasa plug did not respond within {_RESPONSE_S:g} s")
        received += transport.read(left_s)


class KasaDecoder(PlugDecoder):
    """Decodes responses to get_realtime."""

    @staticmethod
    def read(response: bytes) -> PlugReading | None:
        """Parse the values in a response; None if it contains no power."""
        meter: Any = (object_of(response) or {}).get("emeter")
        values: Any = meter.get("get_realtime") if isinstance(meter, dict) else None
        if not isinstance(values, dict) or values.get("err_code", 0) != 0:
            return None
        is_milli = "power_mw" in values
        power, voltage, current = (
            number_in(values, f"{name}_{unit}" if is_milli else name)
            for name, unit in (("power", "mw"), ("voltage", "mv"), ("current", "ma"))
        )
        factor = 1e-3 if is_milli else 1.0
        if not power >= 0:
            return None
        return PlugReading(
            power_w=power * factor, current_a=current * factor, voltage_v=voltage * factor
        )


def make_meter(options: Options) -> Plug:
    """Create the meter of the plug at an address, or of an outlet of a strip."""
    number = options.number("channel")
    if number is not None and number not in range(64):
        raise UsageError(f"meter kasa: channel must be 0 to 63, got {number:g}")
    rate_hz = rate_of(options)
    host, port = split_address(options.finish().address, PORT)
    return Plug(
        "kasa",
        lambda: KasaLink(host, port, None if number is None else int(number)),
        KasaDecoder.read,
        traits=_TRAITS,
        rate_hz=rate_hz,
    )
