"""Every scenario, check and disturbance, with a real agent, and with numbers that can be verified.

The machine that runs the tests may be busy: what is compared is counted, never timed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.agents import AgentProcess, Host, wait_until
from support.digits import CASES, FOLDER, MANIFEST, PACKAGES, Case
from support.exports import judged
from support.tools import need_loadgen, need_runtime
from support.watchers import At, worker_pid

from edgebench.host.bench.cancellation import Interrupted
from edgebench.host.bench.verify import verify
from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.files import export_runs
from edgebench.host.export.registry import named_format
from edgebench.host.result.verdict import State
from edgebench.host.stored_run import StoredRun
from edgebench.protocol.errors import SampleShapeRefused, SampleTypeRefused, TargetError
from edgebench.protocol.record import Phase
from edgebench.protocol.traces import LOADGEN_FILES

SHORT: dict[str, Any] = {
    "duration_s": 0.3,
    "min_query_count": 30,
    "warmup_query_count": 3,
    "warmup_duration_s": 0.05,
}
QPS = 100.0


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all runs: none of them may leave anything behind."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def paired(agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """The host that is paired with the agent."""
    host = Host(tmp_path_factory.mktemp("host"))
    host.lab.pair(agent.pairing_string())
    return host


def bench(host: Host, model: str, runtime: str, **settings: Any) -> list[StoredRun]:
    """Measure on the paired agent; `verify` must compute every run again."""
    need_runtime(PACKAGES[runtime])
    runs = host.lab.bench(model, runs=1, on=["board"], runtime=runtime, **(SHORT | settings))
    for run in runs:
        assert verify(host.lab.store, run.id) == []
    return runs


def rules(run: StoredRun) -> dict[str, tuple[str, str]]:
    """Outcome and detail of each rule."""
    found = run.document["verdict"]["rules"]
    return {rule["id"]: (rule["outcome"], rule["detail"]) for rule in found}


SCENARIOS: list[tuple[str, dict[str, Any], int]] = [
    ("single_stream", {}, 1),
    ("multi_stream", {"samples_per_query": 3}, 3),
    ("offline", {}, 1),
    ("server", {"target_qps": QPS}, 1),
]


@pytest.mark.parametrize(("scenario", "more", "size"), SCENARIOS, ids=[s[0] for s in SCENARIOS])
@pytest.mark.parametrize("case", [CASES[0], CASES[-1]], ids=str)
def test_every_scenario_ends_with_its_rows(
    paired: Host, case: Case, scenario: str, more: dict[str, Any], size: int
) -> None:
    """Otherwise a scenario could issue other queries than stated, or its rows be unverifiable."""
    [run] = bench(paired, case.path, case.runtime, scenario=scenario, sample_count=5, **more)
    rows = run.queries
    warmup, timed = rows[rows["warmup"]], rows[~rows["warmup"]]
    assert len(warmup) >= 3
    assert (warmup["query"] == -1).all()
    assert timed["query"].tolist() == [k // size for k in range(len(timed))]
    assert len(timed) % size == 0
    assert set(rows["sample"]) <= set(range(5))
    assert (rows["batch"] == size).all()
    assert rows["ok"].all()
    first = timed.groupby("query")["start_ns"].transform("first")
    expected = {
        "single_stream": timed["start_ns"],
        "multi_stream": first,
        "offline": timed["start_ns"].iloc[0],
        "server": timed["scheduled_ns"],
    }
    assert (timed["scheduled_ns"] == expected[scenario]).all()
    assert (run.metrics.end_to_end_ns is None) == (scenario == "offline")
    assert rules(run)["enough_queries"][0] == "pass"
    assert rules(run)["enough_time"][0] == "pass"
    assert rules(run)["agreement"][0] == "pass", rules(run)["agreement"]
    assert run.document["spec"]["scenario"] == scenario


@pytest.mark.parametrize("scenario", ["single_stream", "offline"])
def test_run_that_reaches_its_maximum_duration_says_so(paired: Host, scenario: str) -> None:
    """Otherwise a slow model would hold the device until its last query, or end with no reason."""
    [run] = bench(
        *(paired, "digits_int8.tflite", "litert"),
        scenario=scenario,
        duration_s=0.2,
        max_duration_s=0.6,
        min_query_count=900_000,  # no machine computes one in 0.7 µs
        is_checked=False,
    )
    assert run.verdict == "invalid"
    outcome, detail = rules(run)["enough_queries"]
    assert outcome == "fail"
    assert detail.endswith("at least 900000 needed: the run ended at its maximum of 0.6 s")
    assert rules(run)["complete"][0] == rules(run)["enough_time"][0] == "pass"
    timed = run.queries[~run.queries["warmup"]]
    # Not 0.2 s; and the limit counts from before the first query, which a busy machine delays.
    assert 0.22e9 < timed["end_ns"].iloc[-1] - timed["start_ns"].iloc[0] < 2e9


def test_same_seed_gives_the_same_samples_and_schedule(paired: Host) -> None:
    """Otherwise a run could not be repeated."""
    runs = [
        bench(paired, "digits_int8.tflite", "litert", scenario="server", target_qps=QPS, seed=s)[0]
        for s in (7, 7, 8)
    ]
    timed = [run.queries[~run.queries["warmup"]] for run in runs]
    gaps = [np.diff(rows["scheduled_ns"]).tolist() for rows in timed]
    samples = [rows["sample"].tolist() for rows in timed]
    assert gaps[0] == gaps[1] != gaps[2]
    assert samples[0] == samples[1] != samples[2]


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.entry["precision"] == "int8"], ids=str
)
def test_accuracy_is_that_of_the_manifest_and_held_against_the_sibling(
    paired: Host, case: Case
) -> None:
    """Otherwise the speed of a model with wrong outputs on the device would count as a result."""
    reference, run = bench(paired, case.path, case.runtime, accuracy="digits")
    entries = {entry["file"]: entry for entry in MANIFEST["models"]}
    for found in (reference, run):
        entry = entries[found.document["model"]["name"]]
        accuracy = found.document["metrics"]["accuracy"]
        known = {item["correct_count"] / 360 for item in entry["accuracy"]}
        assert accuracy["value"] in known
        assert (accuracy["metric"], accuracy["sample_count"]) == ("top1", 360)
        assert accuracy["dataset"] == "digits"
        low, high = accuracy["ci95"]
        assert low < accuracy["value"] < high
    assert reference.document["model"]["name"] == case.entry["file"].replace("int8", "fp32")
    assert reference.document["metrics"]["accuracy"]["drop_vs_reference"] is None
    assert rules(reference)["accuracy"][0] == "unknown"
    accuracy = run.document["metrics"]["accuracy"]
    best = reference.document["metrics"]["accuracy"]["value"]
    assert accuracy["drop_vs_reference"] == pytest.approx(best - accuracy["value"])
    assert accuracy["reference"] == {
        "run_id": reference.id,
        "model": reference.document["model"]["name"],
        "value": best,
    }
    assert rules(run)["accuracy"][0] == rules(run)["accuracy_floor"][0] == "pass"


def damaged_weights(content: bytes) -> bytes:
    """The model with the numbers of its largest weights in another order: it loads and runs."""
    words = np.frombuffer(content[: len(content) // 4 * 4], "<f4")
    with np.errstate(invalid="ignore"):
        is_weight = np.isfinite(words) & (np.abs(words) > 1e-6) & (np.abs(words) < 10)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_weight, [False]]).astype(int)))
    begins, ends = edges[::2], edges[1::2]
    longest = int(np.argmax(ends - begins))
    begin, end = int(begins[longest]), int(ends[longest])
    mixed = np.random.default_rng(1).permutation(words[begin:end]).astype("<f4")
    return content[: 4 * begin] + mixed.tobytes() + content[4 * end :]


def broken_rules(document: dict[str, Any]) -> set[str]:
    """Rules that a run failed."""
    return {rule["id"] for rule in document["verdict"]["rules"] if rule["outcome"] == "fail"}


def test_fast_model_that_answers_wrongly_is_invalid(paired: Host, tmp_path: Path) -> None:
    """Otherwise a damaged model would be as fast as ever, and its run valid."""
    need_runtime("ai-edge-litert")
    path = tmp_path / "damaged.tflite"
    path.write_bytes(damaged_weights((FOLDER / "digits_fp32.tflite").read_bytes()))
    result = paired.run(
        *("bench", str(path), "--on", "board", "--runtime", "litert", "--json"),
        *("--accuracy", "digits", "--reference", "digits_fp32.tflite"),
        *("--quick", "--runs=1", "--duration", "0.3s", "--min-queries", "30"),
        *("--warmup", "3", "--warmup-duration", "0.05s"),
    )
    assert result.returncode == 3, result.stderr
    assert "note: digits_fp32.tflite is measured first, as the reference" in result.stderr
    reference, damaged = json.loads(result.stdout)["runs"]
    assert reference["model"]["name"] == "digits_fp32.tflite"
    assert "accuracy_floor" not in broken_rules(reference)
    assert damaged["metrics"]["accuracy"]["value"] < 0.5
    assert damaged["metrics"]["accuracy"]["drop_vs_reference"] > 0.4
    assert damaged["metrics"]["agreement"]["relative_rms"] < 0.01, "the kernels are not to blame"
    assert "accuracy_floor" in broken_rules(damaged)
    assert damaged["verdict"]["state"] == "invalid"
    assert "invalid: damaged.tflite on litert: the outputs are wrong: top1 " in result.stderr


def summary(run: StoredRun, host: Host) -> str:
    """LoadGen's own summary of the run."""
    raw = host.lab.store.directory(run.id) / "raw"
    assert (raw / "mlperf_log_detail.txt").stat().st_size > 1000
    return (raw / "mlperf_log_summary.txt").read_text()


