"""Quotas of CPU time that control groups set for this process.

Theory of operation. A container with `--cpus 0.5`, a pod with a CPU limit and a unit with
`CPUQuota=` are control groups with a limit of CPU time in each period, usually 100 ms. When a group
has used up its quota, the kernel stops all its threads until the next period. Groups are nested,
and each may have its own quota:

    /proc/self/cgroup      path of this process's group in a hierarchy
    /proc/self/mountinfo   mount point of that hierarchy, and the group at the root of the mount
    cpu.max                quota and period, in version 2
    cpu.cfs_quota_us, cpu.cfs_period_us
                           quota and period, in version 1
    cpu.stat               number of periods, and number of periods in which the quota was used up

In a container, the root of the mount is usually the container's own group. The groups that contain
this group are invisible from inside the container. The set of CPUs that a group may use
(`cpuset.cpus.effective`) is not read here, because sched_getaffinity(2) already accounts for it.

The files of counters are opened once, before a worker confines itself, and read again through
their descriptors.

Source: https://docs.kernel.org/admin-guide/cgroup-v2.html, CPU Interface Files;
https://docs.kernel.org/scheduler/sched-bwc.html; cgroups(7).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edgebench.agent.mounts import read_mounts
from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.record import CpuQuota, QuotaUse

_V2_TYPE, _V1_TYPE = "cgroup2", "cgroup"
_CPU = "cpu"
"""Controller of version 1 that limits CPU time. In this module, the controller's name also stands
for the hierarchy to which the controller belongs."""
_V2_THROTTLED, _V1_THROTTLED = ("throttled_usec", 1e6), ("throttled_time", 1e9)
"""Counter of the time for which a group was stopped: name of the counter, and number of its units
in a second."""
_STAT_BYTES = 4096
"""Maximum number of bytes that are read from cpu.stat, which has 200 bytes on Linux 6.18."""


@dataclass(frozen=True, slots=True)
class QuotaGroup:
    """A control group with a quota."""

    quota: CpuQuota
    stat: int
    """Descriptor of its file of counters, cpu.stat."""

    def use(self) -> QuotaUse:
        """Current values of the counters; zeros if the file is no longer readable."""
        try:
            text = os.pread(self.stat, _STAT_BYTES, 0).decode("ascii", "replace")
        except OSError:
            text = ""
        counters = {name: int(count) for name, count in re.findall(r"^(\w+) (\d+)$", text, re.M)}
        throttled_s = next(
            (
                counters[name] / per_s
                for name, per_s in (_V2_THROTTLED, _V1_THROTTLED)
                if name in counters
            ),
            0.0,
        )
        return QuotaUse(counters.get("nr_periods", 0), counters.get("nr_throttled", 0), throttled_s)


@dataclass(frozen=True, slots=True)
class QuotaGroups:
    """Control groups of this process that have a quota, the outermost first."""

    groups: tuple[QuotaGroup, ...] = ()
    is_known: bool = False
    """Whether the groups of this process could be read."""

    @property
    def quotas(self) -> tuple[CpuQuota, ...] | None:
        """Quota of each group; None if the groups could not be read."""
        return tuple(group.quota for group in self.groups) if self.is_known else None

    def use(self) -> tuple[QuotaUse, ...]:
        """Current counters of each group."""
        return tuple(group.use() for group in self.groups)

    def close(self) -> None:
        """Close the files of counters."""
        for group in self.groups:
            os.close(group.stat)


def open_quota_groups(root: Path = Path("/")) -> QuotaGroups:
    """Find the groups of this process that have a quota, and open their counters.

    Args:
        root: Directory that replaces / in tests and simulations.
    """
    folders = _folders(root)
    if folders is None:
        return QuotaGroups()
    groups: list[QuotaGroup] = []
    for folder in folders:
        quota = _quota(folder)
        if quota is not None:
            try:
                stat = os.open(folder / "cpu.stat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                QuotaGroups(tuple(groups)).close()
                return QuotaGroups()
            groups.append(QuotaGroup(quota, stat))
    return QuotaGroups(tuple(groups), is_known=True)


def _quota(folder: Path) -> CpuQuota | None:
    quota, _, period = read_text(folder / "cpu.max").partition(" ")
    if not quota:
        quota = read_text(folder / "cpu.cfs_quota_us")  # -1: none
        period = read_text(folder / "cpu.cfs_period_us")
    if not quota.isdecimal() or not period.isdecimal() or not int(period):
        return None
    return CpuQuota(cpu_count=int(quota) / int(period), period_s=int(period) / 1e6)


def _folders(root: Path) -> list[Path] | None:
    """Directories of the groups that limit CPU time, the outermost first; None if unknown."""
    hierarchy, path = _group_of_process(read_text(root / "proc/self/cgroup"))
    try:
        mounts = list(read_mounts(root))
    except OSError:
        return None
    for mount in mounts:
        is_v1 = mount.kind == _V1_TYPE and _CPU in mount.super_options
        if hierarchy != (_CPU if is_v1 else mount.kind):
            continue
        inside = _inside(path, mount.root)
        top = root / mount.point.lstrip("/")
        folders = [top.joinpath(*inside[:depth]) for depth in range(len(inside) + 1)]
        if folders[-1].is_dir():
            return folders
    return None


def _group_of_process(text: str) -> tuple[str, str]:
    """Hierarchy that limits CPU time, and this process's group in it; two empty strings if none.

    If both versions of control groups are mounted and the controller `cpu` belongs to version 1,
    version 1 limits CPU time. Otherwise version 2 does.
    """
    unified = ("", "")
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if _CPU in controllers.split(","):
            return _CPU, path
        if number == "0" and not controllers and path:
            unified = (_V2_TYPE, path)
    return unified


def _inside(path: str, mounted: str) -> Sequence[str]:
    """Names of the groups between the root of a mount and the group of this path.

    In a namespace of control groups, a path starts at the root of the namespace, and the mount has
    the root `/`. Without a namespace, the path is the path on the host. It then starts with the
    root of the mount.

    >>> _inside("/docker/1f2e/worker", "/docker/1f2e"), _inside("/", "/"), _inside("/a", "/docker")
    (('worker',), (), ())
    """
    group, top = PurePosixPath(path), PurePosixPath(mounted)
    if ".." in group.parts or not group.is_relative_to(top):
        return ()
    return group.relative_to(top).parts
