"""Rules about the model's outputs: a fast model that is wrong is of no use."""

from __future__ import annotations

import re

from edgebench.host.analysis.delegates import is_cpu
from edgebench.host.analysis.outputs import ERROR_METRICS
from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.host.analysis.verdict.target import TargetEvidence
from edgebench.host.result.outputs import Accuracy, ReferenceAccuracy
from edgebench.host.result.verdict import Fact
from edgebench.protocol.record import TargetRecord

OutputEvidence = Evidence | TargetEvidence
"""Outputs are judged alike, whether the worker or the target timed the inferences."""
FLOAT_AGREEMENT_LIMIT = 0.05
QUANTIZED_AGREEMENT_LIMIT = 0.3
"""RMS difference to the reference kernels over the spread of the outputs, of models whose
operators all multiply floats, and of others.

Measured on 59 pairs of model and runtime, random inputs: at most 0.012 for floats and 0.19 for
quantised models, but for a detector whose list of boxes comes in another order. On 65 pairs, 37
models on three runtimes, x86-64: 25 of floats at most 3.9e-6, 40 quantised ones at most 0.191
(MobileNet EdgeTPU, uint8), but for that detector. Floats are summed in another order; a quantised
activation that is rounded to the other side moves by a whole step. So the limits are 4 and 1.6
times the worst. Outputs in a wrong order have 1.1 and more; one of 64 channels that is lost
has 0.125, sqrt(1/64).
"""
_FLOAT_PRECISIONS = frozenset(
    {"fp64", "fp32", "fp16"}
    | {f"{kind}-weights" for kind in ("fp32", "fp16", "int16", "int8", "uint8", "int4")}
)
"""Precisions of models whose operators multiply floats."""
LITERT_ROUNDING_SINCE = (1, 4)
"""First version of LiteRT whose reference kernels round as firmware means it that names LiteRT.

Measured on four int8 models of MLPerf Tiny, six inputs each: 1.4.0, 2.0.3, 2.1.0 and 2.3.0 give the
same outputs to the last bit; 1.2.0 rounds fully connected layers otherwise, by up to 3 steps.
"""
ACCURACY_SUSPECT_RATIO = 0.98
ACCURACY_INVALID_RATIO = 0.93
"""Ratio to the accuracy of the unquantised sibling. Source: mlcommons/mobile_open, submission
rules 3.0: floors of 93 % to 98 %, by model."""


def finite_outputs(evidence: OutputEvidence) -> Ruling:
    """No output is NaN or infinite."""
    output = evidence.measured_record.output
    if not output.is_finite:
        return holds(False, "not_finite")
    return holds(True, value=output.sample_count, unit="count")


def agreement(evidence: OutputEvidence) -> Ruling:
    """At least one output agrees: no kernel is wrong from the first operator on.

    An output that never changes agrees whatever the kernels compute.
    """
    agreement = evidence.measured.quality.agreement
    return _agrees(evidence, None if agreement is None else agreement.relative_rms_best, "best")


def agreement_of_all(evidence: OutputEvidence) -> Ruling:
    """All outputs agree; a detector may list equal boxes in another order, and be right."""
    agreement = evidence.measured.quality.agreement
    return _agrees(evidence, None if agreement is None else agreement.relative_rms, "worst")


def _agrees(evidence: OutputEvidence, share: float | None, which: str) -> Ruling:
    agreement, check = evidence.measured.quality.agreement, evidence.measured_record.check
    if agreement is None:
        why = evidence.measured.quality.agreement_error or check.reference_error
        if why is None and not evidence.record.spec.is_checked:
            return not_applicable("not_asked")
        return unknown(
            "not_compared", facts={"why": why or "there are no outputs of reference kernels"}
        )
    if agreement.is_constant:
        return holds(False, "constant", facts={"reference": agreement.reference})
    if share is None:
        return holds(False, "unbounded", facts={"reference": agreement.reference})
    is_exact = which == "worst" and _claims_exactness(evidence)
    limit = 0.0 if is_exact else _agreement_limit(evidence)
    is_saturated = share > limit and _saturates(evidence)
    facts: dict[str, Fact] = {
        "which": which,
        "reference": agreement.reference,
        "top1_equal_ratio": agreement.top1_equal_ratio,
    }
    return at_most(share, limit, "ratio", "saturated" if is_saturated else None, facts)


