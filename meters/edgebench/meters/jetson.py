"""Names of the power rails of NVIDIA Jetson modules, and which rails add up to the total.

The kernel's sensors and the output of tegrastats use the same names of rails.

Source: energymon, jetson/energymon-jetson.c (rails from NVIDIA's device trees, L4T 32.6);
rbonghi/jetson_stats#51, #344 and #900; NVIDIA forum 200883 ("VDD_IN is the total power of module").
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_TOTALS = (
    ("VIN",),  # AGX Thor, an INA238 on the carrier: includes everything connected to it
    ("VDD_IN",),  # TX1, TX2, Xavier NX, Orin Nano and NX
    ("POM_5V_IN",),  # Nano
    # AGX Orin: VIN_SYS_5V0 is a part, not the sum. VDDQ_VDD2_1V8AO is assumed to be part of it.
    ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
    ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),  # AGX Xavier: all of them in parallel
)
_PROCESSOR_WORDS = {"CPU", "GPU", "SOC", "CV", "DDR"}
"""If a rail's name contains one of these words, the rail is part of a Jetson's total power. It is
unknown whether other rails, such as a TX2's VDD_MUX, are part of the total."""
PARTS_LIMIT_RATIO = 1.1
"""The powers of the rails that a total includes may add up to this multiple of the total. The
multiple exceeds 1 because the readings of two channels may differ by 10 %."""
_BOUNDARIES = {"VIN": "board", "VDD_IN": "module", "POM_5V_IN": "module"}
NOT_CONNECTED = "NC"
_TEGRASTATS_RAIL = re.compile(r"(?<!\S)([A-Z]\w*) (\d+)(?:mW)?/\d+(?:mW)?(?!\S)")
"""Pattern of a rail's name, its present power, and its mean power since the start, in milliwatts.

Source: NVIDIA Jetson Linux Developer Guide, "tegrastats Utility"; JetPack 4 writes no units."""


def total_of(names: Collection[str]) -> tuple[str, ...]:
    """Names of the rails that add up to the total power; empty if unknown."""
    return next((total for total in _TOTALS if set(total) <= set(names)), ())


def parts_of(names: Iterable[str], total: Collection[str]) -> tuple[str, ...]:
    """Names of the processor rails that the total power includes, except the rails in `total`.

    >>> parts_of(["VDD_IN", "VDD_CPU_GPU_CV", "VDD_MUX"], ("VDD_IN",))
    ('VDD_CPU_GPU_CV',)
    """
    return tuple(
        name for name in names if name not in total and _PROCESSOR_WORDS & set(name.split("_"))
    )


def rails_of_tegrastats(line: str) -> dict[str, float]:
    """Present power in watts of each rail in a line of tegrastats; empty if it names no rail.

    >>> rails_of_tegrastats("RAM 5210/62780MB VDD_CPU_CV 2400mW/2390mW NC 0mW/0mW")
    {'VDD_CPU_CV': 2.4}
    """
    rails = {match[1]: float(match[2]) / 1e3 for match in _TEGRASTATS_RAIL.finditer(line)}
    rails.pop(NOT_CONNECTED, None)
    return rails


def boundary_of(name: str) -> str:
    """Boundary of a rail's reading: board, module, or only the rail."""
    return _BOUNDARIES.get(name, "rail")
