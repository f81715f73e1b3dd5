"""Why a quantised model gives wrong outputs, where the known cause is what the CPU lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.records import latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.measurement import measure_traces
from edgebench.host.analysis.outputs import OutputQuality
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.judge import judge
from edgebench.host.analysis.verdict.outputs import SATURATION
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.outputs import Agreement
from edgebench.host.result.verdict import RuleOutcome
from edgebench.host.show.sentences import described
from edgebench.protocol.record import QuantizedOperands

HASWELL = ("avx2",)
SKYLAKE_X = ("avx2", "avx512f")
CASCADE_LAKE = ("avx2", "avx512f", "avx512_vnni")
ALDER_LAKE = ("avx2", "avx_vnni")
CORTEX_A76 = ("dotprod",)
U8S8 = QuantizedOperands("uint8", "int8", 8, is_qdq=True)
U8S8_OPERATOR = replace(U8S8, is_qdq=False)
U8S8_REDUCED = replace(U8S8, weight_bits=7)
S8S8 = replace(U8S8, activation="int8")
S8S8_OPERATOR = replace(S8S8, is_qdq=False)
U8U8 = replace(U8S8, weight="uint8")


def ruled(evidence: Evidence, name: str = "agreement") -> tuple[RuleOutcome, str]:
    """Return the outcome of a rule, and its sentence."""
    [found] = [rule for rule in described(judge(evidence)).rules if rule.id == name]
    return found.outcome, found.detail


def answered(
    *,
    features: tuple[str, ...] | None = HASWELL,
    quantized: tuple[QuantizedOperands, ...] | None = (U8S8,),
    arch: str = "x86_64",
    runtime: str = "onnx",
    delegate: tuple[str, ...] = (),
    relative_rms: float = 0.67,
) -> Evidence:
    """Return a run on such a device, whose outputs differ so much from the reference's."""
    latency_ns = latencies()
    worker = worker_record(latency_ns)
    worker = replace(
        worker,
        model=replace(worker.model, quantized=quantized),
        runtime=replace(worker.runtime, name=runtime, delegates_requested=delegate),
    )
    record = run_record(worker)
    cpu = replace(record.environment.cpu, features=features)
    record = replace(
        record,
        device=replace(record.device, arch=arch),
        environment=replace(record.environment, cpu=cpu),
    )
    found = Agreement("onnx, not optimised", 8, 1.0, 0.5, 0.75, relative_rms, relative_rms)
    measured = measure_traces(record, worker, traces_of(latency_ns))
    return Evidence(
        record, worker, replace(measured, quality=OutputQuality(agreement=found)), HostFacts()
    )


@pytest.mark.parametrize("features", [HASWELL, SKYLAKE_X], ids=["haswell", "skylake-x"])
@pytest.mark.parametrize("quantized", [(U8S8,), (U8S8_OPERATOR,), (S8S8,), (U8U8, U8S8)], ids=repr)
def test_refusal_on_a_cpu_whose_kernels_saturate_says_so(
    features: tuple[str, ...], quantized: tuple[QuantizedOperands, ...]
) -> None:
    """Otherwise a model that is right elsewhere would be refused here, without any advice."""
    evidence = answered(features=features, quantized=quantized)
    for rule in ("agreement", "agreement_of_all"):
        outcome, detail = ruled(evidence, rule)
        assert outcome is RuleOutcome.FAIL
        assert "0.67" in detail
        assert detail.endswith(SATURATION)


@pytest.mark.parametrize(
    "device",
    [
        {"features": CASCADE_LAKE},
        {"features": ALDER_LAKE},
        {"features": ()},
        {"features": None},
        {"features": CORTEX_A76, "arch": "aarch64"},
        {"quantized": (U8S8_REDUCED,)},
        {"quantized": (S8S8_OPERATOR,)},
        {"quantized": (U8U8,)},
        {"quantized": None},
        {"runtime": "tflite"},
        {"delegate": ("openvino",)},
    ],
    ids=[
        "avx512-vnni", "avx-vnni", "no avx2", "older agent", "arm", "reduced range",
        "s8s8 operators", "u8u8", "not quantised", "another runtime", "a delegate",
    ],
)  # fmt: skip
def test_cause_that_is_not_known_is_not_guessed(device: dict[str, Any]) -> None:
    """Otherwise a model would be quantised again, worse, for a fault that is somewhere else."""
    outcome, detail = ruled(answered(**device))
    assert outcome is RuleOutcome.FAIL
    assert "VNNI" not in detail


def test_answers_that_agree_need_no_cause() -> None:
    """Otherwise a good run on an older CPU would be read as a bad run."""
    outcome, detail = ruled(answered(relative_rms=0.1))
    assert outcome is RuleOutcome.PASS
    assert "VNNI" not in detail
