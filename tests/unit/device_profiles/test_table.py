"""The page of known devices."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_page_of_known_devices_is_as_the_profiles_are() -> None:
    """Otherwise the page would show what was there before a profile was changed."""
    command = [sys.executable, str(ROOT / "devtools" / "write_device_table.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, (
        "write it: python devtools/write_device_table.py"
    )
