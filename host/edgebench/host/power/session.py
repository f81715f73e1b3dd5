"""A session of an energy meter: opened, begun, and recorded on its own."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from edgebench.host.power.stored import Session, judged
from edgebench.host.store.layout import POWER_FILE, RUN_FILE
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
from edgebench.protocol.traces import METER_FILE

logger = logging.getLogger(__name__)

TICK_S = 0.1
_TAKEN_BY = {POWER_FILE: "a recording", METER_FILE: "a recording of a meter", RUN_FILE: "a run"}
OnTick = Callable[[float], None]
"""Called with the seconds that have passed."""


def open_meter(text: str) -> tuple[Meter, Header]:
    """Find and open the meter that `--meter` names.

    Raises:
        NoSuchMeter: no driver has that name, or the meter cannot be used.
        UsageError: an option is wrong.
        TargetError: whatever else its driver or a library of it raises.
    """
    if text.startswith("agent:"):
        raise UsageError(
            f"meter {text} is one of a device's agent, which records it in runs only: bench a "
            "model with it, or look at it on the device"
        )
    meter = find_meter(text)
    try:
        with _in_one_line(meter):
            header = meter.open()
    except BaseException:  # Ctrl-C as well: a port stays taken, a driver of the kernel's away
        _let_go(meter)
        raise
    if isinstance(header, AbsentMeter):
        text = f"meter {meter.name} cannot be used: {header.reason}"
        raise NoSuchMeter(text, permission=header.permission)
    return meter, header


def look_at_meters() -> dict[str, Header | AbsentMeter]:
    """What there is of each driver's meters; one that fails keeps no other from being told."""
    found: dict[str, Header | AbsentMeter] = {}
    for name in DRIVERS:
        meter = find_meter(name)
        try:
            with _in_one_line(meter):
                found[name] = meter.open()
        except EdgebenchError as exc:
            found[name] = AbsentMeter(str(exc))
        finally:
            _let_go(meter)
    return found


def _let_go(meter: Meter) -> None:
    """Close it; what fails then is no news of a meter that was only looked at, or did not open."""
    try:
        meter.close()
    except Exception:
        logger.exception("meter %s", meter.name)


def begin_session(stack: ExitStack, meter: Meter, path: Path) -> MeterSession:
    """Let a meter record into a file, until the stack is closed.

    Raises:
        StoreError: the file cannot be written.
        TargetError: the meter does not record; whatever its driver or a library of it raises.
    """
    with _in_one_line(meter):
        session = meter.session(path)
        stack.enter_context(session)
    return session


@contextmanager
def _in_one_line(meter: Meter) -> Iterator[None]:
    """What a driver's library raises, or a mistake of ours, is one line to the user."""
    try:
        yield
    except EdgebenchError:
        raise
    except Exception as exc:
        logger.exception("meter %s", meter.name)
        said = " ".join(str(exc).split())[:200]
        raise TargetError(f"the meter's driver failed: {said or type(exc).__name__}") from exc


def record(meter: Meter, directory: Path, duration_s: float, on_tick: OnTick) -> Session:
    """Record for so long, or until the meter or the user ends it; what was recorded is kept.

    Raises:
        UsageError: that is no time.
        StoreError: the directory cannot be written.
        TargetError: the meter does not record.
    """
    if duration_s <= 0:
        raise UsageError(f"duration must be > 0 s, got {duration_s:g}")
    path = directory / METER_FILE
    interrupted_s = None
    with _directory_for(directory), ExitStack() as stack:
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
    except OSError as exc:
        raise StoreError(f"samples cannot be written: {said_by(exc)}; kept: {path}") from exc
    return replace(judged(directory, facts), interrupted_s=interrupted_s)


def refuse_taken(directory: Path) -> None:
    """Keep a recording out of a directory in which it would be taken for something else.

    Raises:
        DirectoryTaken: it holds a recording or a run.
    """
    for name, what in _TAKEN_BY.items():
        if os.path.lexists(taken := directory / name):
            raise DirectoryTaken(f"there is {what} already: {taken}")


@contextmanager
def _directory_for(directory: Path) -> Iterator[None]:
    """The directory, made if need be; one in which nothing was begun goes again.

    Raises:
        StoreError: it cannot be made, or holds a recording or a run.
    """
    refuse_taken(directory)
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        kind = DirectoryTaken if isinstance(exc, FileExistsError) else StoreError
        raise kind(f"recording cannot be written: {said_by(exc)}: {directory}") from exc
    try:
        yield
    except BaseException:  # Ctrl-C as well
        if is_new:
            with suppress(OSError):  # something is in it
                directory.rmdir()
        raise


def said_by(error: OSError) -> str:
    """What the system says; a library has more words for it."""
    return os.strerror(error.errno) if error.errno else error.strerror or str(error)
