"""docs/meters.md: its table is the registry, and its example works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgebench.meters import registry

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/meters.md").read_text()
MODULE, LINE, TEST = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_table_lists_the_meters_that_there_are() -> None:
    """A new meter is in no table, or one of the table is not there any more."""
    table = TEXT[TEXT.index("| name |") : TEXT.index("Energies of different")]
    rows = [line.split("`")[1::2][:2] for line in table.splitlines() if "`" in line]
    assert sorted(name for name, _ in rows) == sorted(registry.DRIVERS)
    assert all(example.partition(":")[0] == name for name, example in rows)
    for name, example in rows:
        assert registry.find_meter(example).name == name


def test_commands_of_the_page_name_meters_that_can_be_made() -> None:
    """An option in an example was renamed, and the first thing a newcomer sees is an error."""
    named = re.findall(r"^edgebench meters record (\S+)", TEXT, re.MULTILINE)
    assert named
    for text in named:
        registry.find_meter(text)


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the tutorial's reader has typed: the module, its line in the registry, its test."""
    module = ModuleType("wattstick")
    # Dataclasses and type hints look their module up by its name.
    monkeypatch.setitem(sys.modules, "wattstick", module)
    exec(compile(MODULE, "docs/meters.md, module", "exec"), module.__dict__)
    drivers = eval("{" + LINE + "}", {"Driver": registry.Driver, "wattstick": module})
    monkeypatch.setattr(registry, "DRIVERS", registry.DRIVERS | drivers)
    test: dict[str, Any] = {}
    exec(compile(TEST, "docs/meters.md, test", "exec"), test)
    return test


@pytest.mark.parametrize("name", re.findall(r"^def (test_\w+)", TEST, re.MULTILINE))
def test_example_passes_its_own_test(example: dict[str, Any], name: str, tmp_path: Path) -> None:
    """The interface has changed, and the page teaches the one before."""
    example[name](tmp_path)


@pytest.mark.parametrize("action", [("check",), ("format", "--check")])
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("meters/edgebench/meters/wattstick.py", MODULE),
        ("tests/unit/meters/test_wattstick.py", TEST),
    ],
)
def test_example_is_as_clean_as_the_rest(action: tuple[str, ...], path: str, code: str) -> None:
    """Who copies the page has a file that `make check` refuses."""
    command = [sys.executable, "-m", "ruff", *action, "--stdin-filename", path, "-"]
    said = subprocess.run(
        command, input=code, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stdout + said.stderr
