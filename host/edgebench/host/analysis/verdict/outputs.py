"""Rules that outputs must be finite, agree with reference kernels, and be accurate."""

from __future__ import annotations

import re
from dataclasses import replace

from edgebench.host.analysis.delegates import is_cpu
from edgebench.host.analysis.outputs import ERROR_METRICS
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.advice import Advice, Situation
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    SUSPECT,
    Rule,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.analysis.verdict.target import TargetEvidence
from edgebench.host.options.command import NextStep
from edgebench.host.result.outputs import Accuracy, ReferenceAccuracy
from edgebench.host.result.units import format_accuracy
from edgebench.host.result.verdict import NumberKind, RuleOutcome
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import TargetRecord, TimedPathFault, WorkerRecord

OutputEvidence = Evidence | TargetEvidence
"""Evidence for rules about outputs, from a device with an agent or from a target."""
SATURATION = (
    "this CPU has AVX2 but no VNNI; on such CPUs, onnxruntime adds products of 8-bit activations "
    "and int8 weights in sums of 16 bits, which saturate; quantise with a reduced range (7-bit "
    "weights) or with uint8 weights"
)
FLOAT_AGREEMENT_LIMIT = 0.05
QUANTIZED_AGREEMENT_LIMIT = 0.3
"""Largest RMS difference from the reference kernels, relative to the spread of the outputs. The
first limit is for models whose operators all multiply floats, the second for all other models.

Measured on 59 pairs of model and runtime with random inputs: the difference is at most 0.012 for
floats and 0.19 for quantised models. Measured on 65 pairs (37 models on three runtimes, x86-64):
the difference is at most 3.9e-6 for the 25 float pairs, and at most 0.191 (MobileNet EdgeTPU,
uint8) for the 40 quantised pairs. Neither result includes a detector that lists its boxes in
another order.

The differences have two causes. Kernels sum floats in different orders. A quantised activation that
is rounded the other way changes by a whole step. So the limits are 4 and 1.6 times the largest
difference that was measured. Outputs in a wrong order have a difference of 1.1 or more. The loss of
1 of 64 channels causes a difference of 0.125, which is sqrt(1/64).
"""
_FLOAT_PRECISIONS = frozenset(
    {"fp64", "fp32", "fp16"}
    | {f"{kind}-weights" for kind in ("fp32", "fp16", "int16", "int8", "uint8", "int4")}
)
"""Precisions of models whose operators multiply floats."""
LITERT_ROUNDING_SINCE = (1, 4)
"""First version of LiteRT whose reference kernels round like firmware that declares "litert".

Measured on four int8 models of MLPerf Tiny, six inputs each: the outputs of 1.4.0, 2.0.3, 2.1.0 and
2.3.0 are equal to the last bit. Version 1.2.0 rounds fully connected layers differently, by up to
3 steps.
"""
ACCURACY_SUSPECT_RATIO = 0.98
ACCURACY_INVALID_RATIO = 0.93
"""Minimum ratio of a model's accuracy to that of its unquantised sibling. Source:
mlcommons/mobile_open, submission rules 3.0: floors of 93 % to 98 %, by model."""


class FiniteOutputsRule(Rule[OutputEvidence]):
    """No output is NaN or infinite."""

    id, severity = "finite_outputs", INVALID
    cause = Cause.OUTPUTS
    advise = advice.again("run the model on realistic inputs: {}", inputs="FILE.npz")
    not_finite = plain("not_finite", "outputs contain NaN or infinity")
    finite = plain("", lambda value, limit: f"outputs are finite for {value:.0f} different samples")

    def check(self, evidence: OutputEvidence) -> Ruling:
        output = evidence.measured_record.output
        if not output.is_finite:
            return holds(False, self.not_finite())
        return holds(True, self.finite(), value=output.sample_count, unit="count")


@advice.Advise
def _check_driver(to: Situation) -> Advice:
    runtime = to.given.value("runtime") or "NAME"
    text = f"check the driver on the device: edgebench-agent check-runtime {runtime} MODEL"
    return Advice(
        (NextStep("try another runtime: {}", to.given.bench(runtime="all")), NextStep(text))
    )


