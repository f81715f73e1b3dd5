"""NVIDIA's library as it is made up in nvml.c: compiled once, and loaded before the real one."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from support.tools import need_tool

SONAME = "libnvidia-ml.so.1"
VARIABLE = "EDGEBENCH_FAKE_NVML"
NOT_SUPPORTED, GPU_IS_LOST = 3, 15
"""Return codes of NVML."""


@cache
def library() -> Path:
    """The library, compiled."""
    need_tool("gcc")
    path = Path(mkdtemp(prefix="edgebench-nvml-")) / SONAME
    source = Path(__file__).with_name("nvml.c")
    options = ("-shared", "-fPIC", "-Wall", "-Werror", f"-Wl,-soname,{SONAME}")
    subprocess.run(["gcc", *options, "-o", str(path), str(source)], check=True)
    return path


@dataclass(frozen=True, slots=True)
class FakeGpu:
    """The board that the library shows."""

    file: Path

    @property
    def environment(self) -> dict[str, str]:
        """For a process of its own."""
        return {VARIABLE: str(self.file), "LD_LIBRARY_PATH": str(library().parent)}

    def be(
        self,
        *,
        power_w: float = 40.0,
        count: int = 1,
        period_ms: int = 100,
        code: int = 0,
        name: str = "NVIDIA RTX 2000 Ada Generation",
    ) -> None:
        """Be this board from now on."""
        part = self.file.with_suffix(".part")
        part.write_text(f"{count} {round(power_w * 1e3)} {period_ms} {code} {name}\n")
        part.replace(self.file)


@contextmanager
def fake_gpu(folder: Path) -> Iterator[FakeGpu]:
    """A board of this process: the dynamic loader takes a library that it has by its name."""
    folder.mkdir(parents=True, exist_ok=True)
    gpu = FakeGpu(folder / "gpu")
    gpu.be()
    ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL)
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = str(gpu.file)
    try:
        yield gpu
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
