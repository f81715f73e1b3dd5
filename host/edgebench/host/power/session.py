"""Opens an energy meter outside a run, and records a session into a directory."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from edgebench.host.power.stored import StoredSession, judge
from edgebench.host.store.layout import POWER_FILE, POWER_OUTLINE_FILE, RUN_FILE
from edgebench.host.store.recording import write_power
from edgebench.meters.base import AbsentMeter, Header, Meter, MeterSession
from edgebench.meters.registry import DRIVERS, find_meter
from edgebench.protocol.errors import (
    DirectoryTaken,
    EdgebenchError,
    NoSuchMeter,
    StoreError,
    TargetError,
    UsageError,
)
from edgebench.protocol.text import one_line
from edgebench.protocol.traces import METER_FILE
from edgebench.system.paths import refuse_long
from edgebench.system.whole_files import make_directory, sync_directory, sync_file

logger = logging.getLogger(__name__)

TICK_S = 0.1
_TAKEN_BY = {POWER_FILE: "a recording", METER_FILE: "a recording of a meter", RUN_FILE: "a run"}
OnTick = Callable[[float], None]
"""Callback that receives the elapsed time in seconds."""


def open_meter(text: str) -> tuple[Meter, Header]:
    """Find and open the meter that `--meter` names.

    Raises:
        NoSuchMeter: no driver has that name, or the meter cannot be used.
        UsageError: an option is invalid, or the meter belongs to an agent.
        TargetError: the driver or one of its libraries raised any other exception.
    """
    if text.startswith("agent:"):
        raise UsageError(
            f"meter {text} belongs to a device's agent, which records only during runs: measure "
            "a model with the meter, or run this command on the device"
        )
    meter = find_meter(text)
    try:
        with _errors_in_one_line(meter):
            header = meter.open()
    except BaseException:  # also on Ctrl-C: the port would stay taken, the kernel driver detached
        _release(meter)
        raise
    if isinstance(header, AbsentMeter):
        text = f"meter {meter.name} cannot be used: {header.reason}"
        raise NoSuchMeter(text, permission=header.permission)
    return meter, header


def look_at_meters() -> dict[str, Header | AbsentMeter]:
    """Header of each driver's meter, or why the meter is absent; drivers' errors are caught."""
    headers: dict[str, Header | AbsentMeter] = {}
    for name in DRIVERS:
        meter = find_meter(name)
        try:
            with _errors_in_one_line(meter):
                headers[name] = meter.open()
        except EdgebenchError as exc:
            headers[name] = AbsentMeter(str(exc))
        finally:
            _release(meter)
    return headers


def _release(meter: Meter) -> None:
    """Close a meter that was only probed or could not be opened; errors are logged."""
    try:
        meter.close()
    except Exception:  # each driver's library raises its own exceptions
        logger.exception("meter %s", meter.name)


def begin_session(stack: ExitStack, meter: Meter, path: Path) -> MeterSession:
    """Start recording a meter into a file; the recording ends when the stack is closed.

    Raises:
        StoreError: the file cannot be written.
        TargetError: the meter does not record, because its driver or one of its libraries failed.
    """
    with _errors_in_one_line(meter):
        session = meter.session(path)
        stack.enter_context(session)
    return session


@contextmanager
def _errors_in_one_line(meter: Meter) -> Iterator[None]:
    """Raise a one-line TargetError for any exception that is not an EdgebenchError."""
    try:
        yield
    except EdgebenchError:
        raise
    except Exception as exc:  # each driver's library raises its own exceptions
        logger.exception("meter %s", meter.name)
        raise TargetError(f"the meter's driver failed: {one_line(exc)}") from exc


def record(meter: Meter, directory: Path, duration_s: float, on_tick: OnTick) -> StoredSession:
    """Record samples for a duration, or until the meter fails or the user presses Ctrl-C.

    The samples recorded so far are stored in each of these cases.

    Raises:
        UsageError: the duration is not positive.
        StoreError: the directory cannot be written, or holds a recording or a run.
        TargetError: the meter does not record.
    """
    if duration_s <= 0:
        raise UsageError(f"duration must be > 0 s, got {duration_s:g}")
    path = directory / METER_FILE
    interrupted_s = None
    with new_recording(directory), ExitStack() as stack:
        session = begin_session(stack, meter, path)
        began_s = time.monotonic()
        try:
            while (passed_s := time.monotonic() - began_s) < duration_s:
                if session.trouble is not None:
                    break
                on_tick(passed_s)
                time.sleep(min(TICK_S, duration_s - passed_s))
        except KeyboardInterrupt:
            interrupted_s = time.monotonic() - began_s
    try:
        facts = write_power(directory, session.recording())
        sync_recording(directory)
    except OSError as exc:
        raise StoreError(
            f"samples cannot be written: {_reason(exc)}; written so far: {path}"
        ) from exc
    return replace(judge(directory, facts), interrupted_s=interrupted_s)


def sync_recording(directory: Path) -> None:
    """Flush a recording to the disk, before its success is reported.

    Raises:
        OSError: a file cannot be flushed to the disk.
    """
    for name in (METER_FILE, POWER_FILE, POWER_OUTLINE_FILE):
        if (directory / name).exists():
            sync_file(directory / name)
    sync_directory(directory)


@contextmanager
def new_recording(directory: Path) -> Iterator[None]:
    """Create the directory of a new recording; after a failure, remove it if it is new and empty.

    A directory with a recording or a run is refused, because the new samples would appear to be a
    part of that recording or run.

    Raises:
        DirectoryTaken: the directory holds a recording or a run, or is a file.
        StoreError: the directory cannot be written.
    """
    for name, what in _TAKEN_BY.items():
        if os.path.lexists(taken := directory / name):
            raise DirectoryTaken(f"there is {what} already: {taken}")
    refuse_long(directory)
    is_new = not os.path.lexists(directory)
    try:
        make_directory(directory)
        yield
    except BaseException as exc:  # also on Ctrl-C: half of the samples are not a recording
        with suppress(OSError):  # it was never created, or contains the meter's bytes
            (directory / POWER_FILE).unlink(missing_ok=True)
            if is_new:
                directory.rmdir()
        if isinstance(exc, OSError):
            kind = DirectoryTaken if isinstance(exc, FileExistsError) else StoreError
            raise kind(f"recording cannot be written: {_reason(exc)}: {directory}") from exc
        raise


def _reason(error: OSError) -> str:
    """The operating system's text for an error, which is shorter than a library's text."""
    return os.strerror(error.errno) if error.errno else error.strerror or str(error)
