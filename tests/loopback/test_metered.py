"""A run that is made for a meter: idle before and after, marks, and a recording beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.digits import FOLDER
from support.tools import need_runtime

from edgebench.host.client import Client
from edgebench.host.measure import new_run_id, open_model
from edgebench.protocol.codec import from_plain
from edgebench.protocol.messages import Progress, RunEnded
from edgebench.protocol.record import IDLE_ENDED, Outcome, Phase, RunRecord
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.traces import RECORD_FILE

pytestmark = pytest.mark.alone

SPEC = RunSpec(
    "litert",
    duration_s=0.3,
    min_query_count=20,
    warmup_query_count=1,
    warmup_duration_s=0.05,
    cooldown_timeout_s=0.0,
    is_checked=False,
)


@dataclass(frozen=True)
class Metered:
    """What a run left: its record, its files, and the phases that the host was told."""

    record: RunRecord
    directory: Path
    phases: list[Phase]

    def kinds(self) -> list[str]:
        """Kinds of its events, in order."""
        return [event.kind for event in self.record.events]


@dataclass(frozen=True)
class Bench:
    """An agent, and a host that is paired with it."""

    agent: AgentProcess
    host: Host
    folder: Path

    def client(self) -> Client:
        return self.host.lab.connect("board")

    def run(self, spec: RunSpec, at: dict[Phase, Callable[[Client, str], None]] | None) -> Metered:
        """One run to its end; `at` is called when a phase is told."""
        model, run_id = open_model(FOLDER / "digits_fp32.tflite"), new_run_id()
        phases = []
        with self.client() as client:
            client.acquire()
            client.push_model(model.path, model.sha256)
            client.start_run(
                *(run_id, spec),
                sha256=model.sha256,
                model_name=model.name,
                size_bytes=model.size_bytes,
            )
            for notice in client.follow_run():
                if isinstance(notice, Progress):
                    phases.append(notice.phase)
                    if at and notice.phase in at:
                        at[notice.phase](client, run_id)
                elif isinstance(notice, RunEnded):
                    assert notice.is_spooled, notice.error
            directory = self.folder / run_id
            directory.mkdir(parents=True)
            client.fetch_run(run_id, directory)
            client.acknowledge(run_id)
        plain = json.loads((directory / RECORD_FILE).read_bytes())
        return Metered(from_plain(plain, RunRecord), directory, phases)


def start(folder: Path, *options: str) -> Bench:
    """A paired agent with these options."""
    need_runtime("ai-edge-litert")
    agent = AgentProcess(folder / "agent", options=["--name", "board", *options]).start()
    host = Host(folder / "host")
    host.lab.pair(agent.pairing_string())
    return Bench(agent, host, folder / "fetched")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An agent that nothing is wired to."""
    bench = start(tmp_path_factory.mktemp("plain"))
    yield bench
    bench.agent.kill()


def cancel(client: Client, run_id: str) -> None:
    client.request_cancel(run_id)


def test_run_is_idle_before_the_worker_and_after_it(plain: Bench) -> None:
    """The idle power is taken while the model loads, or the second window has no end."""
    run = plain.run(replace(SPEC, idle_duration_s=0.4), None)
    assert run.kinds() == [
        *("idle", IDLE_ENDED, "starting", "loading", "warming_up", "measuring"),
        *("spooling", "checking", "idle", IDLE_ENDED),
    ]
    first, first_end, *_, second, second_end = run.record.events
    for begin, end in ((first, first_end), (second, second_end)):
        assert end.time_ns - begin.time_ns >= 400_000_000
        assert end.detail.startswith("after 0.4")
    assert run.phases.count(Phase.IDLE) == 2
    assert run.record.outcome is Outcome.COMPLETED


def test_run_without_a_meter_is_not_idle(plain: Bench) -> None:
    """Every run lasts longer than it did."""
    run = plain.run(SPEC, None)
    assert "idle" not in run.kinds()
    assert Phase.IDLE not in run.phases


def test_stop_ends_the_idle_time_before(plain: Bench) -> None:
    """Ctrl-C is answered after ten minutes."""
    run = plain.run(replace(SPEC, idle_duration_s=600.0), {Phase.IDLE: cancel})
    assert run.record.outcome is Outcome.FAILED
    assert run.record.error == "stopped before anything was measured"
    assert run.kinds()[:2] == ["idle", IDLE_ENDED]
    assert run.record.events[1].detail.startswith("cut short after ")


def test_stop_ends_the_idle_time_after_and_keeps_the_run(plain: Bench) -> None:
    """A measurement that was complete is lost with its idle time."""
    seen: list[Phase] = []

    def second(client: Client, run_id: str) -> None:
        seen.append(Phase.IDLE)
        if len(seen) == 2:
            client.request_cancel(run_id)

    run = plain.run(replace(SPEC, idle_duration_s=2.0), {Phase.IDLE: second})
    assert run.record.outcome is Outcome.COMPLETED
    assert run.record.worker is not None
    assert run.record.events[-1].kind == IDLE_ENDED
    assert run.record.events[-1].detail.startswith("cut short after ")


def test_run_that_is_stopped_is_not_idle_after_it(plain: Bench) -> None:
    """A user who stops a run waits for nothing."""
    spec = replace(SPEC, idle_duration_s=0.3, duration_s=60.0)
    run = plain.run(spec, {Phase.MEASURING: cancel})
    assert run.kinds().count("idle") == 1
    assert run.record.outcome is not Outcome.COMPLETED