class TimedPathRule(Rule[Evidence]):
    """The timed calls compute the same outputs as the calls that check the outputs."""

    id, severity = "timed_path", INVALID
    cause = Cause.OUTPUTS
    advise = _check_driver
    not_recorded = plain(
        "not_recorded", "not compared: the run was stopped, or its agent is too old"
    )

    @reason("")
    @staticmethod
    def same(value: float, limit: float, *, inference_count: int) -> str:
        return (
            f"timed path: {inference_count} inferences by the calls of the timed loop have the "
            "same outputs as in the checks"
        )

    @reason(TimedPathFault.VALUES.value)
    @staticmethod
    def values(value: float, limit: float, *, inference_count: int) -> str:
        return (
            f"{_timed(value, inference_count)} have other outputs than the same samples in the "
            "checks: the driver times inferences of other inputs, or reads other outputs"
        )

    @reason(TimedPathFault.OTHER_SAMPLE.value)
    @staticmethod
    def other_sample(value: float, limit: float, *, inference_count: int) -> str:
        return (
            f"{_timed(value, inference_count)} have the outputs of another sample: the driver "
            "skips inferences, or keeps old inputs or outputs"
        )

    @reason(TimedPathFault.FORM.value)
    @staticmethod
    def form(value: float, limit: float, *, inference_count: int) -> str:
        return (
            f"{_timed(value, inference_count)} differ from the checks in the number, shape or type "
            "of their outputs"
        )

    @reason("not_compared")
    @staticmethod
    def not_compared(value: float, limit: float, *, why: str) -> str:
        return f"the outputs of the timed loop were not compared with those of the checks: {why}"

    def check(self, evidence: Evidence) -> Ruling:
        facts = evidence.worker.timed_path
        if facts is None:
            return unknown(self.not_recorded())
        if facts.fault is None and not facts.inference_count:
            return unknown(self.not_compared(why=facts.reason or "the agent gave no reason"))
        kinds = {
            None: self.same,
            TimedPathFault.VALUES: self.values,
            TimedPathFault.OTHER_SAMPLE: self.other_sample,
            TimedPathFault.FORM: self.form,
        }
        found = kinds[facts.fault](inference_count=facts.inference_count)
        return at_most(facts.differing_count, 0, "count", found)


def _timed(value: float, inference_count: int) -> str:
    return f"timed path: {value:.0f} of {inference_count} inferences by the calls of the timed loop"


def _difference(
    value: float, limit: float, which: str, reference: str, top1_equal_ratio: float | None
) -> str:
    same = f"; same largest output in {format_percent(top1_equal_ratio or 0)} of the samples"
    top1 = "" if top1_equal_ratio is None else same
    return (
        f"the {which} output differs from {reference} by {value:.2g} of the spread of the outputs "
        f"(RMS), limit {limit:g}{top1}"
    )


class _AgreementRule(Rule[OutputEvidence]):
    """The outputs agree with the outputs of reference kernels."""

    advise = advice.other_runtime
    not_requested = plain("not_asked", "not compared: the comparison is switched off")

    @reason("")
    @staticmethod
    def difference(
        value: float, limit: float, *, which: str, reference: str, top1_equal_ratio: float | None
    ) -> str:
        return _difference(value, limit, which, reference, top1_equal_ratio)

    @reason(
        "saturated",
        advice.again("quantise the weights to 7 bits, or use another runtime: {}", runtime="all"),
    )
    @staticmethod
    def saturated(
        value: float, limit: float, *, which: str, reference: str, top1_equal_ratio: float | None
    ) -> str:
        return f"{_difference(value, limit, which, reference, top1_equal_ratio)}; {SATURATION}"

    @reason(
        "random",
        advice.again(
            "remove random operators from the model, or try another runtime: {}", runtime="all"
        ),
    )
    @staticmethod
    def random(
        value: float, limit: float, *, which: str, reference: str, top1_equal_ratio: float | None
    ) -> str:
        difference = _difference(value, limit, which, reference, top1_equal_ratio)
        return (
            "the model differs from itself: repeated inferences with the same input have different "
            f"outputs; {difference}"
        )

    @reason(
        "constant",
        advice.again("run the model on inputs that change its outputs: {}", inputs="FILE.npz"),
        Cause.INPUTS,
    )
    @staticmethod
    def constant(value: float, limit: float, *, reference: str) -> str:
        return (
            f"the outputs of {reference} are constant for all samples: they do not test the kernels"
        )

    @reason(
        "repeated",
        advice.again("run the model on inputs that change its outputs: {}", inputs="FILE.npz"),
        Cause.INPUTS,
    )
    @staticmethod
    def repeated(
        value: float, limit: float, *, output_count: int, reference: str, sample_count: int
    ) -> str:
        which = "the only output" if output_count == 1 else f"{value:.0f} of {output_count} outputs"
        have = "has" if value == 1 else "have"
        return (
            f"{which} of {reference} {have} the same values for {sample_count} different inputs, "
            "so the comparison does not test the kernels"
        )

    @reason("unbounded")
    @staticmethod
    def unbounded(value: float, limit: float, *, reference: str) -> str:
        return (
            f"the difference from {reference} is unbounded: outputs are not finite, or the "
            "reference is 0"
        )

    @reason("not_compared")
    @staticmethod
    def not_compared(value: float, limit: float, *, why: str) -> str:
        return f"not compared: {why}"

    def agrees(self, evidence: OutputEvidence, share: float | None, which: str) -> Ruling:
        """The ruling on the difference of the best or the worst output from its reference.

        Args:
            evidence: Evidence of the run.
            share: RMS difference, relative to the spread of the outputs; None if it is unbounded.
            which: "best" or "worst".
        """
        agreement, check = evidence.measured.quality.agreement, evidence.measured_record.check
        if agreement is None:
            why = evidence.measured.quality.agreement_error or check.reference_error
            if why is None and not evidence.record.spec.is_checked:
                return not_applicable(self.not_requested())
            why = why or "the run has no outputs of reference kernels"
            return unknown(self.not_compared(why=why))
        if agreement.is_constant:
            return holds(False, self.constant(reference=agreement.reference))
        if share is None:
            return holds(False, self.unbounded(reference=agreement.reference))
        is_exact = which == "worst" and _claims_exactness(evidence)
        limit = 0.0 if is_exact else _agreement_limit(evidence)
        is_saturated = share > limit and _saturates(evidence)
        kind = self.saturated if is_saturated else self.difference
        if share > limit and not _is_repeatable(evidence):
            kind = self.random
        found = kind(
            which=which, reference=agreement.reference, top1_equal_ratio=agreement.top1_equal_ratio
        )
        return at_most(share, limit, "ratio", found)


