"""Write the table of docs/verdict.md that lists the kinds of numbers that each rule harms.

python devtools/write_harms_table.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgebench.host.analysis.verdict.rule import EVERY_NUMBER
from edgebench.host.analysis.verdict.table import RULES
from edgebench.host.result.verdict import NumberKind, State

PATH = Path(__file__).parent.parent / "docs" / "verdict.md"
HEAD = "| rule | harms |\n|---|---|\n"


def main(arguments: list[str]) -> int:
    """Write the table, or with --check return 1 if the page has another."""
    page = PATH.read_text()
    before, _, rest = page.partition(HEAD)
    after = rest[rest.index("\n\n") :]
    text = before + HEAD + "\n".join(table()) + after
    if "--check" in arguments:
        return 0 if page == text else 1
    PATH.write_text(text)
    return 0


def table() -> list[str]:
    """A row for all rules that harm the same kinds of numbers, in the order of the rules."""
    rules: dict[str, list[str]] = {}
    for rule in RULES:
        if rule.severity is State.SUSPECT and rule.harms != EVERY_NUMBER:
            kinds = [kind.value.replace("_", " ") for kind in NumberKind if kind in rule.harms]
            rules.setdefault(", ".join(kinds), []).append(f"`{rule.id}`")
    return [f"| {', '.join(ids)} | {kinds} |" for kinds, ids in rules.items()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
