"""Text from inference libraries and model files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgebench.agent.runtimes.text import MAX_CHARS, library_line


@given(st.text(max_size=1000))
def test_any_text_becomes_one_printable_line(text: str) -> None:
    """A model's name moves the cursor of somebody's terminal, or breaks the log into lines."""
    line = library_line(text)
    assert line == line.strip()
    assert line.isprintable()
    assert len(line) <= MAX_CHARS


def test_escape_sequences_do_not_survive() -> None:
    """A model file colours, clears or retitles the terminal."""
    assert library_line("a\x1b[31mred\x07\u202e\nb") == "a?[31mred?? b"


def test_build_paths_of_a_library_are_left_out() -> None:
    """Half of a line is the directory in which somebody once compiled."""
    assert library_line("/onnxruntime_src/core/graph/model.cc:245 failed") == "model.cc:245 failed"
    assert (
        library_line("no such file: /home/ada/model.onnx") == "no such file: /home/ada/model.onnx"
    )


def test_long_text_is_cut_with_a_mark() -> None:
    """A megabyte of text goes into the record, or looks complete when it is not."""
    assert library_line("x" * 10_000) == "x" * (MAX_CHARS - 1) + "…"
