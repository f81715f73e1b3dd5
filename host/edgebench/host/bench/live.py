"""Watcher that publishes the live status of devices in a file of the store."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from edgebench.host.bench.model import Model
from edgebench.host.bench.watcher import ForwardingWatcher, Place, Watcher
from edgebench.host.power.newest import newest_power
from edgebench.host.result.run import Run
from edgebench.host.store.layout import Store
from edgebench.host.store.live import MAX_TEXT, LiveDevice, LiveFile, utc_now
from edgebench.meters.base import MeterSession
from edgebench.protocol.errors import EdgebenchError, LeaseHeld
from edgebench.protocol.messages import Progress, Telemetry
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
"""Fields that are cleared between two runs."""

POWER_S = 1.0
"""Interval at which the power of a meter is published."""


@contextmanager
def publish_status(
    store: Store, command: str, watcher: Watcher, campaign: str | None = None
) -> Iterator[Watcher]:
    """Publish the status of devices while the block runs.

    Args:
        store: Store of the runs, which also has the live files.
        command: Name of the command.
        watcher: Receives every event.
        campaign: Id of the campaign that the runs belong to.

    Yields:
        The watcher to measure with: it publishes each event, and forwards it to `watcher`.
    """
    file = LiveFile(store, command, campaign)
    try:
        yield LiveWatcher(watcher, file)
    finally:
        file.close()


class LiveWatcher(ForwardingWatcher):
    """Publishes the status of all devices of a command."""

    def __init__(self, watcher: Watcher, file: LiveFile) -> None:
        super().__init__(watcher)
        self._file = file
        self._devices: dict[str, LiveDeviceWatcher] = {}

    def for_device(self, device: str, device_count: int) -> Watcher:
        """The watcher of one device."""
        watcher = self._watcher.for_device(device, device_count)
        self._devices[device] = LiveDeviceWatcher(watcher, self._file, device)
        return self._devices[device]

    def device_failed(self, device: str, error: EdgebenchError) -> None:
        """A device is given up: nothing more is measured on it."""
        if device in self._devices:
            self._devices[device].given_up(error)
        self._watcher.device_failed(device, error)


class LiveDeviceWatcher(ForwardingWatcher):
    """Publishes the status of one device; safe to call from any thread."""

    def __init__(self, watcher: Watcher, file: LiveFile, device: str) -> None:
        super().__init__(watcher)
        self._file = file
        self._lock = threading.Lock()
        self._state = LiveDevice(device=one_line(device, MAX_TEXT), at_utc="", state="between_runs")
        self._session: MeterSession | None = None
        """Recording of the meter during the run in progress."""
        self._begun_s: float | None = None
        self._durations_s: list[float] = []
        """Durations of the runs that have ended."""

    def device_busy(self, device: str, refusal: LeaseHeld, wait_s: float) -> None:
        """Another command measures on the device."""
        self._put(state="waiting", reason=one_line(refusal, MAX_TEXT))
        self._watcher.device_busy(device, refusal, wait_s)

    def device_unavailable(self, error: EdgebenchError, limit_s: float) -> None:
        """The device cannot be measured now."""
        self._put(state="waiting", reason=one_line(error, MAX_TEXT), **_NO_PHASE)
        self._watcher.device_unavailable(error, limit_s)

    def run_started(self, device: str, model: Model, runtime: str, place: Place) -> None:
        """A run begins."""
        self._begun_s = time.monotonic()
        left_s = None
        if self._durations_s:
            left_s = statistics.median(self._durations_s) * max(1, place.count - place.number + 1)
        self._put(
            state="measuring",
            reason="",
            model=one_line(model.name, MAX_TEXT),
            runtime=one_line(runtime, MAX_TEXT),
            settings=one_line(place.settings, MAX_TEXT),
            number=place.number,
            count=place.count,
            run_id=None,
            run_begun_utc=utc_now(),
            runs_left_s=left_s,
            **_NO_PHASE,
        )
        self._watcher.run_started(device, model, runtime, place)

    def meter_started(self, session: MeterSession) -> None:
        """A meter records: its power is published once a second until the run ends."""
        self._session = session
        threading.Thread(target=self._publish_power, args=(session,), daemon=True).start()
        self._watcher.meter_started(session)

    def fetch_started(self, device: str, run_id: str) -> None:
        """A run of an earlier command is fetched, after its end if it is still in progress."""
        self._begun_s = None
        begun: dict[str, Any] = {"run_begun_utc": utc_now(), "runs_left_s": None}
        self._put(state="measuring", reason="", run_id=run_id, **begun, **_NO_PHASE)
        self._watcher.fetch_started(device, run_id)

    def notice(self, notice: Progress | Telemetry) -> None:
        """The device sent a notice during a run."""
        self._update(notice)
        self._watcher.notice(notice)

    def progress(self, progress: Progress) -> None:
        """The run entered a phase."""
        self._update(progress)
        self._watcher.progress(progress)

    def telemetry(self, telemetry: Telemetry) -> None:
        """The device sent its temperature and clock."""
        self._update(telemetry)
        self._watcher.telemetry(telemetry)

    def run_finished(self, run: Run) -> None:
        """A run is stored."""
        self._ended(run)
        self._watcher.run_finished(run)

    def fetch_finished(self, run: Run) -> None:
        """A run of an earlier command is stored."""
        self._ended(run)
        self._watcher.fetch_finished(run)

    def run_failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """A run failed."""
        count, reason = self._state.failed_count + 1, one_line(error, MAX_TEXT)
        self._put(state="between_runs", failed_count=count, reason=reason, **_NO_PHASE)
        self._watcher.run_failed(model, runtime, error)

    def given_up(self, error: EdgebenchError) -> None:
        """The device is given up."""
        self._put(state="failed", reason=one_line(error, MAX_TEXT), **_NO_PHASE)

    def _publish_power(self, session: MeterSession) -> None:
        while self._session is session and session.trouble is None:
            if power := newest_power(session):
                self._put(session, power=power)
            time.sleep(POWER_S)

    def _ended(self, run: Run) -> None:
        if self._begun_s is not None:
            self._durations_s.append(time.monotonic() - self._begun_s)
        count = self._state.stored_count + 1
        self._put(state="between_runs", run_id=run.run_id, stored_count=count, **_NO_PHASE)

    def _update(self, notice: Progress | Telemetry) -> None:
        if isinstance(notice, Telemetry):
            self._put(run_id=notice.run_id, temp_c=notice.temp_c, freq_hz=notice.freq_hz)
        elif notice.reached is not None and notice.phase is self._state.phase:
            self._put(reached=notice.reached)
        else:
            self._put(
                run_id=notice.run_id,
                phase=notice.phase,
                phase_begun_utc=utc_now(),
                expected_s=notice.expected_s,
                reached=notice.reached,
            )

    def _put(self, of: MeterSession | None = None, **changes: Any) -> None:
        """Publish changes; those from a meter's session `of` only while its run is in progress."""
        with self._lock:
            if of is not None and of is not self._session:
                return
            if changes.get("state", "measuring") != "measuring":
                self._session = None
            self._state = replace(self._state, at_utc=utc_now(), **changes)
            self._file.put(self._state)
