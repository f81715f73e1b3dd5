"""Screens of dialogues on terminals of two sizes, as they were last read by a person."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.screens import DIALOGUES, SCREENS, SIZES, SUITE, TINY, dialogues, final_text

from edgebench.host.show.names import parts_of

LEAST_DIALOGUES = 12
MAX_REASON_LINES = 4


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_screens_are_those_that_were_read(tmp_path: Path, columns: int, lines: int) -> None:
    """If a screen changes on purpose: `python devtools/write_screens.py`, and read it."""
    assert len(DIALOGUES) >= LEAST_DIALOGUES
    folder = SCREENS / f"{columns}x{lines}"
    made = dialogues(tmp_path, columns, lines)
    assert sorted(path.stem for path in folder.iterdir()) == sorted(made)
    for name, text in made.items():
        assert text == (folder / f"{name}.txt").read_text(), name


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_lines_fit_and_names_are_broken_between_their_parts(columns: int, lines: int) -> None:
    """Only a command may be wider than the terminal, so that it can be copied."""
    models = [model for model, _ in (*SUITE.values(), *TINY.values())]
    cut = {model[:end] for model in models for end in range(8, len(model))}
    whole = {"".join(parts_of(model)[:end]) for model in models for end in range(9)}
    for path in (SCREENS / f"{columns}x{lines}").iterdir():
        [_, *printed] = path.read_text().splitlines()
        for line in printed:
            assert len(line) <= columns or line.startswith("edgebench "), f"{path.name}: {line}"
            assert not {*line.split()} & (cut - whole), f"{path.name}: {line}"


def test_reasons_of_four_models_on_a_busy_machine_are_at_most_four_lines() -> None:
    """They have one cause, which stands once, and all names of the models are in the table."""
    text = (SCREENS / "80x24" / "four_sets_on_a_busy_machine.txt").read_text()
    [_, reasons] = re.split(r"\n(?=suspect: )", text, maxsplit=1)
    assert len(reasons.splitlines()) <= MAX_REASON_LINES
    for model, _ in SUITE.values():
        end = model.removeprefix("mobilenet_v1_0.25_224_").removesuffix(".tflite")
        assert f" …{end} " in text


def test_erased_lines_are_not_on_a_screen() -> None:
    """The bars of a command are erased when it ends, and so is the line while it loads."""
    assert final_text("loading\r\x1b[2Kerror: no\r\n") == "error: no\n"
    assert final_text("a\nb\nc\x1b[2K\x1b[1A\x1b[2K\rx\n") == "a\nx\n"
