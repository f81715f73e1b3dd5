"""Clocks of the memory, and of the buses between it and the processors.

A lower clock of the memory controller slows down a model whose weights do not fit into the caches.
The clocks of CPU and accelerator do not change. The kernel lists the clocks of memory controllers
under /sys/class/devfreq, among those of accelerators and video units.

Source of the names: torvalds/linux, drivers/devfreq/{rk3399_dmc,imx8m-ddrc,imx-bus,exynos-bus,
mtk-cci-devfreq,sun8i-a33-mbus,tegra30-devfreq}.c and their device trees; the kernels of Qualcomm,
`cpubw`, `llccbw`, `gpubw`, `cpu-ddr-latfloor`, `l3-cpu0`, and of Samsung, `devfreq_mif`.
"""

from __future__ import annotations

import re

from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace

_PREFIX, _SUFFIX = "devfreq.", ".freq_hz"
_MEMORY = re.compile(
    r"(?<![a-z])(dmc|dram|ddrc?|emc|actmon|mif|m?bus|cci|noc|llcc|l3|mem|memory|(cpu|llcc|gpu)bw)"
    r"(?![a-z])"
)
_GPU = "gpu"


def memory_clocks(telemetry: TelemetryTrace, is_delegated: bool) -> dict[str, Series]:
    """Maps names under /sys/class/devfreq to clocks, Hz, of memory and buses that the model uses.

    Args:
        telemetry: Trace of the run.
        is_delegated: Whether the model ran on an accelerator. If not, the memory of a GPU is left
            out.
    """
    clocks = {
        sensor.removeprefix(_PREFIX).removesuffix(_SUFFIX): series
        for sensor, series in telemetry.named(_PREFIX, _SUFFIX).items()
    }
    return {
        name: series
        for name, series in clocks.items()
        if _MEMORY.search(name) and (is_delegated or _GPU not in name)
    }
