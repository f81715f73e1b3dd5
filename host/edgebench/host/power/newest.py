"""Recent power of a session in progress. The power is only displayed, and no result uses it."""

from __future__ import annotations

import logging
import math
import time

import numpy as np

from edgebench.host.store.live import LivePower
from edgebench.meters.base import MeterSession, Packet, blocks_of
from edgebench.meters.registry import find_decoder

logger = logging.getLogger(__name__)

NEWEST_BYTES = 32768
"""Limit on the total size of the packets that are decoded; a PPK2 sends this amount in 80 ms. The
last two packets are decoded in any case. Without a limit, decoding could slow down the thread that
reads the meter so much that samples are lost."""
STALE_S = 3.0
"""Packets older than this are ignored."""


def newest_power(session: MeterSession) -> tuple[LivePower, ...]:
    """Mean power of each channel over the last packets; empty if they contain no reading.

    A decoder that starts in the middle of a stream may find no reading.
    """
    newest = session.newest()
    packets: list[Packet] = []
    size = 0
    for packet in reversed(newest.packets):
        size += len(packet.data)
        if len(packets) >= 2 and size > NEWEST_BYTES:
            break
        if time.perf_counter_ns() - packet.last_rx_ns > STALE_S * 1e9:
            break
        packets.insert(0, packet)
    sums: dict[int, list[float]] = {}
    try:
        for block in blocks_of(find_decoder(newest.header), packets):
            known = block.power_w[np.isfinite(block.power_w)]
            sums.setdefault(block.channel, []).extend((float(known.sum()), float(len(known))))
    except Exception:  # each driver's library raises its own exceptions
        logger.debug("power not shown", exc_info=True)
        return ()
    channels = newest.header.capability.channels
    powers = (
        (channels[index].name, math.fsum(parts[::2]), sum(parts[1::2]))
        for index, parts in sorted(sums.items())
        if index < len(channels)
    )
    return tuple(LivePower(name, total_w / count) for name, total_w, count in powers if count)
