"""What a job lets its worker do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.agent.worker.job import Job
from edgebench.agent.worker.permissions import longest_s, permissions_of
from edgebench.protocol.record import ModelFacts
from edgebench.protocol.spec import Limits, RunSpec

JOB = Job(RunSpec("litert"), ModelFacts("m", "0" * 64, "tflite", 1), "/models/m", None, 1, 1)


def test_job_names_its_files_and_devices() -> None:
    """What is left out, the worker cannot open."""
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


def test_delegate_brings_its_library_and_the_devices_of_accelerators(tmp_path: Path) -> None:
    """A GPU or an NPU that was measured before is refused, with an error of its driver."""
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
    """A model would read the keys that lie beside the library."""
    monkeypatch.setenv("HOME", str(tmp_path))
    library = str(tmp_path / "libnpu.so")
    asked = replace(JOB, spec=replace(JOB.spec, delegate=library))
    assert permissions_of(asked, Path("/device/run")).paths.readable == ("/models/m", library)


def test_time_of_a_worker_is_above_whatever_the_daemon_lets_it_take() -> None:
    """The kernel would end a run that the daemon finds all right."""
    spec = RunSpec("litert", duration_s=600.0, min_query_count=1000)
    # A first inference of just under the time to load, and all others like it, three times over.
    slow_s = 3 * (1000 + spec.warmup_query_count) * spec.limits.load_timeout_s
    assert longest_s(spec) > slow_s + 600.0
    limited = replace(spec, limits=Limits(measure_timeout_s=10.0))
    assert 600.0 < longest_s(limited) < 1200.0
