"""Pages of stored runs, as `edgebench show` and `edgebench runs` print them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import StringIO

from rich.console import Console, RenderableType

from edgebench.host.serve.rows import RunRow

PAGE_WIDTH = 120
"""Width of printed pages, in characters."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/app.css">
</head>
<body>
<header><h1>{title}</h1><nav><a href="/">all devices and runs</a></nav></header>
<main>{body}</main>
</body>
</html>
"""


def page(title: str, body: str) -> str:
    """A page; the title is text, the body is HTML."""
    return _PAGE.format(title=escape(title), body=body)


def printed(content: RenderableType) -> str:
    """Output of the command line, as HTML."""
    out = StringIO()
    Console(file=out, width=PAGE_WIDTH, color_system=None, legacy_windows=False).print(content)
    return f'<pre tabindex="0">{escape(out.getvalue())}</pre>'


def history_table(rows: Sequence[RunRow]) -> str:
    """Runs of one model on one device as a table, newest first."""
    names = ("run", "time", "runtime", "scenario", "result", "energy per inference", "verdict")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    lines = [
        "".join(
            [
                f'<td><a href="/runs/{escape(row.run_id)}">{escape(row.run_id)}</a></td>',
                *(
                    f"<td>{escape(text)}</td>"
                    for text in (
                        row.created_utc,
                        row.runtime,
                        row.scenario,
                        f"{row.number} {row.metric}",
                        row.energy,
                    )
                ),
                f'<td><span class="state">{escape(row.verdict)}</span>'
                f"{escape(f'; {row.remark}' if row.remark else '')}</td>",
            ]
        )
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
