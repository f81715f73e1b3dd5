"""The package of docs/add-a-runtime.md is installed, and measures a model."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.agents import Host, end_local_agent
from support.commands import QUICK
from support.digits import FOLDER
from support.tools import need_runtime

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/add-a-runtime.md").read_text()
FILES = dict(
    re.findall(r"^`(plainonnx/\S+)`:\n\n```\w+\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
)


@dataclass(frozen=True)
class UserOfThePackage:
    """A host whose own agent finds packages in one more folder."""

    host: Host
    packages: Path

    def bench(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `edgebench bench` with these arguments."""
        variables = self.host.environment | {"PYTHONPATH": str(self.packages)}
        return subprocess.run(
            [sys.executable, "-m", "edgebench.host.cli", "bench", *words],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module")
def user() -> Iterator[UserOfThePackage]:
    """A user who has followed the page; its packages are not put into this environment."""
    need_runtime("onnxruntime")
    with ExitStack() as at_the_end:
        folder = Path(at_the_end.enter_context(TemporaryDirectory(prefix="edgebench-")))
        for name, content in FILES.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(content)
        packages = folder / "site-packages"
        pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        # Nothing is downloaded: its requirements are in the environment of the tests.
        offline = ("--no-deps", "--no-build-isolation", "--no-index", "--target", str(packages))
        subprocess.run([*pip, *offline, str(folder / "plainonnx")], check=True)
        host = Host(folder)
        at_the_end.callback(end_local_agent, host)
        yield UserOfThePackage(host, packages)


@pytest.mark.slow
def test_runtime_of_the_page_measures(user: UserOfThePackage) -> None:
    """Otherwise the page would lead to a driver that the agent does not find or cannot run."""
    assert sorted(FILES) == ["plainonnx/plainonnx.py", "plainonnx/pyproject.toml"]
    words = ("--runtime", "all", *QUICK, "--cooldown", "0s", "--json")
    done = user.bench("digits_fp32.onnx", *words)
    assert done.returncode in (0, 3), done.stderr
    runs = {run["spec"]["runtime"]: run for run in json.loads(done.stdout)["runs"]}
    assert sorted(runs) == ["onnx", "plainonnx"]
    document = runs["plainonnx"]
    [agreement] = [rule for rule in document["verdict"]["rules"] if rule["id"] == "agreement"]
    assert agreement["outcome"] == "pass", agreement


@pytest.mark.slow
def test_runtime_of_the_page_passes_the_checks_of_a_driver(user: UserOfThePackage) -> None:
    """Otherwise the page's own example would fail the command that the page recommends."""
    words = ("check-runtime", "plainonnx", str(FOLDER / "digits_fp32.onnx"), "--json")
    done = subprocess.run(
        [sys.executable, "-m", "edgebench.agent", *words],
        env=os.environ | {"PYTHONPATH": str(user.packages)},
        capture_output=True,
        text=True,
        check=False,
    )
    checks = {row["name"]: row for row in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0, checks
    assert checks.keys() == checks_of_the_page()
    assert checks["reference"]["seen"].endswith("reference kernels of onnx")


def checks_of_the_page() -> set[str]:
    """Names in the page's table of checks."""
    return set(re.findall(r"^\| `([a-z ]+)` \|", PAGE, re.MULTILINE))


@pytest.mark.slow
def test_runtime_of_the_page_refuses_in_one_line(user: UserOfThePackage, tmp_path: Path) -> None:
    """Otherwise a file that the library does not accept would end in a traceback of the driver."""
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    done = user.bench(str(broken), "--runtime", "plainonnx", *QUICK)
    assert done.returncode == 1
    assert "plainonnx refused the model" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("action", [("check",), ("format", "--check")])
def test_driver_of_the_page_is_as_clean_as_ours(tmp_path: Path, action: tuple[str, ...]) -> None:
    """Otherwise a copy of the page's code would pass no linter."""
    file = tmp_path / "plainonnx.py"
    file.write_text(FILES["plainonnx/plainonnx.py"])
    words = ("-m", "ruff", *action, "--no-cache", "--config", str(ROOT / "pyproject.toml"))
    done = subprocess.run([sys.executable, *words, str(file)], capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
