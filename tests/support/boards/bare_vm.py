"""A virtual machine with two CPUs that exposes nothing of its host, as in continuous integration.

Quirks: no thermal zone, no hwmon chip, no cpufreq policy, no DMI, no device tree, no
/sys/fs/cgroup; steal time, and pressure as the only hint at other load; cpu_capacity exists and
cluster_id is 65535, though every CPU is the same; `isolated` is an empty line.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts

PROFILE = "generic-x86_64"
IDENTITY: Mapping[str, str] = {"machine": "x86_64"}

_CPUINFO = """\
processor\t: {cpu}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 106
model name\t: Intel(R) Xeon(R) Processor @ 2.90GHz
cpu MHz\t\t: 2893.198
physical id\t: 0
core id\t\t: {cpu}
cpu cores\t: 2
flags\t\t: fpu vme sse4_2 avx avx2 fma avx512f avx512_vnni hypervisor lahf_lm

"""

FILES, LINKS = parts.tree(
    parts.system("Debian GNU/Linux 12 (bookworm)", 86),
    {"proc/cpuinfo": "".join(_CPUINFO.format(cpu=cpu) for cpu in range(2))},
    parts.memory(4012340, 3504112),
    parts.activity(range(2), load="1.12 0.98 0.71", steal=733),
    parts.pressure(),
    parts.cpu_lists(range(2)),
    *(
        parts.topology(cpu, core=cpu, siblings=str(cpu), cluster=65535, capacity=1024)
        for cpu in range(2)
    ),
)
COMMANDS: Mapping[str, str] = {}
