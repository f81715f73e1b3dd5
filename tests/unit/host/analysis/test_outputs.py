"""The quality of outputs, compared with counting by hand and with published numbers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from edgebench.host.analysis.outputs import (
    ERROR_METRICS,
    METRICS,
    accuracy,
    agreement,
    to_real,
)
from edgebench.host.result.outputs import Accuracy, Agreement
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import TensorSpec

FLOAT = TensorSpec("out", (1, 10), "float32")
INT8 = TensorSpec("out", (1, 10), "int8", 0.25, -3)
NAN, INF = math.nan, math.inf


def compare(used: Any, reference: Any, spec: TensorSpec = FLOAT) -> Agreement:
    """Return the agreement of one output."""
    answers = {"used.0": np.asarray(used), "reference.0": np.asarray(reference)}
    found = agreement(answers, [spec], "kernels")
    assert found is not None
    return found


def judge(answers: Any, labels: Any, metric: str, **more: Any) -> Accuracy:
    """Return the accuracy of one output."""
    found = accuracy(
        {"dataset.0": np.asarray(answers)}, [FLOAT], np.asarray(labels), metric, **more
    )
    assert found is not None
    return found


def test_equal_answers_agree_completely() -> None:
    """Otherwise a right model would be doubted."""
    values = np.random.default_rng(1).random((4, 1, 10), np.float32)
    assert compare(values, values.copy()) == Agreement(
        "kernels", 4, 0.0, 1.0, 1.0, 0.0, 0.0, output_count=1
    )


def compare_two(first: Any, second: Any, distinct_count: int) -> Agreement:
    """Return the agreement of two outputs, the second 0.1 off the reference."""
    answers: dict[str, NDArray[Any]] = {}
    for number, values in enumerate((first, second)):
        answers[f"reference.{number}"] = np.asarray(values, np.float64)
        answers[f"used.{number}"] = answers[f"reference.{number}"] + (0.0, 0.1)[number]
    found = agreement(answers, [FLOAT, FLOAT], "kernels", distinct_count=distinct_count)
    assert found is not None
    return found


SAME, ROWS, VARYING = np.ones((3, 2)), [[0.0, 1.0]] * 3, [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


@pytest.mark.parametrize(
    ("first", "second", "distinct_count", "is_constant"),
    [
        (SAME, SAME, 3, True),
        (SAME, SAME, 1, False),
        (SAME, SAME, 0, False),
        (SAME, VARYING, 3, False),
        (ROWS, ROWS, 3, False),
        (np.full((3, 2), np.nan), SAME, 3, False),
        (np.zeros((3, 0)), SAME, 3, False),
    ],
)
def test_outputs_are_constant_where_different_samples_change_nothing(
    first: Any, second: Any, distinct_count: int, is_constant: bool
) -> None:
    """Otherwise a model that is dead from the first operator on would agree with everything."""
    assert compare_two(first, second, distinct_count).is_constant == is_constant


@pytest.mark.parametrize(
    ("first", "second", "distinct_count", "repeated_count"),
    [
        (ROWS, ROWS, 3, 2),
        (ROWS, VARYING, 3, 1),
        (SAME, VARYING, 3, 1),
        (VARYING, VARYING, 3, 0),
        (ROWS, ROWS, 1, 0),
        (np.zeros((3, 0)), VARYING, 3, 0),
    ],
)
def test_outputs_that_every_sample_has_are_counted(
    first: Any, second: Any, distinct_count: int, repeated_count: int
) -> None:
    """Otherwise a dead classifier, with one vector for every input, would agree with itself."""
    found = compare_two(first, second, distinct_count)
    assert (found.repeated_count, found.output_count) == (repeated_count, 2)


def test_constant_output_is_not_the_one_that_agrees_best() -> None:
    """Otherwise a detector that counts no box would agree, whatever its boxes are."""
    best = [compare_two(SAME, VARYING, count).relative_rms_best for count in (3, 1)]
    assert best == [pytest.approx(0.1 / np.std(VARYING)), 0.0]


def test_one_step_of_an_integer_is_one_scale() -> None:
    """Otherwise differences of quantised outputs would be in raw integers, 4 times too large."""
    reference = np.arange(-20, 20, dtype=np.int8).reshape(4, 1, 10)
    used = reference.copy()
    used[1, 0, 3] += 1
    found = compare(used, reference, INT8)
    assert found.max_abs_diff == 0.25
    assert found.fraction_equal == 39 / 40
    assert found.top1_equal_ratio == 1.0
    expected = (0.25**2 / 40) ** 0.5 / np.std(np.arange(40) * 0.25)
    assert found.relative_rms == pytest.approx(expected)


def test_integers_at_their_ends_do_not_overflow() -> None:
    """Otherwise -128 and 127 would differ by -1."""
    full = TensorSpec("out", (1, 2), "int8", 1.0, 0)
    found = compare(np.array([[127, -128]], np.int8), np.array([[-128, 127]], np.int8), full)
    assert found.max_abs_diff == 255
    unsigned = compare(np.array([[0, 1]], np.uint8), np.array([[255, 0]], np.uint8))
    assert unsigned.max_abs_diff == 255


def test_scale_and_zero_point_make_real_numbers_of_integers_only() -> None:
    """Otherwise a dequantised output would be scaled a second time."""
    numbers = np.array([-3, 1], np.int8)
    assert to_real(numbers, INT8).tolist() == [0.0, 1.0]
    assert to_real(numbers.astype(np.float32), INT8).tolist() == [-3.0, 1.0]
    assert to_real(numbers, FLOAT).tolist() == [-3.0, 1.0]
    without_zero = TensorSpec("out", (2,), "uint8", 0.5, None)
    assert to_real(np.array([200], np.uint8), without_zero).tolist() == [100.0]


def test_worst_output_counts() -> None:
    """Otherwise a detector with right classes and wrong boxes would pass."""
    right, wrong = np.arange(8.0).reshape(2, 4), np.arange(8.0, 0.0, -1).reshape(2, 4)
    answers = {"used.0": right, "reference.0": right, "used.1": wrong, "reference.1": right}
    found = agreement(answers, [FLOAT, FLOAT], "kernels")
    assert found is not None
    assert found.relative_rms is not None
    assert found.relative_rms > 1
    assert found.max_abs_diff == 8


@pytest.mark.parametrize(
    ("used", "reference", "is_equal"),
    [
        ([[NAN, 1.0]], [[NAN, 1.0]], True),
        ([[INF, 1.0]], [[INF, 1.0]], True),
        ([[NAN, 1.0]], [[0.0, 1.0]], False),
        ([[0.0, 1.0]], [[NAN, 1.0]], False),
        ([[INF, 1.0]], [[-INF, 1.0]], False),
        ([[INF, 1.0]], [[0.0, 1.0]], False),
        ([[NAN, 1.0]], [[INF, 1.0]], False),
    ],
)
def test_what_is_no_number_agrees_only_with_itself(
    used: Any, reference: Any, is_equal: bool
) -> None:
    """Otherwise NaN where the reference has a number would pass, or make run.json unreadable."""
    found = compare(used, reference)
    assert found.relative_rms == (0.0 if is_equal else None)
    assert found.max_abs_diff == (0.0 if is_equal else None)
    assert found.fraction_equal == (1.0 if is_equal else 0.5)


def test_constant_answers_are_compared_with_their_own_size() -> None:
    """Otherwise a model that always returns 0.7 would be invalid, because the last bit differs."""
    reference = np.full((4, 1), 0.7)
    found = compare(reference + 1e-7, reference)
    assert found.relative_rms == pytest.approx(1e-7 / 0.7)
    assert found.top1_equal_ratio is None
    wrong = compare(-reference, reference)
    assert wrong.relative_rms == pytest.approx(2.0)


def test_difference_from_nothing_has_no_size() -> None:
    """Otherwise any output would differ by 0 % from a reference that is always 0."""
    assert compare(np.ones((2, 3)), np.zeros((2, 3))).relative_rms is None
    assert compare(np.zeros((2, 3)), np.zeros((2, 3))).relative_rms == 0.0


def test_empty_answers_agree() -> None:
    """Otherwise a detector that found nothing would cause a division by zero."""
    found = compare(np.zeros((3, 0)), np.zeros((3, 0)))
    assert (found.relative_rms, found.max_abs_diff, found.fraction_equal) == (0.0, 0.0, 1.0)
    assert compare(np.zeros((0, 3)), np.zeros((0, 3))).sample_count == 0


def test_answers_of_different_shapes_are_refused() -> None:
    """Otherwise two boxes would be compared with three by repeating them."""
    with pytest.raises(MeasurementError, match="different shapes"):
        compare(np.zeros((2, 1)), np.zeros((2, 3)))


def test_nothing_to_compare_is_none() -> None:
    """Otherwise a run without a check would be compared with nothing, and agree."""
    assert agreement({}, [FLOAT], "kernels") is None
    assert agreement({"used.0": np.zeros((1, 1))}, [FLOAT], "kernels") is None
    assert agreement({"dataset.0": np.zeros((1, 1))}, [FLOAT], "kernels") is None


def test_same_largest_element_is_counted_by_sample() -> None:
    """Otherwise a model that differs on every second image would pass for the same."""
    used = [[[0.1, 0.9]], [[0.8, 0.2]], [[0.4, 0.6]], [[0.7, 0.3]]]
    reference = [[[0.0, 1.0]], [[0.1, 0.9]], [[0.3, 0.7]], [[0.2, 0.8]]]
    assert compare(used, reference).top1_equal_ratio == 0.5


FINITE = st.floats(-1e6, 1e6, width=32)


@given(
    pair=hnp.array_shapes(min_dims=2, max_dims=3, max_side=5).flatmap(
        lambda shape: st.tuples(*(hnp.arrays(np.float32, shape, elements=FINITE) for _ in range(2)))
    ),
    scale=st.floats(1e-3, 1e3),
)
def test_relative_difference_does_not_depend_on_the_unit(
    pair: tuple[NDArray[np.float32], NDArray[np.float32]], scale: float
) -> None:
    """Otherwise logits in other units would be judged by another limit."""
    used, reference = (values.astype(np.float64) for values in pair)
    # A spread within rounding of zero may round to zero in another unit.
    assume(np.std(reference) > 1e-3 * np.abs(reference).max())
    one, other = compare(used, reference), compare(scale * used, scale * reference)
    assert one.relative_rms is not None
    assert other.relative_rms == pytest.approx(one.relative_rms, rel=1e-6, abs=1e-9)


def test_top1_counts_the_right_ones_with_the_exact_interval() -> None:
    """Otherwise an accuracy would be printed with an interval that does not hold."""
    answers = np.eye(10)[[0, 1, 2, 3, 4, 5, 6, 7, 0, 0]]
    found = judge(answers, np.arange(10), "top1")
    assert (found.value, found.sample_count, found.metric) == (0.8, 10, "top1")
    # Clopper-Pearson for 8 of 10: 0.4439, 0.9748.
    assert found.ci95 == pytest.approx((0.4439, 0.9748), abs=1e-4)


@pytest.mark.parametrize(
    ("correct", "expected"),
    [(10, (0.6915, 1.0)), (0, (0.0, 0.3085)), (5, (0.1871, 0.8129))],
)
def test_exact_interval_has_its_published_ends(correct: int, expected: tuple[float, float]) -> None:
    """Otherwise all right would seem certain: the rule of three gives 0.69 for ten samples."""
    labels = [0] * correct + [1] * (10 - correct)
    assert judge(np.eye(2)[[0] * 10], labels, "top1").ci95 == pytest.approx(expected, abs=1e-4)


def brute_auc(score: NDArray[Any], labels: NDArray[Any]) -> float:
    """Pairs of a positive and a negative in the right order; ties count half."""
    pairs = list(itertools.product(score[labels == 1], score[labels == 0]))
    return sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs)


@given(
    samples=st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=30).filter(
        lambda found: len({label for _, label in found}) == 2
    )
)
def test_auc_is_the_share_of_pairs_in_the_right_order(samples: list[tuple[int, bool]]) -> None:
    """Otherwise ties would be counted for or against the model."""
    score = np.array([float(value) for value, _ in samples])
    labels = np.array([int(label) for _, label in samples])
    found = judge(np.stack([-score, score], axis=1), labels, "auc")
    assert found.value == pytest.approx(brute_auc(score, labels))
    assert found.ci95 is not None
    assert 0 <= found.ci95[0] <= found.value <= found.ci95[1] <= 1


def test_auc_has_the_standard_error_of_hanley_and_mcneil() -> None:
    """Otherwise the interval of an AUC would be invented.

    Hanley & McNeil (1982), table II: area 0.893, 51 abnormal and 58 normal cases: 0.032.
    """
    normal, abnormal = [33, 6, 6, 11, 2], [3, 2, 2, 11, 33]
    score = [
        rate for counts in (normal, abnormal) for rate, n in enumerate(counts) for _ in range(n)
    ]
    labels = [0] * sum(normal) + [1] * sum(abnormal)
    found = judge(np.array(score, float).reshape(-1, 1), labels, "auc")
    assert found.value == pytest.approx(0.893, abs=5e-4)
    assert found.ci95 is not None
    assert (found.ci95[1] - found.ci95[0]) / 2 / 1.95996 == pytest.approx(0.032, abs=1e-3)


@pytest.mark.parametrize("labels", [[1, 1, 1], [0, 0, 0]])
def test_auc_of_one_label_is_refused(labels: list[int]) -> None:
    """Otherwise a data set of good parts only would cause a division by zero."""
    with pytest.raises(MeasurementError, match="both labels"):
        judge(np.zeros((3, 1)), labels, "auc")


def test_reconstruction_error_is_the_score_of_an_anomaly() -> None:
    """Otherwise an autoencoder that restores all but the anomalies would be judged as blind."""
    random = np.random.default_rng(2)
    inputs = random.random((20, 4, 2))
    labels = np.arange(20) % 2
    errors = random.random(20) * (1 + labels)
    answers = inputs + errors[:, None, None]
    found = judge(answers, labels, "reconstruction_auc", inputs=inputs)
    assert found.value == pytest.approx(brute_auc(errors, labels))


def test_reconstruction_needs_its_samples_in_their_size() -> None:
    """Otherwise the error would be computed against samples that were stretched to fit."""
    with pytest.raises(MeasurementError, match="needs the samples of the data set"):
        judge(np.zeros((2, 4)), [0, 1], "reconstruction_auc")
    with pytest.raises(MeasurementError, match="differ in size"):
        judge(np.zeros((2, 4)), [0, 1], "reconstruction_auc", inputs=np.zeros((2, 5)))


def test_mean_error_has_a_t_interval() -> None:
    """Otherwise a regression on five samples would be judged with the normal distribution."""
    found = judge(np.array([[1.0], [2.0], [3.0], [4.0], [5.0]]), [0.0] * 5, "mean_abs_error")
    assert found.value == 3.0
    # t(0.975, 4) = 2.7764, s = 1.5811: 3 -+ 1.9632.
    assert found.ci95 == pytest.approx((1.0368, 4.9632), abs=1e-4)
    assert judge([[2.0]], [0.5], "mean_abs_error") == Accuracy("mean_abs_error", 1.5, None, 1)


def test_labels_that_do_not_fit_are_refused() -> None:
    """Otherwise outputs would be judged by the labels of other samples."""
    with pytest.raises(MeasurementError, match="3 outputs for 2 labels"):
        judge(np.zeros((3, 2)), [0, 1], "top1")
    with pytest.raises(MeasurementError, match="0 outputs for 0 labels"):
        judge(np.zeros((0, 2)), [], "top1")


def test_label_that_is_no_class_is_refused() -> None:
    """Otherwise another data set's labels would make each model wrong, like its reference."""
    with pytest.raises(MeasurementError, match="label 1002 is outside the 2 classes"):
        judge(np.zeros((3, 2)), [0, 1002, 1], "top1")


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("bad", [NAN, INF])
def test_answers_that_are_no_numbers_have_no_accuracy(metric: str, bad: float) -> None:
    """Otherwise NaN would be the largest element, and the right label."""
    answers = np.ones((4, 2))
    answers[2, 1] = bad
    with pytest.raises(MeasurementError, match="NaN or infinity"):
        judge(answers, [0, 1, 1, 0], metric, inputs=np.zeros((4, 2)))


