"""Finds power rails in kernel files, selects some of them, and reads them at a suitable rate.

Each value is read twice per update of its chip; rail_decoder.py defines the meaning of the values.
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
"""Highest polling rate, about twice the update rate of an INA226 with the kernel's settings
(35 ms). The device itself waits during each transfer on the bus, and a busy device delays the
transfers. So more reads would disturb the device, and some reads would be missed."""
_READS_PER_UPDATE = 2
_BUSY_RATIO = 0.5
"""Maximum share of the time that reading may take. If it took more, polling rounds would be
missed."""
_MIN_WINDOW_UPDATES = 100
TOTAL = "total_rails"
LEFT_OUT = "left_out"
"""Name of the header fact with all unmeasured rails, and the reason for each of them."""
_END = {
    "energy": "limit of the converter, checked only at each reading",
    "power": "converter limit",
    "product": "converter limit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """A power rail of this machine."""

    name: str
    chip: str
    address: str
    """Address of the chip, which distinguishes chips of the same name."""
    files: tuple[Path, ...]
    plan: RailPlan
    update_s: float
    terms: tuple[UncertaintyTerm, ...]

    def __str__(self) -> str:
        return f"{self.name} ({self.chip} {self.address})"


class RailMeter(FileMeter):
    """Meter of all rails that a driver finds, or of the selected rails."""

    _patterns: tuple[str, ...]
    """Return the patterns of folders that may belong to a power monitor."""

    def __init__(
        self, root: Path = Path("/"), choice: str = "", clock_ns: Clock = time.perf_counter_ns
    ) -> None:
        super().__init__(root, clock_ns)
        self._choice = choice

    @abstractmethod
    def _rails_in(self, folder: Path) -> Iterable[Rail | AbsentMeter]:
        """Return the connected rails in this folder, and a reason for each unusable rail."""

    def _find(self) -> list[Path]:
        """Files of all readable rails."""
        folders = folders_of(self._root, *self._patterns)
        known = [rail for folder in folders for rail in self._rails_in(folder)]
        connected = [rail for rail in known if isinstance(rail, Rail)]
        # Reads of an unconnected channel may always fail (alumet#212): it is not a rail.
        answering = [
            rail for rail in connected if all(number_of(path) is not None for path in rail.files)
        ]
        if answering:
            self._rails = choose(answering, self._choice, self.name)
            self._left_out = [rail.reason for rail in known if isinstance(rail, AbsentMeter)]
            self._left_out += [
                f"{rail} has no value{why_unreadable(rail.files)}"
                for rail in connected
                if rail not in answering
            ]
            return [path for rail in self._rails for path in rail.files]
        if connected:
            why = why_unreadable(path for rail in connected for path in rail.files)
            raise TargetError(f"power monitors are not readable: {_listed(connected)}{why}")
        if reasons := [rail.reason for rail in known if isinstance(rail, AbsentMeter)]:
            raise TargetError(f"power monitors are not usable: {', '.join(reasons)}")
        names = [folder / "name" for folder in folders]
        why = why_unreadable([*bases_of(self._root, *self._patterns), *names])
        raise TargetError(f"found no power monitor that {self.name} supports{why}")

    def _refusal(self, exc: OSError) -> str:
        return f"power monitor is not readable: {exc}"

    def _describe(self, connection: Files) -> Header:
        """Describe the rails, after a read that measures the duration of a round."""
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
        is_counter = all(rail.plan.kind == "energy" for rail in rails)
        at_poll = "the chip averages, and is read at unknown times"
        edge = term(Kind.EDGE, update_s + 1 / rate_hz, at_poll)
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
                is_averaging=is_counter,
                is_counter=is_counter,
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
            }
            | ({LEFT_OUT: self._left_out} if self._left_out else {}),
        )


def choose(rails: list[Rail], choice: str, driver: str) -> list[Rail]:
    """Select rails by their own name, or by the name or address of their chip.

    Raises:
        TargetError: no rail matches, or the rails cannot be measured together.
    """
    if choice:
        known = [rail for rail in rails if choice in (rail.name, rail.chip, rail.address)]
        if not known:
            raise TargetError(f"no {choice!r} for {driver}; available: {_listed(rails)}")
    else:
        known = rails
    names = Counter(rail.name for rail in known)
    # Rails of a total may be on several chips. A session records either means
    # or instants.
    is_mixed = len({rail.chip for rail in known}) > 1 and not total_of(names)
    is_mixed |= len({rail.plan.kind == "energy" for rail in known}) > 1
    if is_mixed or max(names.values()) > 1:
        raise TargetError(
            f"several power monitors: {_listed(known)}; select one: {driver}:{known[0].address}"
        )
    return known


def _listed(rails: Iterable[Rail]) -> str:
    return ", ".join(map(str, rails))


def _widest(rails: Sequence[Rail]) -> list[UncertaintyTerm]:
    """Uncertainty terms that hold for all rails: each has the largest value of any rail."""
    widest: dict[tuple[int, Kind, Unit], UncertaintyTerm] = {}
    for rail in rails:
        for place, uncertainty in enumerate(rail.terms):
            key = (place, uncertainty.kind, uncertainty.unit)
            if key not in widest or uncertainty.value > widest[key].value:
                widest[key] = uncertainty
    return list(widest.values())
