"""The yardstick of a real run on a real agent."""

from __future__ import annotations

from support.agents import Host
from support.tools import need_runtime

from edgebench.host.bench.verify import verify

QUICK = ("--quick", "--runs=2", "--duration", "0.6s", "--min-queries", "50", "--warmup", "5")


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
