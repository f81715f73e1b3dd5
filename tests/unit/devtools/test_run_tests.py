"""Second attempts of tests: which tests get one, and that each is recorded and limited."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "devtools/run_tests.py"
ALLOWED = ROOT / "tests/may_fail_once.txt"
PASSES = "def test_passes(): pass\n"
FIRST = """
import os, pathlib, signal
seen = pathlib.Path("seen")
is_first = not seen.exists()
def test_it():
    seen.touch()
    assert not is_first or {act}
"""
"""A test that does this at its first attempt."""
FAILS, ENDS, KILLED = "False", "os._exit(1)", "os.kill(os.getpid(), signal.SIGKILL)"
NAME = "test_one.py::test_it"


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a project with these arguments."""
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
    )


@pytest.mark.parametrize(
    ("content", "first", "code", "retried"),
    [
        (PASSES, (), 0, []),
        (PASSES, ("-k", "another"), 0, []),
        (FIRST.format(act=FAILS), (), 0, [NAME]),
        (FIRST.format(act=ENDS), ("-p", "xdist", "-n", "2"), 0, [NAME]),
        ("def test_it(): assert False\n", (), 1, [NAME]),
        ("import absent\n", (), 1, []),
        (FIRST.format(act=KILLED), (), 1, []),
        (FIRST.format(act=ENDS), (), 1, []),
        (PASSES, ("--no-such-option",), 1, []),
    ],
    ids=[
        "passes",
        "no test is chosen",
        "fails once",
        "ends its worker once",
        "fails twice",
        "cannot be collected",
        "pytest is killed",
        "pytest is ended",
        "pytest refuses an option",
    ],
)
def test_second_attempt(
    tmp_path: Path, content: str, first: tuple[str, ...], code: int, retried: list[str]
) -> None:
    """The exit code, and the names that are recorded and printed last."""
    (tmp_path / "test_one.py").write_text(content)
    result = run(tmp_path, "build/retried.txt", *first, "--", "-q")
    path = tmp_path / "build/retried.txt"
    assert (path.read_text().split() if path.exists() else []) == retried
    assert result.returncode == code, result.stdout + result.stderr
    last = result.stdout.splitlines()[-len(retried) - 1 :]
    if retried:
        assert last == ["1 tests ran a second time by themselves:", f"  {NAME}"]


def test_names_of_both_groups_are_kept(tmp_path: Path) -> None:
    """The second group prints what ran again in the first, as its lines are the last."""
    (tmp_path / "test_one.py").write_text(PASSES)
    (tmp_path / "retried.txt").write_text("first_group.py::test\n")
    result = run(tmp_path, "retried.txt", "--", "-q")
    assert result.stdout.splitlines()[-1] == "  first_group.py::test"


@pytest.mark.parametrize(
    ("retried", "code", "said"),
    [
        (None, 0, []),
        (["a.py::known[1-2]"], 0, []),
        (["a.py::known", "a.py::other[x]"], 1, ["a.py::other[x]"]),
        (["a.py::known[1]", "a.py::known[2]", "b.py::known"], 2, ["3 tests", "at most 2"]),
    ],
)
def test_check(tmp_path: Path, retried: list[str] | None, code: int, said: list[str]) -> None:
    """CI fails for three names, and reports a name that is not in the list."""
    if retried is not None:
        (tmp_path / "retried.txt").write_text("".join(f"{name}\n" for name in retried))
    (tmp_path / "allowed.txt").write_text("# why\na.py::known\nb.py::known\n")
    result = run(tmp_path, "--check", "retried.txt", "allowed.txt")
    assert result.returncode == code
    assert [text for text in said if text not in result.stdout] == []


def test_list_only_shrinks() -> None:
    """Otherwise a test that passes only sometimes would be added, and never be repaired."""
    names = [line for line in ALLOWED.read_text().splitlines() if not line.startswith("#")]
    assert names == [], "no test needed a second attempt when this list was begun"
