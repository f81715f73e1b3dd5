"""What a job permits its worker to do."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.agent.confine import ConfinementResult
from edgebench.agent.worker import permissions
from edgebench.agent.worker.job import Job
from edgebench.agent.worker.permissions import permissions_of
from edgebench.agent.worker.timeouts import PHASES, STOP_GRACE_S, phase_limit_s
from edgebench.protocol.record import Confinement, ModelFacts, Safeguard
from edgebench.protocol.spec import RunSpec

JOB = Job("run", RunSpec("litert"), ModelFacts("m", "0" * 64, "tflite", 1), "/models/m", None, 1, 1)


def test_job_names_its_files_and_devices() -> None:
    """Otherwise the worker could not open what is left out."""
    job = replace(
        JOB,
        dataset_path="/models/d",
        inputs_path="/models/i",
        root="/simulated",
        speed_path="/simulated-speed",
        sync_line="gpio:/sys/class/gpio/gpio17/value",
        devices=("/dev/hailo0",),
    )
    paths = permissions_of(job, Path("/device/run")).paths
    assert paths.readable == ("/models/m", "/models/d", "/models/i", "/simulated")
    assert paths.writable == ("/device/run", "/simulated-speed")
    assert paths.devices == ("/dev/hailo0", "/sys/class/gpio/gpio17/value")
    alone = permissions_of(JOB, Path("/device/run")).paths
    assert (alone.readable, alone.writable) == (("/models/m",), ("/device/run",))
    assert alone.devices == ()


def test_files_are_reached_by_their_new_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a model in the home of root would be out of reach of a worker of another user."""
    moved = {"/models/m": "/proc/self/fd/7", "/device/run": "/proc/self/fd/8"}
    nothing = Safeguard(is_applied=True, detail="none")
    record = Confinement(True, *[nothing] * 6)
    monkeypatch.setenv("TMPDIR", "/device/run")
    monkeypatch.setattr(permissions, "confine", lambda _: ConfinementResult(record, moved))
    confinement, job, directory = permissions.confine_for(
        replace(JOB, dataset_path="/models/d"), Path("/device/run")
    )
    assert confinement is record
    assert (job.model_path, job.dataset_path, job.root) == ("/proc/self/fd/7", "/models/d", "/")
    assert str(directory) == os.environ["TMPDIR"] == "/proc/self/fd/8"


def test_delegate_brings_its_library_and_the_devices_of_accelerators(tmp_path: Path) -> None:
    """Otherwise a GPU or an NPU that was measured before would be refused by its driver."""
    library = str(tmp_path / "vendor" / "libnpu.so")
    asked = replace(JOB, spec=replace(JOB.spec, delegate=library), devices=("/dev/galcore",))
    paths = permissions_of(asked, Path("/device/run")).paths
    assert paths.readable == ("/models/m", library, str(tmp_path / "vendor"))
    assert {"/dev/galcore", "/dev/dri", "/dev/kfd", "/dev/bus/usb"} <= set(paths.devices)
    for name in ("xnnpack", "none", "cpu"):
        on_cpu = replace(JOB, spec=replace(JOB.spec, delegate=name))
        assert permissions_of(on_cpu, Path("/device/run")).paths.devices == ()


def test_delegate_in_a_home_does_not_open_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a model could read the keys that lie next to the library."""
    monkeypatch.setenv("HOME", str(tmp_path))
    library = str(tmp_path / "libnpu.so")
    asked = replace(JOB, spec=replace(JOB.spec, delegate=library))
    assert permissions_of(asked, Path("/device/run")).paths.readable == ("/models/m", library)


def test_time_of_a_worker_is_above_whatever_the_daemon_lets_it_take() -> None:
    """Otherwise the kernel would end a run that the daemon accepts."""
    permissions = permissions_of(JOB, Path("/device/run"))
    daemon_s = sum(phase_limit_s(JOB, phase) for phase in PHASES) + STOP_GRACE_S
    assert permissions.cpu_s >= daemon_s
