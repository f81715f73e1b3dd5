"""The daemon's side of the sampler, with real samplers: whatever ends them, the reason is known."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from support.boards import BOARDS, make_board

from edgebench.agent.telemetry import process
from edgebench.agent.telemetry.job import FACTS_FILE, HeatReport, HeatState, LiveReading, SamplerJob
from edgebench.agent.telemetry.process import SamplerLoss, SamplerMessage, SamplerProcess
from edgebench.protocol.telemetry import TelemetryFacts
from edgebench.protocol.traces import TELEMETRY_FILE
from edgebench.system import python_start

Heard = list[SamplerMessage]
Act = Callable[[int, Heard], Awaitable[None]]
"""Acts on the sampler with this process id, and waits for what is received from it."""


async def until(is_enough: Callable[[], bool]) -> None:
    """Let the sampler and the daemon work."""
    while not is_enough():
        await asyncio.sleep(0.01)


async def nothing(_: int, heard: Heard) -> None:
    """Let it sample until it has reported a reading, or is lost."""
    await until(lambda: any(not isinstance(said, HeatReport) for said in heard))


def sampled(
    tmp_path: Path, act: Act = nothing, hear: Callable[[SamplerMessage], None] = lambda _: None
) -> tuple[TelemetryFacts, Heard]:
    """What a sampler reported, and left."""
    root = make_board(tmp_path / "root", BOARDS["raspberry_pi_5"])
    directory = tmp_path / "run"
    directory.mkdir(exist_ok=True)
    heard: Heard = []

    def note(said: SamplerMessage) -> None:
        heard.append(said)
        hear(said)

    async def run() -> TelemetryFacts:
        others = set(psutil.Process().children())
        sampler = SamplerProcess(directory)
        job = SamplerJob(os.getpid(), str(root), abort_c=88.0, zones=("cpu-thermal",))
        await sampler.start(job, note)
        for child in set(psutil.Process().children()) - others:
            await act(child.pid, heard)
        return await sampler.end()

    return asyncio.run(run()), heard


def lost(heard: Heard) -> list[str]:
    """Reasons for which the device is unwatched."""
    return [said.reason for said in heard if isinstance(said, SamplerLoss)]


def reason(facts: TelemetryFacts) -> str:
    """Why there is no telemetry at all."""
    (absent,) = facts.absent
    assert absent.sensor == "all"
    return absent.reason


def test_good_sampler_is_heard_and_not_lost_at_its_end(tmp_path: Path) -> None:
    """Otherwise every run would end with the message that the device is unwatched."""
    facts, heard = sampled(tmp_path)
    assert facts.reading_count > 0
    assert heard[0] == HeatReport(HeatState.COOL, 88.0, "cpu-thermal", 54.05)
    assert any(isinstance(said, LiveReading) for said in heard)
    assert lost(heard) == []


def test_sampler_that_cannot_be_started_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the temperature guard would not know that the device is unwatched."""
    monkeypatch.setattr(python_start, "INTERPRETER", str(tmp_path / "no python"))
    facts, heard = sampled(tmp_path)
    assert lost(heard) == ["the sampler did not start: No such file or directory"]
    assert reason(facts) == lost(heard)[0]


def test_sampler_that_is_killed_is_lost_at_once(tmp_path: Path) -> None:
    """Otherwise the board would be cooked until the run is over."""

    async def kill(pid: int, heard: Heard) -> None:
        os.kill(pid, signal.SIGKILL)
        await until(lambda: bool(lost(heard)))

    facts, heard = sampled(tmp_path, kill)
    assert lost(heard) == ["the sampler ended with status -9"]
    assert reason(facts) == "the sampler ended with status -9"


def test_sampler_that_fails_leaves_its_own_words(tmp_path: Path) -> None:
    """Otherwise “status 1” would be all that is known of a broken installation."""
    (tmp_path / "run" / FACTS_FILE).mkdir(parents=True)
    facts, _ = sampled(tmp_path)
    assert reason(facts).startswith("the sampler ended with status 1: IsADirectoryError")
    assert not (tmp_path / "run" / TELEMETRY_FILE).exists()


def test_sampler_that_stands_still_is_lost_and_its_trace_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a hanging sampler would pass for a working one, with the device unwatched."""
    monkeypatch.setattr(process, "SILENCE_S", 3.0)

    async def stop(pid: int, heard: Heard) -> None:
        os.kill(pid, signal.SIGSTOP)
        await until(lambda: bool(lost(heard)))
        os.kill(pid, signal.SIGCONT)

    facts, heard = sampled(tmp_path, stop)
    assert lost(heard) == ["the sampler sent nothing for 3 s"]
    assert facts.reading_count > 0


def test_listener_that_fails_loses_nothing(tmp_path: Path) -> None:
    """Otherwise a host that leaves at the wrong moment would cost the run that it requested."""

    def fail(_: SamplerMessage) -> None:
        raise RuntimeError("nobody is there")

    async def wait(_: int, heard: Heard) -> None:
        await until(lambda: len(heard) >= 3)

    facts, _ = sampled(tmp_path, wait, fail)
    assert facts.reading_count > 0
