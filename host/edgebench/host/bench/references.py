"""Which unquantised model a quantised one is held against, and what that one has achieved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgebench.host.analysis.measurement import ReferenceAccuracy
from edgebench.host.bench.builtin import builtin_models, find_model
from edgebench.host.bench.run import Model


def find_references(models: Sequence[Model], named: str | Path | None) -> dict[Model, Model]:
    """The reference of each model that has one: the named one, else the built-in sibling.

    Raises:
        UsageError: the named one is not readable.
    """
    if named is not None:
        reference = find_model(str(named))
        return {model: reference for model in models if model.sha256 != reference.sha256}
    pairs = [(model, _builtin_sibling(model)) for model in models]
    return {model: sibling for model, sibling in pairs if sibling is not None}


def with_references_first(models: Sequence[Model], references: dict[Model, Model]) -> list[Model]:
    """The models to measure, the references before those who are held against them."""
    first = list(dict.fromkeys(references.values()))
    digests = {model.sha256 for model in first}
    return first + [model for model in models if model.sha256 not in digests]


def reference_accuracy(
    reference: Model | None, runtime: str, documents: Sequence[dict[str, Any]]
) -> ReferenceAccuracy | None:
    """What the reference has achieved a moment ago; None if it has not.

    On this runtime, else on another one: how right a model is depends little on that.
    """
    if reference is None:
        return None
    achieved = [
        document
        for document in documents
        if document["model"]["sha256"] == reference.sha256
        and document["metrics"]["accuracy"]
        and document["verdict"]["state"] != "invalid"  # then that is not to be trusted either
    ]
    here = [document for document in achieved if document["runtime"]["name"] == runtime]
    for document in reversed(here or achieved):
        value = document["metrics"]["accuracy"]["value"]
        return ReferenceAccuracy(document["run_id"], reference.name, value)
    return None


def _builtin_sibling(model: Model) -> Model | None:
    """The fp32 form of a built-in model; None for any other model, and for itself."""
    names = {builtin.sha256: builtin.name for builtin in builtin_models()}
    name = names.get(model.sha256, "").replace("int8", "fp32")
    if not name or name == names[model.sha256]:
        return None
    return find_model(name)
