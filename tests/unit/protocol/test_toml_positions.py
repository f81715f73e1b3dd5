"""The line of a key in a TOML text."""

from __future__ import annotations

import pytest

from edgebench.protocol.toml_positions import Path, line_of

TEXT = """\
# a comment with a = 1
a = 1
b.c = 2
"d e" = 3

[table] # why
x = { y = 1 }
[table.inner]
x = 1

[[item]]
x = 1
[item.part]
y = 1
[[item.list]]
z = 1
[[item.list]]
z = 2
[[item]]
x = [
  1,
  2,
]
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("a",), 2),
        (("b",), 3),
        (("b", "c"), 3),
        (("d e",), 4),
        (("table",), 6),
        (("table", "x"), 7),
        (("table", "x", "y"), 7),
        (("table", "inner", "x"), 9),
        (("item",), 11),
        (("item", 0), 11),
        (("item", 0, "x"), 12),
        (("item", 0, "part", "y"), 14),
        (("item", 0, "list", 1, "z"), 18),
        (("item", 1, "x"), 20),
        (("item", 1, "x", 1), 20),
        (("item", 1, "absent"), 19),
        (("absent",), 1),
    ],
)
def test_line_is_that_of_the_key_or_of_what_is_around_it(path: Path, line: int) -> None:
    """Otherwise an error would point to a line other than the wrong line."""
    assert line_of(TEXT, path) == line
