"""Progress of measurements in a notebook, updated in place; outside a notebook, printed as lines.

lab.bench("model.tflite", watcher=NotebookProgress())
"""

from __future__ import annotations

import sys
import threading
from html import escape
from importlib import import_module
from typing import Any

from edgebench.host.bench import events
from edgebench.host.result.run import Run
from edgebench.host.result.units import format_duration
from edgebench.host.show.incomplete import rejection_line
from edgebench.host.show.numbers import headline_words
from edgebench.host.show.verdict import extra_run_words
from edgebench.protocol.messages import Progress
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.text import printable
from edgebench.system.terminal import echo

MAX_LINES = 50
"""Maximum number of lines on the page; older lines are dropped."""


class NotebookProgress:
    """Watcher that shows the progress of measurements; a failed measurement raises its error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._page = _notebook_page()
        self._now: dict[str, str] = {}
        """Maps the name of each device to its current activity."""
        self._titles: dict[str, str] = {}
        """Maps the name of each device to the title of its run in progress."""
        self._phases: dict[str, str] = {}
        self._lines: list[str] = []

    def __call__(self, event: events.MeasurementEvent) -> None:
        """Show an event.

        Raises:
            EdgebenchError: a device or a run failed.
        """
        events.raise_failures(event)
        match event:
            case events.MeterMissing(device):
                self.echo(f"note: no meter is wired to {device}")
            case events.FarmSourceFailed(error):
                self.echo(f"warning: {error}")
            case events.LabgridPlaceTaken(device, place, acquired_by):
                self.echo(
                    f"warning: labgrid place {place} of {device} is acquired by {acquired_by}"
                )
            case events.DeviceSkipped(device, health):
                self.echo(f"note: {device} is in quarantine: {health.quarantine_reason}")
            case events.DeviceBusy(device, reason, limit_s):
                self.set(device, f"waiting for up to {format_duration(limit_s)}: {reason}")
            case events.DeviceUnavailable(device, reason, limit_s):
                self.set(device, f"waiting for up to {format_duration(limit_s)}: {reason}")
            case events.RunBegan(device=device, place=place):
                which = f"{place.number}/{place.count} " if place.count > 1 else ""
                settings = f", {place.settings}" if place.settings else ""
                self._titles[device] = f"{which}{event.model} on {event.runtime}{settings}"
                self.set(device, self._titles[device])
            case events.ExtraRunPlanned(device, model, member=member):
                self.echo(f"note: {device}: {model}: {extra_run_words(member)}")
            case events.PushProgress(device, done, total):
                of = f"{format_bytes(done)} of {format_bytes(total)}"
                self.set(device, f"{self._titles.get(device, '')}: sending {of}")
            case events.PhaseReport(device, progress):
                self._enter(device, progress)
            case events.TelemetryReport(device, telemetry):
                shown = [self._phases.get(device, "")]
                if telemetry.temp_c is not None:
                    shown.append(f"{telemetry.temp_c:.1f} °C")
                if telemetry.freq_hz is not None:
                    shown.append(f"{telemetry.freq_hz / 1e9:.2f} GHz")
                self.set(device, f"{self._titles.get(device, '')}: {', '.join(shown)}")
            case events.EarlierRunStored(device, run):
                self.echo(f"note: {device}: the earlier run {run.run_id} is now stored")
            case events.EarlierRunLost(device, lost):
                self.echo(f"warning: {device}: the earlier run {lost.run_id} is lost")
            case events.EarlierRunRejected(device, run_id, error):
                self.echo(f"warning: {device}: {rejection_line(run_id, error)}")
            case events.RunStored(device, run):
                self._finish(device, run)
            case _:
                pass

    def _enter(self, device: str, progress: Progress) -> None:
        """Show the phase that a run entered, or its progress in the phase."""
        phase = progress.phase.value.replace("_", " ")
        if progress.reached is not None:
            phase += f", {progress.reached.done} of {progress.reached.total}"
        elif progress.expected_s is not None:
            phase += f", for about {format_duration(progress.expected_s)}"
        self._phases[device] = phase
        self.set(device, f"{self._titles.get(device, '')}: {phase}")

    def _finish(self, device: str, run: Run) -> None:
        """Add the result line of a stored run."""
        self.set(device, "")
        self.echo(f"{device}: {self._titles.get(device, '')}: {headline_words(run)}")

    def echo(self, line: str) -> None:
        """Add a permanent line."""
        with self._lock:
            self._lines = [*self._lines, printable(line)][-MAX_LINES:]
            if self._page is None:
                echo(line)
            self._draw()

    def set(self, device: str, activity: str) -> None:
        """Set the current activity of a device; an empty text removes it."""
        with self._lock:
            self._now[device] = printable(activity)
            self._draw()

    def _draw(self) -> None:
        if self._page is not None:
            current = [f"{printable(name)}: {now}" for name, now in self._now.items() if now]
            self._page.show([*self._lines, *current])


class _Page:
    """Output area of a notebook; the content of the area can be replaced."""

    def __init__(self, display: Any) -> None:
        self._module = display
        self._handle = display.display(display.HTML(""), display_id=True)

    def show(self, lines: list[str]) -> None:
        text = "\n".join(lines)
        self._handle.update(self._module.HTML(f"<pre>{escape(text)}</pre>"))


def _notebook_page() -> _Page | None:
    """Output area of the running notebook; None outside a notebook."""
    if (ipython := sys.modules.get("IPython")) is None:
        return None
    shell = ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):  # IPython in a terminal has no such area
        return None
    return _Page(import_module("IPython.display"))
