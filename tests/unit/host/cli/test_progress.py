"""Progress of a measurement, on a terminal and in a log file."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console
from rich.progress import Progress as Bars
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record
from support.reported import PLAIN, runs_of_set, stored_run

from edgebench.host.analysis.run import analyse_run
from edgebench.host.bench import events
from edgebench.host.cli import progress
from edgebench.host.cli.progress import PhaseTime, ProgressWatcher
from edgebench.host.result.facts import Replacement, SetMember
from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import ModelRefused, Unreachable
from edgebench.protocol.messages import Progress, Telemetry
from edgebench.protocol.record import Outcome, Phase, PhaseProgress, ProgressUnit

RUN = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)
STOPPED = analyse_run(
    replace(run_record(worker_record(latencies()), "run-1"), outcome=Outcome.INTERRUPTED),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)
MODEL = "digits.tflite"
Watch = Callable[..., tuple[ProgressWatcher, io.StringIO]]


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    """A watcher and its output."""

    def make(*, is_terminal: bool, width: int = 120) -> tuple[ProgressWatcher, io.StringIO]:
        out = io.StringIO()
        made = Console(file=out, force_terminal=is_terminal, width=width, color_system=None)
        monkeypatch.setattr(progress, "console", lambda **_: made)
        return ProgressWatcher(is_quiet=False), out

    return make


def test_open_files_are_named_once_unless_the_model_is_trusted(watch: Watch) -> None:
    """Otherwise keys would be read before any warning, or the warning be repeated for each run."""
    watcher, out = watch(is_terminal=False)
    for device in ("pi", "rock"):
        watcher.notify(events.DeviceSelected(device, 2))
        for _ in range(2):
            watcher.notify(events.FilesOpen(device, "Function not implemented: no keys are safe"))
    lines = out.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["warning", "hint"] * 2
    assert lines[0].startswith("warning: pi lets models access files: Function not")
    assert "--trust-model" in lines[1]
    watcher, out = watch(is_terminal=False)
    watcher.trusts_models = True
    watcher.notify(events.DeviceSelected("pi", 1))
    watcher.notify(events.FilesOpen("pi", "reason"))
    assert out.getvalue() == ""


@pytest.mark.parametrize("expected_s", [1e12, 1e300, 0.0, 1e-300])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_any_expected_time_is_drawn(watch: Watch, is_terminal: bool, expected_s: float) -> None:
    """Otherwise a hostile device would end the drawing thread in a traceback."""
    watcher, out = watch(is_terminal=is_terminal)
    with watcher:
        watcher.notify(events.DeviceSelected("board", 1))
        watcher.notify(events.RunBegan("board", "board", MODEL, "litert", events.Place(1, 1000)))
        for phase in Phase:
            watcher.notify(events.PhaseReport("board", Progress("run", phase, expected_s)))
            watcher.report()
            watcher.bar.refresh()
    assert "digits" in out.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("device", ["board", "[/]", "[red]board", "a\x1b[2J"])
def test_whole_life_of_a_run_is_drawn(watch: Watch, is_terminal: bool, device: str) -> None:
    """Otherwise a bracket in a name would end the measurement, or a phase have no text."""
    watcher, out = watch(is_terminal=is_terminal)
    watcher.notify(events.DeviceSelected("board", 1))
    with watcher:
        watcher.notify(events.ReferenceAdded("board", MODEL))
        watcher.notify(
            events.RuntimeLeftOut(
                "board", RuntimeReport("tflite", ("tflite",), reason="no wheel", install="pip x")
            )
        )
        disturbed = Replacement("run-1", ("cpu_pressure", "interference"))
        member = SetMember("set-1", 2, 5, disturbed)
        watcher.notify(events.ExtraRunPlanned("board", MODEL, "litert", member))
        watcher.notify(events.RunBegan("board", device, MODEL, "litert", events.Place(2, 6)))
        watcher.notify(events.PushProgress("board", 1000, 24_376))
        for phase in Phase:
            watcher.notify(events.PhaseReport("board", Progress("run-1", phase, 3.0)))
        watcher.notify(events.RunFailed("board", MODEL, "litert", ModelRefused("no")))
        watcher.notify(events.EarlierRunStored("board", replace(RUN, run_id="run-0")))
        watcher.notify(events.EarlierRunStored("board", STOPPED))
        watcher.notify(events.EarlierRunRejected("board", "run-2", ModelRefused("odd")))
        watcher.notify(events.EarlierRunFailed("board", "run-3", ModelRefused("no")))
    (failure,) = watcher.failures
    assert (failure.title, failure.device) == ("digits.tflite on litert", device)
    assert watcher.failure(ModelRefused("no")).model is None  # No run is in progress any more
    text = out.getvalue()
    assert "note: digits.tflite is measured first, as the reference for the accuracy" in text
    assert "note: runtime tflite is left out: no wheel; install it there with pip x" in text
    assert (
        "note: digits.tflite on litert: run 3 of 5, run-1, was disturbed (cpu_pressure, "
        "interference); a further run replaces it"
    ) in text
    assert "note: run run-0 had finished and was still on the device; it is now stored" in text
    assert "warning: run run-2 stays on the device: odd" in text
    assert "note: run run-1 had been stopped and was still on the device; it is now stored" in text
    assert "warning: run run-3 of an earlier command failed: no" in text
    assert "2/6 digits.tflite on litert" in text
    assert "\x1b[2J" not in text
    assert is_terminal or "\x1b" not in text


@pytest.mark.parametrize("width", [80, 100, 200])
def test_narrow_terminal_says_which_device_it_is(watch: Watch, width: int) -> None:
    """Otherwise it would be invisible which of six devices in turn is measured."""
    watcher, out = watch(is_terminal=True, width=width)
    watcher.notify(events.DeviceSelected("board", 1))
    model = "mobilenet_v2_1.0_224_int8.tflite"
    with watcher:
        watcher.notify(events.RunBegan("board", "jetson-2", model, "litert", events.Place(2, 6)))
        watcher.notify(events.PhaseReport("board", Progress("run-1", Phase.MEASURING, 3.0)))
        watcher.notify(
            events.TelemetryReport("board", Telemetry("run-1", 0, temp_c=71.25, freq_hz=1.5e9))
        )
        watcher.bar.refresh()
    lines = [line for line in re.split(r"[\r\n]", out.getvalue()) if "measuring" in line]
    assert lines
    assert all("2/6 " in line and "jetson-2" in line for line in lines)
    assert all("71.2 °C, 1.50 GHz" in line for line in lines[-1:])


def test_log_file_hears_every_ten_seconds_how_far_a_run_is(watch: Watch) -> None:
    """Otherwise a benchmark of an hour would look hung in CI."""
    watcher, out = watch(is_terminal=False)
    watcher.notify(events.DeviceSelected("board", 1))
    watcher.report()
    watcher.notify(events.RunBegan("board", "board", MODEL, "litert", events.Place(2, 6)))
    watcher.report()
    watcher.notify(events.PushProgress("board", 1000, 24_376))
    watcher.report()
    watcher.notify(events.PhaseReport("board", Progress("run-1", Phase.MEASURING, 60.0)))
    watcher.notify(events.TelemetryReport("board", Telemetry("run-1", 0, temp_c=71.25)))
    watcher.report()
    watcher.notify(events.PhaseReport("board", Progress("run-1", Phase.CHECKING)))
    watcher.report()
    watcher.notify(events.RunStored("board", RUN))
    watcher.report()
    begun, *reports, done = out.getvalue().splitlines()
    assert begun == "run: 2/6 digits.tflite on litert, board"
    assert reports == [
        f"{begun}: preparing, 0:00:00",
        f"{begun}: sending 1000 B of 23.8 KiB",
        f"{begun}: measuring, 71.2 °C, 0:00:00 of 0:01:00",
        f"{begun}: checking, 0:00:00",
    ]
    assert done.startswith("done: 2/6 digits.tflite")


def test_slow_board_says_how_far_it_is(watch: Watch) -> None:
    """Otherwise an upload of a minute, or a data set of a day, would look hung."""
    watcher, out = watch(is_terminal=False)
    watcher.notify(events.DeviceSelected("board", 1))
    watcher.notify(events.RunBegan("board", "board", MODEL, "firmware", events.Place(1, 1)))

    def reach(phase: Phase, done: int, total: int, unit: ProgressUnit) -> None:
        watcher.notify(
            events.PhaseReport(
                "board", Progress("run-1", phase, 7200.0, reached=PhaseProgress(done, total, unit))
            )
        )
        watcher.report()

    watcher.notify(events.PhaseReport("board", Progress("run-1", Phase.LOADING)))
    reach(Phase.LOADING, 10_240, 24_376, ProgressUnit.BYTES)
    reach(Phase.MEASURING, 1, 5, ProgressUnit.WINDOWS)  # Of a phase whose begin was missed
    reach(Phase.MEASURING, 2, 5, ProgressUnit.WINDOWS)
    watcher.notify(events.PhaseReport("board", Progress("run-1", Phase.CHECKING, 7200.0)))
    reach(Phase.CHECKING, 3, 1000, ProgressUnit.SAMPLES)
    begun, *lines = out.getvalue().splitlines()
    assert lines == [
        f"{begun}: loading, sending 10.0 KiB of 23.8 KiB, 0:00:00",
        f"{begun}: measuring, 0:00:00 of 2:00:00",
        f"{begun}: measuring, 2 of 5 windows, 0:00:00 of 2:00:00",
        "note: running the data set takes about 2:00:00",
        f"{begun}: checking, 3 of 1000 samples, 0:00:00 of 2:00:00",
    ]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_lines_stand_for_the_bar_only_where_there_is_no_terminal(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """Otherwise a terminal would show bar and lines, or a log file continue after the command."""
    monkeypatch.setattr(progress, "REPORT_S", 0.001)
    watcher, out = watch(is_terminal=is_terminal, width=200)
    watcher.notify(events.DeviceSelected("board", 1))
    reported = threading.Event()
    monkeypatch.setattr(watcher, "report", reported.set)
    with watcher:
        watcher.notify(events.RunBegan("board", "board", MODEL, "litert", events.Place(1, 1)))
        assert reported.wait(0.2 if is_terminal else 30.0) != is_terminal
    if not is_terminal:
        watcher._reports.join(30.0)
    assert not watcher._reports.is_alive()
    assert "digits.tflite" in out.getvalue()


def test_progress_of_a_run_that_nobody_announced_is_ignored(watch: Watch) -> None:
    """Otherwise a late notice would end the measurement."""
    watcher, out = watch(is_terminal=True)
    watcher.notify(events.DeviceSelected("board", 1))
    watcher.notify(events.PhaseReport("board", Progress("run-1", Phase.LOADING)))
    watcher.notify(events.PushProgress("board", 1, 2))
    assert out.getvalue() == ""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_hashing_that_takes_long_is_shown(watch: Watch, is_terminal: bool) -> None:
    """Otherwise a model of gigabytes would be read silently, and the user press Ctrl-C."""
    watcher, out = watch(is_terminal=is_terminal)
    watcher.notify(events.DeviceSelected("board", 1))
    with watcher:
        watcher.notify(events.RunBegan("board", "pi", MODEL, "litert", events.Place(1, 1)))
        for done in (2, 3):
            watcher.notify(events.HashProgress("board", done * 2**30, 4 * 2**30))
        watcher.bar.refresh()
    text = out.getvalue()
    if is_terminal:
        assert "hashing 3.00 GiB of 4.00 GiB" in text
    else:
        assert text.count("note: hashing 4.00 GiB: digits.tflite on litert, pi") == 1


def test_lines_of_several_devices_say_which_it_is(watch: Watch) -> None:
    """Otherwise it would be unknown which of three boards in parallel has a doubtful run."""
    watcher, out = watch(is_terminal=False)
    for name in ("pi", "jetson", "nano"):
        watcher.notify(events.DeviceSelected(name, 3))
    watcher.notify(events.RunBegan("pi", "pi", MODEL, "litert", events.Place(1, 1)))
    watcher.notify(events.RunBegan("jetson", "jetson", MODEL, "onnx", events.Place(1, 1)))
    watcher.report()
    watcher.notify(events.EarlierRunRejected("jetson", "run-7", ModelRefused("no")))
    watcher.notify(events.RunFailed("pi", MODEL, "litert", ModelRefused("no")))
    watcher.notify(events.DeviceFailed("nano", Unreachable("no answer")))
    assert out.getvalue().splitlines() == [
        "run: digits.tflite on litert, pi",
        "run: digits.tflite on onnx, jetson",
        "run: digits.tflite on litert, pi: preparing, 0:00:00",
        "run: digits.tflite on onnx, jetson: preparing, 0:00:00",
        "warning: jetson: run run-7 stays on the device: no",
        "warning: nano: no answer; continuing with the other devices",
    ]
    assert [failure.title for failure in watcher.failures] == [
        "pi: digits.tflite on litert",
        "nano",
    ]


@pytest.mark.parametrize(
    ("expected_s", "shown"), [(0.3, "0:00:00 of 0:00:01"), (60.0, "0:00:00 of 0:01:00")]
)
def test_expected_duration_is_rounded_up(expected_s: float, shown: str) -> None:
    """Otherwise a warm-up of 0.3 s would be shown as "0:00:01 of 0:00:00"."""
    bars = Bars(PhaseTime(), console=Console(file=io.StringIO()))
    bars.add_task("", total=expected_s, is_timed=True)
    assert PhaseTime().render(bars.tasks[0]).plain == shown


def test_row_of_each_set_is_on_a_terminal_after_its_first_run(watch: Watch) -> None:
    """Otherwise four models would take minutes without a number on the screen."""
    watcher, out = watch(is_terminal=True, width=80)
    watcher.notify(events.DeviceSelected("board", 1))
    first = runs_of_set(stored_run(PLAIN), "set-00000001")
    second = runs_of_set(stored_run(PLAIN), "set-00000002", scale=2)
    with watcher:
        for number in range(5):
            for run in (first[number], second[number]):
                watcher.notify(events.RunBegan("board", "pi", MODEL, "x", events.Place(1, 10)))
                out.seek(0)
                out.truncate()
                watcher.notify(events.RunStored("board", run))
                watcher.bar.refresh()
                assert f"{number + 1} of 5 runs" in out.getvalue()
        assert out.getvalue().count("5 of 5 runs") == 2
        assert "done:" not in out.getvalue()


def test_rows_leave_room_for_the_bars(watch: Watch) -> None:
    """Otherwise twenty models on a terminal of 24 lines would scroll the bars away."""
    watcher, out = watch(is_terminal=True, width=80)
    watcher.console.height = 24
    watcher.notify(events.DeviceSelected("board", 1))
    with watcher:
        for number in range(40):
            [run, *_] = runs_of_set(stored_run(PLAIN), f"set-{number:08}")
            watcher.notify(events.RunBegan("board", "pi", MODEL, "x", events.Place(number, 80)))
            watcher.notify(events.RunStored("board", run))
        out.seek(0)
        out.truncate()
        watcher.bar.refresh()
        shown = out.getvalue()
    assert "of 80 runs" in shown
    assert 15 <= shown.count("1 of 5 runs") <= 22


@pytest.mark.parametrize("is_terminal", [True, False])
def test_quiet_display_prints_only_warnings(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    """-q: neither bars and rows nor lines about runs, and no notes."""
    _, out = watch(is_terminal=is_terminal)
    monkeypatch.setattr(progress, "REPORT_S", 0.001)
    watcher = ProgressWatcher(is_quiet=True)
    watcher.notify(events.DeviceSelected("board", 1))
    with watcher:
        watcher.notify(events.ReferenceAdded("board", MODEL))
        watcher.notify(events.RunBegan("board", "pi", MODEL, "x", events.Place(1, 2)))
        watcher.notify(events.PushProgress("board", 1000, 24_376))
        watcher.notify(events.RunStored("board", RUN))
        watcher.notify(events.EarlierRunFailed("board", "run-3", ModelRefused("no")))
    lines = [line for line in out.getvalue().splitlines() if line]
    assert lines == ["warning: run run-3 of an earlier command failed: no"]
    assert watcher.runs == [RUN]
