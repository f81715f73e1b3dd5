"""Rules about what the model answered: a fast model that answers wrongly is of no use."""

from __future__ import annotations

from edgebench.host.analysis.measurement import ReferenceAccuracy
from edgebench.host.analysis.outputs import ERROR_METRICS, Accuracy
from edgebench.host.analysis.verdict.evidence import Evidence, Rule

AGREEMENT_LIMIT = 0.3
"""RMS difference to the reference kernels over the spread of the answers. Measured on 59 pairs of
model and runtime, random inputs: at most 0.19 for quantised models and 0.012 for others, but for a
detector whose list of boxes comes in another order; answers in a wrong order have 1.1 and more."""
SATURATION = (
    "this CPU has AVX2 but no VNNI: there, onnxruntime adds products of 8-bit activations and int8 "
    "weights in 16 bits, which saturate; quantise with a reduced range (7-bit weights) or with "
    "uint8 weights"
)
"""Source: onnxruntime.ai/docs/performance/model-optimizations/quantization.html, "When and why do I
need to try U8U8?". int8 activations in QDQ form are no way out: on x86-64 they are made uint8 ones
(onnxruntime, qdq_s8_to_u8.cc)."""
ACCURACY_SUSPECT_RATIO = 0.98
ACCURACY_INVALID_RATIO = 0.93
"""Of the accuracy of the unquantised sibling. Source: mlcommons/mobile_open, submission rules
3.0: floors of 93 % to 98 %, by model."""


def finite_outputs(evidence: Evidence) -> tuple[bool | None, str]:
    """No output is NaN or infinite."""
    output = evidence.worker.output
    if not output.is_finite:
        return False, "outputs hold NaN or infinity"
    return True, f"outputs are finite, of {output.sample_count} different samples"


def agreement(evidence: Evidence) -> tuple[bool | None, str]:
    """At least one output agrees: no kernel is wrong from the first operator on."""
    found = evidence.measured.agreement
    return _agrees(evidence, None if found is None else found.relative_rms_best, "the best output")


def agreement_of_all(evidence: Evidence) -> tuple[bool | None, str]:
    """All outputs agree; a detector may list equal boxes in another order, and be right."""
    found = evidence.measured.agreement
    return _agrees(evidence, None if found is None else found.relative_rms, "the worst output")


def _agrees(evidence: Evidence, share: float | None, which: str) -> tuple[bool | None, str]:
    found, check = evidence.measured.agreement, evidence.worker.check
    if found is None:
        why = evidence.measured.agreement_error or check.reference_error
        return None, f"not compared: {why or 'it was not asked for'}"
    if share is None:
        return False, f"differs from {found.reference} without bound: one is not a number, or 0"
    top1 = found.top1_equal_ratio
    same = "" if top1 is None else f"; same largest output in {top1:.0%} of the samples"
    does_agree = share <= AGREEMENT_LIMIT
    cause = f"; {SATURATION}" if not does_agree and _saturates(evidence) else ""
    return does_agree, (
        f"{which} differs from {found.reference} by {share:.2g} of the spread of the answers "
        f"(RMS), limit {AGREEMENT_LIMIT:g}{same}{cause}"
    )


def _saturates(evidence: Evidence) -> bool:
    """Whether this CPU's kernels for this model are known to saturate, where the device tells."""
    record, runtime = evidence.record, evidence.worker.runtime
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
        for operands in evidence.worker.model.quantized or ()
    )


def accuracy_drop(found: Accuracy, reference: ReferenceAccuracy | None) -> float | None:
    """How much worse than the reference, in the unit of the metric; None without one."""
    if reference is None:
        return None
    sign = -1 if found.metric in ERROR_METRICS else 1
    return sign * (reference.value - found.value)


def accuracy(limit: float) -> Rule:
    """At least this share of the accuracy of the unquantised sibling is left."""

    def rule(evidence: Evidence) -> tuple[bool | None, str]:
        found, reference = evidence.measured.accuracy, evidence.facts.reference
        if found is None:
            return _without_accuracy(evidence)
        text = f"{found.metric} {found.value:.4g} on {found.sample_count} samples"
        if reference is None:
            return None, f"{text}; no reference to compare with"
        if found.metric not in ERROR_METRICS and reference.value <= 0:
            return (
                False,
                f"{text}; {reference.model} has 0: labels and answers do not belong together",
            )
        ratio = _accuracy_ratio(found, reference)
        return ratio >= limit, (
            f"{text}, {reference.model} has {reference.value:.4g}: {ratio:.1%}, limit {limit:.0%}"
        )

    return rule


def _without_accuracy(evidence: Evidence) -> tuple[bool | None, str]:
    check = evidence.worker.check
    if evidence.record.spec.dataset_sha256 is None:
        return None, "no data set was given"
    if evidence.measured.accuracy_error:
        return False, evidence.measured.accuracy_error
    if check.dataset_sample_count:
        return None, "the data set was answered, but its labels are on another host"
    return False, check.dataset_error or "the data set was not answered"


def _accuracy_ratio(found: Accuracy, reference: ReferenceAccuracy) -> float:
    good, bad = found.value, reference.value
    if found.metric in ERROR_METRICS:
        good, bad = bad, good
    return good / bad if bad > 0 else float(good >= bad)
