"""Commands on a terminal: text fits its width, and a long list explains how to shorten it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from support import screens
from support.agents import Host
from support.records import store_run
from support.reported import PLAIN
from support.screens import SUITE, TINY, fill_store

from edgebench.host.cli.main import main
from edgebench.host.result.document import to_document
from edgebench.host.result.facts import SetMember

LINES = 24


def on_terminal(host: Host, *words: str, columns: int = 80) -> tuple[list[str], str]:
    """Lines that a command prints on a terminal of this width, and its stderr, which is a pipe."""
    environment = host.environment | {"NO_COLOR": "1"}
    ended = screens.on_terminal(words, environment, columns, LINES, pipes_errors=True)
    assert ended.exit_code == 0, ended.errors
    return ended.printed.splitlines(), ended.errors


@pytest.mark.parametrize("columns", [60, 80])
def test_help_fits_the_terminal(
    host: Host, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    """Otherwise the terminal would break the list of commands inside words, or a pipe its words."""
    main(["--help"])
    piped = capsys.readouterr().out
    lines, _ = on_terminal(host, "--help", columns=columns)
    assert max(map(len, lines)) <= columns
    assert " ".join(lines).split() == piped.split()
    texts = {
        len(begin) + len(blanks)
        for line in piped.splitlines()
        if (parts := re.match(r"(  \S.*?\S|  \S)( {2,})\S", line)) and "edgebench" not in line
        for begin, blanks in [parts.groups()]
    }
    [column] = texts
    wrapped = [line for line in lines if line.startswith("   ")]
    assert all(len(line) - len(line.lstrip()) == column for line in wrapped), "aligned"
    assert bool(wrapped) == (columns < 80)
    if columns == 80:
        assert lines == piped.splitlines(), "nothing is wrapped"
        assert len(lines) <= 60


@pytest.mark.parametrize(("count", "words"), [(LINES + 1, ()), (LINES, ()), (LINES + 1, (20,))])
def test_long_list_of_runs_says_how_to_get_a_short_one(
    host: Host, count: int, words: tuple[int, ...]
) -> None:
    """Otherwise a list of a hundred sets would scroll by without a hint on the newest ones."""
    store = host.lab.store
    for number in range(count):
        store_run(store, f"20260102-0304{number:02}-0123{number:04}")
    limit = [f"--limit={number}" for number in words]
    lines, errors = on_terminal(host, "runs", "--device", "board", *limit)
    assert sum("digits" in line for line in lines) == min((count, *words))
    is_told = count > LINES and not words
    fewer = "edgebench runs --device board --limit 20"
    assert errors == (f"note: {count} rows; to list only the newest: {fewer}\n" * is_told)
    assert host.run("runs").stderr == "", "of a pipe"


def test_rows_of_sets_have_names_that_commands_accept(host: Host) -> None:
    """A terminal has a row for each set, with a short name; a pipe has a row for each run."""
    fill_store(host.lab.store.root, datetime.now(timezone.utc))
    lines, _ = on_terminal(host, "runs", "--model", "*_*_*")
    rows = [line.split() for line in lines if ".tflite" in line]
    assert [row[-2:] for row in rows] == [["5", "valid"]] * 2 + [["5", "suspect"]] * 4
    for row, whole in zip(rows, (*TINY, *SUITE), strict=True):
        assert row[0] == whole[: len("set-") + 4]
        assert json.loads(host.run("show", row[0], "--json").stdout)["set_id"] == whole
    assert host.run("runs", "--model", "*_*_*").stdout.count(".tflite") == 30
    assert host.run("runs", "--limit", "2", "-o", "csv").stdout.count("\n") == 11
    assert host.run("runs", "--limit", "2", "-o", "md").stdout.startswith("| model |")
    alone = on_terminal(host, "runs", "--model", "digits_int8.tflite", "--device", "*")[0]
    assert any(PLAIN in line for line in alone), "runs of a single group have whole ids"
    assert json.loads(host.run("show", "2633", "--json").stdout)["run_id"] == PLAIN


def test_short_name_is_unique_in_the_store_of_which_a_part_is_listed(host: Host) -> None:
    """Otherwise a command would refuse the name: another set, not listed, begins so too."""
    store = host.lab.store
    for number, set_id in enumerate(("set-c3100000", "set-c310ffff", "set-d4200000")):
        run_id = f"20260102-03040{number}-0123000{number}"
        store_run(store, run_id)
        run = replace(store.run(run_id), member=SetMember(set_id, 0, 1))
        store.document_path(run_id).write_text(json.dumps(to_document(run)))
    lines, _ = on_terminal(host, "runs", "--limit", "2")
    names = [line.split()[0] for line in lines if "set-" in line]
    assert names == ["set-c310f", "set-d420"]
    lines, _ = on_terminal(host, "runs", "set-c310f", "set-d420")
    assert [line.split()[0] for line in lines if "set-" in line] == names
