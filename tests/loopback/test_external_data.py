"""ONNX models whose weights are in another file: refused, with a command that is tested here."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support.agents import Host
from support.onnx_bytes import addition_outside
from support.tools import need_runtime, need_shared, skip_or_fail

from edgebench.agent.runtimes.onnx_file import inspect_onnx
from edgebench.host.options.command import CommandLine
from edgebench.host.show.hints import hint_for
from edgebench.protocol.errors import ExternalDataRefused

COMMAND = re.compile(
    r"(python -I -c \".*\" .* whole\.onnx); then edgebench bench whole\.onnx(?: |;|$)"
)


def stored(folder: Path, kind: str) -> Path:
    """A model and its separate weights file; as links, as the caches of model hubs store them."""
    folder.mkdir()
    path, weights = folder / "sum of two.onnx", folder / "sum.data"
    if kind == "links":
        blobs = folder / "blobs"
        blobs.mkdir()
        path.symlink_to(blobs / "a")
        weights.symlink_to(blobs / "b")
    path.write_bytes(addition_outside("sum.data"))
    weights.write_bytes(struct.pack("<f", 2.5))
    return path


def reported(folder: Path) -> Path:
    """The files of a public report, which exist only next to the checkout."""
    folder.mkdir()
    for file in need_shared("cases/20-external-data").glob("external.onnx*"):
        shutil.copyfile(file, folder / file.name)
    return folder / "external.onnx"


def joined(command: str, folder: Path) -> Path:
    """Result of a command that joins a model into one file, run in this folder."""
    if importlib.util.find_spec("onnx") is None:
        skip_or_fail("the package onnx is not installed")
    python, *words = shlex.split(command)
    assert python == "python"
    subprocess.run([sys.executable, *words], cwd=folder, check=True)
    return folder / "whole.onnx"


def test_refusal_has_a_command_that_makes_one_file(paired: Host, tmp_path: Path) -> None:
    """Otherwise a model with separate weights could not be measured, without any remedy stated."""
    need_runtime("onnxruntime")
    path = stored(tmp_path / "ours", "files")
    refused = paired.run("bench", str(path), "--on", "board", "--quick")
    assert refused.returncode == 1
    assert "weights are in another file (external data, sum.data); only a " in refused.stderr
    hint = next(line for line in refused.stderr.splitlines() if line.startswith("hint: "))
    found = COMMAND.search(hint)
    assert found is not None, hint
    whole = joined(found[1], path.parent)
    (run,) = paired.lab.bench(
        whole,
        on="board",
        runs=1,
        preset="quick",
        duration_s=0.2,
        min_query_count=20,
        warmup_duration_s=0.05,
    )
    assert run.result.failure is None


@pytest.mark.parametrize("kind", ["links", "reported"])
def test_command_takes_models_of_hubs_and_of_a_report(tmp_path: Path, kind: str) -> None:
    """Otherwise the command would fail where most such models lie."""
    folder = tmp_path / "models"
    path = reported(folder) if kind == "reported" else stored(folder, kind)
    error = ExternalDataRefused("weights are in another file")
    hint = hint_for(error, CommandLine(names={"MODEL": (str(path),)}))
    found = COMMAND.search(hint)
    assert found is not None, hint
    if kind == "links":  # which onnx refuses, as a link may lead to any file
        assert "copy them first: cp -rL FOLDER plain)" in hint
        subprocess.run(["cp", "-rL", folder, "plain"], cwd=tmp_path, check=True)
        folder = tmp_path / "plain"
        names = {"MODEL": (str(folder / path.name),)}
        found = COMMAND.search(hint_for(error, CommandLine(names=names)))
        assert found is not None
    assert not inspect_onnx(str(joined(found[1], folder))).weight_types - {1}
