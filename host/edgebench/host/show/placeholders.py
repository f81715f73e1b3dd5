"""Words in capitals of a hint or an advice, and the names that belong in their places."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

Names = Mapping[str, Sequence[str]]
"""Placeholder, as `MODEL`, and what the command was given for it."""


def fill(sentence: str, names: Names) -> str:
    """The sentence with names in the place of its placeholders, where it is clear which.

    A placeholder for several, as `RUN…`, takes all of them; any other one only a single name.

    >>> fill("wait: edgebench bench MODEL --wait 10m", {"MODEL": ["a b.onnx"]})
    "wait: edgebench bench 'a b.onnx' --wait 10m"
    >>> fill("write it elsewhere: edgebench export RUN… -o FILE", {"RUN": ["r1", "r2"]})
    'write it elsewhere: edgebench export r1 r2 -o FILE'
    >>> fill("see: edgebench show RUN", {"RUN": ["r1", "r2"]})
    'see: edgebench show RUN'
    """
    for placeholder, given in names.items():
        words = shlex.join(given)

        def named(found: re.Match[str], words: str = words, count: int = len(given)) -> str:
            is_clear = count == 1 or (count > 1 and found[0].endswith("…"))
            return words if is_clear else found[0]

        sentence = re.sub(rf"\b{re.escape(placeholder)}\b…?", named, sentence)
    return sentence
