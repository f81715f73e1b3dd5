"""A plain exception of any library ends a command in one line; the short form of injected.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("injected.py")
COMMANDS = ("show", "export csv", "bundle", "meters import")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_any_library_may_raise_anything() -> None:
    """Otherwise a command would end in a traceback, without a document, or with an unknown code."""
    words = [word for name in COMMANDS for word in ("--only", name)]
    result = subprocess.run(
        [sys.executable, str(SCRIPT), *words, "--count", "30", "--seconds", "20"],
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    raised = re.search(r"^(\d+) exceptions raised, 0 wrong$", result.stdout, re.MULTILINE)
    assert raised, result.stdout
    assert int(raised[1]) > 0
