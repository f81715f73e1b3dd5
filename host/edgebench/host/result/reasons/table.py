"""Every kind of reason of a run's results, and the text of reasons."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from edgebench.host.result.reason import Reason, ReasonKind
from edgebench.host.result.reasons import (
    alignment,
    comparison,
    energy,
    plausible,
    reading,
    recording,
    thermal,
)

MODULES: tuple[ModuleType, ...] = (
    thermal,
    recording,
    reading,
    plausible,
    alignment,
    energy,
    comparison,
)
KINDS: dict[str, ReasonKind[Any]] = {
    kind.id: kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, ReasonKind)
}
"""Kinds of reasons, keyed by id; the id of a kind is the name of its function."""


def text_of(reasons: Sequence[Reason], stored: str = "") -> str:
    """Sentences of the reasons, in a single line.

    Args:
        reasons: Reasons of a result.
        stored: Text that older versions stored with the result. It is returned if there are no
            reasons, or if a reason is unknown to this version.
    """
    texts: list[str] = []
    for reason in reasons:
        kind = KINDS.get(reason.id)
        text = None if kind is None else kind.text(reason.facts)
        if text is None:
            return stored
        texts.append(text if reason.subject is None else f"{reason.subject}: {text}")
    return "; ".join(texts) or stored


def sentence_of(why: str | tuple[Reason, ...] | None) -> str:
    """Text of reasons that form a fact of another reason; stored text is returned unchanged.

    Raises:
        LookupError: there is no reason, or this version does not have one of the reasons.
    """
    text = why if isinstance(why, str) else text_of(why or ())
    if not text:
        raise LookupError("a reason of another version")
    return text
