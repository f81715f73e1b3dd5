"""Write the tables of docs/verdict.md that follow from the rules: harms, causes and effects.

python devtools/write_verdict_tables.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.rule import EVERY_NUMBER
from edgebench.host.analysis.verdict.table import ALL_RULES, RULES
from edgebench.host.result.verdict import NumberKind, State

PATH = Path(__file__).parent.parent / "docs" / "verdict.md"
HARMS = "| rule | harms |\n|---|---|\n"
CAUSES = "| cause | rules that show it |\n|---|---|\n"
EFFECTS = "| rule | also fails by |\n|---|---|\n"


def main(arguments: list[str]) -> int:
    """Write the tables; with --check, only return 1 if the tables of the page are out of date."""
    page = PATH.read_text()
    text = page
    for head, rows in ((HARMS, harms()), (CAUSES, causes()), (EFFECTS, effects())):
        text = with_table(text, head, rows)
    if "--check" in arguments:
        return 0 if page == text else 1
    PATH.write_text(text)
    return 0


def with_table(page: str, head: str, rows: Iterable[str]) -> str:
    """Replace the rows below the head of a table in a page; returns the new page."""
    before, _, rest = page.partition(head)
    return before + head + "\n".join(rows) + rest[rest.index("\n\n") :]


def harms() -> list[str]:
    """Rows of the table of harms; each row lists all rules that harm the same kinds of numbers."""
    rules: dict[str, list[str]] = {}
    for rule in RULES:
        if rule.severity is State.SUSPECT and rule.harms != EVERY_NUMBER:
            kinds = [kind.value.replace("_", " ") for kind in NumberKind if kind in rule.harms]
            rules.setdefault(", ".join(kinds), []).append(f"`{rule.id}`")
    return [f"| {', '.join(ids)} | {kinds} |" for kinds, ids in rules.items()]


def causes() -> list[str]:
    """A row for each cause, with the rules, or the reasons of rules, that indicate the cause."""
    rows: list[str] = []
    for cause in Cause:
        showing = dict.fromkeys(
            rule.id if rule.cause is cause else f"{rule.id}: {reason.id}"
            for rule in ALL_RULES
            for reason in rule.reasons().values()
            if cause is (reason.cause or rule.cause)
        )
        names = ", ".join(f"`{name}`" for name in showing)
        anchor = cause.section.lower().replace(",", "").replace(" ", "-")
        link = f"[{cause.title}](suspect.md#{anchor})"
        rows.append(f"| `{cause.value}`: {link} | {names} |")
    return rows


def effects() -> list[str]:
    """Rows of the table of effects; each row lists all rules that fail due to the same causes."""
    rules: dict[str, dict[str, None]] = {}
    for rule in ALL_RULES:
        if rule.effect_of:
            names = ", ".join(f"`{cause.value}`" for cause in Cause if cause in rule.effect_of)
            rules.setdefault(names, {})[f"`{rule.id}`"] = None
    return [f"| {', '.join(ids)} | {names} |" for names, ids in rules.items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
