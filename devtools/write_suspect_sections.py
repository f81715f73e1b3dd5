"""Write the sections of docs/suspect.md into the package, so that reports can contain them.

    python devtools/write_suspect_sections.py

The file in the package has the section of each rule as HTML. A report is a single file. The links
lead to pages of the docs that a report does not contain, so only the texts of the links are kept.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from markdown_it import MarkdownIt  # required by rich

from edgebench.host.report.suspect_sections import SECTIONS_FILE

PAGE = Path(__file__).parents[1] / "docs" / "suspect.md"
_HEADING = re.compile(r"^(##|###) (.+)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def sections(text: str) -> dict[str, dict[str, str]]:
    """Maps the id of each rule to the HTML of its section and the heading of the enclosing part."""
    markdown = MarkdownIt("commonmark").enable("table")
    found: dict[str, dict[str, str]] = {}
    part = ""
    _, *pieces = _HEADING.split(text)
    for level, heading, body in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        if level == "##":
            part = heading
            continue
        html = markdown.render(_LINK.sub(r"\1", body.strip()))
        for rule in heading.split(", "):
            found[rule] = {"part": part, "html": html}
    return found


def main() -> None:
    """Write the file."""
    path = SECTIONS_FILE
    path.write_text(json.dumps(sections(PAGE.read_text("utf-8")), indent=1) + "\n", "utf-8")
    print(path)


if __name__ == "__main__":
    main()