def test_unknown_metric_is_named_and_none_was_answered_is_none() -> None:
    """Otherwise a newer host's metric would end in a KeyError."""
    with pytest.raises(MeasurementError, match="unknown metric 'f1'"):
        judge([[1.0]], [1], "f1")
    assert accuracy({}, [FLOAT], np.zeros(1), "top1") is None


def test_every_metric_knows_its_direction() -> None:
    """Otherwise a metric could be renamed in one table, and a higher error would be better."""
    assert set(METRICS) >= ERROR_METRICS


def test_best_and_worst_output_are_told_apart() -> None:
    """Otherwise a detector that lists equal boxes in another order would be wrong as a whole."""
    random = np.random.default_rng(2)
    boxes, scores = random.random((4, 1, 10)), random.random((4, 1, 10))
    answers = {
        "used.0": boxes[:, :, ::-1],
        "reference.0": boxes,
        "used.1": scores,
        "reference.1": scores,
    }
    found = agreement(answers, [FLOAT, FLOAT], "kernels")
    assert found is not None
    assert found.relative_rms is not None
    assert found.relative_rms > 1
    assert found.relative_rms_best == 0.0


def test_answers_in_another_order_meet_their_own_labels() -> None:
    """Otherwise a part of a data set would be judged by the labels of other samples."""
    outputs = {"dataset.0": np.eye(4, dtype=np.int8)[[3, 1]], "dataset_index": np.array([2, 0])}
    found = accuracy(outputs, [INT8], np.array([1, 0, 3, 0]), "top1")
    assert found is not None
    assert (found.value, found.sample_count) == (1.0, 2)


@pytest.mark.parametrize("index", [[0, 0], [0, 4], [-1, 0], [[0, 1]], [0.5, 1.0]])
def test_index_that_cannot_be_true_is_refused(index: list[Any]) -> None:
    """Otherwise a hostile agent could have a sample counted twice, or cause a traceback."""
    outputs = {"dataset.0": np.eye(4, dtype=np.int8)[[3, 1]], "dataset_index": np.array(index)}
    with pytest.raises(MeasurementError, match="different one of the 4 labelled samples"):
        accuracy(outputs, [INT8], np.array([1, 0, 3, 0]), "top1")
