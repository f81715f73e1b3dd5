"""Recordings of meters, decoded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Decoder, LossReport, SampleBlock, blocks_of
from edgebench.meters.registry import find_decoder
from edgebench.meters.spool import read_header, read_packets

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Decoded:
    """Everything of one channel."""

    blocks: list[SampleBlock]
    loss: LossReport

    @property
    def time_ns(self) -> NDArray[np.int64]:
        """Meter clock."""
        return np.concatenate([block.time_ns for block in self.blocks])

    @property
    def begin_ns(self) -> NDArray[np.int64]:
        """Of each interval, of a meter that averages."""
        found = [block.begin_ns for block in self.blocks if block.begin_ns is not None]
        return np.concatenate(found)

    @property
    def power_w(self) -> Floats:
        """Of each sample."""
        return np.concatenate([block.power_w for block in self.blocks])

    @property
    def current_a(self) -> Floats:
        """Of each sample."""
        found = [block.current_a for block in self.blocks if block.current_a is not None]
        return np.concatenate(found)

    @property
    def flags(self) -> NDArray[np.uint8]:
        """Of each sample."""
        return np.concatenate([block.flags for block in self.blocks])

    @property
    def digital(self) -> NDArray[np.uint8]:
        """Of each sample."""
        found = [block.digital for block in self.blocks if block.digital is not None]
        return np.concatenate(found)


def decoded(path: Path, channel: int = 0) -> Decoded:
    """One channel of a recording."""
    return decoded_by(find_decoder(read_header(path)), path, channel)


def decoded_by(decoder: Decoder, path: Path, channel: int = 0) -> Decoded:
    """The same with a decoder of one's own."""
    blocks = [b for b in blocks_of(decoder, read_packets(path)) if b.channel == channel]
    return Decoded(blocks, decoder.loss())
