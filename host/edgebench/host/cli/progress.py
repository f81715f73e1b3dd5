"""Progress display of a measurement, on standard error.

A terminal shows a row for each set that has a run. Below the rows is a bar for each run in
progress:

    vww_96_float.tflite  3 of 8 runs  p50 203 µs  201 µs to 206 µs
    vww_96_int8.tflite   2 of 8 runs  p50 124 µs  124 µs to 125 µs
    total                             5 of 16 runs            about 0:00:29 left
    6/16 vww_96_int8.tflite on litert measuring               0:00:01 of 0:00:02

If stderr is not a terminal, a line is printed when a run begins or ends.
"""

from __future__ import annotations

import math
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Column
from rich.text import Text

from edgebench.host.analysis.verdict.run import CompleteRule
from edgebench.host.bench import events
from edgebench.host.bench.collect import failure_of
from edgebench.host.cli.pace import DevicePace, OverallPace, overall_pace
from edgebench.host.cli.starting import end_starting
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import format_duration
from edgebench.host.show.devices import CLOSE_FILES
from edgebench.host.show.incomplete import incomplete_line, rejection_line
from edgebench.host.show.interim import InterimRow, interim_lines, interim_row
from edgebench.host.show.names import short_name
from edgebench.host.show.numbers import headline_words
from edgebench.host.show.tables import console, print_line
from edgebench.host.show.times import local_time
from edgebench.host.show.verdict import extra_run_words, verdict_lines
from edgebench.protocol import messages as m
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import Phase, PhaseProgress, ProgressUnit
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.text import printable

if TYPE_CHECKING:
    from types import FrameType

_PHASES = {
    Phase.COOLING: "cooling down",
    Phase.IDLE: "idle, for the meter",
    Phase.STARTING: "starting",
    Phase.LOADING: "loading",
    Phase.SYNCING: "synchronising",
    Phase.WARMING_UP: "warming up",
    Phase.MEASURING: "measuring",
    Phase.CHECKING: "checking",
    Phase.SPOOLING: "writing",
}
REFRESH_HZ = 2
"""Redraws per second; the number is low, because drawing takes CPU time from a timed loop on this
machine."""
REPORT_S = 10.0
"""Interval of the lines that replace the bar if stderr is not a terminal, seconds."""
LONG_CHECK_S = 60.0
"""If a data set is expected to take longer than this time, seconds, a note says so."""
BAR_WIDTH = 30
BAR_FROM_WIDTH = 100
"""Minimum width of a terminal for the bar, in characters; on a narrower terminal, the line would
wrap."""
MIN_SHORT_NAME = 8
"""Minimum width of a shortened model name next to its bar, in characters."""
OTHERS_WIDTH = 58
"""Width of the columns for bar, phase (with temperature and clock) and time."""


class ClockBar(ProgressColumn):
    """Bar that shows the elapsed share of a phase of known duration, or of all runs."""

    def render(self, task: Task) -> ProgressBar:
        """Draw the bar."""
        if (pace := task.fields.get("pace")) is not None:
            elapsed_s, left_s = task.elapsed or 0.0, pace().left_s
            total_s = None if left_s is None else elapsed_s + left_s
            return ProgressBar(total=total_s, completed=elapsed_s, width=BAR_WIDTH, pulse=False)
        done = (task.elapsed or 0.0) if task.fields["is_timed"] else task.completed
        total = task.total
        return ProgressBar(
            total=total, completed=min(done, total or 0.0), width=BAR_WIDTH, pulse=total is None
        )


class PhaseTime(ProgressColumn):
    """Shows the time since a phase began and its expected duration, or the total time left."""

    def render(self, task: Task) -> Text:
        """Draw the time."""
        if (pace := task.fields.get("pace")) is not None:
            left_s = pace().left_s
            return Text("" if left_s is None else f"about {format_duration(left_s)} left")
        if not task.fields["is_timed"]:
            return Text("")
        # Rounded up, so that an expected duration below half a second is not shown as 0:00:00.
        expected = f" of {format_duration(math.ceil(task.total))}" if task.total else ""
        return Text(f"{format_duration(task.elapsed or 0.0)}{expected}")


