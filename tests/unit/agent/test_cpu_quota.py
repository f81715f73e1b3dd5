"""Quotas of control groups, as containers, pods and units of systemd have them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.quotas import quota_group
from support.trees import make_tree

from edgebench.agent.cpu_quota import QuotaGroups, open_quota_groups
from edgebench.protocol.record import CpuQuota, QuotaUse

V2 = "30 24 0:27 {root} {point} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 25 0:28 {root} {point} rw,nosuid shared:5 - cgroup cgroup rw,cpu,cpuacct\n"
V1_MEMORY = "32 25 0:29 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n"
STAT = "usage_usec 5\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\nnr_bursts 0\n"


@contextmanager
def groups_in(root: Path) -> Iterator[QuotaGroups]:
    """The groups of a process under this root."""
    groups = open_quota_groups(root)
    try:
        yield groups
    finally:
        groups.close()


def v2(cgroup: str, root: str = "/", point: str = "/sys/fs/cgroup") -> dict[str, str]:
    """A system with version 2 only."""
    return {
        "proc/self/cgroup": f"0::{cgroup}\n",
        "proc/self/mountinfo": V2.format(root=root, point=point),
        "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    }


def test_every_group_around_the_process_counts(tmp_path: Path) -> None:
    """Otherwise the quota of a pod, which is around the container, would be missed."""
    tree = {
        "sys/fs/cgroup/pods.slice/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/pods.slice/cpu.stat": STAT.format(90, 4, 250_000),
        "sys/fs/cgroup/pods.slice/one/cpu.max": "max 100000\n",
        "sys/fs/cgroup/pods.slice/one/two/cpu.max": "10000 20000\n",
        "sys/fs/cgroup/pods.slice/one/two/cpu.stat": STAT.format(80, 7, 1_500),
    }
    with groups_in(make_tree(tmp_path, v2("/pods.slice/one/two"), tree)) as groups:
        assert groups.quotas == (CpuQuota(1.5, 0.1), CpuQuota(0.5, 0.02))
        assert groups.use() == (QuotaUse(90, 4, 0.25), QuotaUse(80, 7, 0.0015))


def test_counters_are_read_again(tmp_path: Path) -> None:
    """Otherwise the two ends of a timed loop would have the same counters."""
    stat = "sys/fs/cgroup/cpu.stat"
    tree = {"sys/fs/cgroup/cpu.max": "50000 100000", stat: STAT.format(1, 0, 0)}
    with groups_in(make_tree(tmp_path, v2("/"), tree)) as groups:
        assert groups.use() == (QuotaUse(1, 0, 0.0),)
        make_tree(tmp_path, {stat: STAT.format(3, 2, 1_000_000)})
        assert groups.use() == (QuotaUse(3, 2, 1.0),)


def test_group_of_a_container_is_the_root_of_its_mount(tmp_path: Path) -> None:
    """In a namespace of control groups, the path is `/` and the mount begins at the container."""
    tree = {
        "sys/fs/cgroup/cpu.max": "200000 100000",
        "sys/fs/cgroup/cpu.stat": STAT.format(0, 0, 0),
    }
    with groups_in(make_tree(tmp_path, v2("/"), tree)) as groups:
        assert groups.quotas == (CpuQuota(2.0, 0.1),)


def test_container_without_a_namespace_sees_the_path_of_the_host(tmp_path: Path) -> None:
    """Docker with version 1: the path is the host's, of which the mount shows the lower part."""
    tree = {
        "proc/self/cgroup": "4:memory:/docker/1f2e\n3:cpu,cpuacct:/docker/1f2e/inner\n",
        "proc/self/mountinfo": V1_MEMORY
        + V1.format(root="/docker/1f2e", point=r"/sys/fs/cgroup/cpu\054cpuacct"),
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.stat": "nr_periods 9\nnr_throttled 3\nthrottled_time 500\n",
        "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us": "100000\n",
    }
    with groups_in(make_tree(tmp_path, tree)) as groups:
        assert groups.quotas == (CpuQuota(0.5, 0.1),)
        assert groups.use() == (QuotaUse(9, 3, 5e-7),)


def test_both_versions_beside_each_other_are_read_where_the_cpu_is(tmp_path: Path) -> None:
    """A hybrid system has an empty version 2, whose groups limit nothing."""
    tree = {
        "proc/self/cgroup": "2:cpu:/a\n0::/b\n",
        "proc/self/mountinfo": V2.format(root="/", point="/sys/fs/cgroup/unified")
        + V1.format(root="/", point="/sys/fs/cgroup/cpu"),
        "sys/fs/cgroup/unified/b/cgroup.procs": "",
        "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "25000",
        "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "50000",
        "sys/fs/cgroup/cpu/a/cpu.stat": "",
    }
    with groups_in(make_tree(tmp_path, tree)) as groups:
        assert groups.quotas == (CpuQuota(0.5, 0.05),)
        assert groups.use() == (QuotaUse(0, 0, 0.0),)


@pytest.mark.parametrize(
    "tree",
    [
        {},
        {"proc/self/cgroup": "0::/\n"},
        {"proc/self/mountinfo": V2.format(root="/", point="/sys/fs/cgroup")},
        v2("/gone") | {"sys/fs/cgroup/cgroup.procs": ""},
        v2("/") | {"sys/fs/cgroup/cpu.max": "50000 100000"},
        {"proc/self/cgroup": "garbage\n0::\n:::\n", "proc/self/mountinfo": "1 2\n - \n"},
    ],
    ids=["nothing", "no mount", "no path", "no folder", "no counters", "garbage"],
)
def test_what_cannot_be_read_is_unknown(tmp_path: Path, tree: dict[str, str]) -> None:
    """Otherwise a system that hides its groups would be one without a quota."""
    with groups_in(make_tree(tmp_path, tree)) as groups:
        assert groups.quotas is None
        assert groups.use() == ()


@pytest.mark.parametrize("quota", ["max 100000", "max", "x y", "100 0", "-5 100000"])
def test_group_without_a_quota_has_none(tmp_path: Path, quota: str) -> None:
    """Otherwise an ordinary system would have a quota."""
    with groups_in(make_tree(tmp_path, v2("/"), {"sys/fs/cgroup/cpu.max": quota})) as groups:
        assert groups.quotas == ()


LOOP = """
import json, os, time
from pathlib import Path
from edgebench.agent.cpu_quota import open_quota_groups
(Path({group!r}) / "cgroup.procs").write_text(str(os.getpid()))
groups = open_quota_groups()
before = groups.use()[-1]
end = time.monotonic() + 0.5
while time.monotonic() < end: pass
after = groups.use()[-1]
quota = groups.quotas[-1]
print(json.dumps([quota.cpu_count, quota.period_s, after.throttled_count - before.throttled_count,
    after.throttled_s - before.throttled_s]))
"""


def test_real_group_stops_a_loop_and_says_so() -> None:
    """Otherwise the kernel's files would have other names or units than those that are read."""
    with quota_group(0.2) as group:
        if group is None:
            pytest.skip("no control group can be made here: needs root and a writable cgroup")
        source = LOOP.format(group=str(group))
        result = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        cpu_count, period_s, throttled_count, throttled_s = json.loads(result.stdout)
    assert (cpu_count, period_s) == (0.2, 0.1)
    assert throttled_count >= 1
    assert 0 < throttled_s < 5
