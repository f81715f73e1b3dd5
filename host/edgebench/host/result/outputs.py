"""Agreement and accuracy of a model's outputs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """Difference between the outputs and those of the reference kernels."""

    reference: str
    sample_count: int
    max_abs_diff: float | None
    """Largest difference in the unit of the output, after scale and zero point; None where a
    difference is not finite: one of the two gave NaN or infinity, and the other something else."""
    fraction_equal: float
    """Elements that are equal to the last bit, ratio; NaN equals NaN."""
    top1_equal_ratio: float | None
    """Samples with the same largest element of the first output; None where that is a single
    number, or the reference has none."""
    relative_rms: float | None
    """RMS of the difference over the standard deviation of the reference, worst output; over the
    RMS of the reference where that is constant. None where a difference is not finite."""
    relative_rms_best: float | None = None
    """Relative RMS of the output that agrees best; those that are constant count only where all
    are."""
    is_constant: bool = False
    """Whether every output of the reference is the same number everywhere and for all samples,
    though the samples differ: any kernels agree on that."""
    distinct_count: int = 0
    """Different inputs among the samples; 0 where the agent did not count them."""


@dataclass(frozen=True, slots=True)
class ReferenceAccuracy:
    """Accuracy of the unquantised sibling on the same data set, from a run of its own."""

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
    """Samples that were to be answered; None where the agent did not report it."""
    dataset: str | None = None
    drop_vs_reference: float | None = None
    """How much worse than the reference, in the unit of the metric."""
    reference: ReferenceAccuracy | None = None
