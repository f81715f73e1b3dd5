"""Short cycles, small steps, other cores, other parts of the chip: each is named, and no more.

The cases of `test_throttling` are devices. These are what windows of seconds, medians and a single
clock can hide, next to near misses that must raise no alarm.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import pytest
from support.hot_runs import LINUX
from support.told_runs import Cycle, Story, flat, step

from edgebench.host.analysis.thermal.throttling import find_throttling
from edgebench.host.result.thermal import ThermalResult
from edgebench.protocol.record import OperatorPlacement
from edgebench.protocol.thermal import Expectation, ExpectedAccelerator

SEEDS = range(int(os.environ.get("EDGEBENCH_TESTS_SEEDS", "2")))
"""Seeds of each story; a release is tested with 20."""
HOT, WARM = flat(86.0), flat(82.0)
HEATING = step(70.0, 86.0, 50.0)
QUARTER = Cycle(1.0, 4.0)
THERMAL, HIDDEN = "throttled:thermal", "throttled:hidden"
LIMITED, OTHER, NONE = "frequency_limited:power_limit", "interference", "not_throttled"


@dataclass(frozen=True, slots=True)
class Case:
    """A story, and what is to be reported of it."""

    story: Story
    verdict: str
    says: str = ""
    """Part of the reason."""
    is_certain: bool = False
    expected: Expectation = LINUX
    placement: tuple[OperatorPlacement, ...] = ()


def duty(cycle: Cycle, slow: float = 1.5, **fields: Any) -> Story:
    """Return a story whose clock is lower in a part of each cycle, on a hot device."""
    story = Story(latency=cycle.of(slow), clock=cycle.of(1 / slow), temp_c=HEATING)
    return replace(story, **fields)


def cooled_by(kind: str, *, state: float = 3.0, **fields: Any) -> Story:
    """Return a story whose cooling device is at work from the second minute on."""
    story = Story(cooling={kind: step(0.0, state, 60.0)}, temp_c=HEATING)
    return replace(story, **fields)


LITTLE: dict[str, Any] = {"latency": step(1.0, 2.5, 150.0), "policy": step(4.0, 0.0, 150.0)}
SLOWED: dict[str, Any] = {
    "latency": step(1.0, 1.5, 60.0),
    "clock": step(1.0, 2 / 3, 60.0),
    "cap": step(1.0, 2 / 3, 60.0),
}
BY_CHANCE = Cycle(0.97, 3.71)
AGAIN = "repeatedly"

NPU, GPU = "fdab0000.npu", "fb000000.gpu"
BOARD = replace(
    LINUX,
    accelerators=(
        ExpectedAccelerator("mali", "gpu", GPU),
        ExpectedAccelerator("rknpu", "npu", NPU),
    ),
)
ON_NPU = (
    OperatorPlacement("/usr/lib/librknn_delegate.so", "CONV_2D", 9),
    OperatorPlacement("builtin", "SOFTMAX", 1),
)
ON_GPU = (OperatorPlacement("gpu", "CONV_2D", 10),)
ON_CPU = (OperatorPlacement("xnnpack", "CONV_2D", 8), OperatorPlacement("gpu", "SOFTMAX", 2))


def on_npu(
    story: Story,
    verdict: str,
    says: str = "",
    *,
    placement: tuple[OperatorPlacement, ...] = ON_NPU,
    is_certain: bool = False,
    expected: Expectation = BOARD,
) -> Case:
    """Return a model on an accelerator; the CPU has little to do and lowers its clock."""
    idling = replace(story, clock=step(1.0, 0.4, 100.0))
    return Case(idling, verdict, says, is_certain, expected, placement)


SLOW_NPU: dict[str, Any] = {
    "latency": step(1.0, 3.0, 80.0),
    "devfreq": {NPU: step(1.0, 0.3, 80.0), GPU: flat(0.2)},
}
STEADY: dict[str, Any] = {"devfreq": {NPU: flat(1.0), GPU: flat(0.2)}}

CASES: dict[str, Case] = {
    # A part of each cycle.
    "1 s of 4": Case(duty(QUARTER), THERMAL, AGAIN),
    "1 s of 4 in long windows": Case(duty(QUARTER, seconds=480.0), THERMAL, AGAIN),
    "1 s of 4 in short windows": Case(
        duty(Cycle(1.0, 4.0, 20.0), seconds=60.0, temp_c=HOT), THERMAL
    ),
    "1 s of 4 from the start": Case(duty(Cycle(1.0, 4.0, 0.0), temp_c=HOT), THERMAL, AGAIN),
    "1 s of 4 at the end": Case(duty(Cycle(1.0, 4.0, 440.0), seconds=480.0), THERMAL, AGAIN),
    "1 s of 4 for a minute": Case(duty(Cycle(1.0, 4.0, 60.0, 120.0)), THERMAL, AGAIN),
    "half a second of 2": Case(duty(Cycle(0.5, 2.0)), THERMAL, AGAIN),
    "a fifth of a second of 0.8": Case(duty(Cycle(0.2, 0.8)), THERMAL, AGAIN),
    "0.6 s of 4, deeper": Case(duty(Cycle(0.6, 4.0), 1.67), THERMAL, AGAIN),
    "odd cycle": Case(duty(BY_CHANCE), THERMAL, AGAIN),
    "3 s of 12": Case(duty(Cycle(3.0, 12.0)), THERMAL),
    "5 s of 20": Case(duty(Cycle(5.0, 20.0)), THERMAL),
    "6 s of 25 in long windows": Case(duty(Cycle(6.0, 25.0), seconds=480.0), THERMAL),
    "slow model": Case(duty(QUARTER, invoke_s=0.08), THERMAL, AGAIN),
    "few readings": Case(duty(Cycle(4.0, 16.0), seconds=480.0, reading_s=0.5), THERMAL),
    "noisy model": Case(duty(QUARTER, noise=0.05, outlier_ratio=0.03), THERMAL, AGAIN),
    "heat that swings with the cycle": Case(
        duty(QUARTER, temp_c=QUARTER.of(85.0, 83.5)), THERMAL, AGAIN
    ),
    "clock that cannot be read": Case(duty(QUARTER, clock=None), THERMAL, AGAIN),
    "clock that is told flat": Case(duty(QUARTER, clock=flat(1.0)), HIDDEN, AGAIN),
    "1 s of 4 without heat": Case(duty(QUARTER, temp_c=flat(60.0)), LIMITED),
    "neighbour for 1 s of 4": Case(
        Story(latency=QUARTER.of(1.5)), OTHER, "repeatedly without heat"
    ),
    "neighbour for 2 s of 6": Case(Story(latency=Cycle(2.0, 6.0).of(1.3)), OTHER),
    # A small step.
    "4 % of the clock": Case(
        Story(latency=step(1.0, 1.045, 60.0), clock=step(1.0, 0.96, 60.0), temp_c=HEATING),
        THERMAL,
        "hot, and the latency rose while the clock fell",
    ),
    "3.5 % of the clock": Case(
        Story(latency=step(1.0, 1.036, 60.0), clock=step(1.0, 0.965, 60.0), temp_c=HEATING),
        THERMAL,
    ),
    "4 % at times": Case(
        Story(
            latency=Cycle(20.0, 40.0).of(1.045), clock=Cycle(20.0, 40.0).of(0.96), temp_c=HEATING
        ),
        THERMAL,
    ),
    # Another kind of core.
    "little cores for the last third": Case(
        Story(**LITTLE),
        NONE,
        "of the run was on another type of core, where an inference took 2.5 times as long",
    ),
    "little cores in the middle": Case(
        Story(latency=step(1.0, 2.5, 80.0, 160.0), policy=step(4.0, 0.0, 80.0, 160.0)),
        NONE,
        "where an inference took 2.5 times as long",
    ),
    "big cores for a quarter": Case(
        Story(latency=step(1.0, 0.4, 90.0, 150.0), policy=step(0.0, 4.0, 90.0, 150.0)),
        NONE,
        "where an inference took 0.4 times as long",
    ),
    "little cores, hot": Case(
        Story(**LITTLE, temp_c=HEATING),
        NONE,
        "on another type of core",
    ),
    "little cores, and throttled before": Case(
        replace(duty(Cycle(60.0, 1e6)), policy=step(0.0, 4.0, 150.0)), THERMAL
    ),
    "another cluster every three seconds": Case(
        Story(policy=Cycle(3.0, 6.0).of(4.0, 0.0)),
        "unknown",
        "the model moved between types of cores for most of the run",
    ),
    # Another part of the chip.
    "cooling device of the other cluster": Case(
        cooled_by("cpufreq-cpu4"), NONE, "which did not slow the model down"
    ),
    "the other cluster all the time": Case(
        replace(cooled_by("cpufreq-cpu4"), cooling={"cpufreq-cpu4": flat(3.0)}),
        NONE,
        "cooling device cpufreq-cpu4 was in state 3, which did not slow the model down",
    ),
    "numbered device of the other cluster": Case(
        cooled_by("thermal-cpufreq-1"), NONE, "which did not slow the model down"
    ),
    "numbered device all the time": Case(
        replace(cooled_by("thermal-cpufreq-1"), cooling={"thermal-cpufreq-1": flat(2.0)}), NONE
    ),
    "GPU of a model on the CPU": Case(cooled_by("devfreq-fb000000.gpu"), NONE),
    "numbered GPU of a model on the CPU": Case(cooled_by("thermal-devfreq-0"), NONE),
    "numbered device without a cap": Case(cooled_by("thermal-cpufreq-1", clock=None), NONE),
    "other cluster, and heat here": Case(
        cooled_by("cpufreq-cpu4", **SLOWED), THERMAL, "hot, and the latency rose"
    ),
    "own cluster": Case(cooled_by("cpufreq-cpu0", **SLOWED), THERMAL, "state 3", is_certain=True),
    "own cluster by its mask": Case(
        cooled_by("cpufreq-cpu2", **SLOWED), THERMAL, "state 3", is_certain=True
    ),
    "numbered device of the own cluster": Case(
        cooled_by("thermal-cpufreq-1", **SLOWED), THERMAL, is_certain=True
    ),
    "own cluster in cycles": Case(
        replace(
            duty(QUARTER, cap=QUARTER.of(2 / 3)),
            cooling={"thermal-cpufreq-0": QUARTER.of(3.0, 0.0)},
        ),
        THERMAL,
        is_certain=True,
    ),
    "own cluster, model bound by its memory": Case(
        cooled_by("cpufreq-cpu0", clock=step(1.0, 0.8, 60.0)), THERMAL, is_certain=True
    ),
    "idle injection": Case(
        cooled_by("thermal-idle-0", state=40.0, latency=step(1.0, 1.5, 60.0)),
        THERMAL,
        is_certain=True,
    ),
    # Accelerators.
    "NPU at a third of its clock": on_npu(Story(**SLOW_NPU), LIMITED, "the clock fell"),
    "NPU at a third of its clock, hot": on_npu(
        Story(**SLOW_NPU, temp_c=HEATING), THERMAL, "hot, and the latency rose while the clock fell"
    ),
    "GPU from 625 to 306 MHz": on_npu(
        Story(latency=step(1.0, 2.0, 80.0), devfreq={GPU: step(0.625, 0.306, 80.0)}),
        LIMITED,
        placement=ON_GPU,
    ),
    "NPU in cycles": on_npu(
        Story(latency=QUARTER.of(2.0), devfreq={NPU: QUARTER.of(0.5)}, temp_c=HEATING),
        THERMAL,
        AGAIN,
    ),
    "delegate of unknown kind": on_npu(
        Story(**SLOW_NPU), LIMITED, placement=(OperatorPlacement("/opt/x.so", "CONV_2D", 9),)
    ),
    "neighbour beside an NPU": on_npu(Story(latency=step(1.0, 1.5, 80.0), **STEADY), OTHER),
    "accelerator whose clock nobody reads": on_npu(
        Story(latency=step(1.0, 1.5, 80.0)), "unknown", "no trusted frequency could be read"
    ),
    "board that tells of no accelerator": on_npu(
        Story(**SLOW_NPU), "unknown", "no trusted frequency", expected=LINUX
    ),
    "NPU that cools down": on_npu(
        Story(**SLOW_NPU, cooling={f"devfreq-{NPU}": step(0.0, 2.0, 80.0)}),
        THERMAL,
        "state 2",
        is_certain=True,
    ),
    "GPU that cools down beside an NPU": on_npu(
        Story(**STEADY, cooling={f"devfreq-{GPU}": step(0.0, 2.0, 80.0)}), NONE, "did not slow"
    ),
    "CPU that cools down beside an NPU": on_npu(
        Story(**STEADY, cooling={"cpufreq-cpu0": step(0.0, 2.0, 80.0)}), NONE, "did not slow"
    ),
    "CPU that idles beside an NPU": on_npu(Story(**STEADY, temp_c=HOT), NONE),
    "NPU that idles beside a model on the CPU": Case(
        Story(devfreq={NPU: step(1.0, 0.3, 80.0), GPU: step(1.0, 0.3, 80.0)}, temp_c=HOT),
        NONE,
        expected=BOARD,
        placement=ON_CPU,
    ),
    # Near misses.
    "hot, and nothing happens": Case(Story(temp_c=HOT), NONE, "the latency did not rise; read"),
    "clock that wobbles": Case(
        Story(clock=QUARTER.of(0.96), temp_c=HOT), NONE, "the latency did not rise"
    ),
    "clock that dips beside a model bound by its memory": Case(
        Story(clock=QUARTER.of(2 / 3), temp_c=HOT), NONE
    ),
    "4.5 % with a flat clock": Case(
        Story(latency=step(1.0, 1.045, 60.0), temp_c=HOT),
        NONE,
        "less than 5 %; read",
    ),
    "2 % of the clock": Case(
        Story(latency=step(1.0, 1.02, 60.0), clock=step(1.0, 0.98, 60.0), temp_c=HOT), NONE
    ),
    "4 % of the clock without heat": Case(
        Story(latency=step(1.0, 1.04, 60.0), clock=step(1.0, 0.96, 60.0)), NONE, "less than 5 %"
    ),
    "housekeeping for 1 s of 15": Case(Story(latency=Cycle(1.0, 15.0).of(1.5), temp_c=HOT), NONE),
    "housekeeping for 0.5 s of 6 without heat": Case(Story(latency=Cycle(0.5, 6.0).of(2.0)), NONE),
    "two disturbances": Case(Story(latency=Cycle(3.0, 90.0).of(1.5), temp_c=HOT), NONE),
    "one disturbance of 6 s": Case(Story(latency=step(1.0, 1.5, 100.0, 106.0), temp_c=HOT), NONE),
    "four dips of half a second": Case(
        duty(Cycle(0.5, 2.0, 10.0, 18.0), 2.0, seconds=20.0, temp_c=HOT), NONE
    ),
    "noise": Case(Story(noise=0.1, temp_c=HOT), NONE),
    "noise of a slow model": Case(Story(noise=0.15, temp_c=HOT, invoke_s=0.1), NONE),
    "outliers": Case(Story(outlier_ratio=0.04, temp_c=HOT), NONE),
    "outliers of a slow model": Case(Story(outlier_ratio=0.04, temp_c=HOT, invoke_s=0.1), NONE),
    "warm, below the trip": Case(Story(temp_c=WARM), NONE),
}


def judged(case: Case, seed: int) -> ThermalResult:
    """Return what the detector reports of a run of this story."""
    run = case.story.run(seed)
    return find_throttling(run.timeline, run.telemetry, case.expected, placement=case.placement)


@pytest.mark.parametrize("name", CASES)
def test_story_is_named(name: str) -> None:
    """Otherwise a cause would be hidden by a median, or invented where there is none."""
    case = CASES[name]
    answers = [judged(case, seed) for seed in SEEDS]
    assert [answer.verdict for answer in answers] == [case.verdict] * len(SEEDS), answers[0].reason
    assert all(case.says in answer.reason for answer in answers), answers[0].reason
    assert {answer.is_certain for answer in answers} == {case.is_certain}


def test_latency_of_a_cycle_is_not_its_fast_part() -> None:
    """Otherwise a device would keep all of its speed though a quarter of each cycle is slow."""
    found = judged(CASES["1 s of 4"], 0)
    assert found.retention_ratio == pytest.approx(1 / 1.125, rel=0.02)
    assert found.throttled_ratio == pytest.approx(0.25 * 0.75, rel=0.6)
    assert found.onset_s == pytest.approx(60, abs=1)
    assert judged(CASES["1 s of 4 in short windows"], 0).retention_ratio == pytest.approx(
        0.9, abs=0.05
    )


def test_other_core_is_no_speed_that_the_device_keeps() -> None:
    """Otherwise a model moved to little cores would keep 40 % of its speed, with no note of it."""
    found = judged(CASES["little cores for the last third"], 0)
    assert (found.retention_ratio, found.sustained_latency_ns) == (None, None)
    assert found.moved_ratio == pytest.approx(0.39, abs=0.02)
    assert found.moved_latency_ratio == pytest.approx(2.5, rel=0.02)
    stayed = judged(CASES["hot, and nothing happens"], 0)
    assert (stayed.moved_ratio, stayed.moved_latency_ratio) == (0.0, None)


def test_threads_may_run_on_the_other_cluster() -> None:
    """Otherwise three of four threads could be slowed down unseen, as the sampler sees one."""
    run = cooled_by("cpufreq-cpu4", latency=step(1.0, 1.3, 60.0)).run(0)
    one = find_throttling(run.timeline, run.telemetry, LINUX, threads=1)
    four = find_throttling(run.timeline, run.telemetry, LINUX, threads=4)
    assert (one.is_certain, four.is_certain) == (False, True)


def test_clock_between_the_ends_is_told() -> None:
    """Otherwise a clock that is lower for a minute in the middle would seem unchanged."""
    clock = step(1.0, 0.9, 80.0, 140.0)
    assert judged(Case(Story(clock=clock), NONE), 0).freq_change_ratio == pytest.approx(0.1)
    moment = step(1.0, 0.9, 80.0, 88.0)
    assert judged(Case(Story(clock=moment), NONE), 0).freq_change_ratio == 0.0
    assert judged(Case(Story(clock=None), NONE), 0).freq_change_ratio is None
    npu = on_npu(Story(devfreq={NPU: clock}), NONE)
    assert judged(npu, 0).freq_change_ratio == pytest.approx(0.1)
