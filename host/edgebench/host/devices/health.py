"""Health of each device: the time of the last connection, the last outcomes, and quarantine.

Theory of operation

A device that fails several times in a row is quarantined. `--on all` and the conditions of `--on`
then leave the device out, and the reason is printed. The quarantine ends when a run or `edgebench
devices check` succeeds on the device, or when its agent is deployed again. A quarantined device
that is named explicitly is still measured.

Only failures of the device count (`is_of_device`), not failures of the model, of the request, of
this host or of a meter. Crashes of the worker process count once per model, because a model may
crash every worker that loads it. Only a completed run counts as a success. A connection does not,
because it only shows that the device is reachable. Failures in a row are therefore failures without
a completed run between them.

Each device has a small file. The path of the file is derived from the fingerprint of the agent's
certificate and the name of the seat. The device's id is not used, because boards with copies of the
same SD card share an id. A damaged file counts as empty. A file that cannot be written does not
prevent measurements.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path

from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.locked import locked, write_host_file
from edgebench.protocol.errors import (
    EdgebenchError,
    LinkLost,
    LinkTimeout,
    NoSpace,
    RemoteProtocolError,
    SeatLeft,
    StoreError,
    TooLarge,
    Unreachable,
    WorkerDied,
)
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.system.paths import user_paths
from edgebench.system.whole_files import make_directory, sync_directory

logger = logging.getLogger(__name__)

MAX_EVENTS = 10
"""Maximum number of outcomes that are kept for a device."""
DIRECTORY = "health"

_OF_DEVICE: tuple[tuple[type[EdgebenchError], str | None], ...] = (
    (TooLarge, None),
    (NoSpace, "storage_full"),
    (Unreachable, "unreachable"),
    (LinkLost, "link_lost"),
    (LinkTimeout, "no_answer"),
    (WorkerDied, "worker_died"),
    (SeatLeft, "device_gone"),
)
"""Maps each error class to a code for a failure of the device; the first matching class counts. An
error with the code None, or of a class that is not listed, is not a failure of the device. For
example, `TooLarge` is raised for a file that the user chose, and errors such as `TooHot` and
`WorkerTimeout` depend on the request, the model and the room temperature."""
CHECK_FAILED = "check_failed"
"""Code of a failed health check if the error has no code of its own in `_OF_DEVICE`."""


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """The outcome of a run on a device, or of an attempt to connect to it."""

    at_utc: str
    code: str | None = None
    """Code of the failure; None if the run succeeded."""
    text: str = ""
    model: str | None = None
    """Model that was running; None if no model was running."""


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """Health of a device as observed by this host."""

    last_seen_utc: str | None = None
    """Time of the last successful connection."""
    failure_count: int = 0
    """Number of failures of the device since its last completed run."""
    quarantined_utc: str | None = None
    """Start of the quarantine; None if the device is not quarantined."""
    quarantine_reason: str = ""
    quarantined_after: int = 0
    """Number of failures in a row that led to the quarantine; 0 if it has another reason."""
    seat: str = ""
    """If this is the health of the agent's first seat (device), the name of that seat; otherwise
    empty."""
    events: tuple[HealthEvent, ...] = ()
    """The most recent outcomes of runs and connections, oldest first."""

    @property
    def is_quarantined(self) -> bool:
        """Whether the device is quarantined: it is measured only if the user names it."""
        return self.quarantined_utc is not None


class CheckState(str, Enum):
    """Outcome of a health check."""

    WELL = "well"
    UNWELL = "not_well"
    BUSY = "busy"
    """The device responds, but no model was run because another client is measuring on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthCheck:
    """Result of a device's health check."""

    name: str
    state: CheckState
    reason: str = ""
    """Reason for the failed check, or the client that is measuring on a busy device."""
    code: str | None = None
    """Code of the failure if the health check failed; otherwise None."""
    is_of_device: bool = False
    """Whether the failure is a failure of the device, and not of this host."""
    temp_c: float | None = None
    """Temperature before the run; None without a thermometer, or if the agent is too old."""
    models_room_bytes: int | None = None
    """Size of the largest model that fits; None if the agent is too old to report it."""
    uncollected_count: int | None = None
    """Number of this host's finished runs whose results are still on the device."""
    model: str | None = None
    """Model that the health check ran; None if it ran no model."""
    latency_ns_p50: float | None = None
    """Median latency of the run; None if no model was run, or the verdict rejects the latency."""


def failure_code(error: EdgebenchError) -> str | None:
    """Code of an error that is a failure of the device; None for any other error.

    >>> failure_code(LinkLost("gone")), failure_code(StoreError("full"))
    ('link_lost', None)
    """
    if isinstance(error, Unreachable) and error.is_offline:
        return None  # this machine has no network
    return next((code for kind, code in _OF_DEVICE if isinstance(error, kind)), None)


