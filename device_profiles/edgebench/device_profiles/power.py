"""Bounds on the total power of a running device, for each class of devices.

The bounds detect errors by a factor of 60 or 1,000, such as a wrong unit, and counters that wrap
around. So the bounds are far from the power of any real device of the class.
"""

from __future__ import annotations

from edgebench.device_profiles.schema import DeviceClass

LINUX_LOWEST_W = 0.01
"""Lowest power of a computer that runs Linux. Source: our own choice, a fortieth of the power of an
idle Raspberry Pi Zero W. No board takes less, so a lower value is an error, such as a few watts
read as milliwatts."""

POWER_W_BOUNDS: dict[DeviceClass, tuple[float, float]] = {
    # Lowest: 1 MHz at 1 uA/MHz and 1 V, below any Cortex-M in run mode (STMicroelectronics DS12023:
    # STM32L4+, 43 uA/MHz). Highest: a USB port of 1.5 A (USB Battery Charging 1.2, 4.1).
    "mcu": (1e-6, 7.5),
    # Highest: USB Power Delivery 3.0, 20 V and 5 A.
    "android": (LINUX_LOWEST_W, 100.0),
    # Highest: USB Power Delivery 3.1, 48 V and 5 A, above the supplies of Jetson developer kits.
    "linux-sbc": (LINUX_LOWEST_W, 240.0),
    # Highest: an outlet of 16 A and 230 V.
    "linux-pc": (LINUX_LOWEST_W, 3680.0),
}
"""Lowest and highest mean power while a model runs. An emulator has no power of its own, and so no
entry."""
