"""Names in table cells: whole where they fit, else broken between their parts."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from edgebench.host.show.tables import folded, name_cell

NAMES = st.text(st.sampled_from("ab_-.日é4"), min_size=1, max_size=40)


@given(NAMES, st.integers(2, 50))
def test_folded_name_is_whole_and_fits(name: str, width: int) -> None:
    """Otherwise a part of a name would be lost, or overflow its column."""
    lines = folded(name, width).split("\n")
    assert "".join(lines) == name
    assert all(0 < cell_len(line) <= width for line in lines)


def shown(name: str, width: int) -> list[str]:
    """The lines of a table with this name in a column of this width."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=0)
    table.add_column(width=width)
    table.add_row(name_cell(name))
    out = Console(file=io.StringIO(), width=80)
    out.print(table)
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def test_name_is_broken_between_its_parts() -> None:
    """Otherwise `model.t` on one line and `flite` on the next would not read as one word."""
    assert shown("str_ww_ref_model.tflite", 18) == ["str_ww_ref_model", ".tflite"]
    assert shown("mobilenet-v2_1.0_224_quant.tflite", 18) == [
        "mobilenet-v2_1.0_",
        "224_quant.tflite",
    ]
    assert shown("digits.onnx", 18) == ["digits.onnx"]


def test_name_from_a_file_moves_no_cursor() -> None:
    """Otherwise a model's name would clear the screen from inside a table."""
    [line] = shown("a\x1b[2J\nb", 40)
    assert line.isprintable()
