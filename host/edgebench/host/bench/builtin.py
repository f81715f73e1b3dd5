"""The built-in models, variants of a small CNN for images of digits, which need no download.

The models are built by devtools/build_builtin_models.py; manifest.json lists their accuracy.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from edgebench.host.bench.model import Model, model_on_device, open_model
from edgebench.protocol.errors import UsageError, with_meant
from edgebench.system.paths import MODEL_SUFFIXES

IN_FIRMWARE = "firmware"
"""Name that selects the model in a board's firmware."""
_FOLDER = Path(str(files("edgebench.host") / "builtin_models"))


NAME_CUTOFF = 0.8
"""Smallest similarity, as difflib defines it, at which an unknown name counts as a misspelled name
of a model. The similarity of different names with the same suffix must stay below the limit:
`dir.tflite` and `digits_int8.tflite` have a similarity of 0.7."""


def builtin_models(*, precision: str | None = None) -> list[Model]:
    """All built-in models, or only the built-in models with this precision."""
    manifest = json.loads((_FOLDER / "manifest.json").read_text())
    return [
        open_model(_FOLDER / entry["file"])
        for entry in manifest["models"]
        if precision in (None, entry["precision"])
    ]


def find_model(name: str) -> Model:
    """The model file at this path, or the built-in model with this name.

    `firmware` names the model in a board's firmware, unless a file with that name exists.

    Raises:
        NoSuchModel: neither a file nor a built-in model has this name.
        UsageError: the file cannot be read.
    """
    path = Path(name)
    builtin = _FOLDER / path.name
    # `os.path.exists` accepts any text, even a name that is too long.
    is_builtin = path.name == name and path.suffix and os.path.exists(builtin)
    if is_builtin and not os.path.exists(path):
        return open_model(builtin)
    if name == IN_FIRMWARE and not os.path.isfile(path):
        return model_on_device(name)
    try:
        return open_model(path)
    except UsageError as exc:
        with suppress(OSError):
            folders = [str(_FOLDER), *([str(path.parent)] if not path.exists() else [])]
            names = [name for folder in folders for name in os.listdir(folder)]
            with_meant(
                exc,
                path.name,
                [
                    name
                    for name in names
                    if Path(name).suffix in MODEL_SUFFIXES and name != path.name
                ],
                cutoff=NAME_CUTOFF,
            )
        raise
