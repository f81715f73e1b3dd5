"""The yardstick of a real run on a real agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.agents import AgentProcess, Host
from support.emulated_clock import EmulatedClock
from support.tools import need_runtime
from support.watchers import At

from edgebench.host.bench.verify import verify
from edgebench.host.show.sentences import sentence
from edgebench.protocol.record import Phase

QUICK = (
    *("--quick", "--runs=2", "--duration", "0.6s", "--min-queries", "50"),
    *("--warmup", "5", "--warmup-duration", "0.05s"),
)


def test_each_run_of_a_set_has_a_yardstick(host: Host) -> None:
    """Otherwise a set on a machine that hides its clock would not be watched."""
    need_runtime("ai-edge-litert")
    result = host.run("bench", "digits_int8.tflite", "--runtime", "litert", *QUICK)
    assert result.returncode in (0, 3), result.stderr
    store = host.lab.store
    runs = [store.run(run_id) for run_id in host.lab.runs()["run_id"]]
    assert len(runs) == 2
    for run in runs:
        yardstick = run.conditions.yardstick
        assert yardstick is not None
        for reading in (yardstick.before, yardstick.after):
            assert reading.integer_ns_per_unit > 0
            assert reading.memory_bytes_per_s is not None
            assert reading.memory_bytes_per_s > 0
        assert "yardstick" in {one.id for one in run.verdict.rules}
        assert verify(store, run.run_id) == []
        assert "per unit before the run" in host.run("show", run.run_id).stdout
    page = host.run("show", str(runs[0].set_id)).stdout
    assert "over 2 runs" in page


def test_device_that_becomes_slow_in_the_loop_is_suspect(host: Host, tmp_path: Path) -> None:
    """Otherwise a clock that nobody can read could fall, and the run would be valid.

    The clock of the device runs twice as fast from the loop on, so that all work takes twice the
    time. It is therefore at the wrong rate, too.
    """
    need_runtime("ai-edge-litert")
    clock = EmulatedClock(tmp_path)
    watcher = At(Phase.MEASURING, lambda: clock.set(rate=2.0))
    options = ["--name", "board"]
    agent = AgentProcess(tmp_path / "agent", options=options, environment=clock.environment)
    settings: dict[str, Any] = {"duration_s": 0.6, "min_query_count": 50, "is_checked": False}
    try:
        host.lab.pair(agent.start().pairing_string())
        [run] = host.lab.bench(
            "digits_int8.tflite",
            on=["board"],
            runtime="litert",
            runs=1,
            watcher=watcher,
            **settings,
        )
    finally:
        agent.kill()
    assert watcher.was_called
    [found] = [one for one in run.result.verdict.failures if one.id == "yardstick"]
    assert "longer after the run than before it, limit" in sentence(found)
