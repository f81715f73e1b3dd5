"""The unquantised reference of a quantised model, and its measured accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgebench.host.bench.builtin import builtin_models, find_model
from edgebench.host.bench.model import Model
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.host.result.run import Run


def find_references(models: Sequence[Model], named: str | Path | None) -> dict[Model, Model]:
    """Map each model to its reference: the named model, or else the model's built-in fp32 variant.

    Models without a reference are left out.

    Raises:
        UsageError: the named reference is not readable.
    """
    if named is not None:
        reference = find_model(str(named))
        return {model: reference for model in models if not model.is_same_as(reference)}
    pairs = [(model, _builtin_sibling(model)) for model in models]
    return {model: sibling for model, sibling in pairs if sibling is not None}


def with_references_first(
    models: Sequence[Model], references: Mapping[Model, Model]
) -> list[Model]:
    """The models to measure, each unquantised reference before the models compared with it."""
    first = list(dict.fromkeys(references.values()))
    return first + [model for model in models if not any(map(model.is_same_as, first))]


def achieved_accuracy(reference: Model | None, runs: Sequence[Run]) -> dict[str, ReferenceAccuracy]:
    """Map each runtime to the accuracy of a reference model, in the order of the newest runs.

    Invalid runs are ignored, because their accuracy cannot be trusted.
    """
    achieved: dict[str, ReferenceAccuracy] = {}
    if reference is None:
        return achieved
    for run in runs:
        accuracy = run.metrics.accuracy
        if run.model.sha256 == reference.sha256 and accuracy and not run.verdict.is_refused:
            name = run.runtime.name
            achieved.pop(name, None)
            achieved[name] = ReferenceAccuracy(run.run_id, reference.name, accuracy.value)
    return achieved


def _builtin_sibling(model: Model) -> Model | None:
    """The fp32 variant of a built-in int8 model; None for any other model."""
    builtin = next(
        (builtin_model for builtin_model in builtin_models() if builtin_model.is_same_as(model)),
        None,
    )
    if builtin is None or "int8" not in builtin.name:
        return None
    return find_model(builtin.name.replace("int8", "fp32"))