class AgreementRule(_AgreementRule):
    """At least one output agrees, so the kernels are not wrong from the first operator onwards.

    A constant output agrees regardless of what the kernels compute.
    """

    id, severity, includes = "agreement", INVALID, "agreement_of_all"
    cause = Cause.OUTPUTS

    def check(self, evidence: OutputEvidence) -> Ruling:
        agreement = evidence.measured.quality.agreement
        best = None if agreement is None else agreement.relative_rms_best
        ruling = self.agrees(evidence, best, "best")
        is_passed = ruling.outcome is RuleOutcome.PASS
        if agreement is None or not agreement.repeated_count or not is_passed:
            return ruling
        # Random inputs saturate many good classifiers: the latency counts, the agreement does not.
        found = self.repeated(
            output_count=agreement.output_count,
            reference=agreement.reference,
            sample_count=agreement.sample_count,
        )
        count = agreement.repeated_count
        ruling = at_most(count, 0, "count", found)
        return replace(ruling, severity=SUSPECT, harms=frozenset({NumberKind.OUTPUTS}))


class AgreementOfAllRule(_AgreementRule):
    """All outputs agree. A correct detector may fail, because it may reorder equal boxes."""

    id, severity = "agreement_of_all", SUSPECT
    cause = Cause.OUTPUTS

    def check(self, evidence: OutputEvidence) -> Ruling:
        agreement = evidence.measured.quality.agreement
        worst = None if agreement is None else agreement.relative_rms
        return self.agrees(evidence, worst, "worst")


def _claims_exactness(evidence: OutputEvidence) -> bool:
    """Whether the firmware declares that its outputs equal the reference's to the last bit."""
    measured = evidence.measured_record
    reference = measured.check.reference_runtime
    if not isinstance(measured, TargetRecord) or reference is None:
        return False
    numbers = re.match(r"(\d+)\.(\d+)", reference.version)
    if reference.name != "litert" or numbers is None:
        return False
    is_meant = (int(numbers[1]), int(numbers[2])) >= LITERT_ROUNDING_SINCE
    return measured.firmware.rounding == reference.name and is_meant


def _is_repeatable(evidence: OutputEvidence) -> bool:
    """Whether the model repeats its outputs for the same input, as far as they were compared."""
    measured = evidence.measured_record
    if not isinstance(measured, WorkerRecord) or measured.timed_path is None:
        return True
    return measured.timed_path.is_repeatable


def _agreement_limit(evidence: OutputEvidence) -> float:
    model, runtime = evidence.measured_record.model, evidence.measured_record.runtime
    is_float = model.precision in _FLOAT_PRECISIONS and not model.quantized
    # Kernels for CPUs compute in the precision of the file; an accelerator may use fewer bits. The
    # driver of an accelerator may use it without a request.
    is_exact = all(map(is_cpu, (*runtime.delegates_requested, *runtime.delegates_used)))
    return FLOAT_AGREEMENT_LIMIT if is_float and is_exact else QUANTIZED_AGREEMENT_LIMIT


