"""The coolest idle temperature outlives the agent, and no damage makes it nonsense."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from edgebench.agent.coolest import COOLEST_FILE, KEPT_FOR, Coolest, settled_c

NOW = datetime(2026, 7, 1, 12, 0, tzinfo=timezone.utc)


def coolest(folder: Path, machine: str = "this", after: timedelta = timedelta()) -> Coolest:
    """As an agent that starts then finds it."""
    return Coolest(folder / COOLEST_FILE, machine, lambda: NOW + after)


def test_agent_that_starts_on_a_hot_device_knows_how_cool_it_was(tmp_path: Path) -> None:
    """Otherwise an agent that is restarted after a hot run would call 65 degrees cool."""
    coolest(tmp_path).see(41.5)
    again = coolest(tmp_path, after=timedelta(days=1))
    again.see(65.0)
    assert again.temp_c == 41.5
    again.see(40.0)
    kept = json.loads((tmp_path / COOLEST_FILE).read_text())
    assert kept == {"this": {"temp_c": 40.0, "seen_utc": "2026-07-02T12:00:00+00:00"}}


def test_each_machine_has_its_own(tmp_path: Path) -> None:
    """Otherwise two boards with one home directory would be held against each other."""
    coolest(tmp_path, "cool board").see(30.0)
    coolest(tmp_path, "warm board").see(45.0)
    assert coolest(tmp_path, "cool board").temp_c == 30.0
    assert coolest(tmp_path, "warm board").temp_c == 45.0
    assert coolest(tmp_path, "new board").temp_c is None


def test_coolest_of_another_season_is_forgotten(tmp_path: Path) -> None:
    """Otherwise, in summer, every run would wait for a temperature of last winter."""
    coolest(tmp_path).see(30.0)
    assert coolest(tmp_path, after=KEPT_FOR - timedelta(days=1)).temp_c == 30.0
    late = coolest(tmp_path, after=KEPT_FOR)
    assert late.temp_c is None
    late.see(42.0)
    assert coolest(tmp_path, after=KEPT_FOR).temp_c == 42.0


@pytest.mark.parametrize("temp_c", [-273.15, -40.0, 85.0, math.nan, math.inf, None])
def test_nonsense_is_not_kept(tmp_path: Path, temp_c: float | None) -> None:
    """Otherwise, after a single reading of -273, no run would ever start cool again."""
    coolest(tmp_path).see(temp_c)
    assert coolest(tmp_path).temp_c is None


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([41.0, 41.5, 41.0], 41.5),
        ([0.0, 41.0, 41.0], 41.0),
        ([41.0, 0.0, 0.0], 41.0),
        ([41.0, None, 41.0], None),
    ],
)
def test_one_slip_at_the_start_is_no_baseline(
    readings: list[float | None], expected: float | None
) -> None:
    """Otherwise, after a single reading of 0 °C, no run would start cool for 60 days."""
    left = iter(readings)
    assert settled_c(lambda: next(left), pause=lambda _: None) == expected


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[1]", b"null", b"\xff\xfe", b'{"this": 41.5}', b'{"this": {}}'),
        b'{"this": {"temp_c": "cool", "seen_utc": "2026-06-30T00:00:00+00:00"}}',
        b'{"this": {"temp_c": -200, "seen_utc": "2026-06-30T00:00:00+00:00"}}',
        b'{"this": {"temp_c": 40.0, "seen_utc": 7}}',
        b'{"this": {"temp_c": true, "seen_utc": "2026-06-30T00:00:00+00:00"}}',
        b'{"this": {"temp_c": 1%s, "seen_utc": "2026-06-30T00:00:00+00:00"}}' % (b"0" * 400),
        b'{"this": {"temp_c": 40.0, "seen_utc": "2030-06-30T00:00:00+00:00"}}',
        b"[" * 100_000,
        b'{"this": ' * 100_000,
        b'{"this": {"temp_c": 40.0, "seen_utc": "2026-06-30T00:00:00"}}',
    ],
)
def test_damaged_file_is_made_anew(tmp_path: Path, content: bytes) -> None:
    """Otherwise the agent would never start again after a power cut at the wrong moment."""
    (tmp_path / COOLEST_FILE).write_bytes(content)
    found = coolest(tmp_path)
    assert found.temp_c is None
    found.see(41.0)
    assert coolest(tmp_path).temp_c == 41.0


def test_directory_that_cannot_be_written_costs_no_run(tmp_path: Path) -> None:
    """Otherwise a full disk would end a run over a temperature that only helps the next run."""
    found = Coolest(tmp_path / "gone" / COOLEST_FILE, "this")
    found.see(41.0)
    assert found.temp_c == 41.0


def test_hot_device_is_no_baseline_at_the_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise 65 degrees would be cool for an agent installed right after a compilation."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.8, 1.2))
    found = coolest(tmp_path)
    found.see_at_start(65.0, 45.0)
    assert found.temp_c is None
    found.see_at_start(44.0, 45.0)
    assert found.temp_c == 44.0
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.1, 0.05))
    warm_room = coolest(tmp_path / "other")
    warm_room.see_at_start(49.0, 45.0)
    assert warm_room.temp_c == 49.0
