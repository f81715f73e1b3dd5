"""Power rails of NVIDIA Jetson modules, and the rails that add up to the total.

Source: energymon, jetson/energymon-jetson.c (rails from NVIDIA's device trees, L4T 32.6);
rbonghi/jetson_stats#51, #344 and #900; NVIDIA forum 200883 ("VDD_IN is the total power of module").
"""

from __future__ import annotations

from collections.abc import Collection

_TOTALS = (
    ("VIN",),  # AGX Thor, an INA238 on the carrier: includes everything connected to it
    ("VDD_IN",),  # TX1, TX2, Xavier NX, Orin Nano and NX
    ("POM_5V_IN",),  # Nano
    # AGX Orin: VIN_SYS_5V0 is a part, not the sum. VDDQ_VDD2_1V8AO is assumed to be part of it.
    ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"),
    ("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"),  # AGX Xavier: all of them in parallel
)
_BOUNDARIES = {"VIN": "board", "VDD_IN": "module", "POM_5V_IN": "module"}
NOT_CONNECTED = "NC"


def total_of(names: Collection[str]) -> tuple[str, ...]:
    """Rails that add up to the total; empty: unknown."""
    return next((total for total in _TOTALS if set(total) <= set(names)), ())


def boundary_of(name: str) -> str:
    """Boundary of what a rail supplies."""
    return _BOUNDARIES.get(name, "rail")
