"""Power rails in the kernel's files: found, chosen, and read at a rate that suits their chips.

A value is read twice as often as the chip has a new one; what it means, rail_decoder.py says.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.base import AbsentMeter, Capability, Channel, Header, MeterInfo
from edgebench.meters.file_meter import (
    NS_PER_S,
    FileMeter,
    bases_of,
    folders_of,
    number_of,
    why_unreadable,
)
from edgebench.meters.jetson import boundary_of, total_of
from edgebench.meters.polled import HOST_CLOCK, Clock, Files
from edgebench.meters.rail_decoder import RAILS, UPDATE_NS, RailPlan
from edgebench.meters.uncertainty import CurrentLimit, Kind, UncertaintyTerm, Unit, term
from edgebench.protocol.errors import TargetError
from edgebench.protocol.plain import to_plain

RATE_MAX_HZ = 60.0
"""Twice that of an INA226 as the kernel sets it up (35 ms). A read is a transfer on a bus that the
device itself waits for, and is late for when busy: more would be measured, and missed, too."""
_READS_PER_UPDATE = 2
_BUSY_RATIO = 0.5
"""Share of the time that reading may take, or rounds are missed."""
_MIN_WINDOW_UPDATES = 100
TOTAL = "total_rails"
_END = {
    "energy": "end of its converter, seen at the moments at which it is read",
    "power": "end of its converter",
    "product": "end of its converter",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """Rail of this machine."""

    name: str
    chip: str
    address: str
    """Address of the chip: more than one may have its name."""
    files: tuple[Path, ...]
    plan: RailPlan
    update_s: float
    terms: tuple[UncertaintyTerm, ...]

    def __str__(self) -> str:
        return f"{self.name} ({self.chip} {self.address})"


class RailMeter(FileMeter):
    """Meter of every rail that a driver finds, or of the chosen ones."""

    _patterns: tuple[str, ...]
    """Patterns of folders that may be those of a power monitor."""

    def __init__(
        self, root: Path = Path("/"), choice: str = "", clock_ns: Clock = time.perf_counter_ns
    ) -> None:
        super().__init__(root, clock_ns)
        self._choice = choice

    @abstractmethod
    def _rails_in(self, folder: Path) -> Iterable[Rail | AbsentMeter]:
        """Every rail there that is connected, or why it is of no use."""

    def _find(self) -> list[Path]:
        """The files of each rail that answers."""
        folders = folders_of(self._root, *self._patterns)
        known = [rail for folder in folders for rail in self._rails_in(folder)]
        connected = [rail for rail in known if isinstance(rail, Rail)]
        # A channel that nobody uses may fail each read (alumet#212): it is no rail.
        answering = [
            rail for rail in connected if all(number_of(path) is not None for path in rail.files)
        ]
        if answering:
            self._rails = choose(answering, self._choice, self.name)
            return [path for rail in self._rails for path in rail.files]
        if connected:
            why = why_unreadable(path for rail in connected for path in rail.files)
            raise TargetError(f"no power monitor answers: {_listed(connected)}{why}")
        if reasons := [rail.reason for rail in known if isinstance(rail, AbsentMeter)]:
            raise TargetError(f"no power monitor can be read: {', '.join(reasons)}")
        names = [folder / "name" for folder in folders]
        why = why_unreadable([*bases_of(self._root, *self._patterns), *names])
        raise TargetError(f"no power monitor of a kind that {self.name} knows{why}")

    def _refusal(self, exc: OSError) -> str:
        return f"power monitor is not readable: {exc}"

    def _describe(self, connection: Files) -> Header:
        """Read once, to see what a round costs."""
        before_ns = self._clock_ns()
        connection.read()
        round_s = max((self._clock_ns() - before_ns) / NS_PER_S, 1e-9)
        rails = self._rails
        update_s = max(rail.update_s for rail in rails)
        fastest_s = min(rail.update_s for rail in rails)
        rate_hz = min(RATE_MAX_HZ, _READS_PER_UPDATE / fastest_s, _BUSY_RATIO / round_s)
        limits = tuple(
            CurrentLimit(
                limit_a=rail.plan.limit_a, channel=rail.name, reference=_END[rail.plan.kind]
            )
            for rail in rails
            if rail.plan.limit_a is not None
        )
        asked_when = "the chip averages, and is asked at no known time of it"
        edge = term(Kind.EDGE, update_s + 1 / rate_hz, asked_when)
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="",
                model=", ".join(sorted({rail.chip for rail in rails})),
                serial=", ".join(sorted({rail.address for rail in rails})),
                raw_metadata="\n".join(f"{rail}: {rail.files[0].parent}" for rail in rails),
            ),
            capability=Capability(
                driver=self.name,
                channels=tuple(Channel(rail.name, boundary_of(rail.name)) for rail in rails),
                rate_hz=rate_hz,
                is_averaging=all(rail.plan.kind == "energy" for rail in rails),
                clock_domain=HOST_CLOCK,
                smoothing_s=update_s,
                loss_detection="wallclock",
                min_window_s=_MIN_WINDOW_UPDATES * max(update_s, 1 / rate_hz),
                current_limits=limits,
            ),
            uncertainty=(*_widest(rails), edge),
            facts={
                RAILS: [to_plain(rail.plan) for rail in rails],
                UPDATE_NS: round(update_s * NS_PER_S),
                TOTAL: list(total_of([rail.name for rail in rails])),
            },
        )


def choose(rails: list[Rail], choice: str, driver: str) -> list[Rail]:
    """The rails that were asked for, by their own name, their chip's or its address.

    Raises:
        TargetError: there are none, or they do not go together.
    """
    if choice:
        known = [rail for rail in rails if choice in (rail.name, rail.chip, rail.address)]
        if not known:
            raise TargetError(f"no {choice!r} for {driver}; available: {_listed(rails)}")
    else:
        known = rails
    names = Counter(rail.name for rail in known)
    # Rails that are known to add up to a total may be on several chips. A session has either means
    # or instants.
    is_mixed = len({rail.chip for rail in known}) > 1 and not total_of(names)
    is_mixed |= len({rail.plan.kind == "energy" for rail in known}) > 1
    if is_mixed or max(names.values()) > 1:
        raise TargetError(
            f"several power monitors: {_listed(known)}: choose, as in {driver}:{known[0].address}"
        )
    return known


def _listed(rails: Iterable[Rail]) -> str:
    return ", ".join(map(str, rails))


def _widest(rails: Sequence[Rail]) -> list[UncertaintyTerm]:
    """A term holds for every channel: of each kind, that of the least accurate rail."""
    widest: dict[tuple[int, Kind, Unit], UncertaintyTerm] = {}
    for rail in rails:
        for place, one in enumerate(rail.terms):
            key = (place, one.kind, one.unit)
            if key not in widest or one.value > widest[key].value:
                widest[key] = one
    return list(widest.values())