class ProgressWithRows(Progress):
    """Bars of the runs in progress, below a row for each set that has a run."""

    def __init__(
        self, *columns: ProgressColumn, console: Console, refresh_per_second: int, is_shown: bool
    ) -> None:
        self._rows: dict[str, InterimRow] = {}
        """Maps sets to rows, in the order of the first run of each set."""
        self._order: list[str] = []
        """Sets in the order in which their rows changed."""
        self._lines: dict[str, str] = {}
        super().__init__(  # which renders once
            *columns,
            console=console,
            transient=True,
            refresh_per_second=refresh_per_second,
            disable=not is_shown,
        )

    def set_row(self, set_id: str, row: InterimRow) -> None:
        """Add or replace the row of a set."""
        self._rows[set_id] = row
        self._order = [other for other in self._order if other != set_id] + [set_id]
        # Made here, not twice a second: drawing loads a local device during the timed loop.
        lines = interim_lines(list(self._rows.values()), self.console.width)
        self._lines = dict(zip(self._rows, lines, strict=True))

    def get_renderables(self) -> Iterable[RenderableType]:
        """As many of the most recently changed rows as fit on the terminal, and the bars."""
        if self._lines:
            room = max(self.console.height - len(self.tasks) - 2, 1)
            recent = set(self._order[-room:])
            lines = [line for set_id, line in self._lines.items() if set_id in recent]
            yield Text("\n".join(lines), no_wrap=True, overflow="crop")
        yield self.make_tasks_table(self.tasks)


@dataclass(frozen=True, slots=True)
class RunFailure:
    """A run that failed, or an error that ended all runs."""

    error: EdgebenchError
    model: str | None = None
    """Model of the run; model and runtime are None if the error is not about a run."""
    runtime: str | None = None
    device: str | None = None
    """Device; None if the error is not about a device."""
    is_one_of_several: bool = False
    """Whether several devices are measured; if so, the title names the device."""

    @property
    def title(self) -> str:
        """Name of the run for messages, or of the device if there is no run."""
        if self.model is None:
            return str(self.device)
        run = f"{self.model} on {self.runtime}" if self.runtime else self.model
        return f"{self.device}: {run}" if self.is_one_of_several else run


def _reached(reached: PhaseProgress) -> str:
    """Progress within a phase, as text."""
    if reached.unit is ProgressUnit.BYTES:
        return f"sending {format_bytes(reached.done)} of {format_bytes(reached.total)}"
    return f"{reached.done} of {reached.total} {reached.unit.value}"


