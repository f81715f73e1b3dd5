"""docs/meters.md: its table is the registry. docs/write-a-meter.md: its examples work."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgebench.meters import registry
from edgebench.protocol.errors import WrongMeterOption

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs/meters.md").read_text()
GUIDE = (ROOT / "docs/write-a-meter.md").read_text()
CHANGED = ("meters/edgebench/meters/registry.py", "tests/support/meters.py")
"""Existing files, to which each example adds a few lines."""
STREAM_LINES = 140
"""The driver of a simple stream needs no more lines, as the page's example shows."""


@dataclass(frozen=True, slots=True)
class Example:
    """The page's content about one made-up meter."""

    name: str
    files: dict[str, str]
    """New files, by their path."""
    entry: str
    """Entry of the registry."""
    bench: str
    bench_entry: str
    row: str
    """Row of the table."""


def example(name: str, heading: str) -> Example:
    """Read the part of the page below this heading: each step names its file."""
    part = GUIDE[GUIDE.index(f"## {heading}") :].split("\n## ")[0]
    steps = re.split(r"^\d\. ", part, flags=re.MULTILINE)[1:]
    files, others = {}, []
    for step in steps:
        path = step.split("`")[1]
        blocks = re.findall(r"```python\n(.*?)```", step, re.DOTALL)
        if path in CHANGED:
            others += blocks
        elif blocks:
            [files[path]] = blocks
    entry, bench, bench_entry = others
    [row] = re.findall(r"```\n(\| `.*?)```", part, re.DOTALL)
    return Example(name, files, entry, bench, bench_entry, row)


EXAMPLES = (
    example("wattstick", "A polled meter"),
    example("wattstream", "A meter that streams"),
)


def test_table_lists_the_meters_that_there_are() -> None:
    """Otherwise a new meter would be in no table, or the table list a meter that is gone."""
    table = TEXT[TEXT.index("| name |") : TEXT.index("Energies of different")]
    rows = [line.split("`")[1::2][:2] for line in table.splitlines() if "`" in line]
    assert sorted(name for name, _ in rows) == sorted(registry.DRIVERS)
    assert all(example.partition(":")[0] == name for name, example in rows)
    for name, example in rows:
        assert registry.find_meter(example).name == name


def test_commands_of_the_page_name_meters_that_can_be_made() -> None:
    """Otherwise a newcomer's first command could fail, for an option that was renamed."""
    named = re.findall(r"^edgebench meters record (\S+)", TEXT, re.MULTILINE)
    assert named
    for text in named:
        registry.find_meter(text)


@pytest.mark.parametrize("name", registry.DRIVERS)
def test_help_names_the_options_that_there_are(name: str) -> None:
    """Otherwise an option would be in no help, or an option of the help be refused."""
    shapes = ("", ":constant", ":square") if name == "synthetic" else ("",)
    known: set[str] = set()
    for shape in shapes:
        with pytest.raises(WrongMeterOption, match="has no option 'nonsense'") as refused:
            registry.find_meter(f"{name}{shape or ':'},nonsense=1")
        known |= set(str(refused.value).partition("available: ")[2].split(", "))
    usage = registry.DRIVERS[name].usage
    assert set(re.findall(r",(\w+)", usage)) == known - {""}


def behind(path: Path, mark: str, text: str) -> None:
    """Insert text after the only line that begins with the mark."""
    lines = path.read_text().splitlines(keepends=True)
    [at] = [number for number, line in enumerate(lines) if line.startswith(mark)]
    path.write_text("".join([*lines[: at + 1], text, *lines[at + 1 :]]))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkout of a reader who has followed every step of both examples to the letter."""
    root = tmp_path_factory.mktemp("checkout")
    for path in (*ROOT.glob("*/edgebench"), ROOT / "tests", ROOT / "docs"):
        copy = root / path.relative_to(ROOT)
        shutil.copytree(path, copy, ignore=shutil.ignore_patterns("__pycache__", "replay"))
    shutil.copy(ROOT / "pyproject.toml", root)
    registry_file, bench_file = (root / name for name in CHANGED)
    if "wattst" in registry_file.read_text():
        pytest.skip("somebody follows the page in this very checkout")
    for one in EXAMPLES:
        for name, content in one.files.items():
            (root / name).write_text(content)
        behind(registry_file, "DRIVERS: ", one.entry)
        text = bench_file.read_text()
        bench_file.write_text(text.replace("BENCHES: ", f"{one.bench}\n\nBENCHES: "))
        behind(bench_file, "BENCHES: ", one.bench_entry)
        if f"tests/support/{one.name}.py" in one.files:
            *_, last = re.findall(r"^from support\..*$", bench_file.read_text(), re.MULTILINE)
            behind(bench_file, last, f"from support.{one.name} import WattstreamEmulator\n")
        behind(root / "docs/meters.md", "| `synthetic` |", one.row)
    return root


def run(checkout: Path, *words: str) -> None:
    """Run a Python module in the checkout; it must succeed."""
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


def test_examples_work_as_they_are_written(checkout: Path) -> None:
    """Otherwise a reader who follows every step would have an unusable meter or failing tests."""
    contract = "tests/contract/test_meters.py"
    documentation = "tests/unit/meters/test_documentation.py"
    own = [name for one in EXAMPLES for name in one.files if name.startswith("tests/unit")]
    run(
        checkout,
        *("pytest", "-q", "-p", "no:cacheprovider", *own, contract),
        f"{documentation}::test_table_lists_the_meters_that_there_are",
        f"{documentation}::test_help_names_the_options_that_there_are",
        *("-k", " or ".join(("suite", "table", *(one.name for one in EXAMPLES)))),
    )


@pytest.mark.parametrize("action", [("check",), ("format", "--check")])
def test_examples_are_as_clean_as_the_rest(checkout: Path, action: tuple[str, ...]) -> None:
    """Otherwise a reader who copies the page would have files that `make check` refuses."""
    new = [name for one in EXAMPLES for name in one.files]
    run(checkout, "ruff", *action, "--no-cache", *CHANGED, *new)


def test_driver_of_a_stream_is_short() -> None:
    """Otherwise each driver would have to repeat what streams have in common."""
    [module] = [
        text
        for one in EXAMPLES
        for name, text in one.files.items()
        if name == "meters/edgebench/meters/wattstream.py"
    ]
    assert len(module.splitlines()) <= STREAM_LINES