class HealthFiles:
    """The health files of all devices, in the host's state directory."""

    def __init__(
        self, state: Path | None = None, now: Callable[[], datetime] | None = None
    ) -> None:
        self._directory = (state or Path(user_paths(os.environ).host_state)) / DIRECTORY
        self._now = now or (lambda: datetime.now(timezone.utc))

    def of(self, device: KnownDevice) -> DeviceHealth:
        """Stored health of a device; empty if nothing is stored."""
        return self._read(self._path(device))

    def seen(self, device: KnownDevice, seat: str) -> None:
        """Record that the device was reached, and the seat's name as its agent reports it."""
        own = "" if device.seat else seat
        self._change(device, lambda before: replace(before, last_seen_utc=self._time(), seat=own))

    def succeeded(self, device: KnownDevice) -> None:
        """Record a completed run, which ends any quarantine."""

        def change(before: DeviceHealth) -> DeviceHealth:
            return _with_event(_recovered(before), HealthEvent(self._time()))

        self._change(device, change)

    def deployed(self, device: KnownDevice) -> None:
        """Record that the device's agent was deployed again, which ends any quarantine."""
        self._change(device, _recovered)

    def failed(
        self,
        device: KnownDevice,
        error: EdgebenchError,
        *,
        model: str | None = None,
        quarantine_after: int,
    ) -> None:
        """Record a failure of the device; errors that are not failures of the device are ignored.

        After `quarantine_after` failures in a row, the device is quarantined; 0 means never.
        """
        if (code := failure_code(error)) is None:
            return

        def change(before: DeviceHealth) -> DeviceHealth:
            event = HealthEvent(self._time(), code, str(error), model)
            row = before.events[-before.failure_count :] if before.failure_count else ()
            if model is not None and (code, model) in [
                (failure.code, failure.model) for failure in row
            ]:
                return before
            after = replace(before, failure_count=before.failure_count + 1)
            after = _with_event(after, event)
            if before.is_quarantined or not 0 < quarantine_after <= after.failure_count:
                return after
            count = after.failure_count
            return replace(
                after,
                quarantined_utc=event.at_utc,
                quarantine_reason=f"{count} failures in a row, the last: {error}",
                quarantined_after=count,
            )

        self._change(device, change)

    def quarantine(self, device: KnownDevice, code: str, reason: str) -> None:
        """Quarantine the device regardless of its history; a present quarantine keeps its start."""

        def change(before: DeviceHealth) -> DeviceHealth:
            at_utc = self._time()
            after = replace(
                before,
                failure_count=before.failure_count + 1,
                quarantined_utc=before.quarantined_utc or at_utc,
                quarantine_reason=reason,
                quarantined_after=0,
            )
            return _with_event(after, HealthEvent(at_utc, code, reason))

        self._change(device, change)

    def move(self, old_pin: str, new_pin: str) -> None:
        """Move the health of an agent and of its seats to the agent's new identity."""
        new = self._agent(new_pin)

        def to_new(path: Path) -> None:
            make_directory(new, mode=0o700)
            path.replace(new / path.name)
            sync_directory(new)

        self._on_all(old_pin, to_new)

    def forget(self, pin: str) -> None:
        """Remove the health of an agent and its seats."""
        self._on_all(pin, Path.unlink)

    def _on_all(self, pin: str, do: Callable[[Path], object]) -> None:
        try:
            with locked(self._directory):
                for path in list(self._agent(pin).glob("*.json")):
                    do(path)
        except (StoreError, OSError) as exc:
            logger.warning("health not stored: %s", exc)

    def _change(self, device: KnownDevice, change: Callable[[DeviceHealth], DeviceHealth]) -> None:
        try:
            with locked(self._directory):
                path = self._path(device)
                before = self._read(path)
                if (after := change(before)) != before:
                    make_directory(path.parent, mode=0o700)
                    text = json.dumps(to_plain(after), indent=1) + "\n"
                    write_host_file(path, text)
        except (StoreError, OSError) as exc:
            logger.warning("health of %s not stored: %s", device.name, exc)

    def _read(self, path: Path) -> DeviceHealth:
        try:
            return from_outside(json.loads(path.read_text()), DeviceHealth)
        except FileNotFoundError:
            return DeviceHealth()
        except (OSError, ValueError, RemoteProtocolError) as exc:
            logger.warning("health not readable: %s: %s", exc, path)
            return DeviceHealth()

    def _path(self, device: KnownDevice) -> Path:
        """Health file of a device; a named first seat has the same file as its agent."""
        agent = self._agent(device.pin)
        first = agent / f"{_digest('')}.json"
        is_first = not device.seat or device.seat == self._read(first).seat
        return first if is_first else agent / f"{_digest(device.seat)}.json"

    def _agent(self, pin: str) -> Path:
        return self._directory / _digest(pin)

    def _time(self) -> str:
        return self._now().astimezone(timezone.utc).isoformat(timespec="seconds")


class Outcomes:
    """Records the outcomes of a request's runs on a device, without duplicates."""

    def __init__(self, files: HealthFiles, device: KnownDevice, quarantine_after: int) -> None:
        self._files = files
        self._device = device
        self._quarantine_after = quarantine_after
        self._last: EdgebenchError | None = None
        """Last failure that was recorded. A run and the whole request may report the same error,
        which is recorded only once."""
        self._is_well = False

    def succeeded(self) -> None:
        """Record a completed run; a repeated call without a failure in between has no effect."""
        if not self._is_well:
            self._is_well = True
            self._files.succeeded(self._device)

    def failed(self, error: EdgebenchError, model: str | None = None) -> None:
        """Record the failure of a model's run, or of the whole request if `model` is None."""
        if error is self._last:
            return
        self._last, self._is_well = error, False
        self._files.failed(
            self._device, error, model=model, quarantine_after=self._quarantine_after
        )


def _recovered(health: DeviceHealth) -> DeviceHealth:
    return replace(
        health, failure_count=0, quarantined_utc=None, quarantine_reason="", quarantined_after=0
    )


def _with_event(health: DeviceHealth, event: HealthEvent) -> DeviceHealth:
    return replace(health, events=(*health.events, event)[-MAX_EVENTS:])


def _digest(text: str) -> str:
    """A safe file name for a name from an untrusted source."""
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
