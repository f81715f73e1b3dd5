"""Reports of a worker, which may be hostile: none of them moves the end of its run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from edgebench.agent.worker.job import Job
from edgebench.agent.worker.reports import (
    MAX_PIPE_BYTES,
    PIPE_BYTES_PER_S,
    PhaseStart,
    WorkerReports,
)
from edgebench.agent.worker.timeouts import (
    CHECK_TIMEOUT_S,
    COMPLETE_TIMEOUT_S,
    PHASES,
    phase_limit_s,
    run_limit_s,
)
from edgebench.protocol.errors import ModelRefused, WorkerDied
from edgebench.protocol.record import ModelFacts, Phase, PhaseProgress
from edgebench.protocol.spec import Limits, RunSpec, Scenario

JOB = Job("run", RunSpec("litert"), ModelFacts("m", "0" * 64, "tflite", 240_000), "/m", None, 1, 1)
SHORT = replace(
    JOB,
    spec=RunSpec("litert", duration_s=5.0, max_duration_s=5.0, limits=Limits(load_timeout_s=10.0)),
)
TARGET = replace(
    JOB, target="/dev/ttyACM0", dataset_path="/d", spec=replace(JOB.spec, dataset_limit_s=7200.0)
)
WILD: tuple[Any, ...] = (
    *(1e300, -1.0, 1e308, 2**200, 0, -(2**63), "abc", "", None, True, [], {}, "Infinity"),
    *(float("nan"), float("inf")),
)

TIMES = (None, 0, 1e300, 1e308, 2**200)
"""Values of an expected time that can be read, most of them longer than any job allows."""


def line(**fields: Any) -> bytes:
    """A line as a worker sends it; NaN and Infinity as Python writes them."""
    return json.dumps(fields).encode() + b"\n"


def phase(name: Phase, expected_s: Any = None, time_ns: Any = 1) -> bytes:
    """The line of a phase that begins."""
    return line(phase=name.value, expected_s=expected_s, time_ns=time_ns)


def progress(done: Any = 1, total: Any = 2) -> bytes:
    """A line of progress."""
    return line(reached={"done": done, "total": total, "unit": "samples"})


def hostile_lines(draw: random.Random) -> Iterator[tuple[float, bytes]]:
    """Endless lines, each with the time since the last: likely lines and any others."""
    honest = [phase(one, draw.choice([None, 0.0, 1.0, 60.0])) for one in PHASES[1:]]
    keeps_quiet = draw.random() < 0.1
    step = 0
    while True:
        after_s = 10.0 ** draw.uniform(-3, 1.2 + 7 * keeps_quiet)
        kind = draw.randrange(10)
        if kind < 4:
            yield after_s, progress()
        elif kind < 6 and step < len(honest):
            yield after_s, honest[step]
            step += 1
        elif kind == 6 and step < len(honest):
            yield after_s, phase(PHASES[step + 1], draw.choice([1e300, 1e12, 3600.0]))
            step += 1
        elif draw.random() < 0.05:
            wild = draw.choice(WILD)
            yield (
                after_s,
                draw.choice(
                    [
                        phase(draw.choice(PHASES), wild),
                        phase(Phase.MEASURING, 1.0, wild),
                        progress(wild, wild),
                        line(waiting=wild),
                        line(failed="x" * draw.choice([1, 10_000]), code=1),
                        line(complete=True),
                        b"[" * 16_000,
                        b"null\n",
                        b'"waiting"\n',
                        b"9" * 5000 + b"\n",
                        b"\xff\xfe\n",
                    ]
                ),
            )
        else:
            yield after_s, progress(1, 1)


@pytest.mark.parametrize(
    ("job", "count"),
    [(JOB, 400), (SHORT, 300), (TARGET, 300)],
    ids=["default", "short", "target"],
)
def test_no_worker_lasts_longer_than_its_job_allows(job: Job, count: int) -> None:
    """Otherwise a line every five seconds, or one expected time, would hold a device for ever."""
    limit_s = run_limit_s(job)
    endings = {"misbehaved": 0, "overdue": 0}
    for seed in range(count):
        now_s = begin_s = 1000.0 * seed
        reports = WorkerReports(job, begin_s)
        reports.go(begin_s)
        ending = "overdue"
        for after_s, text in hostile_lines(random.Random(seed)):
            assert reports.deadline_s <= begin_s + limit_s
            if now_s + after_s >= reports.deadline_s:  # the daemon ends it then
                now_s = reports.deadline_s
                break
            now_s += after_s
            try:
                reports.take(text, now_s)
            except WorkerDied:
                ending = "misbehaved"
                break
        endings[ending] += 1
        assert now_s - begin_s <= limit_s
    assert min(endings.values()) > 20, endings


def test_device_may_be_on_for_years() -> None:
    """Otherwise no run would succeed on a device that was started more than 104 days ago."""
    reports = WorkerReports(JOB, 0.0)
    reports.go(0.0)
    uptime_ns = 10 * 365 * 86_400 * 10**9
    began = reports.take(phase(Phase.LOADING, time_ns=uptime_ns), 1.0)
    assert began == PhaseStart(Phase.LOADING, None, uptime_ns)


def test_limits_of_a_run_are_what_the_documentation_says() -> None:
    """Otherwise it would be unknown how long a device may be in use at most."""
    assert run_limit_s(SHORT) < 40 * 60
    assert 12 * 3600 < run_limit_s(JOB) < 13.5 * 3600


@pytest.mark.parametrize(
    ("spec", "load_s", "measured_s"),
    [
        (RunSpec("litert", duration_s=1200.0, min_query_count=1, is_sustained=True), 5.0, 1250.0),
        # A large model on a slow board, which the default runs 1024 times.
        (RunSpec("litert"), 55.0, 1034 * 30.0),
        (
            RunSpec(
                "litert",
                scenario=Scenario.SERVER,
                target_qps=100.0,
                duration_s=600.0,
                target_latency_s=0.1,
            ),
            5.0,
            1500.0,
        ),
    ],
    ids=["sustained", "slow", "server"],
)
def test_honest_long_runs_fit(spec: RunSpec, load_s: float, measured_s: float) -> None:
    """Otherwise a measurement that takes its time would be ended as hostile."""
    reports = WorkerReports(replace(JOB, spec=spec), 0.0)
    reports.go(0.0)
    now_s = 0.0
    steps = [
        (Phase.LOADING, None, load_s),
        (Phase.WARMING_UP, 10 * load_s, 12 * load_s),
        (Phase.MEASURING, measured_s / 1.5, measured_s),
        (Phase.SPOOLING, None, 60.0),
        (Phase.CHECKING, 30.0, 500.0),
    ]
    for name, expected_s, takes_s in steps:
        reports.take(phase(name, expected_s), now_s)
        now_s += takes_s
        assert now_s < reports.deadline_s, name


def test_target_has_time_for_a_slow_line_a_data_set_and_a_window_that_goes_on() -> None:
    """Otherwise a model that takes two minutes to send would be given up."""
    assert phase_limit_s(JOB, Phase.LOADING) == 60.0
    assert phase_limit_s(TARGET, Phase.LOADING) == 60.0 + 120.0
    assert phase_limit_s(TARGET, Phase.SPOOLING, 1000.0) > 3000.0
    reports = WorkerReports(TARGET, 0.0)
    for name in (Phase.LOADING, Phase.WARMING_UP, Phase.MEASURING, Phase.SPOOLING):
        reports.take(phase(name, 1.0), 0.0)
    reports.take(phase(Phase.CHECKING, 7000.0), 0.0)
    assert reports.deadline_s == CHECK_TIMEOUT_S, "it is silent"
    for now_s in range(1, 7000, 500):
        assert isinstance(reports.take(progress(now_s, 7000), now_s), PhaseProgress)
        assert reports.deadline_s >= now_s + CHECK_TIMEOUT_S - 1
    for name in (Phase.SPOOLING, Phase.CHECKING):
        reports.take(phase(name), 7000.0)
    assert reports.deadline_s == 7000.0 + CHECK_TIMEOUT_S
    with pytest.raises(WorkerDied, match="reported the phase checking after checking"):
        reports.take(phase(Phase.CHECKING), 7001.0)


@pytest.mark.parametrize(
    "text",
    [
        *(phase(Phase.LOADING, wild) for wild in WILD if wild not in TIMES),
        *(phase(Phase.LOADING, None, wild) for wild in WILD if wild != 0),
        *(progress(wild, 2) for wild in WILD if wild != 0),
        *(progress(0, wild) for wild in WILD if wild != 0),
        *(b"[" * 16_000, b"null\n", b"7\n", b'"waiting"\n', b"[]\n", b"\xff\n", b"9" * 5000),
        line(failed="x"),
        line(failed="x", code="y"),
        line(failed="x", code=float("inf")),
        line(waiting={}),
        line(phase="idle", expected_s=None, time_ns=1),
    ],
)
def test_malformed_line_is_one_named_error(text: bytes) -> None:
    """Otherwise the daemon's log would have a traceback, and the user would read of a float."""
    with pytest.raises(WorkerDied) as ended:
        WorkerReports(JOB, 0.0).take(text, 0.0)
    assert len(str(ended.value)) < 100


