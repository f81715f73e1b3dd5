"""Made-up /proc and /sys trees, so that tests can show the agent any board."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

RASPBERRY_PI_5: Mapping[str, str | bytes] = {
    "proc/cpuinfo": (
        "processor\t: 0\n"
        "BogoMIPS\t: 108.00\n"
        "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp asimddp\n"
        "CPU implementer\t: 0x41\n"
        "CPU architecture: 8\n"
        "CPU variant\t: 0x4\n"
        "CPU part\t: 0xd0b\n"
        "CPU revision\t: 1\n\n"
        "Revision\t: c04170\n"
        "Model\t\t: Raspberry Pi 5 Model B Rev 1.0\n"
    ),
    "proc/device-tree/compatible": b"raspberrypi,5-model-b\0brcm,bcm2712\0",
    "proc/device-tree/model": b"Raspberry Pi 5 Model B Rev 1.0\0",
    "proc/meminfo": (
        "MemTotal:        8245840 kB\nMemFree:         5000000 kB\nMemAvailable:    7340032 kB\n"
        "SwapTotal:        102396 kB\nSwapFree:         102140 kB\nHugePages_Total:       0\n"
    ),
    "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800 0 0 0 0 0 0\nintr 1 2 3\n",
    "sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq": "2400000\n",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "ondemand\n",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "54050\n",
    "etc/os-release": 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\n',
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
}
"""What a Raspberry Pi 5 with its own system shows."""

X86_VM: Mapping[str, str | bytes] = {
    "proc/cpuinfo": (
        "processor\t: 0\nvendor_id\t: GenuineIntel\n"
        "model name\t: Intel(R) Xeon(R) Processor @ 2.90GHz\n"
        "flags\t\t: fpu vme sse4_2 avx2 hypervisor lahf_lm\n\n"
    ),
    "sys/class/dmi/id/sys_vendor": "QEMU\n",
    "sys/class/dmi/id/product_name": "Standard PC (Q35 + ICH9, 2009)\n",
    "etc/os-release": "NAME=Alpine\nPRETTY_NAME=Alpine Linux v3.20\n",
    "etc/machine-id": "fedcba9876543210fedcba9876543210\n",
}
"""What a virtual machine on KVM shows."""


def make_tree(root: Path, *parts: Mapping[str, str | bytes]) -> Path:
    """Write these files under a root."""
    for part in parts:
        for name, content in part.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root
