"""The accuracy of a model and its interval as text, with the difference from its reference."""

from __future__ import annotations

from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import format_accuracy, half_width_of


def accuracy_in(run_set: RunSet) -> Accuracy | None:
    """The accuracy of a set, from the run that measured it; None if no run measured it."""
    found = (run.metrics.accuracy for run in run_set.counted)
    return next((accuracy for accuracy in found if accuracy is not None), None)


def value_words(accuracy: Accuracy) -> str:
    """The accuracy with its 95 % interval over the samples.

    >>> value_words(Accuracy("top1", 0.9933, (0.9806, 0.9986), 450))
    '99.3 % (95 % CI 98.1 % to 99.9 % over 450 samples)'
    >>> value_words(Accuracy("auc", 0.97, None, 450))
    '0.97 (no interval)'
    """
    half_width = half_width_of(accuracy.ci95, accuracy.value)
    shown = format_accuracy(accuracy.metric, accuracy.value, half_width)
    if accuracy.ci95 is None:
        return f"{shown} (no interval)"
    low, high = (format_accuracy(accuracy.metric, end, half_width) for end in accuracy.ci95)
    return f"{shown} (95 % CI {low} to {high} over {accuracy.sample_count} samples)"


def loss_words(accuracy: Accuracy) -> str:
    """The difference from the reference on the data set; empty without a reference.

    The difference has no interval: both models ran the same samples, and for these samples the
    difference is exact.

    >>> from edgebench.host.result.outputs import ReferenceAccuracy
    >>> sibling = ReferenceAccuracy("20260101-000000-00000000", "a.onnx", 0.9956)
    >>> loss_words(Accuracy("top1", 0.9933, (0.9806, 0.9986), 450, None, None, 0.0023, sibling))
    '0.23 percentage points worse than a.onnx (99.6 %) on this data set'
    >>> loss_words(Accuracy("top1", 0.9956, (0.9806, 0.9986), 450, None, None, 0.0, sibling))
    'as good as a.onnx (99.6 %) on this data set'
    """
    drop, reference = accuracy.drop_vs_reference, accuracy.reference
    if drop is None or reference is None:
        return ""
    half_width = half_width_of(accuracy.ci95, accuracy.value)
    named = format_accuracy(accuracy.metric, reference.value, half_width)
    than = f"{reference.model} ({named}) on this data set"
    if drop == 0:
        return f"as good as {than}"
    # A difference of one sample is not rounded to nothing.
    size = format_accuracy(accuracy.metric, abs(drop), min(half_width, 0.1 / accuracy.sample_count))
    size = size.replace("%", "percentage points")
    return f"{size} {'worse' if drop > 0 else 'better'} than {than}"


def accuracy_words(accuracy: Accuracy) -> str:
    """The accuracy with its interval, and the difference from its reference."""
    return ", ".join(filter(None, (value_words(accuracy), loss_words(accuracy))))