def test_phases_come_in_their_order_and_once() -> None:
    """Otherwise a worker could begin a phase, which has its own time, again and again."""
    for first, second in (
        (Phase.LOADING, Phase.LOADING),
        (Phase.MEASURING, Phase.WARMING_UP),
        (Phase.LOADING, Phase.STARTING),
    ):
        reports = WorkerReports(JOB, 0.0)
        assert isinstance(reports.take(phase(first), 0.0), PhaseStart)
        with pytest.raises(WorkerDied, match=f"the phase {second.value} after {first.value}"):
            reports.take(phase(second), 0.0)


def test_end_of_the_checks_leaves_a_moment() -> None:
    """Otherwise a library that hangs, or a second report, would keep a valid record back."""
    reports = WorkerReports(JOB, 0.0)
    with pytest.raises(WorkerDied, match="out of order"):
        reports.take(line(complete=True), 0.0)
    reports.take(phase(Phase.CHECKING), 0.0)
    reports.take(line(complete=True), 100.0)
    assert reports.deadline_s == 100.0 + COMPLETE_TIMEOUT_S
    for text in (line(complete=True), phase(Phase.SPOOLING)):
        with pytest.raises(WorkerDied):
            reports.take(text, 101.0)


def test_flood_of_lines_is_ended_and_a_long_run_is_not() -> None:
    """Otherwise the daemon would read for one seat, while the others wait."""
    reports = WorkerReports(JOB, 0.0)
    text = progress()
    for _ in range(MAX_PIPE_BYTES // len(text)):
        reports.take(text, 0.0)
    with pytest.raises(WorkerDied, match=f"more than {MAX_PIPE_BYTES} bytes of reports"):
        reports.take(text, 0.0)
    reports = WorkerReports(JOB, 0.0)
    assert len(text) < PIPE_BYTES_PER_S
    for now_s in range(40_000):
        reports.take(text, now_s)


def test_progress_is_passed_on_now_and_then_and_at_the_end() -> None:
    """Otherwise every watcher of a run would get a thousand notices a second."""
    reports = WorkerReports(JOB, 0.0)
    reports.take(phase(Phase.LOADING), 10.0)
    passed = [reports.take(progress(n, 1000), 10.0 + n / 1000) for n in range(1001)]
    assert 5 <= sum(one is not None for one in passed) <= 7
    assert passed[-1] == PhaseProgress(1000, 1000, passed[-1].unit)  # type: ignore[union-attr]
    assert reports.take(progress(1000, 1000), 11.001) is None


def test_failure_of_the_worker_is_kept_and_is_short() -> None:
    """Otherwise a reason of a megabyte would fill the screen."""
    reports = WorkerReports(JOB, 0.0)
    reports.take(line(failed="no memory " * 1000, code=int(ModelRefused.code)), 0.0)
    assert isinstance(reports.failure, ModelRefused)
    assert len(str(reports.failure)) <= 300
