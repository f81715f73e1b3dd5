"""The list of mounts, as the kernel writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.trees import make_tree

from edgebench.agent.mounts import Mount, read_mounts

LINES = r"""23 28 0:22 / /sys rw,nosuid,relatime shared:7 - sysfs sysfs rw
31 23 0:27 /docker/1f /sys/fs/cgroup/a\040b\134c ro,noexec - cgroup cgroup rw,cpu,cpuacct
half a line
"""


def test_fields_optional_ones_and_escapes(tmp_path: Path) -> None:
    """Otherwise a path with a blank would end at it, and a mount be left as it is."""
    root = make_tree(tmp_path, {"proc/self/mountinfo": LINES})
    assert list(read_mounts(root)) == [
        Mount("/", "/sys", frozenset({"rw", "nosuid", "relatime"}), "sysfs", frozenset({"rw"})),
        Mount(
            root="/docker/1f",
            point="/sys/fs/cgroup/a b\\c",
            options=frozenset({"ro", "noexec"}),
            kind="cgroup",
            super_options=frozenset({"rw", "cpu", "cpuacct"}),
        ),
    ]


def test_list_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """Otherwise no mount of a worker's view would be made read-only."""
    with pytest.raises(FileNotFoundError):
        list(read_mounts(tmp_path))


def test_mounts_of_this_machine_have_a_root() -> None:
    """Otherwise the order of the fields would be different."""
    assert "/" in {mount.point for mount in read_mounts()}
