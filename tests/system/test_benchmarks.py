"""Every benchmark runs for a moment; otherwise one would rot until its figure is needed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.agents import Host
from support.tools import ROOT_OF_CHECKOUT, need_tool

pytestmark = pytest.mark.slow

BENCHMARKS = sorted(
    path.stem
    for path in (ROOT_OF_CHECKOUT / "benchmarks").glob("*.py")
    if path.stem != "common" and "parse(" in path.read_text()
)
TOOLS = {
    "firmware_figures": ("arm-none-eabi-gcc", "qemu-system-arm"),
    "firmware_operators": ("arm-none-eabi-gcc", "qemu-system-arm"),
    "serve_pages": ("chromium",),
}
"""Programs without which a benchmark ends."""


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_runs(name: str, host: Host) -> None:
    """With --smoke, its figures mean nothing; an agent that it starts is the host's own."""
    need_tool(*TOOLS.get(name, ()))
    done = subprocess.run(
        [sys.executable, f"benchmarks/{name}.py", "--smoke"],
        cwd=ROOT_OF_CHECKOUT,
        env={**os.environ, **host.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\n### " in done.stdout
