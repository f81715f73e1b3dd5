"""Text from inference libraries and model files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgebench.agent.runtimes.text import MAX_CHARS, library_line


@given(st.text(max_size=1000))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    """Otherwise a model's name would move the terminal's cursor, or break the log into lines."""
    line = library_line(text)
    assert line == line.strip()
    assert line.isprintable()
    assert len(line) <= MAX_CHARS


def test_escape_sequences_do_not_survive() -> None:
    """Otherwise a model file could colour, clear or retitle the terminal."""
    assert library_line("a\x1b[31mred\x07\u202e\nb") == "a?[31mred?? b"


def test_build_paths_of_a_library_are_left_out() -> None:
    """Otherwise half of a line would be the directory in which the library was compiled."""
    assert library_line("/onnxruntime_src/core/graph/model.cc:245 failed") == "model.cc:245 failed"
    assert (
        library_line("no such file: /home/ada/model.onnx") == "no such file: /home/ada/model.onnx"
    )


def test_long_text_is_cut_with_a_mark() -> None:
    """Otherwise a megabyte of text would go into the record, or cut text would look complete."""
    assert library_line("x" * 10_000) == "x" * (MAX_CHARS - 1) + "…"
