"""Files in the layouts that people have: read without options, with the right energy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.file_layouts import (
    AMPS,
    COUNT,
    ENERGY_J,
    POWERS,
    STEP_S,
    TIMES,
    VOLTS,
    energy_of,
    layouts,
    pairs,
    point,
    text,
)

from edgebench.host.power.imports import csv_rows
from edgebench.host.power.imports.importer import AS_IT_IS, NOT_STATED, import_file
from edgebench.host.power.stored import StoredSession
from edgebench.host.result.facts import ImportOptions, InstrumentErrors
from edgebench.host.result.verdict import State
from edgebench.protocol.errors import FileRefused

LAYOUTS = layouts()
OFF_RATIO = 1e-3
"""Largest error of the energy of a file that is read."""


def imported(
    folder: Path,
    content: str,
    options: ImportOptions = AS_IT_IS,
    errors: InstrumentErrors = NOT_STATED,
) -> StoredSession:
    """The session of a file with this text."""
    path = folder / "a.csv"
    path.write_text(content, encoding="utf-8")
    count = len(list(folder.iterdir()))
    return import_file(path, folder / f"session-{count}", options, errors)


def notes(session: StoredSession) -> dict[str, dict[str, object]]:
    """Facts of the notes on the reading, by their id."""
    return {note.id: dict(note.facts) for note in session.verdict.reading}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout_has_its_energy(name: str, tmp_path: Path) -> None:
    """Otherwise a file that people have would be refused, or have another energy.

    A layout that does not state something is refused, with options that were tried.
    """
    layout = LAYOUTS[name]
    path = tmp_path / f"trace{layout.suffix}"
    path.write_bytes(layout.content)
    if layout.is_refused:
        with pytest.raises(FileRefused) as caught:
            import_file(path, tmp_path / "refused")
        assert caught.value.works_with
        names = [words[0] for words in caught.value.works_with]
        assert set(names) <= {"--time", "--power", "--current", "--rate", "--supply"}
    session = import_file(path, tmp_path / "session", layout.options)
    [channel] = session.channels()
    assert channel.energy_j == pytest.approx(layout.energy_j, rel=OFF_RATIO)
    assert set(layout.notes) <= set(notes(session))


def test_layouts_are_as_many_as_the_documentation_states() -> None:
    """docs/recordings.md states how many layouts exist, and how many need no options."""
    read_count = sum(not layout.is_refused for layout in LAYOUTS.values())
    assert (len(LAYOUTS), read_count) == (90, 82)
    promise = f"{len(LAYOUTS)} layouts of files: {read_count} are read without options"
    assert promise in Path("docs/recordings.md").read_text(encoding="utf-8")


def test_notes_count_what_was_skipped_and_name_its_first_line(tmp_path: Path) -> None:
    """Otherwise what was made of a file could not be checked."""
    lines = text(pairs(), "time_s,power_W").splitlines()
    lines[10] = "9;oops"
    lines[20] = "ERROR"
    lines[30] = lines[30].partition(",")[0] + ","
    session = imported(tmp_path, "\n".join(lines))
    assert notes(session) == {
        "lines_skipped": {
            "line_count": 2,
            "first_line": 11,
            "why": "expected 2 columns, got 1",
        },
        "values_missing": {
            "value_count": 1,
            "first_line": 31,
            "why": "column 'power_W': not a number",
        },
    }


def test_irregular_lines_are_found_in_every_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a line in a later block of the file would have another number, or be lost."""
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(csv_rows, "BY_LINE_BYTES", 1 << 7)
    lines = text(pairs(), "time_s,power_W").splitlines()
    for place in (1100, 800, 500):
        lines.insert(place, "ERROR")
    session = imported(tmp_path, "\n".join(lines))
    assert notes(session)["lines_skipped"]["first_line"] == 501
    assert notes(session)["lines_skipped"]["line_count"] == 3
    assert session.channels()[0].energy_j == pytest.approx(ENERGY_J, rel=1e-9)


def test_table_of_which_most_is_not_understood_is_refused(tmp_path: Path) -> None:
    """Otherwise the few rows that happen to be numbers would be the energy of the file."""
    lines = text(pairs(), "time_s,power_W").splitlines()
    lines[1::3] = ["a message"] * len(lines[1::3])
    with pytest.raises(FileRefused, match=r"line 2: expected 2 columns, got 1; 500 of 1500 lines"):
        imported(tmp_path, "\n".join(lines))


def test_either_part_of_a_time_that_falls_back_can_be_read(tmp_path: Path) -> None:
    """Otherwise one half of a recording would be lost."""
    times = np.concatenate([TIMES[:1000] + 4000.0, TIMES[1000:] + 1600.0])
    content = text(
        [(point(t), point(p)) for t, p in zip(times, POWERS, strict=True)], "time_s,power_W"
    )
    longer = imported(tmp_path, content)
    assert notes(longer)["part_used"] == {
        "part": 1,
        "part_count": 2,
        "first_line": 2,
        "last_line": 1001,
        "row_count": 1000,
        "left_count": 500,
    }
    shorter = imported(tmp_path, content, ImportOptions(begin="1600", until="1700"))
    assert shorter.channels()[0].energy_j == pytest.approx(energy_of(TIMES[1000:], POWERS[1000:]))
    assert notes(shorter)["window_used"] == {"row_count": 500, "left_count": 1000}


