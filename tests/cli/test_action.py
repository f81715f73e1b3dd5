"""The GitHub Action: its steps as a runner executes them, and its files by their schemas."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from support.commands import Measured

from edgebench.host.store.layout import Store

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / "examples" / "workflows").glob("*.yml"))
QUICK = (
    "--quick --runs=1 --duration 0.1s --min-queries 50 --warmup 2 --warmup-duration 0.05s "
    "--runtime litert"
)


@dataclass(frozen=True)
class Step:
    """What a step of the action left behind."""

    code: int
    outputs: dict[str, str]
    summary: str
    err: str


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Directory of a job."""
    return tmp_path


def carry_out(
    measured: Measured, folder: Path, first: Path = Path(sys.executable).parent, **inputs: str
) -> Step:
    """Execute the measuring step as a runner does: with its shell, and inputs by default.

    Args:
        measured: Host on which it measures.
        folder: Directory of the job.
        first: Directory whose `edgebench` is found first.
        **inputs: Inputs of the action.
    """
    action = yaml.safe_load(ACTION.read_text())
    [step] = [step for step in action["runs"]["steps"] if step.get("id") == "measure"]
    given = {name: facts.get("default", "") for name, facts in action["inputs"].items()} | inputs
    variables = {
        name: given[expression.removeprefix("${{ inputs.").removesuffix(" }}")]
        for name, expression in step["env"].items()
    }
    (folder / "step.sh").write_text(step["run"])
    environment = os.environ | measured.host.environment | variables
    environment |= {
        "PATH": f"{first}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(folder),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "GITHUB_ACTION_PATH": str(ROOT),
    }
    # Source: docs.github.com, workflow syntax, `jobs.<job_id>.steps[*].shell`.
    result = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(folder / "step.sh")],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
    )
    lines = (folder / "output").read_text().splitlines() if (folder / "output").exists() else []
    summary = folder / "summary.md"
    return Step(
        result.returncode,
        dict(line.split("=", 1) for line in lines),
        summary.read_text() if summary.exists() else "",
        result.stderr,
    )


def test_model_is_measured_and_compared_with_a_stored_run(measured: Measured, folder: Path) -> None:
    """Otherwise the job would be green whatever was measured, or the numbers would not be shown."""
    baseline = Store(measured.host.folder / "data" / "edgebench").directory(measured.run_id)
    step = carry_out(
        measured,
        folder,
        model="digits_int8.tflite",
        baseline=str(baseline),
        options=QUICK,
    )
    assert step.code == 5, step.err  # one run per side decides nothing
    assert step.outputs["exit-code"] == "5"
    assert step.outputs["verdict"] in ("valid", "suspect")
    assert "digits_int8.tflite" in step.summary
    assert "latency_ns.p50" in step.summary
    assert "too few runs" in step.summary
    assert Path(step.outputs["bundle"]).stat().st_size > 10_000


def test_mistake_has_its_exit_code_and_is_never_run_as_a_script(
    measured: Measured, folder: Path
) -> None:
    """Otherwise a missing model would pass, or a branch name would be run on the lab host."""
    step = carry_out(measured, folder, model='x"; touch hacked; echo ".tflite', options=QUICK)
    assert step.code == 2
    assert step.outputs == {"verdict": "", "exit-code": "2", "bundle": ""}
    assert "edgebench: exit code 2" in step.summary
    assert not (folder / "hacked").exists()


@pytest.mark.parametrize(
    ("schema", "paths"),
    [("vendor.github-actions", [ACTION]), ("vendor.github-workflows", WORKFLOWS)],
    ids=["action", "workflows"],
)
def test_files_follow_their_published_schemas(schema: str, paths: list[Path]) -> None:
    """Otherwise GitHub would refuse the action, or a workflow copied from the examples."""
    assert paths
    result = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_examples_give_inputs_that_the_action_has() -> None:
    """Otherwise GitHub would ignore a renamed input, with only a warning."""
    inputs = set(yaml.safe_load(ACTION.read_text())["inputs"])
    given = [
        step["with"]
        for path in WORKFLOWS
        for job in yaml.safe_load(path.read_text())["jobs"].values()
        for step in job["steps"]
        if step.get("uses", "").startswith("OWNER/edgebench")
    ]
    assert len(given) == len(WORKFLOWS)
    # YAML 1.1 has `on` as a truth value; GitHub reads YAML 1.2.
    assert all({"on" if key is True else key for key in one} <= inputs for one in given)


def test_killed_measurement_is_reported(measured: Measured, folder: Path) -> None:
    """Otherwise the job would end in a traceback, with no failed measurement in its summary."""
    folder.joinpath("bin").mkdir()
    killed = folder / "bin" / "edgebench"
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    killed.chmod(0o755)
    (folder / "bin" / "python").symlink_to(sys.executable)
    step = carry_out(measured, folder, first=folder / "bin", model="digits_int8.tflite")
    assert step.code == 137
    assert step.outputs == {"verdict": "", "exit-code": "137", "bundle": ""}
    assert "edgebench: exit code 137" in step.summary
    assert "Traceback" not in step.err
