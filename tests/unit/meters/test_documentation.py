"""docs/meters.md: its table is the registry, and its example works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.meters import registry
from edgebench.protocol.errors import WrongMeterOption

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/meters.md").read_text()
TUTORIAL = TEXT[TEXT.index("## Add a meter") :]
MODULE, LINE, TEST, BENCH, BENCH_LINE = re.findall(r"```python\n(.*?)```", TUTORIAL, re.DOTALL)
[ROW] = re.findall(r"```\n(\| `.*?)```", TUTORIAL, re.DOTALL)


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


@pytest.mark.parametrize("name", registry.DRIVERS)
def test_help_names_the_options_that_there_are(name: str) -> None:
    """An option is in no help, or one of the help is refused."""
    shapes = ("", ":square") if name == "synthetic" else ("",)
    known: set[str] = set()
    for shape in shapes:
        with pytest.raises(WrongMeterOption, match="has no option 'nonsense'") as refused:
            registry.find_meter(f"{name}{shape or ':'},nonsense=1")
        known |= set(str(refused.value).partition("there are ")[2].split(", "))
    usage = registry.DRIVERS[name].usage
    assert set(re.findall(r",(\w+)", usage)) == known - {""}


def behind(path: Path, mark: str, text: str) -> None:
    """Add text behind the only line that begins so."""
    lines = path.read_text().splitlines(keepends=True)
    [at] = [number for number, line in enumerate(lines) if line.startswith(mark)]
    path.write_text("".join([*lines[: at + 1], text, *lines[at + 1 :]]))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tutorial's reader has when every step is done, to the letter."""
    root = tmp_path_factory.mktemp("checkout")
    for path in (*ROOT.glob("*/edgebench"), ROOT / "tests", ROOT / "docs"):
        copy = root / path.relative_to(ROOT)
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("__pycache__", "replay"))
    shutil.copy(ROOT / "pyproject.toml", root)
    unit = root / "tests/unit/meters"
    (root / "meters/edgebench/meters/wattstick.py").write_text(MODULE)
    registry_file = root / "meters/edgebench/meters/registry.py"
    text = registry_file.read_text()
    if "wattstick" in text:
        pytest.skip("somebody follows the tutorial in this very checkout")
    line = r"^(from edgebench\.meters import .*)$"
    registry_file.write_text(re.sub(line, r"\1, wattstick", text, count=1, flags=re.MULTILINE))
    behind(registry_file, "DRIVERS: ", f"    {LINE}")
    (unit / "test_wattstick.py").write_text(TEST)
    bench_file = root / "tests/support/meters.py"
    text = bench_file.read_text()
    bench_file.write_text(text.replace("BENCHES: ", f"{BENCH}\n\nBENCHES: "))
    behind(bench_file, "BENCHES: ", f"    {BENCH_LINE}")
    behind(root / "docs/meters.md", "| `synthetic` |", ROW)
    return root


def run(checkout: Path, *words: str) -> None:
    """A module of Python there, which must be content."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "meters")}
    said = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr


def test_tutorial_works_as_it_is_written(checkout: Path) -> None:
    """Who follows every step has a meter that cannot be named, or tests that fail."""
    contract = "tests/contract/test_meters.py"
    documentation = "tests/unit/meters/test_documentation.py"
    run(
        checkout,
        *("pytest", "-q", "-p", "no:cacheprovider", "tests/unit/meters/test_wattstick.py"),
        *(contract, f"{documentation}::test_table_lists_the_meters_that_there_are"),
        *("-k", "wattstick or suite or table"),
    )


@pytest.mark.parametrize("action", [("check",), ("format", "--check")])
def test_tutorial_is_as_clean_as_the_rest(checkout: Path, action: tuple[str, ...]) -> None:
    """Who copies the page has files that `make check` refuses."""
    changed = (
        *("meters/edgebench/meters/wattstick.py", "meters/edgebench/meters/registry.py"),
        *("tests/unit/meters/test_wattstick.py", "tests/support/meters.py"),
    )
    run(checkout, "ruff", *action, "--no-cache", *changed)
