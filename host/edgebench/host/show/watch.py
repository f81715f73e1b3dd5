"""Live view of devices, as a table of their states, or as a line for each change."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from rich.table import Table
from rich.text import Text

from edgebench.host.result.units import ABSENT
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.tables import text
from edgebench.host.watch import Absence, Batch, StateChange, Update
from edgebench.protocol.messages import SeatState
from edgebench.protocol.record import Phase

_PHASES = {phase: phase.value.replace("_", " ") for phase in Phase}


@dataclass(slots=True)
class _Row:
    """State of a device, from its last updates."""

    state: SeatState | None = None
    absence: Absence | None = None
    batch: Batch | None = None


class WatchTable:
    """The current state of the devices."""

    def __init__(self) -> None:
        self._rows: dict[str, _Row] = {}

    def take(self, update: Update) -> None:
        """Record an update."""
        if isinstance(update, Absence):
            self._rows[update.device] = _Row(absence=update)
            return
        row = self._rows.setdefault(update.device, _Row())
        row.absence = None
        if isinstance(update, StateChange):
            row.state = update.state
        else:
            row.batch = update

    def table(self) -> Table:
        """Table of all devices that sent an update, sorted by name."""
        table = DataTable("device", "state", "run", "phase", "temp", "clock", "load")
        for name, row in sorted(self._rows.items()):
            state, batch = row.state, row.batch
            table.add_row(
                text(name),
                _state(row),
                text((state and state.running) or ABSENT),
                text(_PHASES[state.phase] if state and state.phase else ABSENT),
                text(_last(batch.samples.temp_c, 1.0, "{:.1f} °C") if batch else ABSENT),
                text(_last(batch.samples.freq_hz, 1e-9, "{:.2f} GHz") if batch else ABSENT),
                text(ABSENT if batch is None or batch.load_1m is None else f"{batch.load_1m:.2f}"),
            )
        return table


def change_line(update: Absence | StateChange) -> str:
    """A change as a line of text."""
    if isinstance(update, Absence):
        return f"{update.device}: away for {_ago(update)}: {update.reason}"
    state = update.state
    parts = [f"in use by {state.held_by}" if state.held_by else "free"]
    if state.running:
        phase = f", {_PHASES[state.phase]}" if state.phase else ""
        parts.append(f"runs {state.running}{phase}")
    return f"{update.device}: {'; '.join([*parts, *filter(None, [state.fault])])}"


def _state(row: _Row) -> Text:
    if row.absence is not None:
        return _styled(f"away for {_ago(row.absence)}: {row.absence.reason}", "red")
    if row.state is None:
        return text(ABSENT)
    if row.state.fault:
        return _styled(row.state.fault, "yellow")
    if row.state.held_by:
        return _styled(f"in use by {row.state.held_by}", "yellow")
    return _styled("free", "green")


def _styled(value: str, style: str) -> Text:
    shown = text(value)
    shown.stylize(style)
    return shown


def _ago(absence: Absence) -> timedelta:
    return timedelta(seconds=max(0, round(time.time() - absence.since_s)))


def _last(values: Iterable[float], scale: float, form: str) -> str:
    """The last value that is not NaN, as text.

    The clock is sent less often than the temperature, so many of its values are NaN.
    """
    known = [value for value in values if not math.isnan(value)]
    return form.format(known[-1] * scale) if known else ABSENT
