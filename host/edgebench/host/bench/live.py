"""Consumer of events that publishes the live status of devices in a file in the store."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from edgebench.host.bench.events import (
    DeviceBusy,
    DeviceFailed,
    DeviceSelected,
    DeviceUnavailable,
    FarmSourceFailed,
    FetchBegan,
    MeasurementEvent,
    MeterBegan,
    Notify,
    PhaseReport,
    RunBegan,
    RunFailed,
    RunFetched,
    RunStored,
    TelemetryReport,
)
from edgebench.host.power.newest import newest_power
from edgebench.host.store.layout import Store
from edgebench.host.store.live import MAX_TEXT, LiveDevice, LiveFile, utc_now
from edgebench.meters.base import MeterSession
from edgebench.protocol.messages import Progress
from edgebench.protocol.text import one_line

_NO_PHASE: dict[str, Any] = {
    "phase": None,
    "phase_begun_utc": None,
    "expected_s": None,
    "reached": None,
    "temp_c": None,
    "freq_hz": None,
    "power": (),
}
"""Fields of a device's status that are cleared between two runs."""

POWER_S = 1.0
"""Interval at which the meter's power is written to the live file."""


@contextmanager
def publish_status(
    store: Store, command: str, notify: Notify, campaign: str | None = None
) -> Iterator[Notify]:
    """Publish the status of devices while the block runs.

    Args:
        store: Store of the runs and of the live files.
        command: Name of the command.
        notify: Consumer of the events.
        campaign: Id of the campaign that the runs belong to.

    Yields:
        The consumer for the measurement: it publishes each event, and passes it to `notify`.
    """
    file, devices = LiveFile(store, command, campaign), dict[str, DeviceStatus]()

    def publish(event: MeasurementEvent) -> None:
        if isinstance(event, DeviceSelected):
            devices[event.device] = DeviceStatus(file, event.device)
        elif not isinstance(event, FarmSourceFailed) and event.device in devices:
            devices[event.device].update(event)
        notify(event)

    try:
        yield publish
    finally:
        file.close()


class DeviceStatus:
    """Published status of a device; safe to update from any thread."""

    def __init__(self, file: LiveFile, device: str) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._state = LiveDevice(device=one_line(device, MAX_TEXT), at_utc="", state="between_runs")
        self._session: MeterSession | None = None
        """Recording of the meter during the run in progress."""
        self._begun_s: float | None = None
        self._durations_s: list[float] = []
        """Durations of the runs that have ended."""

    def update(self, event: MeasurementEvent) -> None:
        """Publish how an event changes the status."""
        if isinstance(event, RunBegan):
            self._begin(event)
        elif isinstance(event, PhaseReport):
            self._phase(event.progress)
        elif isinstance(event, TelemetryReport):
            reading = event.telemetry
            self._put(run_id=reading.run_id, temp_c=reading.temp_c, freq_hz=reading.freq_hz)
        elif isinstance(event, MeterBegan):
            self._session = event.session
            threading.Thread(target=self._publish_power, args=(event.session,), daemon=True).start()
        elif isinstance(event, FetchBegan):
            self._begun_s = None
            begun: dict[str, Any] = {"run_begun_utc": utc_now(), "runs_left_s": None}
            self._put(state="measuring", reason="", run_id=event.run_id, **begun, **_NO_PHASE)
        elif isinstance(event, (RunStored, RunFetched)):
            if self._begun_s is not None:
                self._durations_s.append(time.monotonic() - self._begun_s)
            count, run_id = self._state.stored_count + 1, event.run.run_id
            self._put(state="between_runs", run_id=run_id, stored_count=count, **_NO_PHASE)
        elif isinstance(event, RunFailed):
            count, reason = self._state.failed_count + 1, one_line(event.error, MAX_TEXT)
            self._put(state="between_runs", failed_count=count, reason=reason, **_NO_PHASE)
        elif isinstance(event, DeviceBusy):
            self._put(state="waiting", reason=one_line(event.refusal, MAX_TEXT))
        elif isinstance(event, DeviceUnavailable):
            self._put(state="waiting", reason=one_line(event.error, MAX_TEXT), **_NO_PHASE)
        elif isinstance(event, DeviceFailed):
            self._put(state="failed", reason=one_line(event.error, MAX_TEXT), **_NO_PHASE)

    def _begin(self, run: RunBegan) -> None:
        self._begun_s = time.monotonic()
        left_s, place = None, run.place
        if self._durations_s:
            left_s = statistics.median(self._durations_s) * max(1, place.count - place.number + 1)
        self._put(
            state="measuring",
            reason="",
            model=one_line(run.model, MAX_TEXT),
            runtime=one_line(run.runtime, MAX_TEXT),
            settings=one_line(place.settings, MAX_TEXT),
            number=place.number,
            count=place.count,
            run_id=None,
            run_begun_utc=utc_now(),
            runs_left_s=left_s,
            **_NO_PHASE,
        )

    def _phase(self, progress: Progress) -> None:
        if progress.reached is not None and progress.phase is self._state.phase:
            self._put(reached=progress.reached)
            return
        self._put(
            run_id=progress.run_id,
            phase=progress.phase,
            phase_begun_utc=utc_now(),
            expected_s=progress.expected_s,
            reached=progress.reached,
        )

    def _publish_power(self, session: MeterSession) -> None:
        while self._session is session and session.trouble is None:
            if power := newest_power(session):
                self._put(session, power=power)
            time.sleep(POWER_S)

    def _put(self, of: MeterSession | None = None, **changes: Any) -> None:
        """Publish changed fields; with `of`, only during the run of that meter session."""
        with self._lock:
            if of is not None and of is not self._session:
                return
            if changes.get("state", "measuring") != "measuring":
                self._session = None
            self._state = replace(self._state, at_utc=utc_now(), **changes)
            self._file.put(self._state)
