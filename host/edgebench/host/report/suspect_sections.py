"""Sections of docs/suspect.md for a page: the meaning of a rule, and what to change.

A page is a single file that is also read without the docs, so it contains the section of each
failed rule. devtools/write_suspect_sections.py writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markupsafe import Markup

SECTIONS_FILE = Path(__file__).parent / "assets" / "suspect.json"


@dataclass(frozen=True, slots=True)
class SuspectSection:
    """Section of one rule, or of several rules that share it."""

    rules: tuple[str, ...]
    part: str
    """Heading of the part of docs/suspect.md that contains the section."""
    html: Markup
    """HTML of the section; it is text of this project, so it is not escaped."""

    @property
    def anchor(self) -> str:
        """Id of the section in the page."""
        return f"rule-{self.rules[0]}"


@cache
def _sections() -> dict[str, SuspectSection]:
    """Section of each rule, keyed by the rule's id."""
    stored = json.loads(SECTIONS_FILE.read_bytes())
    sharing: dict[str, list[str]] = {}
    for rule, section in stored.items():
        sharing.setdefault(section["html"], []).append(rule)
    return {
        rule: SuspectSection(
            tuple(sharing[section["html"]]), section["part"], Markup(section["html"])
        )
        for rule, section in stored.items()
    }


def section_of(rule: str) -> SuspectSection | None:
    """Section of a rule; None for a rule of another version."""
    return _sections().get(rule)


def sections_of(rules: Iterable[str]) -> list[SuspectSection]:
    """The sections of these rules, in the order of the rules; each section occurs once."""
    found = (section_of(rule) for rule in rules)
    return list(dict.fromkeys(section for section in found if section is not None))
