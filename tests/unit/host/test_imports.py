"""Libraries that a measuring command does not import."""

from __future__ import annotations

import subprocess
import sys


def test_measuring_needs_no_library_of_statistics_frames_or_discovery() -> None:
    """Otherwise an unnoticed import would add a second of CPU time to each command."""
    code = (
        "import sys, edgebench.host.lab, edgebench.host.cli.bench\nprint('\\n'.join(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {"scipy.stats", "scipy.signal", "scipy.optimize", "scipy.ndimage", "pandas"}
    heavy |= {"zeroconf", "asyncio", "edgebench.device_profiles.load"}
    assert heavy & set(result.stdout.split()) == set()
