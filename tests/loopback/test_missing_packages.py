"""Missing packages: an agent without numpy, and commands that name the package they lack."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime

from edgebench.host.client import Client
from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.local import LocalTransport


def without(folder: Path, *modules: str) -> dict[str, str]:
    """Environment of a Python in which these modules cannot be imported."""
    for module in modules:
        (folder / module).mkdir(parents=True)
        text = f"raise ModuleNotFoundError(\"No module named '{module}'\", name='{module}')\n"
        (folder / module / "__init__.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent on a device that has no numpy, and so no runtime that works."""
    need_runtime("onnxruntime")
    environment = without(tmp_path_factory.mktemp("modules"), "numpy")
    process = AgentProcess(
        tmp_path_factory.mktemp("agent"), options=["--name", "light"], environment=environment
    )
    yield process.start()
    process.kill()


def test_agent_without_numpy_says_what_it_lacks(
    agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the daemon would import numpy, and an agent take 111 MB of a disk, not 30."""
    for name, value in agent.environment.items():  # else it is that of another environment
        monkeypatch.setenv(name, value)
    link = LocalTransport(agent.state).connect(Endpoint("local", "", (), 0))
    with Client(link) as client:
        runtimes = {report.name: report for report in client.describe().runtimes}
    assert not any(report.is_usable for report in runtimes.values())
    assert "numpy" in (runtimes["onnx"].reason or "")
    assert runtimes["onnx"].install == "pip install 'edgebench-agent[onnx]'"


def test_bench_there_is_one_clear_error(paired: Host, agent: AgentProcess) -> None:
    """Otherwise the worker of an agent without numpy would end in a traceback."""
    result = paired.run("bench", "digits_int8.onnx", "--on", "light")
    assert result.returncode == 1
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["error", "hint"]
    assert agent.status().running is None
    assert "Traceback" not in agent.errors()


def test_agent_without_numpy_cannot_serve_a_meter(agent: AgentProcess, tmp_path: Path) -> None:
    """Otherwise an agent that is configured with a meter would end in a traceback."""
    other = AgentProcess(tmp_path)
    result = subprocess.run(
        other.command("serve", "--local", "--meter", "rapl"),
        env=os.environ | agent.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr.splitlines()) == (
        1,
        [
            "error: edgebench needs the Python module numpy, which is not installed",
            "hint: install the missing package: pip install 'edgebench-agent[runtimes]'",
        ],
    )


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("pyarrow", ("bench", "digits_int8.onnx", "--json")),
        ("rich", ("runs", "--json")),
        ("numpy", ("meters",)),
    ],
)
def test_command_without_a_package_is_one_clear_error(
    tmp_path: Path, module: str, words: tuple[str, ...]
) -> None:
    """Otherwise `pip install --no-deps` or an uninstalled package would cause a traceback."""
    result = subprocess.run(
        [sys.executable, "-m", "edgebench.host.cli", *words],
        env=os.environ | Host(tmp_path).environment | without(tmp_path / "modules", module),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr.splitlines()) == (
        1,
        [
            f"error: edgebench needs the Python module {module}, which is not installed",
            "hint: install the missing package: pip install edgebench",
        ],
    )
    if "--json" in words:
        document = json.loads(result.stdout)
        (error,) = document["errors"] if "bench" in words else [document["error"]]
        assert result.stderr == f"error: {error['message']}\nhint: {error['hint']}\n"


def test_host_whose_agent_was_uninstalled_says_so() -> None:
    """Otherwise even `--help` would be a traceback after pip silently removed edgebench-agent."""
    code = (
        "import sys; sys.modules['edgebench.protocol'] = None\n"
        "sys.modules['edgebench.system'] = None\n"
        "from edgebench.host.cli.entry import run\n"
        "sys.exit(run())"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert re.fullmatch(
        "error: .* edgebench-agent is not installed\nhint: .*: pip install edgebench\n",
        result.stderr,
    )
