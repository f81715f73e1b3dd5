"""What a waiting agent does not have in memory, and what its processes do not wait for."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Modules imported by a listening agent."""
    code = (
        "import sys, edgebench.agent.cli, edgebench.agent.daemon, edgebench.agent.advertise\n"
        "print('\\n'.join(sys.modules))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "name",
    [
        "numpy",
        "statistics",
        "edgebench.agent.runtimes.registry",
        "edgebench.simulation",
        "edgebench.agent.worker.main",
        "edgebench.agent.worker.measure",
        "edgebench.meters.base",
        "edgebench.meters.registry",
    ],
)
def test_agent_that_waits_has_not_imported_what_a_run_needs(imported: set[str], name: str) -> None:
    """Otherwise an unnoticed line would make the idle agent exceed its memory limit."""
    assert name not in imported


def test_agent_that_waits_has_its_listeners(imported: set[str]) -> None:
    """Otherwise the test above would look at nothing."""
    assert {"edgebench.agent.server", "edgebench.agent.run", "zeroconf"} <= imported


def test_list_of_runtimes_does_without_numpy() -> None:
    """Otherwise a host's first request for it would make the daemon 16 MB larger, or break it."""
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from edgebench.agent.runtimes.registry import known_runtimes\n"
        "print(*known_runtimes())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (result.stdout, result.stderr) == ("litert tflite onnx\n", "")


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("edgebench.agent.worker.main", {"edgebench.protocol.messages", "msgpack", "numpy"}),
        ("edgebench.agent.telemetry.sampler", {"edgebench.protocol.record", "cattrs", "numpy"}),
    ],
)
def test_processes_of_a_run_do_not_import_what_the_agent_needs(
    module: str, heavy: set[str]
) -> None:
    """Otherwise an unnoticed line would make each run a second longer on a small board."""
    code = f"import sys, {module}\nprint('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    imported = set(result.stdout.split())
    assert module in imported
    assert heavy & imported == set()
