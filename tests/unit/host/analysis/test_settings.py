"""What was requested of a run, compared with what was in effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.records import latencies, run_record, worker_record

from edgebench.host.analysis.cpu_quota import throttled_ratio
from edgebench.host.analysis.settings import find_settings
from edgebench.host.analysis.worker_threads import working_thread_count
from edgebench.host.result.settings import EffectiveSettings, Setting, SettingState
from edgebench.protocol.record import (
    CpuQuota,
    OperatorPlacement,
    OperatorTime,
    QuotaUse,
    RuntimeFacts,
    Scheduling,
    ThreadTime,
    WorkerRecord,
)

DIFFERENT, AS_REQUESTED = SettingState.DIFFERENT, SettingState.AS_REQUESTED
WORKER = worker_record(latencies())
LOOP_S = (WORKER.after.monotonic_ns - WORKER.before.monotonic_ns) / 1e9
CONVOLUTION = OperatorTime(0, "Conv", "c", "cuda", 1, 10)


def ran(*shares: float, own: float | None = None) -> WorkerRecord:
    """Return a worker whose threads ran for these shares of the loop, by default all of it."""
    total = sum(shares) if own is None else own
    before = tuple(ThreadTime(number, 1.0, 0.5) for number in range(len(shares)))
    after = tuple(
        ThreadTime(number, 1.0 + share * LOOP_S, 0.5) for number, share in enumerate(shares)
    )
    own_s = WORKER.before.own_cpu_s + total * LOOP_S
    return replace(
        WORKER,
        before=replace(WORKER.before, threads=before),
        after=replace(WORKER.after, threads=after, own_cpu_s=own_s),
    )


def scheduled(cpus: tuple[int, ...], *quotas: float, is_known: bool = True) -> WorkerRecord:
    """Return a worker on these CPUs, within these quotas."""
    of_groups = tuple(CpuQuota(count, 0.1) for count in quotas) if is_known else None
    return replace(WORKER, scheduling=Scheduling(cpus, "other", 0, quotas=of_groups))


def placed(delegate: str, **counts: int) -> WorkerRecord:
    """Return operators in these places; none: the runtime does not report them."""
    used = tuple(name for name in counts if name != "builtin")
    return replace(
        WORKER,
        runtime=RuntimeFacts("onnx", "1.23", (delegate,), used),
        placement=tuple(OperatorPlacement(place, "Conv", n) for place, n in counts.items() if n),
    )


def settings(worker: WorkerRecord, **changes: Any) -> EffectiveSettings:
    """Return the settings of a run with these changes of its specification."""
    return find_settings(replace(run_record(worker).spec, **changes), worker)


def shown(setting: Setting) -> tuple[object, object, SettingState, str | None]:
    """Return a setting without the words of its sentence."""
    return setting.requested, setting.effective, setting.state, setting.reason


@pytest.mark.parametrize(
    ("shares", "count"),
    [
        ((1.0,), 1),
        ((1.0, 0.0), 1),
        ((0.99, 0.099), 2),
        ((0.99, 0.098), 1),
        ((0.5, 0.5, 0.004), 2),
        ((0.01, 0.008), 2),
    ],
)
def test_thread_works_from_a_tenth_of_the_busiest_on(shares: tuple[float, ...], count: int) -> None:
    """Otherwise housekeeping would count, or a pool of a server that mostly waits would not."""
    assert working_thread_count(ran(*shares)) == count


def test_number_of_threads_is_unknown_where_threads_are_missing() -> None:
    """Otherwise a thread that ended within the loop would be one that did nothing."""
    assert working_thread_count(ran(0.6, own=1.0)) is None
    assert working_thread_count(WORKER) is None
    setting = settings(WORKER, threads=2).threads
    assert shown(setting) == (2, None, SettingState.UNKNOWN, "not_told")


def test_threads_that_did_nothing_are_a_difference() -> None:
    """Otherwise a model that cannot be split would have been measured with two threads."""
    assert shown(settings(ran(1.0, 0.0), threads=2).threads) == (2, 1, DIFFERENT, "fewer")
    assert shown(settings(ran(0.9, 0.8), threads=2).threads) == (2, 2, AS_REQUESTED, None)
    assert shown(settings(ran(0.9, 0.8)).threads) == (1, 2, DIFFERENT, "more")


def test_quota_counts_where_it_is_less_than_the_threads_need() -> None:
    """Otherwise every container of a large server would have a note, or the small one none."""
    two = {"threads": 2}
    assert shown(settings(scheduled((0, 1, 2, 3))).cpus) == (None, 4.0, AS_REQUESTED, None)
    assert shown(settings(scheduled((0, 1), 8.0, 1.0)).cpus) == (None, 1.0, AS_REQUESTED, None)
    assert shown(settings(scheduled((0, 1), 8.0, 1.0), **two).cpus) == (
        *(None, 1.0),
        *(DIFFERENT, "quota"),
    )
    assert shown(settings(scheduled((0,), 8.0), **two).cpus) == (None, 1.0, DIFFERENT, "fewer")
    assert shown(settings(scheduled((0, 1), 1.5), cpus=(0, 1)).cpus) == (
        *(2, 1.5),
        *(DIFFERENT, "quota"),
    )
    unknown = settings(scheduled((0, 1), is_known=False)).cpus
    assert shown(unknown) == (None, 2.0, SettingState.UNKNOWN, "quota_not_told")


def test_signature_is_a_choice_only_where_there_are_several() -> None:
    """Otherwise each model of a converter that names its only graph would have a note."""

    def signed(measured: str | None, *names: str, **changes: Any) -> Setting:
        model = replace(WORKER.model, signature=measured, signatures=names)
        return settings(replace(WORKER, model=model), **changes).signature

    assert shown(signed(None)) == (None, None, AS_REQUESTED, None)
    assert shown(signed("serve", "serve")) == (None, "serve", AS_REQUESTED, None)
    several = signed("encode", "encode", "decode", "train")
    assert shown(several) == (None, "encode", SettingState.NOT_CHOSEN, "not_chosen")
    assert several.facts == {"others": "decode, train", "example": "decode"}
    unnamed = signed(None, "decode")
    assert shown(unnamed) == (None, None, SettingState.NOT_CHOSEN, "unnamed")
    chosen = signed("decode", "encode", "decode", signature="decode")
    assert shown(chosen) == ("decode", "decode", AS_REQUESTED, None)
    ignored = signed(None, signature="decode")
    assert shown(ignored) == ("decode", None, DIFFERENT, "ignored")


@pytest.mark.parametrize(
    ("delegate", "counts", "expected"),
    [
        (None, {"cpu": 3}, (AS_REQUESTED, None)),
        ("none", {"builtin": 3}, (AS_REQUESTED, None)),
        ("cuda", {"cuda": 3}, (AS_REQUESTED, None)),
        ("CUDAExecutionProvider", {"cuda": 3}, (AS_REQUESTED, None)),
        ("cuda", {"cuda": 2, "cpu": 1}, (DIFFERENT, "partly")),
        ("cuda", {"cpu": 3}, (DIFFERENT, "unused")),
        ("cuda", {}, (DIFFERENT, "unused")),
        ("cuda", {"cuda": 0, "cpu": 0}, (SettingState.UNKNOWN, "not_told")),
        ("/opt/libnpu.so", {}, (SettingState.UNKNOWN, "not_told")),
    ],
)
def test_delegate_is_held_against_the_places_of_the_operators(
    delegate: str | None, counts: dict[str, int], expected: tuple[SettingState, str | None]
) -> None:
    """Otherwise a delegate that fell back to the CPU would have been in effect."""
    setting = settings(placed(delegate or "", **counts), delegate=delegate).delegate
    assert (setting.requested, setting.state, setting.reason) == (delegate, *expected)


def test_delegate_of_a_signature_is_unknown() -> None:
    """Otherwise XNNPACK, which takes part, would have run nothing."""
    setting = settings(placed("xnnpack"), delegate="xnnpack", signature="decode").delegate
    assert (setting.state, setting.reason) == (SettingState.UNKNOWN, "not_told")


def test_places_of_a_profile_count_where_the_runtime_reports_no_others() -> None:
    """Otherwise an older onnxruntime could hide that its provider ran nothing."""
    checked = replace(WORKER.check, operators=(CONVOLUTION, replace(CONVOLUTION, place="cpu")))
    worker = replace(placed("cuda", cuda=0, cpu=0), check=checked)
    setting = settings(worker, delegate="cuda").delegate
    assert (setting.state, setting.facts) == (DIFFERENT, {"count": 1, "total": 2})


def test_throttled_share_is_that_of_all_groups() -> None:
    """Otherwise the quota of a pod around a container would count for nothing."""
    quotas = (CpuQuota(0.5, 0.01), CpuQuota(0.8, 0.1))
    worker = replace(
        WORKER,
        scheduling=replace(WORKER.scheduling, quotas=quotas),
        before=replace(WORKER.before, quotas=(QuotaUse(0, 1, 0.0), QuotaUse(9, 2, 0.0))),
        after=replace(WORKER.after, quotas=(QuotaUse(20, 4, 1.0), QuotaUse(20, 3, 9.0))),
    )
    assert throttled_ratio(worker) == pytest.approx((3 * 0.01 + 1 * 0.1) / LOOP_S)
    assert throttled_ratio(WORKER) == 0.0