class ProgressWatcher:
    """Shows each run's phases, as a bar on a terminal, or else as a line every `REPORT_S` seconds.

    Bars and lines advance with the host's clock, because the host does not query a device during
    its timed loop.
    """

    def __init__(self, *, is_quiet: bool, trusts_models: bool = False) -> None:
        """Create the display.

        Args:
            trusts_models: Whether the user accepts that models can open the files of the account
                in which the agent runs.
            is_quiet: Whether only warnings are printed while runs are made.
        """
        self.trusts_models = trusts_models
        self.is_quiet = is_quiet
        self.console: Console = console(stderr=True)
        self.name_width = max(8, self.console.width - OTHERS_WIDTH)
        # Fixed column widths, so that columns do not move when their text changes.
        what_width, time_width = (28, 18) if self.console.width > OTHERS_WIDTH + 8 else (0, 0)
        self.bar = ProgressWithRows(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, overflow="ellipsis", max_width=self.name_width),
            ),
            *([ClockBar()] if self.console.width >= BAR_FROM_WIDTH else []),
            TextColumn(
                "{task.fields[what]}",
                markup=False,
                table_column=Column(no_wrap=True, min_width=what_width),
            ),
            PhaseTime(table_column=Column(no_wrap=True, min_width=time_width)),
            console=self.console,
            refresh_per_second=REFRESH_HZ,
            is_shown=self.console.is_terminal and not is_quiet,
        )
        self._is_over = threading.Event()
        self._reports = threading.Thread(target=self._report_often, name="progress", daemon=True)
        self._devices: dict[str, DeviceProgress] = {}
        self._starting: TaskID | None = None
        self._overall: TaskID | None = None
        self._is_answering = False
        """Whether the handler of Ctrl-C is installed."""
        self.failures: list[RunFailure] = []
        self.rejected_count = 0
        """Runs of earlier commands that could not be stored."""
        self.unmeasured: list[str] = []
        """Names of the devices whose measurement was ended by an error."""

    @property
    def has_lines(self) -> bool:
        """Whether progress is printed in lines of text instead of bars."""
        return not self.console.is_terminal and not self.is_quiet

    @property
    def runs(self) -> list[Run]:
        """Stored runs, device by device."""
        return [run for device in self._devices.values() for run in device.runs]

    def __enter__(self) -> ProgressWatcher:
        starting = end_starting()
        self.bar.start()
        if starting is not None:
            self._starting = self.bar.add_task(
                starting, total=None, what="", title=starting, is_timed=True
            )
        if self.has_lines:
            self._reports.start()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            with suppress(ValueError):  # not in the main thread
                signal.signal(signal.SIGINT, self._on_interrupt)
                self._is_answering = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_answering:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self._is_over.set()
        self.bar.stop()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Acknowledge Ctrl-C immediately: stopping a run takes a moment."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if any(device.is_running for device in self._devices.values()):
            with suppress(RuntimeError):  # the signal interrupted another line
                self.echo(
                    "stopping the run; press Ctrl-C again to exit without waiting for its end"
                )
        signal.default_int_handler(number, frame)

    def begin(self) -> None:
        """Handle the start of a run, and show the overall progress if there are several runs."""
        if self._starting is not None:
            self.bar.remove_task(self._starting)
            self._starting = None
        if self._overall is None and (len(self._devices) > 1 or self.pace().count != 1):
            self._overall = self.bar.add_task(
                "total", total=None, what="", title="total", is_timed=False, pace=self.pace
            )
        self.count()

    def count(self) -> None:
        """Show how many of the runs have ended."""
        if self._overall is not None:
            pace = self.pace()
            of = "" if pace.count is None else f" of {pace.count}"
            self.bar.update(self._overall, what=f"{pace.done_count}{of} runs")

    def pace(self) -> OverallPace:
        """Progress and remaining time of all devices together."""
        return overall_pace([device.pace for device in self._devices.values()], time.monotonic())

    def _report_often(self) -> None:
        while not self._is_over.wait(REPORT_S):
            self.report()

    def report(self) -> None:
        """Print each run's phase, with the elapsed time and the expected duration of the phase."""
        for task in self.bar.tasks:
            if task.id in (self._overall, self._starting):
                continue
            what = task.fields["what"] or "preparing"
            took = PhaseTime().render(task).plain
            self.echo(f"run: {task.fields['title']}: {what}{f', {took}' if took else ''}")

    def notify(self, event: events.MeasurementEvent) -> None:
        """Show an event; a device's events go to its `DeviceProgress`."""
        match event:
            case events.DeviceSelected(device, device_count):
                self._devices[device] = DeviceProgress(self, device, is_alone=device_count == 1)
            case events.MeterMissing(device):
                without = "is measured without energy: no meter in the farm file"
                self.echo(f"note: {device} {without}")
            case events.FarmSourceFailed(error):
                self.echo(f"warning: {error}; using the rest of the farm")
            case events.LabgridPlaceTaken(device, place, acquired_by):
                self.echo(
                    f"warning: {device}: labgrid place {place} is acquired by {acquired_by}, "
                    "whose use may disturb the measurement"
                )
            case events.DeviceSkipped(device, health):
                self.echo(
                    f"warning: {device} is left out, in quarantine since "
                    f"{local_time(health.quarantined_utc or '')}: {health.quarantine_reason}"
                )
                again = f"edgebench devices check {shlex.quote(device)}"
                self.echo(f"hint: check it again: {again}")
            case events.DeviceFailed(device, error):
                self.failures.append(self._devices[device].failure(error))
                self.unmeasured.append(device)
                self.echo(f"warning: {device}: {error}; continuing with the other devices")
            case _:
                if event.device in self._devices:  # else a late event of an earlier command's lane
                    self._devices[event.device].notify(event)

    def failure(self, error: EdgebenchError) -> RunFailure:
        """An error that ended the command, with the run in progress, if any."""
        devices = list(self._devices.values())
        return devices[0].failure(error) if len(devices) == 1 else RunFailure(error)

    def show_doubts(
        self, sets: Sequence[RunSet], settings: Callable[[RunSet], str] | None = None
    ) -> None:
        """Print why runs are not valid.

        Args:
            sets: Sets of the runs.
            settings: Text that distinguishes sets of the same model on the same device.
        """
        for line in verdict_lines(sets, settings):
            self.echo(line)

    def echo(self, line: str) -> None:
        """Print a line above the bars."""
        print_line(self.console, printable(line, keep_lines=True))


