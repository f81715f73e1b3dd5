"""Names in table cells: whole where they fit, else broken between their parts."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from edgebench.host.show.names import folded, name_cell, short_names

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


@given(st.lists(NAMES, min_size=1, max_size=6), st.integers(16, 50))
def test_short_names_fit_and_stay_different(names: list[str], width: int) -> None:
    """Otherwise two models of a table could not be told apart, or a number be pushed aside."""
    short = short_names(names, width)
    if short is None:
        return
    assert all(cell_len(name) <= width for name in short.names)
    assert len(dict(zip(names, short.names, strict=True))) == len(set(short.names))
    begin, _, end = short.common.partition("…")
    assert all(name.startswith(begin) and name.endswith(end) for name in names)


def test_real_names_of_a_suite_are_short_between_their_parts() -> None:
    """The names of the models in shared/models at the narrowest column of 16."""
    begin = "mobilenet_v1_0.25_224_"
    ends = ("float.tflite", "ptq_int8.tflite", "qat_uint8.tflite")
    short = short_names([f"{begin}{end}" for end in ends], 16)
    assert short is not None
    assert short.names == ("…float", "…ptq_int8", "…qat_uint8")
    assert short.common == f"{begin}….tflite"
    tiny = ("pretrainedResnet.tflite", "kws_ref_model_float32.tflite", "vww_96_int8.tflite")
    short = short_names(tiny, 16)
    assert short is not None
    assert short.names == ("pretrainedResnet", "kws_ref_…float32", "vww_96_int8")
