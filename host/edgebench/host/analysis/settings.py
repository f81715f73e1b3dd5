"""Comparison of the settings that a run requested with the settings in effect."""

from __future__ import annotations

from edgebench.host.analysis.cpu_quota import available_cpu_count, tightest_quota
from edgebench.host.analysis.delegates import delegated_count, plain_name
from edgebench.host.analysis.worker_threads import working_thread_count
from edgebench.host.result.settings import EffectiveSettings, Setting, SettingState
from edgebench.protocol.record import WorkerRecord
from edgebench.protocol.spec import RunSpec

NO_DELEGATE = "none"
"""Name by which a run requests the runtime's own kernels."""
_AS_REQUESTED, _DIFFERENT = SettingState.AS_REQUESTED, SettingState.DIFFERENT
_NOT_CHOSEN, _UNKNOWN = SettingState.NOT_CHOSEN, SettingState.UNKNOWN


def find_settings(spec: RunSpec, worker: WorkerRecord) -> EffectiveSettings:
    """Settings of a run that affect its timed loop."""
    return EffectiveSettings(
        threads=_threads(spec, worker),
        cpus=_cpus(spec, worker),
        signature=_signature(spec, worker),
        delegate=_delegate(spec, worker),
    )


def _threads(spec: RunSpec, worker: WorkerRecord) -> Setting:
    count = working_thread_count(worker)
    if count is None:
        return Setting(requested=spec.threads, effective=None, state=_UNKNOWN, reason="not_told")
    if count == spec.threads:
        return Setting(requested=spec.threads, effective=count, state=_AS_REQUESTED)
    reason = "fewer" if count < spec.threads else "more"
    return Setting(requested=spec.threads, effective=count, state=_DIFFERENT, reason=reason)


def _cpus(spec: RunSpec, worker: WorkerRecord) -> Setting:
    """The number of CPUs.

    A quota counts if it allows fewer CPUs than the threads need, or than were requested.
    """
    requested = len(spec.cpus) or None
    bound_count, quota = len(worker.scheduling.cpus), tightest_quota(worker.scheduling)
    effective = available_cpu_count(worker.scheduling)
    needed = max(spec.threads, len(spec.cpus))
    if effective < needed:
        is_quota = quota is not None and quota.cpu_count < bound_count
        return Setting(
            requested=requested,
            effective=effective,
            state=_DIFFERENT,
            reason="quota" if is_quota else "fewer",
            facts={"threads": spec.threads},
        )
    if worker.scheduling.quotas is None:
        return Setting(
            requested=requested, effective=effective, state=_UNKNOWN, reason="quota_not_told"
        )
    return Setting(requested=requested, effective=effective, state=_AS_REQUESTED)


def _signature(spec: RunSpec, worker: WorkerRecord) -> Setting:
    model = worker.model
    others = [name for name in model.signatures if name != model.signature]
    if spec.signature is not None and model.signature != spec.signature:
        # Agents of earlier versions ignore the setting, and run the first graph.
        return Setting(
            requested=spec.signature, effective=model.signature, state=_DIFFERENT, reason="ignored"
        )
    if spec.signature is None and others:
        return Setting(
            requested=None,
            effective=model.signature,
            state=_NOT_CHOSEN,
            reason="not_chosen" if model.signature is not None else "unnamed",
            facts={"others": ", ".join(others), "example": others[0]},
        )
    return Setting(requested=spec.signature, effective=model.signature, state=_AS_REQUESTED)


def _delegate(spec: RunSpec, worker: WorkerRecord) -> Setting:
    used = ", ".join(worker.runtime.delegates_used) or None
    if spec.delegate is None or spec.delegate == NO_DELEGATE:
        return Setting(requested=spec.delegate, effective=used, state=_AS_REQUESTED)
    counts = delegated_count(worker, {plain_name(spec.delegate)})
    if counts is None:
        is_used = plain_name(spec.delegate) in map(plain_name, worker.runtime.delegates_used)
        # Runtimes do not report the operators of a delegate library, nor those of a signature's
        # graph.
        is_unknown = is_used or "/" in spec.delegate or spec.signature is not None
        return Setting(
            requested=spec.delegate,
            effective=used,
            state=_UNKNOWN if is_unknown else _DIFFERENT,
            reason="not_told" if is_unknown else "unused",
        )
    count, total = counts
    if count == total:
        return Setting(requested=spec.delegate, effective=used, state=_AS_REQUESTED)
    return Setting(
        requested=spec.delegate,
        effective=used,
        state=_DIFFERENT,
        reason="partly" if count else "unused",
        facts={"count": count, "total": total},
    )
