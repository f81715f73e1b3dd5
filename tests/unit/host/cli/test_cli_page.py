"""The page of the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]


def test_page_of_the_command_line_is_as_the_parsers_are() -> None:
    """Otherwise the reference would list outdated options."""
    command = [sys.executable, str(ROOT / "devtools" / "write_cli_page.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, (
        "write it: python devtools/write_cli_page.py"
    )