def _claims_exactness(evidence: OutputEvidence) -> bool:
    """Whether the firmware says that its outputs equal those of the reference to the last bit."""
    measured = evidence.measured_record
    reference = measured.check.reference_runtime
    if not isinstance(measured, TargetRecord) or reference is None:
        return False
    numbers = re.match(r"(\d+)\.(\d+)", reference.version)
    if reference.name != "litert" or numbers is None:
        return False
    is_meant = (int(numbers[1]), int(numbers[2])) >= LITERT_ROUNDING_SINCE
    return measured.firmware.rounding == reference.name and is_meant


def _agreement_limit(evidence: OutputEvidence) -> float:
    model = evidence.measured_record.model
    is_float = model.precision in _FLOAT_PRECISIONS and not model.quantized
    # Kernels for CPUs compute in the precision of the file; an accelerator may use fewer bits.
    is_exact = all(map(is_cpu, evidence.measured_record.runtime.delegates_requested))
    return FLOAT_AGREEMENT_LIMIT if is_float and is_exact else QUANTIZED_AGREEMENT_LIMIT


def _saturates(evidence: OutputEvidence) -> bool:
    """Whether the kernels for this model saturate on a CPU with the reported features.

    With AVX2 and without VNNI, onnxruntime adds products of 8-bit activations and int8 weights in
    16 bits. int8 activations in QDQ form are no way out: on x86-64 they are made uint8 ones.

    Source: onnxruntime.ai/docs/performance/model-optimizations/quantization.html, "When and why do
    I need to try U8U8?"; onnxruntime, qdq_s8_to_u8.cc.
    """
    record, runtime = evidence.record, evidence.measured_record.runtime
    features = record.environment.cpu.features or ()
    has_saturating_kernels = (
        runtime.name == "onnx"
        and not runtime.delegates_requested
        and record.device.arch == "x86_64"
        and "avx2" in features
        and not {"avx_vnni", "avx512_vnni"} & set(features)
    )
    return has_saturating_kernels and any(
        operands.weight == "int8"
        and operands.weight_bits == 8
        and (operands.activation == "uint8" or operands.is_qdq)
        for operands in evidence.measured_record.model.quantized or ()
    )


def accuracy_drop(accuracy: Accuracy, reference: ReferenceAccuracy | None) -> float | None:
    """How much worse than the reference, in the unit of the metric; None without one."""
    if reference is None:
        return None
    sign = -1 if accuracy.metric in ERROR_METRICS else 1
    return sign * (reference.value - accuracy.value)


def accuracy_floor(evidence: OutputEvidence) -> Ruling:
    """What is left of the accuracy of the unquantised sibling is worth measuring."""
    return _accuracy(evidence, ACCURACY_INVALID_RATIO)


def accuracy(evidence: OutputEvidence) -> Ruling:
    """Nearly all of the accuracy of the unquantised sibling is left."""
    return _accuracy(evidence, ACCURACY_SUSPECT_RATIO)


def _accuracy(evidence: OutputEvidence, limit: float) -> Ruling:
    accuracy, reference = evidence.measured.quality.accuracy, evidence.facts.reference
    if accuracy is None:
        return _without_accuracy(evidence)
    facts: dict[str, Fact] = {
        "metric": accuracy.metric,
        "accuracy": accuracy.value,
        "sample_count": accuracy.sample_count,
    }
    if reference is None:
        return unknown("no_reference", facts=facts)
    facts |= {"reference": reference.model, "reference_accuracy": reference.value}
    is_error = accuracy.metric in ERROR_METRICS
    if not is_error and reference.value <= 0:
        return holds(False, "reference_is_zero", facts=facts)
    good, bad = (reference.value, accuracy.value) if is_error else (accuracy.value, reference.value)
    ratio = good / bad if bad > 0 else float(good >= bad)
    return at_least(ratio, limit, "ratio", facts=facts)


def _without_accuracy(evidence: OutputEvidence) -> Ruling:
    check = evidence.measured_record.check
    if evidence.record.spec.dataset_sha256 is None:
        return not_applicable("no_dataset")
    is_target = isinstance(evidence.measured_record, TargetRecord)
    if is_target and not check.dataset_sample_count:
        return unknown("not_answered")  # rule dataset_complete says why
    if evidence.measured.quality.accuracy_error:
        return holds(False, "not_judged", facts={"why": evidence.measured.quality.accuracy_error})
    if check.dataset_sample_count:
        return unknown("labels_elsewhere")
    return holds(
        False, "not_judged", facts={"why": check.dataset_error or "the data set was not run"}
    )