class DeviceProgress:
    """Progress of the runs on a device."""

    def __init__(self, display: ProgressWatcher, device: str, *, is_alone: bool) -> None:
        self._display = display
        self._name = device
        self._prefix = "" if is_alone else f"{device}: "
        self._run: tuple[str, str, str] | None = None
        """Model, runtime and device of the run in progress."""
        self._task: TaskID | None = None
        self._phase = ""
        self._entered: Phase | None = None
        self._title = ""
        self._settings = ""
        self._is_hashing = False
        self._shown = ""
        self._paused_by = ""
        self._is_warned = False
        self.pace = DevicePace()
        self.runs: list[Run] = []

    @property
    def is_running(self) -> bool:
        """Whether a run is in progress."""
        return self._task is not None

    def notify(self, event: events.DeviceEvent) -> None:
        """Show an event of the device."""
        match event:
            case events.RunBegan():
                self._begin(event)
            case events.PhaseReport(progress=progress):
                self._enter(progress)
            case events.TelemetryReport(telemetry=telemetry) if self._task is not None:
                shown = [self._phase]
                if telemetry.temp_c is not None:
                    shown.append(f"{telemetry.temp_c:.1f} °C")
                if telemetry.freq_hz is not None:
                    shown.append(f"{telemetry.freq_hz / 1e9:.2f} GHz")
                self._display.bar.update(self._task, what=", ".join(shown))
            case events.HashProgress(done=done, total=total):
                if self._display.has_lines and not self._is_hashing:
                    self._display.echo(f"note: hashing {format_bytes(total)}: {self._title}")
                self._is_hashing = True
                self._transfer("hashing", done, total)
            case events.PushProgress(done=done, total=total):
                self._transfer("sending", done, total)
            case events.RunStored(run=run):
                self._store(run)
            case events.RunFetched(run=run):
                if (failure := failure_of(run)) is None:
                    self._store(run)
                    return
                names = run.model.name, run.runtime.name, self._name
                self._fail(RunFailure(failure, *names, is_one_of_several=bool(self._prefix)))
            case events.RunFailed(error=error):
                self._fail(self.failure(error))
                self._run = None
                self._end()
            case events.FetchFailed(run_id=run_id, error=error):
                self._fail(self.failure(error))
                self._note("warning", f"run {run_id} was not stored")
            case events.FetchBegan(device, run_id):
                self._clear()
                self._run, self._phase, self._entered = None, "", None
                self._title = self._shown = printable(f"{run_id}, {device}")
                if self._display.has_lines:
                    self._display.echo(f"run: {self._title}")
                self._draw("", None)
            case _:
                self._mention(event)

    def _mention(self, event: events.DeviceEvent) -> None:
        """Print lines for an event that does not change the bar."""
        echo = self._display.echo
        match event:
            case events.DeviceBusy(device, refusal, wait_s):
                echo(f"waiting: {device}, for up to {format_duration(wait_s)}: {refusal}")
            case events.DeviceStillBusy(device, elapsed_s, wait_s):
                limit = format_duration(wait_s)
                echo(f"waiting: {device}, {format_duration(elapsed_s)} of {limit}")
            case events.DeviceUnavailable(device, error, limit_s):
                self._clear()
                if str(error) != self._paused_by:  # once per cause
                    self._paused_by = str(error)
                    echo(f"waiting: {device}, for up to {format_duration(limit_s)}: {error}")
            case events.FilesOpen(device, reason):
                if not self._display.trusts_models and not self._is_warned:
                    self._is_warned = True
                    echo(f"warning: {device} lets models access files: {reason}")
                    echo(f"hint: {CLOSE_FILES}")
            case events.RuntimeLeftOut(report=report):
                install = f"; install it there with {report.install}" if report.install else ""
                self._note("note", f"runtime {report.name} is left out: {report.reason}{install}")
            case events.ExtraRunPlanned(model=model, runtime=runtime, member=member):
                self._note("note", f"{model} on {runtime}: {extra_run_words(member)}")
            case events.ReferenceAdded(model=model):
                self._note("note", f"{model} is measured first, as the reference for the accuracy")
            case events.ReferenceSkipped(model=model):
                line = (
                    f"{model} is left out, because microcontrollers run only quantised models; the "
                )
                self._note("note", f"{line}accuracy is not compared with a reference")
            case events.EarlierRunStored(run=run):
                is_cut = any(rule.id == CompleteRule.id for rule in run.verdict.failures)
                ended = "had been stopped" if is_cut else "had finished"
                kept = "was still on the device; it is now stored, too"
                self._note("note", f"run {run.run_id} {ended} and {kept}")
            case events.EarlierRunFailed(run_id=run_id, error=error):
                self._note("warning", f"run {run_id} of an earlier command failed: {error}")
            case events.EarlierRunRejected(run_id=run_id, error=error):
                self._clear()
                self._display.rejected_count += 1
                self._note("warning", rejection_line(run_id, error))
            case events.EarlierRunLost(run=lost):
                self._note("warning", incomplete_line(lost))
                if not lost.is_empty:
                    echo(
                        "hint: list the remaining files of the run, and the command that "
                        "removes the files: edgebench runs"
                    )
            case events.RunStoredElsewhere(device, run_id):
                self._clear()
                echo(f"note: run {run_id} of {device} was stored by the host that started it")
            case events.BusyDeviceSkipped(device, run_id):
                again = f"edgebench collect --on {shlex.quote(device)}"
                echo(f"note: run {run_id} is in progress on {device}; to wait for it: {again}")
            case _:
                pass

    def _begin(self, run: events.RunBegan) -> None:
        self._clear()
        self._run = run.model, run.runtime, run.shown_name
        self._is_hashing, place, self._settings = False, run.place, run.place.settings
        which = f"{place.number}/{place.count} " if place.count > 1 else ""
        settings = f", {place.settings}" if place.settings else ""
        on = f" on {run.runtime}" if run.runtime else ""
        self._title = printable(f"{which}{run.model}{on}{settings}, {run.shown_name}")
        if self._display.has_lines:
            self._display.echo(f"run: {self._title}")
        # On a narrow terminal, the model's name is shortened, not the device.
        place_on = printable(f"{which}{run.shown_name}: ")
        room = self._display.name_width - len(place_on)
        is_whole = len(self._title) <= self._display.name_width
        model = short_name(printable(run.model), max(room, MIN_SHORT_NAME))
        self._shown = self._title if is_whole else f"{place_on}{model}"
        self.pace.begin(place, time.monotonic())
        self._display.begin()
        self._draw("", None)

    def _enter(self, progress: m.Progress) -> None:
        """Show the phase that a run entered, or its progress in the phase."""
        if self._task is None:
            return
        if progress.reached is not None and self._entered is progress.phase:
            self._phase = f"{_PHASES[progress.phase]}, {_reached(progress.reached)}"
            self._display.bar.update(self._task, what=self._phase)
            return
        self._entered, self._phase = progress.phase, _PHASES[progress.phase]
        expected_s = progress.expected_s or 0.0
        if progress.phase is Phase.CHECKING and expected_s >= LONG_CHECK_S:
            self._note("note", f"running the data set takes about {format_duration(expected_s)}")
        if progress.phase is Phase.MEASURING and progress.expected_s is not None:
            self.pace.expect(progress.expected_s, time.monotonic())
        self._clear()
        self._draw(self._phase, progress.expected_s)

    def _transfer(self, verb: str, done: int, total: int) -> None:
        if self._task is not None:
            what = f"{verb} {format_bytes(done)} of {format_bytes(total)}"
            self._display.bar.update(
                self._task, completed=done, total=total, what=what, is_timed=False
            )

    def _store(self, run: Run) -> None:
        self._clear()
        self._run, self._paused_by = None, ""
        self.runs.append(run)
        self._end()
        if self._display.console.is_terminal:
            name = run.set_id or run.run_id
            same = [other for other in self.runs if (other.set_id or other.run_id) == name]
            self._display.bar.set_row(name, interim_row(same, self._settings))
        if self._display.has_lines:
            self._display.echo(f"done: {self._title}: {headline_words(run)}")

    def _fail(self, failure: RunFailure) -> None:
        self._clear()
        self._display.failures.append(failure)

    def _end(self) -> None:
        self.pace.end(time.monotonic())
        self._display.count()

    def failure(self, error: EdgebenchError) -> RunFailure:
        """An error with the run in progress, if any."""
        is_one_of_several = bool(self._prefix)
        if self._run is None:
            return RunFailure(error, device=self._name, is_one_of_several=is_one_of_several)
        return RunFailure(error, *self._run, is_one_of_several=is_one_of_several)

    def _draw(self, what: str, expected_s: float | None) -> None:
        """Add a new row for the phase; a reset row would keep the total of the old phase."""
        self._task = self._display.bar.add_task(
            self._shown, total=expected_s, what=what, title=self._title, is_timed=True
        )

    def _clear(self) -> None:
        if self._task is not None:
            self._display.bar.remove_task(self._task)
            self._task = None

    def _note(self, kind: str, line: str) -> None:
        """Print a line, with the device's name in front if several are measured."""
        if kind != "note" or not self._display.is_quiet:
            self._display.echo(f"{kind}: {self._prefix}{line}")
