"""Requests for comparisons, in which a model may be given by the name of stored runs.

A store contains the results of a run and the SHA-256 of its model, but not the model file. To
measure the model again, a file with this SHA-256 is searched for in the current directory, in the
directory of the other model, and among the built-in models.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from edgebench.host.bench.builtin import builtin_models, find_model
from edgebench.host.bench.model import Model, open_model
from edgebench.host.bench.request import (
    DEFAULT_PAIRS,
    BenchOptions,
    BenchRequest,
    ComparisonRequest,
    PairOptions,
    command_facts,
    new_request,
)
from edgebench.host.options.values import name_list
from edgebench.host.store.address import find_runs, is_run_directory
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import ModelFileMissing, NoSuchModel, NoSuchRun, UsageError
from edgebench.system.paths import MODEL_SUFFIXES

if TYPE_CHECKING:
    from typing_extensions import Unpack


def comparison_request(
    store: Store, baseline: str, candidate: str, **options: Unpack[PairOptions]
) -> BenchRequest:
    """Build a request to compare two models in pairs of runs; `find_sides` explains their names.

    Raises:
        UsageError: a model is not found, a setting is invalid, or settings contradict each other.
    """
    before, after = find_sides(store, baseline, candidate)
    command = command_facts([baseline], {**options, "candidate": candidate})
    pairs, margin_ratio = options.pop("pairs", None), options.pop("margin_ratio", None)
    metrics, allowed = options.pop("metrics", None), options.pop("allowed", ())
    against = ComparisonRequest(
        candidate=after,
        pair_count=DEFAULT_PAIRS if pairs is None else pairs,
        metrics=tuple(name_list(metrics or ())),
        margin_ratio=margin_ratio,
        allowed=tuple(name_list(allowed)),
    )
    request = new_request([before.path], against=against, **cast("BenchOptions", options))
    return replace(request, command=command)


def find_sides(store: Store, baseline: str, candidate: str) -> tuple[Model, Model]:
    """The two models of a comparison in pairs.

    Args:
        store: Store of the runs that a name may refer to.
        baseline: Path of a model, name of a built-in model, or name of stored runs. The id of a set
            is a name of stored runs.
        candidate: Second side of the comparison, in the same forms as `baseline`.

    Raises:
        NoSuchModel: a name refers to no file, no built-in model and no runs.
        ModelFileMissing: a name refers to stored runs, and the file of their model is not found.
        UsageError: a file cannot be read. Or a name refers to stored runs that have several models,
            or a model in firmware.
    """
    folders = [Path(), *(Path(name).parent for name in (baseline, candidate))]
    return _find_side(store, baseline, folders), _find_side(store, candidate, folders)


def _find_side(store: Store, name: str, folders: Iterable[Path]) -> Model:
    missing: NoSuchModel | None = None
    if not is_run_directory(name):
        try:
            return find_model(name)
        except NoSuchModel as exc:
            missing = exc
    try:
        runs = [address.run() for address in find_runs(store, name)]
    except NoSuchRun as exc:
        raise missing or exc from None
    measured = {run.model.sha256: run.model for run in runs}
    if len(measured) > 1:
        names = ", ".join(model.name for model in measured.values())
        raise UsageError(f"{name} has several models: {names}")
    [(sha256, model)] = measured.items()
    if sha256 is None:
        raise UsageError(f"the model of {name} is part of a firmware and has no file: {model.name}")
    files = [path for folder in dict.fromkeys(folders) for path in _model_files(folder)]
    for file in [*_opened(files), *builtin_models()]:
        if file.size_bytes == model.size_bytes and file.sha256 == sha256:
            return file
    raise ModelFileMissing(
        f"the model file of {name} was not found: {model.name}, SHA-256 {sha256}", sha256
    )


def _model_files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in folder.iterdir() if path.suffix.lower() in MODEL_SUFFIXES)
    return []


def _opened(paths: Iterable[Path]) -> Iterable[Model]:
    """Open the files that are readable as models; skip all other files."""
    for path in paths:
        with suppress(UsageError):
            yield open_model(path)
