"""The files that any worker needs: its interpreter, libraries, and files of the kernel."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from edgebench.agent.telemetry.source import read_text

READABLE_VARIABLE = "EDGEBENCH_READABLE"
"""Environment variable with additional directories that workers may read, in the format of PATH.

The variable is for libraries in unusual places. Only the agent's owner can set it, not a host."""
_LIBRARIES = (
    *("/usr", "/lib", "/lib32", "/lib64"),
    *("/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew"),
    *("/system", "/vendor", "/apex"),
    # Links to drivers of GPUs, on NixOS.
    "/run/opengl-driver",
)
"""Directories of libraries on Linux, of package managers with their own prefix, and on Android."""
_ETC = (
    *("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "os-release"),
    *("nsswitch.conf", "passwd", "group", "OpenCL", "vulkan", "nvidia"),
    # Links by which Debian selects between libraries such as BLAS.
    "alternatives",
)
"""Files of /etc that libraries read: paths of libraries, names of users, drivers of GPUs."""
_PROC = (
    *("self", "cpuinfo", "meminfo", "stat", "vmstat", "version", "loadavg", "uptime"),
    *("filesystems", "devices", "modules", "pressure", "sys", "driver/nvidia"),
)
"""Files of /proc that libraries read, without the files of other processes."""
PLAIN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Devices without hardware, such as /dev/null."""
ACCELERATOR_DEVICES = (
    # Linux Documentation/gpu/drm-uapi.rst, Documentation/accel/introduction.rst.
    *("/dev/dri", "/dev/accel"),
    # ROCm documentation, "Running ROCm Docker containers".
    "/dev/kfd",
    # NVIDIA/libnvidia-container, src/nvc_info.c.
    *("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm*", "/dev/nvidia-modeset"),
    # hailo-ai/hailort-drivers, linux/pcie; Linux 6.1 drivers/staging/gasket/apex_driver.c.
    *("/dev/hailo[0-9]*", "/dev/apex_[0-9]*"),
    # Accelerators on a stick: libusb opens the devices of usbfs.
    "/dev/bus/usb",
)
"""Devices of accelerators that any machine may have, for runs with a delegate."""
CUDA_DEVICE = "/dev/nvidiactl"
"""Device that CUDA opens first."""
CUDA_WRITABLE = ("/proc/self/task",)
"""Files that CUDA writes to name its threads; CUDA does not start if it cannot write them.

Observed with driver 580 on an H200. With this permission, a worker can also make the kernel kill
other processes first when memory runs out."""


def readable_paths() -> tuple[str, ...]:
    """Files and directories that the interpreter and its libraries read."""
    python = (sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, *sys.path)
    named = (os.environ.get(name, "") for name in ("LD_LIBRARY_PATH", READABLE_VARIABLE))
    libraries = [path for paths in named for path in paths.split(":")] + _loader_directories()
    return (
        *_LIBRARIES,
        *_without_homes((*python, *libraries)),
        *(f"/etc/{name}" for name in _ETC),
        *(f"/proc/{name}" for name in _PROC),
        "/sys",
    )


def folders_of(files: Iterable[str]) -> list[str]:
    """Directories that contain these files, except directories that contain a user's home."""
    return _without_homes(str(Path(file).resolve().parent) for file in files)


def _loader_directories() -> list[str]:
    """Directories in which the system's loader searches for libraries, such as /opt/vendor/lib.

    Source: ldconfig(8).
    """
    files = [Path("/etc/ld.so.conf"), *Path("/etc/ld.so.conf.d").glob("*.conf")]
    lines = [line.strip() for file in files for line in read_text(file).splitlines()]
    return [line for line in lines if line.startswith("/")]


def _without_homes(paths: Iterable[str]) -> list[str]:
    """Leave out the directories that contain a user's home, and thus the user's keys.

    A home may be in the interpreter's search path, as with PYTHONPATH=/home/pi.
    """
    homes = {Path(home).resolve() for home in (os.environ.get("HOME"), "/root", "/home") if home}
    kept: list[str] = []
    for path in filter(None, paths):
        real = Path(path).resolve()
        is_home = os.path.exists(real / ".ssh") or any(
            real in (home, *home.parents) for home in homes
        )
        if not is_home:  # kept under both names, because the second may contain links
            kept += [str(real), os.path.abspath(path)]
    return list(dict.fromkeys(kept))
