"""Words in capitals of a hint or an advice, and the names that belong in their places."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping


def fill(sentence: str, names: Mapping[str, str]) -> str:
    """Replace placeholders by names; one without a name stays.

    Args:
        sentence: The hint or advice.
        names: Placeholders, each with what a shell takes in its place. The longest one that fits is
            replaced; what was put in is not searched again.

    >>> fill("wait: edgebench bench MODEL --wait 10m", {"MODEL": "a.onnx"})
    'wait: edgebench bench a.onnx --wait 10m'
    >>> fill("write it: edgebench export RUN… -o FILE", {"RUN…": "r1 r2"})
    'write it: edgebench export r1 r2 -o FILE'
    """
    if not names:
        return sentence
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = rf"(?<![\w-])(?:{words})(?![\w…-])"
    return re.sub(pattern, lambda match: names[match[0]], sentence)


def model_names(model: str, device: str | None = None) -> dict[str, str]:
    """Names for the placeholder of a model, with its device where a command names none.

    >>> names = model_names("a.onnx", "pi5")
    >>> fill("edgebench bench MODEL --wait 10m", names)
    'edgebench bench a.onnx --on pi5 --wait 10m'
    >>> fill("edgebench bench MODEL --on DEVICE", names)
    'edgebench bench a.onnx --on DEVICE'
    """
    name = shlex.quote(model)
    there = f" --on {shlex.quote(device)}" if device is not None else ""
    return {"MODEL": f"{name}{there}", "MODEL --on": f"{name} --on"}
