"""Streams of slower meters, and naive loops that read them.

    LPM01A, binary   16-bit words at 100 kHz, a time stamp once a second
    LPM01A, text     lines at 5 kHz, a time stamp once a second
    INA226           hwmon: current and power of a rail, two files per reading

The loops are as simple as a quick script: they check nothing, and do not count lost samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import msgpack
import numpy as np

from edgebench.meters.base import Capability, Channel, Header, MeterInfo, Packet
from edgebench.meters.lpm01a.decoder import Lpm01aDecoder
from edgebench.meters.lpm01a.settings import Lpm01aSettings, Lpm01aSetup
from edgebench.meters.rail_decoder import RailDecoder, RailPlan
from edgebench.protocol.plain import to_plain

SUPPLY_V = 3.3
BINARY_HZ, TEXT_HZ, INA_HZ = 100_000, 5_000, 60
_ACK = b"\r\nPowerShield > ack start\r\n\r\n"
_STAMP_BYTES = 9


@dataclass(frozen=True, slots=True)
class Stream:
    """Data of a meter as a list with a packet for each read, and the total number of samples."""

    packets: list[Packet]
    sample_count: int


def binary_stream(seconds: int) -> Stream:
    """Stream of binary words, with a tenth of a second in each packet."""
    draw = np.random.default_rng(2)
    data = [_ACK]
    for second in range(seconds):
        data.append(b"\xf0\xf3" + (second * 1000).to_bytes(4, "big") + b"\x07\xff\xff")
        mantissa = draw.integers(0x100, 0x1000, BINARY_HZ)
        data.append((draw.integers(2, 6, BINARY_HZ) << 12 | mantissa).astype(">u2").tobytes())
    return Stream(_packets(b"".join(data), BINARY_HZ // 10 * 2), seconds * BINARY_HZ)


def text_stream(seconds: int) -> Stream:
    """Stream of lines of text, with a tenth of a second in each packet."""
    draw = np.random.default_rng(3)
    data = [_ACK]
    for second in range(seconds):
        data.append(b"TimeStamp: %03ds 000ms, buff 07%%\r\n" % second)
        mantissa = draw.integers(1000, 10_000, TEXT_HZ).tolist()
        data += [b"%04d-%02d\r\n" % (one, 5 + one % 3) for one in mantissa]
    return Stream(_packets(b"".join(data), TEXT_HZ // 10 * 9), seconds * TEXT_HZ)


def ina_stream(seconds: int) -> Stream:
    """Stream of readings of power and current, with a pair in each packet."""
    draw = np.random.default_rng(4)
    power_uw = draw.integers(1_000_000, 8_000_000, seconds * INA_HZ).tolist()
    packets = []
    for place, power in enumerate(power_uw):
        time_ns = round(place * 1e9 / INA_HZ)
        readings = [(time_ns, b"%d\n" % power), (time_ns, b"%d\n" % (power // 5000))]
        data = cast(bytes, msgpack.packb(readings))
        packets.append(Packet(time_ns, time_ns, data))
    return Stream(packets, len(packets))


def _packets(data: bytes, size: int) -> list[Packet]:
    return [Packet(0, 0, data[at : at + size]) for at in range(0, len(data), size)]


def ours_lpm01a(stream: Stream, *, is_ascii: bool) -> None:
    """Decode a stream of an LPM01A with edgebench's driver."""
    rate_hz = TEXT_HZ if is_ascii else BINARY_HZ
    setup = Lpm01aSetup(rate_hz=rate_hz, is_ascii=is_ascii)
    decoder = Lpm01aDecoder(Lpm01aSettings(setup=setup, supply_v=SUPPLY_V))
    for packet in stream.packets:
        decoder.feed(packet)
    decoder.finish()
    received = decoder.loss().received_count
    assert received == stream.sample_count, f"{received} of {stream.sample_count} samples"


def ours_ina(stream: Stream) -> None:
    """Decode a stream of an INA226 with edgebench's driver."""
    plan = RailPlan(kind="power", scales=[1e-6, 1e-3], limit_a=16.0)
    decoder = RailDecoder(
        Header(
            driver="hwmon",
            info=MeterInfo(vendor="", model="ina226"),
            capability=Capability(
                driver="hwmon",
                channels=(Channel("VDD_IN", "board"),),
                rate_hz=INA_HZ,
                is_averaging=False,
                clock_domain="host:monotonic",
            ),
            facts={"rails": [to_plain(plan)], "update_ns": 35_000_000},
        )
    )
    for packet in stream.packets:
        decoder.feed(packet)
    decoder.finish()
    received = decoder.loss().received_count
    assert received == stream.sample_count, f"{received} of {stream.sample_count} samples"


def loop_binary(stream: Stream) -> list[float]:
    """Decode binary words with a naive loop, two bytes at a time; returns powers, W."""
    data = b"".join(packet.data for packet in stream.packets)[len(_ACK) :]
    power_w, at = [], 0
    while at + 1 < len(data):
        if data[at] == 0xF0 and data[at + 1] == 0xF3:
            at += _STAMP_BYTES
            continue
        word = data[at] << 8 | data[at + 1]
        power_w.append((word & 0xFFF) * 16.0 ** -(word >> 12) * SUPPLY_V)
        at += 2
    return power_w


def loop_text(stream: Stream) -> list[float]:
    """Decode text with a naive loop, a line at a time; returns powers, W."""
    data = b"".join(packet.data for packet in stream.packets)[len(_ACK) :]
    power_w = []
    for line in data.decode().splitlines():
        if not line.startswith("TimeStamp"):
            mantissa, exponent = line.split("-")
            power_w.append(int(mantissa) * 10.0 ** -int(exponent) * SUPPLY_V)
    return power_w


def loop_ina(stream: Stream) -> list[tuple[int, float, float]]:
    """Decode readings with a naive loop; returns time (ns), power (W) and current (A)."""
    found = []
    for packet in stream.packets:
        (time_ns, power), (_, current) = msgpack.unpackb(packet.data)
        found.append((time_ns, int(power) * 1e-6, int(current) * 1e-3))
    return found
