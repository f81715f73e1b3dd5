"""Power that a meter records reaches the store."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.agents import Host
from support.powercap import Counter
from support.ppk2 import Faults, Ppk2Emulator

from edgebench.host.store.power_file import read_power_facts

pytestmark = pytest.mark.alone

WATTS = 10.0


def test_power_is_recorded_beside_a_run(host: Host, tmp_path: Path) -> None:
    """The trace of the meter does not reach the store, or not on the clock of the queries."""
    counter = Counter(tmp_path / "root")
    ended = threading.Event()

    def burn() -> None:
        begin_s = time.monotonic()
        while not ended.wait(0.005):
            counter.show(int(WATTS * 1e6 * (time.monotonic() - begin_s)))

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        result = host.run(
            *("bench", "digits_int8.tflite", "--duration", "1s", "--warmup", "1"),
            *("--meter", f"rapl:{tmp_path / 'root'}", "--json"),
        )
    finally:
        ended.set()
        thread.join()
    assert result.returncode in (0, 3), result.stderr
    (document,) = json.loads(result.stdout)["runs"]
    directory = host.lab.store.directory(document["run_id"])
    table = pq.read_table(directory / "power.parquet")
    watts = [watt for watt in table["watts_w"].to_pylist() if not math.isnan(watt)]
    assert len(watts) >= 10
    assert WATTS / 3 < sorted(watts)[len(watts) // 2] < 3 * WATTS
    queries = host.lab.run().queries
    times = table["time_ns"].to_pylist()
    assert times[0] < queries["start_ns"].iloc[0] < queries["end_ns"].iloc[-1] < times[-1]
    facts = json.loads(pq.read_metadata(directory / "power.parquet").metadata[b"edgebench"])
    assert facts["header"]["capability"]["clock_domain"] == "host:monotonic"


def test_meter_of_this_machine_is_refused_for_another(paired: Host) -> None:
    """The host's own power is printed as the device's."""
    result = paired.run("bench", "digits_int8.tflite", "--on", "board", "--meter", "rapl")
    assert result.returncode == 2
    assert "meter rapl measures this machine, not board" in result.stderr


def test_meter_with_wires_may_measure_another_machine(paired: Host) -> None:
    """The PPK2 on the desk is refused for the board on the desk, or after its first run."""
    with Ppk2Emulator() as emulator:
        for _ in range(2):
            [run] = paired.lab.bench(
                "digits_int8.tflite",
                on=["board"],
                runtime="litert",
                duration_s=0.5,
                min_query_count=10,
                meter=f"ppk2:{emulator.path},supply=3.3",
            )
    facts = read_power_facts(paired.lab.store.directory(run.id))
    assert facts.header.info.model == "Power Profiler Kit II"
    assert facts.loss.received_count > 10_000
    assert (facts.loss.lost_count, facts.loss.trouble) == (0, None)
    assert (paired.lab.store.directory(run.id) / "raw/meter.spool").exists()


def test_meter_that_is_pulled_out_costs_no_latency(paired: Host) -> None:
    """A loose cable on the meter loses the measurement beside it."""
    with Ppk2Emulator(faults=Faults(gone_after_s=0.5)) as emulator:
        run = paired.lab.bench(
            "digits_int8.tflite",
            on=["board"],
            runtime="litert",
            duration_s=1.5,
            min_query_count=10,
            meter=f"ppk2:{emulator.path},supply=3.3",
        )[0]
    assert run.metrics["latency_ns"]["count"] > 10
    facts = read_power_facts(paired.lab.store.directory(run.id))
    assert facts.loss.trouble is not None
    assert "is gone" in facts.loss.trouble
