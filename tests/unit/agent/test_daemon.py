import asyncio
import logging

import pytest

from edgebench.agent import daemon


def test_ends_without_a_task_that_survives_its_cancellation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(daemon, "END_TIMEOUT_S", 0.1)
    cancelled: list[str] = []

    async def stuck() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append("stuck")

    async def obedient() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("obedient")

    async def serve() -> None:
        serving.extend(
            asyncio.create_task(task(), name=task.__name__) for task in (stuck, obedient)
        )
        await asyncio.sleep(0)

    serving: list[asyncio.Task[None]] = []
    with caplog.at_level(logging.WARNING, "edgebench.agent.daemon"):
        daemon.run_until_ended(serve())
    assert sorted(cancelled) == ["obedient", "stuck"]
    assert [task.done() for task in serving] == [False, True]
    assert [record.getMessage() for record in caplog.records] == [
        "task stuck continues after its cancellation"
    ]


def test_an_error_of_the_server_ends_the_tasks_and_is_raised() -> None:
    tasks: list[asyncio.Task[None]] = []

    async def serve() -> None:
        tasks.append(asyncio.create_task(asyncio.sleep(60)))
        raise OSError("no memory")

    with pytest.raises(OSError, match="no memory"):
        daemon.run_until_ended(serve())
    assert tasks[0].cancelled()
