"""What is remembered of a device's failures, and when it is left out."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.health import (
    DeviceHealth,
    HealthFiles,
    Outcomes,
    failure_code,
)
from edgebench.protocol import errors as e

PI = KnownDevice("pi", "01", "p" * 43, ("192.0.2.1",), 7747)
CLONE = replace(PI, name="pi-2", pin="q" * 43)
AWAY = e.Unreachable("nobody answers at 192.0.2.1:7747")


class Clock:
    """A clock that advances by a minute at each reading."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 23, tzinfo=timezone.utc)

    def __call__(self) -> datetime:
        """The time."""
        self.now += timedelta(minutes=1)
        return self.now


@pytest.fixture
def files(tmp_path: Path) -> HealthFiles:
    """Files of a host without history."""
    return HealthFiles(tmp_path, Clock())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AWAY, "unreachable"),
        (e.Unreachable("no route", is_offline=True), None),
        (e.LinkLost("gone"), "link_lost"),
        (e.LinkTimeout("silent"), "no_answer"),
        (e.NoSpace("disk full"), "storage_full"),
        (e.TooLarge("file of 9 GB"), None),
        (e.WorkerDied("killed by signal 9"), "worker_died"),
        (e.WorkerTimeout("slow"), None),
        (e.ModelRefused("no model"), None),
        (e.InputsRefused("wrong shape"), None),
        (e.LeaseHeld("in use by ada"), None),
        (e.NotPaired("who are you"), None),
        (e.MeterLost("unplugged"), None),
        (e.StoreError("disk of this host is full"), None),
        (e.RuntimeUnavailable("not installed"), None),
        (e.TooHot("91 °C"), None),
    ],
)
def test_only_failures_of_the_device_count(error: e.EdgebenchError, code: str | None) -> None:
    """Otherwise three broken models, or a busy afternoon, would take a good board off the farm."""
    assert failure_code(error) == code


def test_failures_in_a_row_quarantine_a_device_and_a_run_lifts_it(files: HealthFiles) -> None:
    """Otherwise a dead board would be tried every night, or a mended board never again."""
    for _ in range(2):
        files.failed(PI, AWAY, quarantine_after=3)
    assert not files.of(PI).is_quarantined
    files.failed(PI, AWAY, quarantine_after=3)
    health = files.of(PI)
    assert health.quarantined_utc == "2026-11-23T00:03:00+00:00"
    assert health.quarantine_reason == f"3 failures in a row, the last: {AWAY}"
    assert [(event.code, event.text) for event in health.events] == 3 * [("unreachable", str(AWAY))]
    files.failed(PI, e.LinkLost("gone"), quarantine_after=3)
    assert files.of(PI).quarantined_utc == "2026-11-23T00:03:00+00:00"
    files.succeeded(PI)
    health = files.of(PI)
    assert (health.is_quarantined, health.failure_count) == (False, 0)
    assert [event.code for event in health.events[-2:]] == ["link_lost", None]


def test_run_between_failures_begins_the_count_anew(files: HealthFiles) -> None:
    """Otherwise a bad cable contact once a week would quarantine a board after three weeks."""
    for _ in range(30):
        files.failed(PI, AWAY, quarantine_after=2)
        files.succeeded(PI)
    assert not files.of(PI).is_quarantined


def test_last_ten_outcomes_are_kept(files: HealthFiles) -> None:
    """Otherwise `devices --health` would know less of a device than docs/farm.md promises."""
    for _ in range(3):
        files.failed(PI, AWAY, quarantine_after=0)
    for _ in range(8):
        files.succeeded(PI)
    codes = [event.code for event in files.of(PI).events]
    assert codes == ["unreachable"] * 2 + [None] * 8


def test_deploy_ends_a_quarantine(files: HealthFiles) -> None:
    """Otherwise the step that every hint recommends would leave the device out of the farm."""
    for _ in range(2):
        files.failed(PI, AWAY, quarantine_after=2)
    assert files.of(PI).is_quarantined
    files.deployed(PI)
    assert (files.of(PI).is_quarantined, files.of(PI).failure_count) == (False, 0)
    assert len(files.of(PI).events) == 2, "no run was made"


def test_zero_never_quarantines(files: HealthFiles) -> None:
    """Otherwise a user who does not want the quarantine could not turn it off."""
    for number in range(20):
        files.failed(PI, AWAY, quarantine_after=0)
        assert files.of(PI).failure_count == number + 1
    assert not files.of(PI).is_quarantined


def test_model_that_kills_every_worker_counts_once(files: HealthFiles) -> None:
    """Otherwise one bad model, measured every night, would take all boards out of the farm."""
    died = e.WorkerDied("killed by signal 11")
    for _ in range(5):
        files.failed(PI, died, model="bad.onnx", quarantine_after=2)
    assert files.of(PI).failure_count == 1
    files.failed(PI, died, model="other.onnx", quarantine_after=2)
    assert files.of(PI).is_quarantined