def _saturates(evidence: OutputEvidence) -> bool:
    """Whether the kernels for this model saturate on a CPU with the reported features.

    With AVX2 and without VNNI, onnxruntime adds products of 8-bit activations and int8 weights in
    16 bits. int8 activations in QDQ form saturate as well: on x86-64, onnxruntime converts them to
    uint8.

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
    """Loss of accuracy against the reference, in the unit of the metric; None without reference."""
    if reference is None:
        return None
    sign = -1 if accuracy.metric in ERROR_METRICS else 1
    return sign * (reference.value - accuracy.value)


@advice.Advise
def _quantise_again(to: Situation) -> Advice:
    words = [] if to.given.value("accuracy") else ["--accuracy", "DATASET"]
    text = "quantise the model again, with calibration data like its inputs; then measure again: {}"
    return advice.do(text, to.given.bench(*words))


def _measured(metric: str, accuracy: float, sample_count: int) -> str:
    return f"{metric} {format_accuracy(metric, accuracy)} over {sample_count} samples"


class _AccuracyRule(Rule[OutputEvidence]):
    """The model keeps at least `limit` of the accuracy of its unquantised sibling."""

    limit: float
    advise = _quantise_again
    no_dataset = plain("no_dataset", "no data set was given")
    not_answered = plain("not_answered", "no sample of the data set was run")
    labels_elsewhere = plain("labels_elsewhere", "the labels of the data set are on another host")

    @reason("")
    @staticmethod
    def kept(
        value: float,
        limit: float,
        *,
        metric: str,
        accuracy: float,
        sample_count: int,
        reference: str,
        reference_accuracy: float,
    ) -> str:
        return (
            f"{_measured(metric, accuracy, sample_count)}, {reference} has "
            f"{format_accuracy(metric, reference_accuracy)}: {format_percent(value, 1)} of it, "
            f"limit {format_percent(limit)}"
        )

    @reason("no_reference")
    @staticmethod
    def no_reference(
        value: float, limit: float, *, metric: str, accuracy: float, sample_count: int
    ) -> str:
        return f"{_measured(metric, accuracy, sample_count)}; no reference to compare with"

    @reason("reference_is_zero")
    @staticmethod
    def reference_is_zero(
        value: float,
        limit: float,
        *,
        metric: str,
        accuracy: float,
        sample_count: int,
        reference: str,
        reference_accuracy: float,
    ) -> str:
        measured = _measured(metric, accuracy, sample_count)
        return f"{measured}; the accuracy of {reference} is 0: the labels do not match the outputs"

    @reason("not_judged")
    @staticmethod
    def not_judged(value: float, limit: float, *, why: str) -> str:
        return why

    def check(self, evidence: OutputEvidence) -> Ruling:
        accuracy, reference = evidence.measured.quality.accuracy, evidence.facts.reference
        if accuracy is None:
            check, error = evidence.measured_record.check, evidence.measured.quality.accuracy_error
            if evidence.record.spec.dataset_sha256 is None:
                return not_applicable(self.no_dataset())
            is_target = isinstance(evidence.measured_record, TargetRecord)
            if is_target and not check.dataset_sample_count:
                return unknown(self.not_answered())  # rule dataset_complete has the reason
            if error:
                return holds(False, self.not_judged(why=error))
            if check.dataset_sample_count:
                return unknown(self.labels_elsewhere())
            why = check.dataset_error or "the data set was not run"
            return holds(False, self.not_judged(why=why))
        metric, count = accuracy.metric, accuracy.sample_count
        if reference is None:
            return unknown(
                self.no_reference(metric=metric, accuracy=accuracy.value, sample_count=count)
            )
        is_error = metric in ERROR_METRICS
        is_zero = not is_error and reference.value <= 0
        kind = self.reference_is_zero if is_zero else self.kept
        found = kind(
            metric=metric,
            accuracy=accuracy.value,
            sample_count=count,
            reference=reference.model,
            reference_accuracy=reference.value,
        )
        if is_zero:
            return holds(False, found)
        good, bad = reference.value, accuracy.value
        good, bad = (good, bad) if is_error else (bad, good)
        ratio = good / bad if bad > 0 else float(good >= bad)
        return at_least(ratio, self.limit, "ratio", found)


class AccuracyFloorRule(_AccuracyRule):
    """The model keeps at least 93 % of the accuracy of its unquantised sibling."""

    id, severity, includes = "accuracy_floor", INVALID, "accuracy"
    cause = Cause.OUTPUTS
    limit = ACCURACY_INVALID_RATIO


class AccuracyRule(_AccuracyRule):
    """The model keeps at least 98 % of the accuracy of its unquantised sibling."""

    id, severity = "accuracy", SUSPECT
    cause = Cause.OUTPUTS
    limit = ACCURACY_SUSPECT_RATIO


QUALITY_RULES: tuple[Rule[OutputEvidence], ...] = (
    AccuracyFloorRule(),
    AccuracyRule(),
    AgreementRule(),
    AgreementOfAllRule(),
)
OUTPUT_RULES: tuple[Rule[Evidence], ...] = (FiniteOutputsRule(), TimedPathRule(), *QUALITY_RULES)
"""The rules, in the order in which a person should read them."""
