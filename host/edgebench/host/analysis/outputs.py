"""Quality of a model's outputs: their accuracy, and their agreement with reference kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.median import LEVEL
from edgebench.host.result.outputs import Accuracy, Agreement
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import CheckFacts, TensorSpec
from edgebench.protocol.traces import DATASET_INDEX

_T = TypeVar("_T")
Outputs = Mapping[str, NDArray[Any]]
"""Maps names in the agent's file (`used.N`, `reference.N`, `dataset.N`, `dataset_index`) to
arrays."""
Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class OutputQuality:
    """Accuracy and agreement of the outputs, or the reasons why they are absent."""

    accuracy: Accuracy | None = None
    agreement: Agreement | None = None
    accuracy_error: str | None = None
    """Reason why the outputs for the data set have no accuracy."""
    agreement_error: str | None = None


def judge_outputs(
    check: CheckFacts,
    specs: Sequence[TensorSpec],
    outputs: Outputs,
    labels: Outputs,
    metric: str | None,
) -> OutputQuality:
    """Accuracy and agreement, as far as the required outputs are available.

    Args:
        check: The device's report of its checks.
        specs: Descriptions of the outputs, for scale and zero point.
        outputs: Outputs of the model and of the reference.
        labels: Labels of the data set under the name `y`. If the metric needs the samples of the
            data set, they are under `x`.
        metric: One of `METRICS`; None without a data set.
    """

    def find_accuracy() -> Accuracy | None:
        if metric is None or "y" not in labels:
            return None
        return accuracy(outputs, specs, labels["y"], metric, labels.get("x"))

    def find_agreement() -> Agreement | None:
        if not check.reference:
            return None
        return agreement(outputs, specs, check.reference, distinct_count=check.distinct_count)

    found_accuracy, accuracy_error = _attempt(find_accuracy)
    found_agreement, agreement_error = _attempt(find_agreement)
    return OutputQuality(found_accuracy, found_agreement, accuracy_error, agreement_error)


def _attempt(judge: Callable[[], _T | None]) -> tuple[_T | None, str | None]:
    try:
        return judge(), None
    except MeasurementError as exc:
        return None, str(exc)


def agreement(
    outputs: Outputs, specs: Sequence[TensorSpec], reference: str, *, distinct_count: int = 0
) -> Agreement | None:
    """Compare the outputs of the model and of the reference for the same samples.

    Args:
        outputs: Arrays of the model and of the reference.
        specs: Descriptions of the outputs, for scale and zero point.
        reference: Name of the reference kernels.
        distinct_count: Number of different inputs among the samples. If it is below two, outputs
            are not checked for being constant.

    Returns:
        The agreement; None if the outputs of the model or of the reference are missing.

    Raises:
        MeasurementError: outputs of the model and of the reference differ in shape.
    """
    numbers = [n for n in range(len(specs)) if f"used.{n}" in outputs]
    if not numbers or f"reference.{numbers[0]}" not in outputs:
        return None
    pairs = [(outputs[f"used.{n}"], outputs[f"reference.{n}"], specs[n]) for n in numbers]
    if any(used.shape != other.shape for used, other, _ in pairs):
        raise MeasurementError("outputs and reference outputs have different shapes")
    real = [(to_real(used, spec), to_real(other, spec)) for used, other, spec in pairs]
    size = equal_count = 0
    differences: list[float] = []
    shares: list[float] = []
    for used, wanted in real:
        is_equal = (used == wanted) | (np.isnan(used) & np.isnan(wanted))
        with np.errstate(invalid="ignore"):
            difference = np.where(is_equal, 0.0, used - wanted)
        # The difference is NaN where only one of the two is a number.
        difference = np.where(np.isnan(difference), np.inf, difference)
        size += used.size
        equal_count += int(np.count_nonzero(is_equal))
        differences.append(float(np.max(np.abs(difference), initial=0.0)))
        shares.append(_relative_rms(difference, wanted))
    varying = [
        share
        for share, (_, wanted) in zip(shares, real, strict=True)
        if distinct_count < 2 or not _is_constant(wanted)
    ]
    return Agreement(
        reference=reference,
        sample_count=len(pairs[0][0]),
        max_abs_diff=_finite_or_none(max(differences)),
        fraction_equal=equal_count / size if size else 1.0,
        top1_equal_ratio=_top1_equal(*real[0]),
        relative_rms=_finite_or_none(max(shares)),
        relative_rms_best=_finite_or_none(min(varying or shares)),
        is_constant=not varying,
        repeated_count=0 if distinct_count < 2 else sum(_is_repeated(output) for _, output in real),
        output_count=len(real),
        distinct_count=distinct_count,
    )


def _finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _is_constant(values: Values) -> bool:
    """Whether all elements of all samples are equal."""
    return values.size > 0 and bool((values == values.flat[0]).all())


def _is_repeated(values: Values) -> bool:
    """Whether every sample, along the first axis, has the same output."""
    return values.size > 0 and bool((values == values[:1]).all())


def _relative_rms(difference: Values, reference: Values) -> float:
    if not difference.any():
        return 0.0
    if not np.isfinite(difference).all():
        return math.inf
    finite = reference[np.isfinite(reference)]
    scale = float(np.std(finite)) or float(np.sqrt(np.mean(finite**2)))
    return float(np.sqrt(np.mean(difference**2))) / scale if scale > 0 else math.inf


def _top1_equal(used: Values, reference: Values) -> float | None:
    if not used.size:
        return None
    used, reference = used.reshape(len(used), -1), reference.reshape(len(reference), -1)
    if used.shape[1] < 2 or not np.isfinite(reference).all():
        return None
    return float(np.mean(used.argmax(axis=1) == reference.argmax(axis=1)))


def accuracy(
    outputs: Outputs,
    specs: Sequence[TensorSpec],
    labels: NDArray[Any],
    metric: str,
    inputs: NDArray[Any] | None = None,
) -> Accuracy | None:
    """Accuracy of the outputs for the data set; None without such outputs.

    Args:
        outputs: `dataset.0`, shape (n, …), and optionally `dataset_index`, shape (n,), the index of
            each output's sample. The index is needed if samples are missing or in another order.
        specs: Descriptions of the outputs, for scale and zero point.
        labels: Labels of the samples, shape (m,). Without `dataset_index`, m = n.
        metric: One of `METRICS`.
        inputs: The data set's samples, shape (m, …); for the reconstruction error only.

    Raises:
        MeasurementError: the metric is unknown, the labels or the index do not match the outputs,
            or an output is NaN or infinite.
    """
    if "dataset.0" not in outputs:
        return None
    if metric not in METRICS:
        raise MeasurementError(f"unknown metric {metric[:40]!r}; available: {', '.join(METRICS)}")
    real = to_real(outputs["dataset.0"], specs[0])
    if (index := outputs.get(DATASET_INDEX)) is not None:
        count = len(labels)
        is_each_once = index.ndim == 1 and len(np.unique(index)) == len(index)
        if not is_each_once or not np.isin(index, np.arange(count)).all():
            raise MeasurementError(
                f"each output must belong to a different one of the {count} labelled samples"
            )
        labels = labels[index]
        inputs = None if inputs is None else inputs[index]
    if len(real) != len(labels) or not len(labels):
        raise MeasurementError(f"{len(real)} outputs for {len(labels)} labels")
    if not np.isfinite(real).all():
        raise MeasurementError("outputs for the data set contain NaN or infinity")
    value, interval = METRICS[metric](real.reshape(len(real), -1), np.asarray(labels), inputs)
    return Accuracy(metric, value, interval, len(labels))


def to_real(values: NDArray[Any], spec: TensorSpec) -> Values:
    """Real values of a tensor, dequantised by its scale and zero point."""
    real: Values = values.astype(np.float64)
    if spec.scale is None or values.dtype.kind == "f":
        return real
    return (real - (spec.zero_point or 0)) * spec.scale


Judged = tuple[float, tuple[float, float] | None]


def _top1(real: Values, labels: NDArray[Any], _: NDArray[Any] | None) -> Judged:
    """Share of samples whose largest output is the label; exact binomial interval.

    Source of the interval: Clopper & Pearson, Biometrika 26 (1934).
    """
    from scipy.special import betaincinv

    if real.shape[1] < 2:
        raise MeasurementError("top1 needs an output with a value per class, got 1 value")
    if int(np.max(labels)) >= real.shape[1]:
        raise MeasurementError(f"label {np.max(labels)} is outside the {real.shape[1]} classes")
    count, tail = len(labels), (1 - LEVEL) / 2
    correct = int(np.count_nonzero(real.argmax(axis=1) == labels))
    low = float(betaincinv(correct, count - correct + 1, tail)) if correct else 0.0
    high = float(betaincinv(correct + 1, count - correct, 1 - tail)) if correct < count else 1.0
    return correct / count, (low, high)


def _auc(real: Values, labels: NDArray[Any], _: NDArray[Any] | None) -> Judged:
    """Area under the ROC curve, with the last output as the score for label 1."""
    return _auc_of(real[:, -1], labels)


def _reconstruction_auc(real: Values, labels: NDArray[Any], inputs: NDArray[Any] | None) -> Judged:
    """Area under the ROC curve, with the mean squared reconstruction error as the score."""
    if inputs is None:
        raise MeasurementError("a reconstruction error needs the samples of the data set")
    wanted = np.asarray(inputs, np.float64).reshape(len(real), -1)
    if wanted.shape != real.shape:
        raise MeasurementError("the outputs and the samples differ in size")
    return _auc_of(np.mean((real - wanted) ** 2, axis=1), labels)


def _auc_of(score: Values, labels: NDArray[Any]) -> Judged:
    """Area under the ROC curve, and its interval.

    Source: Hanley & McNeil, Radiology 143 (1982), equations 1 and 2.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    is_positive = np.asarray(labels) > 0
    positive, negative = int(is_positive.sum()), int((~is_positive).sum())
    if not positive or not negative:
        raise MeasurementError("an AUC needs samples of both labels")
    ranks = rankdata(score)
    area = float(ranks[is_positive].sum() - positive * (positive + 1) / 2) / (positive * negative)
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = (
        area * (1 - area) + (positive - 1) * (q1 - area**2) + (negative - 1) * (q2 - area**2)
    ) / (positive * negative)
    half = float(ndtri((1 + LEVEL) / 2)) * max(variance, 0.0) ** 0.5
    return area, (max(0.0, area - half), min(1.0, area + half))


def _mean_abs_error(real: Values, labels: NDArray[Any], _: NDArray[Any] | None) -> Judged:
    """Mean absolute difference of the first output from the label; t interval."""
    from scipy.special import stdtrit

    errors = np.abs(real[:, 0] - np.asarray(labels, np.float64))
    mean = float(errors.mean())
    if len(errors) < 2:
        return mean, None
    half = float(stdtrit(len(errors) - 1, (1 + LEVEL) / 2)) * float(errors.std(ddof=1))
    half /= len(errors) ** 0.5
    return mean, (mean - half, mean + half)


METRICS: dict[str, Callable[[Values, NDArray[Any], NDArray[Any] | None], Judged]] = {
    "top1": _top1,
    "auc": _auc,
    "reconstruction_auc": _reconstruction_auc,
    "mean_abs_error": _mean_abs_error,
}
"""Maps the name of each metric of a data set to its function."""
ERROR_METRICS = frozenset({"mean_abs_error"})
"""Metrics that are better when lower; the others are better when higher."""
NEED_BOTH_LABELS = frozenset({"auc", "reconstruction_auc"})
