"""A real host measures on a real agent, over TLS and over the unix socket."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime

from edgebench.host.bench import events
from edgebench.host.bench.model import open_model
from edgebench.host.bench.verify import verify
from edgebench.host.store.files import read_clock
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.messages import Progress, Telemetry
from edgebench.protocol.record import Phase

QUICK = (
    *("--quick", "--runs=1", "--duration", "0.3s", "--min-queries", "50"),
    *("--warmup", "5", "--warmup-duration", "0.05s"),
)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all tests: it probes the runtimes once."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


@pytest.mark.parametrize(
    ("runtime", "package", "model"),
    [
        ("litert", "ai-edge-litert", "digits_int8.tflite"),
        ("tflite", "tflite-runtime", "digits_fp32.tflite"),
        ("onnx", "onnxruntime", "digits_int8.onnx"),
    ],
)
def test_paired_host_measures_on_each_runtime(
    paired: Host, runtime: str, package: str, model: str
) -> None:
    """Otherwise the path could fail for one runtime, or its numbers could lose their raw data."""
    need_runtime(package)
    result = paired.run("bench", model, "--on", "board", "--runtime", runtime, *QUICK, "--json")
    assert result.returncode in (0, 3), result.stderr
    (document,) = json.loads(result.stdout)["runs"]
    assert document["runtime"]["name"] == runtime
    run = paired.lab.run(document["run_id"])
    assert (~run.queries["warmup"]).sum() >= 50
    # A warm-up that went on beyond the requested one is cut as well.
    counted = run.queries[document["metrics"]["warmup"]["query_count"] :]
    assert len(counted) == document["metrics"]["latency_ns"]["count"] > 0
    assert counted["latency_ns"].min() == document["metrics"]["latency_ns"]["min"]
    assert verify(paired.lab.store, document["run_id"]) == []
    binding = document["metrics"]["harness_ns"]["binding"]
    assert 0 < binding["p50"] < 1_000_000
    assert (binding["added"] is None) == (binding["unavailable"] is not None)
    assert "one addition takes" in paired.run("show", document["run_id"]).stdout


@pytest.mark.parametrize(
    ("runtime", "package", "model"),
    [
        ("litert", "ai-edge-litert", "digits_fp32.tflite"),
        ("onnx", "onnxruntime", "digits_fp32.onnx"),
    ],
)
def test_profile_comes_through_the_agent(
    paired: Host, runtime: str, package: str, model: str
) -> None:
    """Otherwise the agent would refuse a profile that the driver can make by its own tests."""
    need_runtime(package)
    words = ("--on", "board", "--runtime", runtime, "--profile", *QUICK)
    result = paired.run("bench", model, *words, "--json")
    assert result.returncode in (0, 3), result.stderr
    (document,) = json.loads(result.stdout)["runs"]
    found = document["metrics"]["profile"]["operators"]
    assert sum("conv" in one["operator"].lower() for one in found) == 3
    assert verify(paired.lab.store, document["run_id"]) == []


def test_runtime_without_a_profiler_is_refused_before_the_run(paired: Host) -> None:
    """Otherwise a minute would be measured for a profile that cannot exist."""
    need_runtime("tflite-runtime")
    words = ("--on", "board", "--runtime", "tflite", "--profile", *QUICK)
    result = paired.run("bench", "digits_fp32.tflite", *words)
    assert result.returncode == 1
    assert "tflite-runtime has no profiler; litert profiles" in result.stderr
    assert paired.lab.runs().empty


def test_cpu_that_the_device_does_not_have_is_refused_before_the_run(paired: Host) -> None:
    """Otherwise a minute would be measured on any CPU, and the run then marked as suspect."""
    words = ("--on", "board", "--cpus", "0,4095", *QUICK)
    result = paired.run("bench", "digits_int8.tflite", *words)
    assert result.returncode == 2
    assert "CPU 4095 is not available to models on board; available: " in result.stderr
    assert paired.lab.runs().empty


def test_local_bench_needs_no_device(host: Host) -> None:
    """Otherwise a user without a device could not try the tool."""
    result = host.run("bench", "digits_int8.tflite", *QUICK)
    assert result.returncode in (0, 3), result.stderr
    assert "digits_int8.tflite" in result.stdout
    assert str(host.folder / "data" / "edgebench" / "runs") in result.stderr


def test_second_push_sends_nothing(agent: AgentProcess, paired: Host, tmp_path: Path) -> None:
    """Otherwise content that the device holds would be sent again."""
    path = tmp_path / "model.tflite"
    path.write_bytes(random.Random(0).randbytes(100_000))
    model, before = open_model(path), agent.status().models_count
    with paired.lab.connect("board") as client:
        client.acquire()
        assert client.push_model(model.path, model.sha256) == model.path.stat().st_size
        assert client.push_model(model.path, model.sha256) == 0
    assert agent.status().models_count == before + 1


def test_clock_is_probed_around_the_timed_loop_and_no_notice_is_lost(paired: Host) -> None:
    """Otherwise a probe would take a phase's notice for its reply, or fall into the timed loop."""
    notices: list[Progress | Telemetry] = []

    def keep(event: events.MeasurementEvent) -> None:
        if isinstance(event, events.PhaseReport):
            notices.append(event.progress)
        elif isinstance(event, events.TelemetryReport):
            notices.append(event.telemetry)

    [run] = paired.lab.bench(
        "digits_int8.tflite",
        runs=1,
        on=["board"],
        duration_s=0.5,
        min_query_count=10,
        watcher=keep,
    )
    phases = [one.phase for one in notices if isinstance(one, Progress)]
    assert phases[-5:] == [
        Phase.LOADING,
        Phase.WARMING_UP,
        Phase.MEASURING,
        Phase.SPOOLING,
        Phase.CHECKING,
    ]
    groups = read_clock(paired.lab.store.directory(run.id))
    assert len(groups) == 4
    clock = ClockModel(**run.document["conditions"]["clock"])
    assert run.metrics.warmup is not None
    first = run.metrics.warmup.query_count
    loop = [clock.to_host(int(run.queries[name].iloc[at])) for name, at in
            (("start_ns", first), ("end_ns", -1))]  # fmt: skip
    for group in groups:
        for probe in group:
            assert probe.t3 < loop[0] or probe.t0 > loop[1]
