"""The guard of the highest temperature: what it receives, and what becomes of the run."""

from __future__ import annotations

import asyncio

import pytest

from edgebench.agent import guard as guards
from edgebench.agent.guard import Guard
from edgebench.agent.telemetry.job import HeatReport, HeatState
from edgebench.agent.telemetry.process import SamplerLoss
from edgebench.protocol.errors import TargetError, TooHot
from edgebench.protocol.record import TOO_HOT, UNWATCHED

COOL = HeatReport(HeatState.COOL, 88.0, "cpu-thermal", 60.0)
HOT = HeatReport(HeatState.HOT, 88.0, "cpu-thermal", 91.23)
BLIND = HeatReport(HeatState.BLIND, 88.0)
LOST = SamplerLoss("the sampler ended with status -9")


class Case:
    """A guard, and what it did."""

    def __init__(self, limit_c: float | None = 88.0) -> None:
        self.stop_count = 0
        self.events: list[tuple[str, str]] = []
        self.guard = Guard(limit_c, stop=self._stop, note=lambda *event: self.events.append(event))

    def _stop(self) -> None:
        self.stop_count += 1

    def start(self, *before: HeatReport | SamplerLoss) -> None:
        """Receive these reports, then let the run start."""
        for said in before:
            self.guard.on_message(said)
        asyncio.run(self.guard.let_start())


def test_hot_run_is_stopped_once_and_says_at_which_temperature() -> None:
    """Otherwise a run would be stopped with the record that a user stopped it."""
    case = Case()
    case.start(COOL)
    assert case.guard.error is None
    for said in (HOT, COOL, HOT, LOST):
        case.guard.on_message(said)
    text = "stopped at 91.2 °C (cpu-thermal): the profile's limit is 88 °C"
    assert str(case.guard.error) == text
    assert isinstance(case.guard.error, TooHot)
    assert case.stop_count == 1
    assert case.events == [(TOO_HOT, text), (UNWATCHED, LOST.reason)]


def test_hot_device_does_not_start() -> None:
    """Otherwise the wait for a cool device would time out, and the run begin above the limit."""
    case = Case()
    assert case.guard.may_start()
    case.guard.on_message(HOT)
    assert not case.guard.may_start()
    with pytest.raises(TooHot, match=r"not started at 91\.2 °C \(cpu-thermal\)"):
        case.start()
    assert case.stop_count == 0, "the worker has not begun"


def test_device_that_has_cooled_starts() -> None:
    """Otherwise a board that was hot once would never run again."""
    case = Case()
    case.start(HOT, COOL)
    assert case.guard.error is None


def test_lost_sampler_is_as_bad_as_a_hot_device() -> None:
    """Otherwise the guard would die with the sampler, unnoticed."""
    case = Case()
    case.start(COOL)
    case.guard.on_message(LOST)
    expected = (
        "stopped, temperature not monitored: the sampler ended with status -9; "
        "the profile's limit is 88 °C"
    )
    assert str(case.guard.error) == expected
    assert case.stop_count == 1
    early = Case()
    early.guard.on_message(LOST)
    assert early.guard.is_in_vain
    with pytest.raises(TargetError, match="not started, temperature not monitored"):
        early.start()


def test_lost_sampler_costs_only_telemetry_where_there_is_no_limit() -> None:
    """Otherwise a measurement of an hour would be lost with a sensor's reader.

    It would be lost even on a PC that nothing can cook.
    """
    case = Case(limit_c=None)
    case.start(LOST)
    case.guard.on_message(LOST)
    assert (case.guard.error, case.stop_count, case.guard.is_in_vain) == (None, 0, False)
    assert case.events[0] == (UNWATCHED, LOST.reason)


def test_device_without_a_sensor_is_measured_and_the_record_says_so() -> None:
    """Otherwise a board whose kernel shows no zone could never be measured."""
    case = Case()
    case.start(BLIND)
    assert case.guard.error is None
    said = "no thermal zone reports a credible temperature; the profile's limit is 88 °C"
    assert case.events == [(UNWATCHED, said)]


def test_sampler_that_tells_nothing_lets_nobody_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the run would begin before the first look at the temperature."""
    monkeypatch.setattr(guards, "FIRST_LOOK_S", 0.05)
    with pytest.raises(TargetError, match="no temperature reading for"):
        Case().start()