def number(pattern: str, text: str) -> int:
    """The number that follows this text."""
    found = re.search(pattern + r"\D*(\d+)", text)
    assert found, text
    return int(found[1])


@pytest.mark.parametrize("scenario", ["single_stream", "multi_stream"])
def test_loadgen_and_the_trace_tell_the_same(paired: Host, tmp_path: Path, scenario: str) -> None:
    """Otherwise LoadGen's log could be that of another run, or the trace lack its queries."""
    need_loadgen()
    size, least = (8, 662) if scenario == "multi_stream" else (1, 64)
    [run] = bench(
        paired,
        "digits_fp32.tflite",
        "litert",
        engine="loadgen",
        scenario=scenario,
        min_query_count=2 * least,  # not by time: a busy machine takes long for them
    )
    rows = run.queries[~run.queries["warmup"]]
    text = summary(run, paired)
    processed = number(rf"Processed at least {least} queries \(", text)
    assert len(rows) == processed * size
    starts, ends = (
        rows["scheduled_ns"].to_numpy()[::size],
        rows["end_ns"].to_numpy()[size - 1 :: size],
    )
    latency_ns = np.sort(ends - starts)
    p50_ns = number(r"50.00 percentile latency \(ns\)", text)
    # LoadGen's latency additionally has the way into Python and back, however long the machine
    # takes for that. Queries follow each other, and half of them take the median or longer: that
    # fits into the time from the first to the last, but for the two whose ends are outside.
    assert latency_ns[len(latency_ns) // 2] < p50_ns
    assert p50_ns * (processed // 2 - 2) < ends[-1] - starts[0]
    assert number(r"Min latency \(ns\)", text) > latency_ns[0]
    assert f"Scenario : {'MultiStream' if size > 1 else 'SingleStream'}" in text
    # Whatever the verdict on the busy machine: what is exported are LoadGen's own files.
    exported = ExportedRun(run.result, paired.lab.store.directory(run.id))
    export_runs([judged(exported, State.SUSPECT)], named_format("mlperf"), tmp_path)
    for name in LOADGEN_FILES:
        own = (exported.directory / "raw" / name).read_bytes()
        assert (tmp_path / run.id / name).read_bytes() == own


@pytest.mark.parametrize(
    ("scenario", "more"),
    [("offline", {}), ("server", {"target_qps": 200.0, "target_latency_s": 5.0})],
)
def test_loadgen_issues_the_other_scenarios_too(
    paired: Host, scenario: str, more: dict[str, Any]
) -> None:
    """Otherwise LoadGen would run another scenario than the requested one."""
    need_loadgen()
    [run] = bench(
        paired, "digits_fp32.tflite", "litert", engine="loadgen", scenario=scenario, **more
    )
    rows = run.queries[~run.queries["warmup"]]
    text = summary(run, paired)
    assert f"Scenario : {scenario.capitalize()}" in text
    assert run.metrics.end_to_end_ns is None
    assert len(rows) >= 30
    if scenario == "offline":
        assert number("samples_per_query :", text) == len(rows)


def many_images(tmp_path: Path) -> str:
    """A data set that takes tens of seconds to evaluate."""
    path = tmp_path / "many.npz"
    np.savez(path, x=np.zeros((400_000, 8, 8, 1), bool), y=np.zeros(400_000, np.uint8))
    return str(path)


def test_labels_that_do_not_fit_cost_the_accuracy_and_no_latency(
    paired: Host, tmp_path: Path
) -> None:
    """Otherwise other labels would cost the measurement, which would stay on the board for ever."""
    path = tmp_path / "other.npz"
    np.savez(path, x=np.zeros((4, 8, 8, 1)), y=np.array([0, 1, 2, 1000]))
    [run] = bench(paired, "digits_fp32.tflite", "litert", accuracy=str(path))
    assert rules(run)["accuracy_floor"] == ("fail", "label 1000 is outside the 10 classes")
    assert run.metrics.accuracy is None
    assert run.document["metrics"]["latency_ns"]["count"] > 0


def test_samples_that_do_not_fit_are_refused_before_the_measurement(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """Otherwise the wrong shape of a data set would be reported only after a run of a minute."""
    path = tmp_path / "other.npz"
    for x, kind, said in (
        (
            np.zeros((4, 9, 9, 1)),
            SampleShapeRefused,
            r"shape \[9, 9, 1\], the model takes \[8, 8, 1\]",
        ),
        (
            np.zeros((4, 8, 8, 1), np.int8),
            SampleTypeRefused,
            r"of the data set are int8, but input '.*' takes",
        ),
    ):
        np.savez(path, x=x, y=np.zeros(4, np.uint8))
        with pytest.raises(kind, match=said):
            bench(paired, "digits_fp32.tflite", "litert", accuracy=str(path), duration_s=60.0)
    assert agent.status().spooled_count == 0


def test_server_that_cannot_keep_up_is_invalid_without_a_target(paired: Host) -> None:
    """Otherwise half a second would be published as the latency of a model that takes 20 µs."""
    [run] = bench(paired, "digits_fp32.tflite", "litert", scenario="server", target_qps=400_000.0)
    assert run.verdict == "invalid"
    assert rules(run)["keeps_up"][0] == "fail"
    assert "at 400000 queries per second" in rules(run)["keeps_up"][1]


def test_worker_that_is_killed_in_the_checks_keeps_its_measurement(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """Otherwise a reference kernel that crashes would cost a complete measurement."""
    need_runtime("ai-edge-litert")
    at = At(Phase.CHECKING, lambda: os.kill(worker_pid(agent), signal.SIGKILL))
    [run] = bench(
        paired, "digits_fp32.tflite", "litert", accuracy=many_images(tmp_path), watcher=at
    )
    assert at.was_called
    reason = "worker was killed by SIGKILL while checking the outputs"
    assert rules(run)["complete"] == ("pass", "run completed")
    assert rules(run)["agreement"][0] == "unknown"
    assert reason in rules(run)["agreement"][1]
    assert rules(run)["accuracy_floor"][0] == "fail", "it was asked for"
    assert reason in rules(run)["accuracy_floor"][1]
    assert run.document["metrics"]["latency_ns"]["count"] > 0
    assert (run.metrics.accuracy, run.metrics.agreement) == (None, None)
    assert agent.status().spooled_count == 0


def test_stop_in_the_checks_keeps_the_measurement_as_complete(
    agent: AgentProcess, paired: Host, tmp_path: Path
) -> None:
    """Otherwise Ctrl-C during the checks would mark a complete measurement as interrupted."""
    need_runtime("ai-edge-litert")

    def press_ctrl_c() -> None:
        raise KeyboardInterrupt

    at = At(Phase.CHECKING, press_ctrl_c)
    with pytest.raises(Interrupted) as caught:
        bench(paired, "digits_fp32.tflite", "litert", accuracy=many_images(tmp_path), watcher=at)
    assert caught.value.run is not None
    run = paired.lab.run(caught.value.run.run_id)
    assert rules(run)["complete"] == ("pass", "run completed")
    assert rules(run)["agreement"][0] == "unknown"
    assert run.document["metrics"]["latency_ns"]["count"] > 0
    assert verify(paired.lab.store, run.id) == []
    assert agent.status().running is None


@pytest.mark.parametrize("engine", ["native", "loadgen"])
def test_stop_of_a_measurement_keeps_what_there_is(
    agent: AgentProcess, paired: Host, engine: str
) -> None:
    """Otherwise Ctrl-C would cost what was measured where another loop than ours issues queries."""
    need_runtime("ai-edge-litert")
    if engine == "loadgen":
        need_loadgen()

    def stop_soon() -> None:
        threading.Timer(3.0, os.kill, (worker_pid(agent), signal.SIGTERM)).start()

    at = At(Phase.MEASURING, stop_soon)
    [run] = bench(
        paired,
        "digits_fp32.tflite",
        "litert",
        engine=engine,
        # By a schedule, so that no machine has finished by then: LoadGen makes all queries before
        # the first, and must not have a number that takes it long.
        scenario="server",
        target_qps=QPS,
        target_latency_s=5.0,
        duration_s=60.0,
        watcher=at,
    )
    assert rules(run)["complete"] == ("fail", "run interrupted")
    assert run.verdict == "invalid"
    assert run.document["metrics"]["latency_ns"]["count"] > 0


def test_stop_before_anything_was_measured_says_so(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a run that was stopped would fail without a reason."""
    need_runtime("ai-edge-litert")
    at = At(Phase.WARMING_UP, lambda: os.kill(worker_pid(agent), signal.SIGTERM))
    with pytest.raises(TargetError, match="stopped before anything was measured"):
        bench(paired, "digits_fp32.tflite", "litert", warmup_duration_s=60.0, watcher=at)
    assert at.was_called
    assert agent.status().running is None


def test_loadgen_ends_at_the_maximum(paired: Host) -> None:
    """Otherwise LoadGen would make queries for an hour before its start, and exhaust the memory."""
    need_runtime("ai-edge-litert")
    need_loadgen()
    [run] = bench(
        paired,
        "digits_fp32.tflite",
        "litert",
        engine="loadgen",
        duration_s=3600.0,
        max_query_count=20_000,
    )
    rows = run.queries[~run.queries["warmup"]]
    assert 19_000 <= len(rows) <= 20_000
    assert rules(run)["complete"][0] == "pass"


def state_of(pid: int) -> str:
    """State of a process; T: stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


STALL_S = 0.1
EVEN_SEED = 215
"""With it, every 95 ms between 1.0 s and 3.95 s have 5 to 15 arrivals at 100 a second."""


def test_stall_makes_all_queries_late_that_were_due_in_it(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise a stall of 100 ms would be one slow query, and the p99 look fine.

    This is coordinated omission.
    """
    window_ns: list[int] = []

    def stall() -> None:
        pid = worker_pid(agent)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state_of(pid) == "T", "worker stands still")
        window_ns.append(time.perf_counter_ns())
        time.sleep(STALL_S)  # the stall is the point of the test
        window_ns.append(time.perf_counter_ns())
        os.kill(pid, signal.SIGCONT)

    at = At(Phase.MEASURING, lambda: threading.Timer(1.5, stall).start())
    [run] = bench(
        paired,
        "digits_int8.tflite",
        "litert",
        scenario="server",
        target_qps=QPS,
        duration_s=4.0,
        seed=EVEN_SEED,
        watcher=at,
    )
    begin_ns, end_ns = window_ns
    rows = run.queries[~run.queries["warmup"]]
    is_due = (rows["scheduled_ns"] > begin_ns) & (rows["scheduled_ns"] < end_ns - 5_000_000)
    stalled = rows[is_due]
    assert len(stalled) >= 5, "about 10 are due in 100 ms, more when it took longer"
    assert (stalled["end_ns"] >= end_ns).all()
    assert (stalled["end_to_end_ns"] > 5_000_000).all()
    # From the moment of issue, only the query that was in progress looks slow.
    began = rows["start_ns"].between(begin_ns, end_ns)
    assert began.sum() <= 1
    assert int((rows["end_to_end_ns"] > 5_000_000).sum()) >= len(stalled)
    assert run.document["metrics"]["end_to_end_ns"]["max"] >= 0.9 * (
        end_ns - int(stalled["scheduled_ns"].min())
    )


@contextmanager
def busy_machine() -> Iterator[None]:
    """Run one busy process for each CPU."""
    code = "while True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait(30)


@pytest.mark.alone
def test_contended_machine_makes_a_run_suspect_with_the_reason(paired: Host) -> None:
    """Otherwise the numbers would be trusted although a compiler ran during the measurement."""
    with busy_machine():
        [run] = bench(paired, "digits_fp32.tflite", "litert", duration_s=1.5)
    failed = broken_rules(run.document)
    assert run.verdict in ("suspect", "invalid")
    assert failed & {"background_load", "cpu_pressure"}
    if Path("/proc/stat").exists():
        assert "background_load" in failed
