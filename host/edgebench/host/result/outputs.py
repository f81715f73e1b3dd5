"""Agreement and accuracy of a model's outputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Difference between the outputs and the outputs of the reference kernels."""

    reference: str
    sample_count: int
    max_abs_diff: float | None
    """Largest difference in the unit of the output, after scale and zero point. None if a
    difference is not finite, because an output is NaN or infinite and its reference has a different
    value."""
    fraction_equal: float
    """Fraction of elements that are bitwise equal; NaN equals NaN."""
    top1_equal_ratio: float | None
    """Fraction of samples in which the largest element of the first output is the same as in the
    reference. None if the output has fewer than two elements, or the reference is not finite."""
    relative_rms: float | None
    """RMS of the difference divided by the standard deviation of the reference, or by its RMS if
    the reference is constant. If there are several outputs, the largest ratio counts. None if a
    difference is not finite, or if the reference is 0 and the output is not."""
    relative_rms_best: float | None = None
    """Smallest ratio (as in `relative_rms`) of all outputs; constant outputs count only if all
    outputs are constant."""
    is_constant: bool = False
    """Whether every output of the reference has the same values for all samples although the
    samples differ; any two kernels agree on such outputs."""
    distinct_count: int = 0
    """Number of samples with different inputs; 0 if the agent did not count them."""
    repeated_count: int = 0
    """Number of outputs of the reference that are the same for all samples although the samples
    differ."""
    output_count: int = 0


@dataclass(frozen=True, slots=True)
class ReferenceAccuracy:
    """Accuracy of the unquantised model on the same data set, from a separate run."""

    run_id: str
    model: str
    value: float


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy on a labelled data set."""

    metric: str
    value: float
    ci95: tuple[float, float] | None
    sample_count: int
    planned_count: int | None = None
    """Number of planned samples; None if the agent did not report it."""
    dataset: str | None = None
    drop_vs_reference: float | None = None
    """Reference accuracy minus this accuracy, in the unit of the metric."""
    reference: ReferenceAccuracy | None = None