def test_failure_that_ends_a_request_is_noted_once(files: HealthFiles) -> None:
    """Otherwise a failed run without an observer would count as two in a row.

    Such a failure is noted, and then raised too.
    """
    outcomes = Outcomes(files, PI, 2)
    died = e.WorkerDied("killed by signal 9")
    outcomes.failed(died, "a.onnx")
    outcomes.failed(died)
    assert files.of(PI).failure_count == 1
    outcomes.succeeded()
    outcomes.succeeded()
    assert [event.code for event in files.of(PI).events] == ["worker_died", None]
    outcomes.failed(e.LinkLost("gone"))
    outcomes.succeeded()
    assert files.of(PI).failure_count == 0


def test_connection_is_no_run(files: HealthFiles) -> None:
    """Otherwise a board with a full disk, which still responds, would never be quarantined."""
    for _ in range(3):
        files.seen(PI, "machine")
        files.failed(PI, e.NoSpace("disk full"), quarantine_after=3)
    health = files.of(PI)
    assert health.last_seen_utc == "2026-11-23T00:05:00+00:00"
    assert health.is_quarantined


def test_seats_and_copies_of_a_card_are_devices_of_their_own(files: HealthFiles) -> None:
    """Otherwise one broken board would take its neighbours, or one with its id, off the farm."""
    files.seen(PI, "machine")
    files.quarantine(PI.at_seat("nucleo"), "check_failed", "it has a fault")
    assert files.of(PI.at_seat("nucleo")).is_quarantined
    assert not files.of(PI).is_quarantined
    assert CLONE.id == PI.id
    assert files.of(CLONE) == DeviceHealth()


def test_first_seat_is_the_same_device_with_and_without_its_name(files: HealthFiles) -> None:
    """Otherwise a board could be healthy as `rack` and quarantined as `rack/rock-5b`."""
    files.seen(PI, "rock-5b")
    files.quarantine(PI.at_seat("rock-5b"), "check_failed", "no answer")
    assert files.of(PI).quarantine_reason == "no answer"
    assert files.of(PI).seat == "rock-5b"


def test_new_certificate_keeps_the_history_and_a_forgotten_device_loses_it(
    files: HealthFiles,
) -> None:
    """Otherwise a re-flashed board would be a stranger, or a forgotten board stay quarantined."""
    files.seen(PI, "machine")
    files.quarantine(PI.at_seat("nucleo"), "check_failed", "no answer")
    files.move(PI.pin, "n" * 43)
    anew = replace(PI, pin="n" * 43)
    assert files.of(PI) == DeviceHealth()
    assert files.of(anew).last_seen_utc is not None
    assert files.of(anew.at_seat("nucleo")).is_quarantined
    files.forget(anew.pin)
    assert files.of(anew) == files.of(anew.at_seat("nucleo")) == DeviceHealth()


@pytest.mark.parametrize("content", ["", "{", "5", '{"failure_count": "x"}', "[]"])
def test_damaged_file_is_no_reason_not_to_measure(
    files: HealthFiles, tmp_path: Path, content: str
) -> None:
    """Otherwise a power cut would leave a device that cannot be used for measurements."""
    files.seen(PI, "machine")
    [path] = tmp_path.rglob("*.json")
    path.write_text(content)
    assert files.of(PI) == DeviceHealth()
    files.seen(PI, "machine")
    assert files.of(PI).last_seen_utc is not None


def test_place_that_cannot_be_written_is_no_reason_not_to_measure(tmp_path: Path) -> None:
    """Otherwise a full disk of the host would end runs that need no more of it."""
    (tmp_path / "file").write_text("")
    files = HealthFiles(tmp_path / "file")
    files.seen(PI, "machine")
    files.failed(PI, AWAY, quarantine_after=1)
    files.move("p", "q")
    assert files.of(PI) == DeviceHealth()


PROCESSES, FAILURES_EACH = 8, 10
FAIL_OFTEN = f"""
import os, sys
from pathlib import Path
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.health import HealthFiles
from edgebench.protocol.errors import LinkLost

device = KnownDevice("pi", "01", "p", ("192.0.2.1",), 7747)
children = []
for number in range({PROCESSES}):
    if not (child := os.fork()):
        for _ in range({FAILURES_EACH}):
            HealthFiles(Path(sys.argv[1])).failed(device, LinkLost("gone"), quarantine_after=3)
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
"""


def test_processes_at_the_same_time_lose_no_failure(tmp_path: Path) -> None:
    """Otherwise concurrent lanes and commands would overwrite each other's outcomes."""
    subprocess.run([sys.executable, "-c", FAIL_OFTEN, str(tmp_path)], check=True, timeout=60)
    device = KnownDevice("pi", "01", "p", ("192.0.2.1",), 7747)
    assert HealthFiles(tmp_path).of(device).failure_count == PROCESSES * FAILURES_EACH
