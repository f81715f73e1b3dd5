"""Pages of docs/ and README: valid commands, a section for each rule, working links."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from edgebench.agent import cli as agent_cli
from edgebench.device_profiles.load import parse_profile
from edgebench.host.analysis.verdict.table import BY_ID

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PROGRAMS = ("edgebench", "edgebench-agent")


def commands(text: str) -> Iterator[list[str]]:
    """Words of each edgebench command in the fenced blocks of a page, without comments."""
    for block in re.findall(r"^```(?:\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if line.partition(" ")[0] in PROGRAMS and "|" not in line:
                yield shlex.split(line, comments=True)


DOCUMENTED = [
    pytest.param(words, id=f"{path.name}: {' '.join(words)}"[:100])
    for path in PAGES
    for words in commands(path.read_text())
]


@pytest.mark.parametrize("words", DOCUMENTED)
def test_documented_command_is_one_that_there_is(words: list[str]) -> None:
    """Otherwise a renamed option would make a newcomer's first command fail."""
    program, command, *options = words
    if command == "--help" or "--help" in options:
        return
    if program == "edgebench-agent":
        agent_cli.command_parser().parse_args([command, *options])
    else:
        import_module(f"edgebench.host.cli.{command}").parser().parse_args(options)


def test_every_page_has_commands_that_were_found() -> None:
    """Otherwise a changed fence would silently exclude all of them."""
    assert len(DOCUMENTED) > 150


def test_every_rule_has_a_section_that_says_what_to_do() -> None:
    """Otherwise a user would find no explanation of the rule that failed."""
    text = (ROOT / "docs/suspect.md").read_text()
    named = [name for line in re.findall(r"^### (.+)$", text, re.M) for name in line.split(", ")]
    assert sorted(named) == sorted(BY_ID)


def test_example_of_a_profile_is_one() -> None:
    """Otherwise a renamed key would make the example of the page fail."""
    page = (ROOT / "docs/add-a-profile.md").read_text()
    [text] = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    folder = ROOT / "device_profiles/edgebench/device_profiles/profiles"
    others = {path.stem: path.read_text() for path in folder.glob("generic-*.toml")}
    made = parse_profile(text, "example-board", others.get)
    assert made.thermal.zone[0].throttle_c == 85.0


def test_site_is_built_without_a_warning(tmp_path: Path) -> None:
    """Otherwise a link would lead nowhere, or a page would be in no menu."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    for page in ("index.html", "suspect/index.html"):
        text = (tmp_path / page).read_text()
        loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)', text)
        assert loaded == []
