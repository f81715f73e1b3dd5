"""Progress of measurements in a notebook, updated in place; outside a notebook, printed as lines.

lab.bench("model.tflite", watcher=NotebookProgress())
"""

from __future__ import annotations

import sys
import threading
from html import escape
from importlib import import_module
from typing import Any

from edgebench.host.bench.model import Model
from edgebench.host.bench.watcher import Place, Watcher
from edgebench.host.devices.health import DeviceHealth
from edgebench.host.result.metrics import headline
from edgebench.host.result.run import Run
from edgebench.host.show.incomplete import rejection_line
from edgebench.host.show.units import (
    format_duration,
    format_half_width,
    format_metric,
    half_width_of,
)
from edgebench.host.store.incomplete import IncompleteRun
from edgebench.protocol.errors import EdgebenchError, LeaseHeld
from edgebench.protocol.messages import Progress, Telemetry
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.text import printable
from edgebench.system.terminal import say

MAX_LINES = 50
"""Number of lines that stay on the page, the newest ones."""


class NotebookProgress(Watcher):
    """Shows the progress of measurements; failures are raised, as without a watcher."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._page = _notebook_page()
        self._now: dict[str, str] = {}
        """Current activity of each device."""
        self._lines: list[str] = []

    def for_device(self, device: str, device_count: int) -> Watcher:
        """The watcher of one device, which is called from a thread of its own."""
        del device_count
        return _DeviceProgress(self, device)

    def meter_missing(self, device: str) -> None:
        """Say that the farm wires no meter to a device."""
        self.say(f"note: no meter is wired to {device}")

    def farm_source_failed(self, error: EdgebenchError) -> None:
        """Say which part of the farm is not used."""
        self.say(f"warning: {error}")

    def labgrid_place_taken(self, device: str, place: str, acquired_by: str) -> None:
        """Say who else may use a device."""
        self.say(f"warning: the place {place} of {device} is acquired by {acquired_by}")

    def device_skipped(self, device: str, health: DeviceHealth) -> None:
        """Say which device is in quarantine."""
        self.say(f"note: {device} is in quarantine: {health.quarantine_reason}")

    def say(self, line: str) -> None:
        """Add a line that stays."""
        with self._lock:
            self._lines = [*self._lines, printable(line)][-MAX_LINES:]
            if self._page is None:
                say(line)
            self._draw()

    def set(self, device: str, activity: str) -> None:
        """Set the current activity of a device; an empty text: none."""
        with self._lock:
            self._now[device] = printable(activity)
            self._draw()

    def _draw(self) -> None:
        if self._page is not None:
            current = [f"{printable(name)}: {now}" for name, now in self._now.items() if now]
            self._page.show([*self._lines, *current])


class _DeviceProgress(Watcher):
    """Reports the progress of one device."""

    def __init__(self, whole: NotebookProgress, device: str) -> None:
        self._whole = whole
        self._device = device
        self._title = ""
        self._phase = ""

    def run_started(self, device: str, model: Model, runtime: str, place: Place) -> None:
        """A run begins."""
        which = f"{place.number}/{place.count} " if place.count > 1 else ""
        settings = f", {place.settings}" if place.settings else ""
        self._title = f"{which}{model.name} on {runtime}{settings}"
        self._whole.set(self._device, self._title)

    def progress(self, progress: Progress) -> None:
        """The run entered a phase, or progressed within it."""
        self._phase = progress.phase.value.replace("_", " ")
        if progress.reached is not None:
            self._phase += f", {progress.reached.done} of {progress.reached.total}"
        elif progress.expected_s is not None:
            self._phase += f", for about {format_duration(progress.expected_s)}"
        self._whole.set(self._device, f"{self._title}: {self._phase}")

    def telemetry(self, telemetry: Telemetry) -> None:
        """The device reported its temperature and clock."""
        shown = [self._phase]
        if telemetry.temp_c is not None:
            shown.append(f"{telemetry.temp_c:.1f} °C")
        if telemetry.freq_hz is not None:
            shown.append(f"{telemetry.freq_hz / 1e9:.2f} GHz")
        self._whole.set(self._device, f"{self._title}: {', '.join(shown)}")

    def push_progress(self, done: int, total: int) -> None:
        """A part of the model was sent to the device."""
        of = f"{format_bytes(done)} of {format_bytes(total)}"
        self._whole.set(self._device, f"{self._title}: sending {of}")

    def device_busy(self, device: str, refusal: LeaseHeld, wait_s: float) -> None:
        """Say who holds a device, and how long it is waited for."""
        limit = format_duration(wait_s)
        self._whole.set(self._device, f"waiting for up to {limit}: {refusal}")

    def device_unavailable(self, error: EdgebenchError, limit_s: float) -> None:
        """Say why the device cannot be measured yet, and how long it is waited for."""
        limit = format_duration(limit_s)
        self._whole.set(self._device, f"waiting for up to {limit}: {error}")

    def earlier_run_stored(self, run: Run) -> None:
        """Say that a run of an earlier command is stored."""
        self._whole.say(f"note: {self._device}: the earlier run {run.run_id} is now stored")

    def run_lost(self, run: IncompleteRun) -> None:
        """Say that a run of an earlier command is lost."""
        self._whole.say(f"warning: {self._device}: the earlier run {run.run_id} is gone from it")

    def earlier_run_rejected(self, run_id: str, error: EdgebenchError) -> None:
        """Say that a run of an earlier command cannot be stored, and why."""
        self._whole.say(f"warning: {self._device}: {rejection_line(run_id, error)}")

    def run_finished(self, run: Run) -> None:
        """A run is stored."""
        metric, parts = headline(run), [run.verdict.label]
        if not run.verdict.is_refused:
            value, interval = metric.value(run), metric.interval(run)
            width = format_half_width(value, interval) if interval else "(no interval)"
            shown = format_metric(metric, value, half_width_of(interval, value))
            parts = [f"{metric.label.replace('_', ' ')} {shown} {width}", *parts]
        self._whole.set(self._device, "")
        self._whole.say(f"{self._device}: {self._title}: {', '.join(parts)}")


class _Page:
    """Output area of a notebook whose content can be replaced."""

    def __init__(self, display: Any) -> None:
        self._module = display
        self._handle = display.display(display.HTML(""), display_id=True)

    def show(self, lines: list[str]) -> None:
        text = "\n".join(lines)
        self._handle.update(self._module.HTML(f"<pre>{escape(text)}</pre>"))


def _notebook_page() -> _Page | None:
    """Output area of the running notebook, which has already imported IPython; else None."""
    if (ipython := sys.modules.get("IPython")) is None:
        return None
    shell = ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):  # IPython in a terminal has no such area
        return None
    return _Page(import_module("IPython.display"))
