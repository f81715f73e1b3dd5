"""What was requested and what was in effect, on a real agent: threads, signatures, CPU quota."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import tflite_bytes
from support.agents import AgentProcess, Host
from support.quotas import enter, quota_group
from support.signatures import WIDTH, two_signatures
from support.tools import need_runtime, skip_or_fail

from edgebench.host.analysis.run_set import alone
from edgebench.host.analysis.verdict.advice import Situation
from edgebench.host.bench.verify import verify
from edgebench.host.result.run import Run
from edgebench.host.result.settings import EffectiveSettings, SettingState
from edgebench.host.result.verdict import RuleOutcome
from edgebench.host.show.notes import run_notes
from edgebench.host.show.verdict import advice_for, verdict_rows
from edgebench.protocol.errors import SignatureRefused
from edgebench.protocol.record import CpuQuota
from edgebench.protocol.spec import Priority, Scenario, SpecChanges

if TYPE_CHECKING:
    from typing_extensions import Unpack

QUICK: SpecChanges = {
    "duration_s": 0.3,
    "warmup_duration_s": 0.05,
    "min_query_count": 50,
    "warmup_query_count": 5,
}
QUOTA = 0.2


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for all tests: it probes the runtimes once."""
    process = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"]).start()
    yield process
    process.kill()


def bench(host: Host, path: Path, **changes: Unpack[SpecChanges]) -> Run:
    """A run of this model, which verifies."""
    need_runtime("ai-edge-litert")
    settings: SpecChanges = {**QUICK, **changes}
    (run,) = host.lab.bench(path, on="board", runtime="litert", runs=1, preset="quick", **settings)
    assert verify(host.lab.store, run.id) == []
    return run.result


def settings_of(run: Run) -> EffectiveSettings:
    """Settings of a run."""
    settings = run.conditions.settings
    assert settings is not None
    return settings


def test_second_thread_that_does_nothing_is_noted(paired: Host, tmp_path: Path) -> None:
    """Otherwise 2 threads would be printed for a model that uses one."""
    path = tmp_path / "one_addition.tflite"
    path.write_bytes(tflite_bytes.addition(1, 4))
    run = bench(paired, path, threads=2)
    threads = settings_of(run).threads
    if threads.state is SettingState.UNKNOWN:
        skip_or_fail("this kernel does not account for threads")
    assert (threads.requested, threads.effective, threads.reason) == (2, 1, "fewer")
    assert run_notes(run) == [
        "2 threads requested, 1 used CPU time: the runtime does not use more for this model"
    ]


def test_signature_that_ran_is_named_and_another_can_be_chosen(
    paired: Host, tmp_path: Path
) -> None:
    """Otherwise the number of one graph would be taken for that of the other."""
    path = tmp_path / "coder.tflite"
    path.write_bytes(two_signatures())
    words = ("--on", "board", "--runtime", "litert", "--quick", "--runs=1", "--duration", "0.3s")
    printed = paired.run("bench", str(path), *words)
    note = "note: signature encode was measured; the file also has decode; to choose: --signature"
    assert note in printed.stdout
    run = bench(paired, path, signature="decode")
    assert (run.model.signature, run.model.signatures) == (
        *("decode",),
        ("encode", "decode"),
    )
    assert settings_of(run).signature.state is SettingState.AS_REQUESTED
    assert run.conditions.inputs[0].shape == (1, WIDTH)
    outcomes = {rule.id: rule.outcome for rule in run.verdict.rules}
    assert outcomes["agreement"] is RuleOutcome.PASS
    refused = paired.run("bench", str(path), *words, "--signature", "deocde")
    assert refused.returncode == 1
    assert "no signature 'deocde': it has encode, decode" in refused.stderr
    assert "--signature NAME" in refused.stderr


def test_signature_of_a_format_without_any_is_refused(paired: Host) -> None:
    """Otherwise the option would be ignored, and the number be that of something else."""
    need_runtime("onnxruntime")
    settings: SpecChanges = {**QUICK, "signature": "decode"}
    with pytest.raises(SignatureRefused, match="models of onnx have no signatures, got 'decode'"):
        paired.lab.bench("digits_int8.onnx", on="board", runs=1, **settings)


def test_quota_of_the_agents_group_makes_a_run_suspect(
    paired: Host, agent: AgentProcess, tmp_path: Path
) -> None:
    """Otherwise the limit of a container would be the speed of the model."""
    path = tmp_path / "coder.tflite"
    path.write_bytes(two_signatures())
    bench(paired, path)  # runtimes are probed outside of the group: that takes seconds of CPU time
    with quota_group(QUOTA) as group:
        if group is None:
            pytest.skip("no control group can be made here: needs root and a writable cgroup")
        enter(group, agent.pid)
        run = bench(paired, path, signature="decode", duration_s=1.0, is_checked=False)
    scheduling, before, after = (
        *(run.conditions.scheduling, run.conditions.before, run.conditions.after),
    )
    assert scheduling is not None
    assert scheduling.quotas is not None
    assert before is not None
    assert after is not None
    assert scheduling.quotas[-1] == CpuQuota(QUOTA, 0.1)
    assert after.quotas[-1].throttled_count > before.quotas[-1].throttled_count
    assert after.quotas[-1].throttled_s > before.quotas[-1].throttled_s
    cpus = settings_of(run).cpus
    assert (cpus.effective, cpus.state, cpus.reason) == (QUOTA, SettingState.DIFFERENT, "quota")
    failed = {rule.id: rule for rule in run.verdict.failures}
    assert (failed["cpu_quota"].value or 0.0) > 0.01
    assert failed["cpu_share"].reason == "quota"
    sentences = "\n".join(str(line) for _, line in verdict_rows(alone(run)))
    assert "the control group used up its CPU quota of 0.2 CPUs" in sentences
    assert "raise or remove the CPU quota" in str(advice_for(failed["cpu_share"], Situation()))


@pytest.mark.parametrize("scenario", [Scenario.SINGLE_STREAM, Scenario.OFFLINE])
def test_time_that_a_real_time_run_left_to_others_is_recorded(
    paired: Host, tmp_path: Path, scenario: Scenario
) -> None:
    """Otherwise nobody could see why a run of real-time priority issued fewer inferences."""
    path = tmp_path / "coder.tflite"
    path.write_bytes(two_signatures())
    run = bench(paired, path, scenario=scenario, priority=Priority.REALTIME, is_checked=False)
    scheduling = run.conditions.scheduling
    assert scheduling is not None
    limit = scheduling.realtime
    if scheduling.policy != "fifo" or limit is None or limit.runtime_s is None:
        skip_or_fail("needs SCHED_FIFO and the kernel's limit on real-time tasks")
    assert limit is not None
    assert (limit.paused_s > 0) == (scenario is Scenario.SINGLE_STREAM)
