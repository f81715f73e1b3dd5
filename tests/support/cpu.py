"""Features of the CPU under the tests; no test may require more."""

from __future__ import annotations

import platform
from pathlib import Path


def has_saturating_kernels() -> bool:
    """Whether onnxruntime multiplies uint8 by int8 in 16 bits here: x86-64, AVX2, no VNNI."""
    if platform.machine() != "x86_64":
        return False
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next(line for line in cpuinfo if line.startswith("flags")).split()
    return "avx2" in flags and not {"avx_vnni", "avx512_vnni"} & set(flags)