@pytest.mark.parametrize(
    ("begin", "until"), [("5s", "10s"), ("5", "10"), ("0m5s", None), (None, "10000ms")]
)
def test_window_is_that_of_the_bounds(begin: str | None, until: str | None, tmp_path: Path) -> None:
    """Otherwise --from and --until would mean another time, or miss the sample at a bound."""
    content = text(pairs(), "time_s,power_W")
    session = imported(tmp_path, content, ImportOptions(begin=begin, until=until))
    low = 5.0 if begin else 0.0
    high = 10.0 if until else 1e9
    kept = (low - 1e-9 <= TIMES) & (high + 1e-9 >= TIMES)
    [channel] = session.channels()
    assert channel.energy_j == pytest.approx(energy_of(TIMES[kept], POWERS[kept]), rel=1e-9)


def test_window_without_samples_is_refused(tmp_path: Path) -> None:
    """Otherwise an empty part would be an energy of 0 J."""
    content = text(pairs(), "time_s,power_W")
    with pytest.raises(FileRefused, match="fewer than two samples"):
        imported(tmp_path, content, ImportOptions(begin="100s"))


def test_lost_counts_of_a_sample_counter_are_lost_samples(tmp_path: Path) -> None:
    """Otherwise --rate would hide the samples that the instrument lost."""
    rows = [(n, point(1e3 * a)) for n, a in enumerate(AMPS, 1) if n not in (300, 301, 900)]
    options = ImportOptions(rate_hz=1 / STEP_S, supply_v=VOLTS)
    session = imported(tmp_path, text(rows, "Sample,Current (mA)"), options)
    assert session.facts.loss.lost_count == 3
    assert session.verdict.state is State.INVALID
    assert [reason.id for reason in session.verdict.reasons] == ["samples_lost"]


def test_verdict_states_what_is_unknown_about_an_import(tmp_path: Path) -> None:
    """Otherwise a number without a stated gain or kind of samples would look like any other."""
    content = text(pairs(), "time_s,power_W")
    unknown = imported(tmp_path, content).verdict
    assert unknown.state is State.SUSPECT
    assert [reason.id for reason in unknown.reasons] == ["sample_kind_not_stated"]
    assert [reason.id for reason in unknown.not_stated] == [
        "gain_assumed",
        "offset_not_stated",
        "boundary_not_stated",
    ]
    means = ImportOptions(is_averaging=True)
    errors = InstrumentErrors(gain_ratio=0.001, offset=1e-4)
    stated = imported(tmp_path, content, means, errors).verdict
    assert (stated.state, stated.reasons) == (State.VALID, ())
    assert [reason.id for reason in stated.not_stated] == ["boundary_not_stated"]


def test_uncertainty_is_that_of_the_stated_or_assumed_gain(tmp_path: Path) -> None:
    """Otherwise the energy of a file would have no uncertainty, or one without its gain."""
    content = text(pairs(), "time_s,power_W")
    means = ImportOptions(is_averaging=True)
    for gain_ratio, known in ((None, 0.15), (0.01, 0.01)):
        errors = InstrumentErrors(gain_ratio=gain_ratio)
        [channel] = imported(tmp_path, content, means, errors).channels()
        assert channel.u95_absolute_j is not None
        expected = 2 * known / 3**0.5 * channel.energy_j
        assert channel.u95_absolute_j == pytest.approx(expected, rel=0.05)


def test_whole_seconds_add_their_uncertainty(tmp_path: Path) -> None:
    """Otherwise the ends of a log in whole seconds would seem to be known exactly."""
    rows = [(f"2026-11-27 09:{n // 60:02d}:{n % 60:02d}", "2.0") for n in range(120)]
    means = ImportOptions(is_averaging=True)
    errors = InstrumentErrors(gain_ratio=1e-4)
    session = imported(tmp_path, text(rows, "Time,Power (W)"), means, errors)
    assert "times_whole_seconds" in notes(session)
    [channel] = session.channels()
    assert channel.u95_absolute_j is not None
    # Two ends, each uniform within half a second, at 2 W.
    edges_j = 2 * 2.0 * 0.5 / 3**0.5 * 2**0.5
    assert channel.u95_absolute_j == pytest.approx(edges_j, rel=0.05)


def test_number_that_may_be_a_decimal_or_thousands_is_not_guessed(tmp_path: Path) -> None:
    """Otherwise 1,234 mW would be 1.234 mW."""
    rows = [(n, f'"{1000 + n:,}"') for n in range(COUNT)]
    with pytest.raises(FileRefused, match="its comma may separate decimals or thousands"):
        imported(tmp_path, text(rows, "time_s,power_mW"))
