"""A stored recording of power, read where it is asked for.

The metadata have each row group's times and energy, so the energy between two times takes two row
groups to read, however long the recording is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from edgebench.host.analysis.energy import EnergyWindow, RangePart
from edgebench.host.analysis.integrate import Floats, Nanoseconds, PowerLine
from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.power import (
    KEY,
    Group,
    PowerFacts,
    RangeShare,
    line_of,
    mean_volts_v,
    shares_of,
    spikes_j,
)
from edgebench.meters.arrival import ArrivalLine
from edgebench.meters.base import Header, LossReport
from edgebench.protocol.codec import from_plain
from edgebench.protocol.errors import EdgebenchError, MeasurementError, RunDamaged

_DIGITAL_BITS = 8


@dataclass(frozen=True, slots=True)
class PowerFile:
    """One recording; implements `PowerTrace`."""

    path: Path
    facts: PowerFacts

    @classmethod
    def open(cls, directory: Path) -> PowerFile:
        """The recording of a run.

        Raises:
            RunDamaged: there is none, or it is not readable.
        """
        return cls(directory / POWER_FILE, read_power_facts(directory))

    @property
    def header(self) -> Header:
        """What the meter is."""
        return self.facts.header

    @property
    def loss(self) -> LossReport:
        """How complete it is."""
        return self.facts.loss

    @property
    def arrival(self) -> ArrivalLine | None:
        """When its samples came."""
        return self.facts.arrival

    @property
    def flags(self) -> int:
        """All that is wrong with any sample."""
        return reduce(or_, (group.flags for group in self.facts.groups), 0)

    def span_ns(self, channel: str) -> tuple[int, int]:
        """First and last time of a channel.

        Raises:
            MeasurementError: it has no number.
        """
        line = _outline(self.facts.of(channel))
        return int(line.time_ns[0]), int(line.time_ns[-1])

    def energy_j(self, channel: str, begin_ns: int, end_ns: int) -> float:
        """Energy of a window of the meter's clock.

        Raises:
            MeasurementError: the window is empty, or reaches beyond what was recorded.
            RunDamaged: the file is damaged.
        """
        _outline(self.facts.of(channel)).check(begin_ns, end_ns)
        begin_j, end_j = self.cumulative_j(channel, np.array([begin_ns, end_ns]))
        return float(end_j - begin_j)

    def cumulative_j(self, channel: str, time_ns: Nanoseconds) -> Floats:
        """Energy from the channel's begin to each of these times, shape (m,).

        Raises:
            MeasurementError: a time is outside of what was recorded.
            RunDamaged: the file is damaged.
        """
        groups = self._numbered(channel)
        outline = _outline([group for _, group in groups])
        if len(time_ns):
            outline.check_inside(int(time_ns.min()), int(time_ns.max()))
        found = np.full(len(time_ns), np.nan)
        for piece in _pieces(groups):
            is_here = (time_ns >= piece.first_ns) & (time_ns <= piece.last_ns)
            if is_here.any():
                line = piece.bridge or self._line(piece.number)
                found[is_here] = piece.before_j + line.cumulative_j(time_ns[is_here])
        return found

    def window(self, channel: str, begin_ns: int, end_ns: int) -> EnergyWindow:
        """Energy between two times, with what its uncertainty depends on.

        Raises:
            MeasurementError: the window is empty, or reaches beyond what was recorded.
            RunDamaged: the file is damaged.
        """
        energy_j = self.energy_j(channel, begin_ns, end_ns)
        duration_s = (end_ns - begin_ns) / 1e9
        parts = list(self._parts(channel, begin_ns, end_ns))
        capability = self.header.capability
        mean_w = energy_j / duration_s
        volts_v = [part.volts_v for part in parts if part.volts_v is not None]
        given_v = self.header.facts.get("supply_v")
        measured_v = sum(volts_v) / len(volts_v) if volts_v else None
        return EnergyWindow(
            energy_j=energy_j,
            duration_s=duration_s,
            sample_count=sum(part.row_count for part in parts),
            supply_v=measured_v or (float(given_v) if given_v else math.nan),
            edge_power_w=(mean_w, mean_w),
            ranges=_range_parts(parts, energy_j, duration_s),
            missing_s=self._missing_s(begin_ns, end_ns),
            sample_s=max(1 / capability.rate_hz, capability.smoothing_s or 0.0),
            spike_j=sum(part.spike_j for part in parts),
            power_w_span=max(part.max_w for part in parts) - min(part.min_w for part in parts),
        )

    def peak_w(self, channel: str, begin_ns: int, end_ns: int) -> float:
        """Highest value in a window."""
        return max(part.max_w for part in self._parts(channel, begin_ns, end_ns))

    def falling_edges(self) -> dict[int, Nanoseconds]:
        """The middle between the last high and the first low sample, by digital input."""
        found: dict[int, list[Nanoseconds]] = {}
        channel = self.header.capability.channels[0].name
        last: tuple[int, int] | None = None
        for number, _ in self._numbered(channel):
            table = self._read(number, ["time_ns", "digital"])
            if table["digital"].null_count:
                return {}
            time_ns, digital = table["time_ns"].to_numpy(), table["digital"].to_numpy()
            if last is not None:
                time_ns = np.concatenate([[last[0]], time_ns])
                digital = np.concatenate([np.array([last[1]], np.uint8), digital])
            last = int(time_ns[-1]), int(digital[-1])
            fell = digital[:-1] & ~digital[1:]
            middle_ns = (time_ns[:-1] + time_ns[1:]) // 2
            for bit in range(_DIGITAL_BITS):
                if (is_edge := (fell >> bit) & 1 == 1).any():
                    found.setdefault(bit, []).append(middle_ns[is_edge])
        return {bit: np.concatenate(times) for bit, times in found.items()}

    def _numbered(self, channel: str) -> list[tuple[int, Group]]:
        return [
            (number, group)
            for number, group in enumerate(self.facts.groups)
            if group.channel == channel and group.node_count
        ]

    def _parts(self, channel: str, begin_ns: int, end_ns: int) -> Iterator[Group]:
        """The row groups of a window; those at its ends as far as they are inside."""
        for number, group in self._numbered(channel):
            first, last = max(begin_ns, group.first_ns), min(end_ns, group.last_ns)
            if first >= last:
                continue
            if (first, last) == (group.first_ns, group.last_ns):
                yield group
            else:
                yield _part(self._read(number), self._is_averaging, first, last)

    @property
    def _is_averaging(self) -> bool:
        return self.header.capability.is_averaging

    def _missing_s(self, begin_ns: int, end_ns: int) -> float:
        inside = (min(end_ns, gap.end_ns) - max(begin_ns, gap.begin_ns) for gap in self.loss.gaps)
        return sum(max(0, passed_ns) for passed_ns in inside) / 1e9

    def _line(self, number: int) -> PowerLine:
        columns = ["time_ns", "begin_ns", "watts_w"]
        return line_of(self._read(number, columns), self._is_averaging)

    def _read(self, number: int, columns: list[str] | None = None) -> Any:
        try:
            with pq.ParquetFile(self.path) as file:
                return file.read_row_group(number, columns)
        except (OSError, pa.ArrowException) as exc:
            raise RunDamaged(f"power of the run is not readable: {exc}: {self.path}") from exc


@dataclass(frozen=True, slots=True)
class _Piece:
    """A stretch of a channel: a row group, or the line between two."""

    number: int
    first_ns: int
    last_ns: int
    before_j: float
    bridge: PowerLine | None = None


def _pieces(groups: list[tuple[int, Group]]) -> Iterator[_Piece]:
    before_j = 0.0
    for (number, group), following in zip(groups, [*groups[1:], None], strict=True):
        yield _Piece(number, group.first_ns, group.last_ns, before_j)
        before_j += group.energy_j
        if following is not None:
            other = following[1]
            bridge = PowerLine(
                np.array([group.last_ns, other.first_ns]), np.array([group.last_w, other.first_w])
            )
            yield _Piece(number, group.last_ns, other.first_ns, before_j, bridge)
            before_j += bridge.energy_j()


def _part(table: Any, is_averaging: bool, begin_ns: int, end_ns: int) -> Group:
    """A row group, cut to a window."""
    line = line_of(table, is_averaging)
    time_ns = table["time_ns"].to_numpy()
    inside = table.filter(pa.array((time_ns >= begin_ns) & (time_ns <= end_ns)))
    cut = line.cut(begin_ns, end_ns)
    return Group(
        channel="",
        row_count=len(inside),
        min_w=float(cut.power_w.min()),
        max_w=float(cut.power_w.max()),
        volts_v=mean_volts_v(inside),
        shares=shares_of(table, line, is_averaging, begin_ns, end_ns),
        spike_j=spikes_j(inside),
    )


def _range_parts(
    groups: list[Group], energy_j: float, duration_s: float
) -> dict[int | None, RangePart]:
    """By range; what lies between row groups is shared out as the rest is."""
    shares: list[RangeShare] = [share for group in groups for share in group.shares]
    sum_j, sum_s = sum(one.energy_j for one in shares), sum(one.duration_s for one in shares)
    if not sum_j or not sum_s:
        return {}
    return {
        number: RangePart(
            energy_j=energy_j / sum_j * sum(o.energy_j for o in shares if o.range == number),
            duration_s=duration_s / sum_s * sum(o.duration_s for o in shares if o.range == number),
        )
        for number in sorted({one.range for one in shares})
    }


def _outline(groups: list[Group] | tuple[Group, ...]) -> PowerLine:
    """First and last node of each row group."""
    if not groups:
        raise MeasurementError("the meter recorded nothing of this channel")
    times = [(group.first_ns, group.last_ns) for group in groups]
    powers = [(group.first_w, group.last_w) for group in groups]
    return PowerLine(np.array(times).reshape(-1), np.array(powers).reshape(-1))


def read_power_facts(directory: Path) -> PowerFacts:
    """What power.parquet says of itself.

    Raises:
        RunDamaged: there is none, or it is not readable.
    """
    return read_facts_of(directory / POWER_FILE)


def read_facts_of(path: Path) -> PowerFacts:
    """The same of a file of another name.

    Raises:
        RunDamaged: it is not readable, or not one of ours.
    """
    try:
        text = (pq.read_metadata(path).metadata or {}).get(KEY.encode())
        if text is None:
            raise RunDamaged(f"power of the run is not readable: no account of its meter: {path}")
        return from_plain(json.loads(text), PowerFacts)
    except RunDamaged:
        raise
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException, EdgebenchError) as exc:
        raise RunDamaged(f"power of the run is not readable: {exc}: {path}") from exc
