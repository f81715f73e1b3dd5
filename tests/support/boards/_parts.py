"""Pieces of made-up /proc and /sys trees that boards have in common.

Each function gives files, by path under the root; a value of type `Link` is a symbolic link.
Files that only root can read are left out. An empty file stands for one whose read fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

Part = Mapping[str, str | bytes]

GOVERNORS = "conservative ondemand userspace powersave performance schedutil"
"""scaling_available_governors of most kernels."""
A53_FEATURES = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
"""ARMv8.0 with cryptography: no half-precision arithmetic."""
A76_FEATURES = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop "
    "asimddp"
)
"""ARMv8.2 with half precision and dot products: also A55 and A78."""

_CPU = "sys/devices/system/cpu"


class Link(str):
    """Where a symbolic link points."""


def tree(*parts: Part) -> tuple[dict[str, str | bytes], dict[str, str]]:
    """Files and links of a board; no two parts may have the same path."""
    files: dict[str, str | bytes] = {}
    links: dict[str, str] = {}
    for part in parts:
        for path, content in part.items():
            assert path not in {**files, **links}, path
            if isinstance(content, Link):
                links[path] = content
            else:
                files[path] = content
    return files, links


def folder(path: str, content: Mapping[str, object]) -> Part:
    """A line for each file."""
    return {f"{path}/{name}": f"{value}\n" for name, value in content.items()}


def cpulist(cpus: Sequence[int]) -> str:
    """In the kernel's notation: 0-3,5."""
    runs = [
        [cpu for _, cpu in group]
        for _, group in groupby(enumerate(cpus), key=lambda pair: pair[1] - pair[0])
    ]
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def system(pretty_name: str, number: int) -> Part:
    """Name of the operating system and a machine-id that is plainly no real one."""
    name = pretty_name.split(" ")[0]
    return {
        "etc/os-release": f'PRETTY_NAME="{pretty_name}"\nNAME="{name}"\nID={name.lower()}\n',
        "etc/machine-id": f"{number:032d}\n",
    }


def arm_cpuinfo(cores: Mapping[str, int], features: str, tail: str = "") -> Part:
    """`cores` has the number of cores of each CPU part, in the order of the CPUs."""
    parts = [part for part, count in cores.items() for _ in range(count)]
    blocks = [
        f"processor\t: {cpu}\nBogoMIPS\t: 48.00\nFeatures\t: {features}\n"
        "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x1\n"
        f"CPU part\t: {part}\nCPU revision\t: 0\n\n"
        for cpu, part in enumerate(parts)
    ]
    return {"proc/cpuinfo": "".join(blocks) + tail}


def memory(
    total_kb: int, available_kb: int, *, swap_kb: int = 0, swap_free_kb: int = 0, cma_kb: int = 0
) -> Part:
    """/proc/meminfo; MemFree is far below MemAvailable."""
    sizes_kb = {
        "MemTotal": total_kb,
        "MemFree": available_kb // 4,
        "MemAvailable": available_kb,
        "Buffers": total_kb // 100,
        "Cached": available_kb // 2,
        "SwapCached": 0,
        "SwapTotal": swap_kb,
        "SwapFree": swap_free_kb,
        "Dirty": 64,
        "AnonPages": (total_kb - available_kb) // 2,
        "Shmem": total_kb // 200,
        **({"CmaTotal": cma_kb, "CmaFree": cma_kb // 2} if cma_kb else {}),
    }
    lines = [f"{name + ':':<16}{size:>8} kB\n" for name, size in sizes_kb.items()]
    return {"proc/meminfo": "".join(lines) + "HugePages_Total:       0\n"}


def activity(cpus: Sequence[int], *, load: str = "0.42 0.36 0.31", steal: int = 0) -> Part:
    """/proc/stat and /proc/loadavg of these online CPUs; times in ticks of 10 ms."""
    ticks = (5000, 120, 2400, 90000, 310, 0, 45, steal, 0, 0)
    rows = [f"cpu  {' '.join(str(one * len(cpus)) for one in ticks)}\n"]
    rows += [f"cpu{cpu} {' '.join(map(str, ticks))}\n" for cpu in cpus]
    rows.append("intr 181920 0 0 7431\nctxt 3321804\nbtime 1700000000\nprocesses 4321\n")
    rows.append("procs_running 1\nprocs_blocked 0\nsoftirq 91210 0 20412 7\n")
    return {"proc/stat": "".join(rows), "proc/loadavg": f"{load} 2/231 4321\n"}


def pressure(*, cpu_full: bool = True) -> Part:
    """Pressure stall information; before Linux 5.13 cpu had no second line."""
    some = "some avg10=0.42 avg60=1.07 avg300=0.91 total=81234567\n"
    full = "full avg10=0.11 avg60=0.25 avg300=0.20 total=12345678\n"
    none = "full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    return {
        "proc/pressure/cpu": some + (none if cpu_full else ""),
        "proc/pressure/memory": none.replace("full", "some") + none,
        "proc/pressure/io": some + full,
    }


def device_tree(model: str, *compatible: str, serial: str = "") -> Part:
    """Root node of the device tree, with NULs, and its other name under /proc."""
    base = "sys/firmware/devicetree/base"
    return {
        f"{base}/compatible": b"".join(one.encode() + b"\0" for one in compatible),
        f"{base}/model": model.encode() + b"\0",
        **({f"{base}/serial-number": serial.encode() + b"\0"} if serial else {}),
        "proc/device-tree": Link("../sys/firmware/devicetree/base"),
    }


def cgroup(controllers: str = "cpuset cpu io memory pids") -> Part:
    """Root of a unified hierarchy."""
    return {
        "sys/fs/cgroup/cgroup.controllers": f"{controllers}\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 75210000\nuser_usec 51200000\nsystem_usec 24010000\n",
    }


def cpu_lists(possible: Sequence[int], *, offline: Sequence[int] = (), isolated: str = "") -> Part:
    """The CPUs that exist."""
    return folder(
        _CPU,
        {
            "possible": cpulist(possible),
            "present": cpulist(possible),
            "online": cpulist([cpu for cpu in possible if cpu not in offline]),
            "offline": cpulist(offline),
            "isolated": isolated,
        },
    )


def topology(
    cpu: int,
    *,
    core: int,
    siblings: str,
    package: int = 0,
    cluster: int | None = None,
    capacity: int | None = None,
) -> Part:
    """Place of a CPU; kernels before 5.16 have no `cluster_id`."""
    place: dict[str, object] = {
        "core_id": core,
        "physical_package_id": package,
        "thread_siblings_list": siblings,
    }
    if cluster is not None:
        place |= {"cluster_id": cluster, "core_cpus_list": siblings}
    strength = {} if capacity is None else {"cpu_capacity": capacity}
    return {**folder(f"{_CPU}/cpu{cpu}/topology", place), **folder(f"{_CPU}/cpu{cpu}", strength)}


def clusters(
    *sizes: int, capacities: Sequence[int] = (), ids: bool = True, isolated: str = ""
) -> Part:
    """CPUs without hyper-threads in clusters of these sizes; `capacities` has one per cluster."""
    where = [(cluster, core) for cluster, size in enumerate(sizes) for core in range(size)]
    files = dict(cpu_lists(range(len(where)), isolated=isolated))
    for cpu, (cluster, core) in enumerate(where):
        files |= topology(
            cpu,
            core=core,
            siblings=str(cpu),
            package=0 if ids else cluster,
            cluster=cluster if ids else None,
            capacity=capacities[cluster] if capacities else None,
        )
    return files


def policy(
    number: int,
    cpus: Sequence[int],
    freqs_khz: Sequence[int],
    cur: int,
    governor: str,
    *,
    cap: int | None = None,
    driver: str = "cpufreq-dt",
    governors: str = GOVERNORS,
    stats: bool = True,
    extra: Mapping[str, object] | None = None,
) -> Part:
    """A cpufreq policy; `freqs_khz` ascends, `cap` is scaling_max_freq if not the highest."""
    path = f"{_CPU}/cpufreq/policy{number}"
    names = " ".join(map(str, cpus))
    files = {
        **folder(
            path,
            {
                "affected_cpus": names,
                "related_cpus": names,
                "cpuinfo_min_freq": freqs_khz[0],
                "cpuinfo_max_freq": freqs_khz[-1],
                "scaling_min_freq": freqs_khz[0],
                "scaling_max_freq": freqs_khz[-1] if cap is None else cap,
                "scaling_cur_freq": cur,
                "scaling_driver": driver,
                "scaling_governor": governor,
                "scaling_available_governors": governors,
                **(extra or {}),
            },
        ),
        **{f"{_CPU}/cpu{cpu}/cpufreq": Link(f"../cpufreq/policy{number}") for cpu in cpus},
    }
    if stats:
        ticks = [f"{freq} {90000 // (rank + 1)}" for rank, freq in enumerate(freqs_khz)]
        files |= folder(path, {"scaling_available_frequencies": " ".join(map(str, freqs_khz))})
        files |= folder(f"{path}/stats", {"time_in_state": "\n".join(ticks), "total_trans": 4711})
    return files


def zone(
    number: int,
    kind: str,
    temp: int | str,
    *,
    trips: Sequence[tuple[str, int, int]] = (),
    maps: Sequence[tuple[int, int]] = (),
    policy: str = "step_wise",
) -> Part:
    """A thermal zone.

    Args:
        number: Of the zone.
        kind: Not unique on every board.
        temp: Milli-degrees; "" stands for a read that fails.
        trips: Type, temperature and hysteresis, milli-degrees.
        maps: Trip and the number of the cooling device that it starts.
        policy: Name of the governor.
    """
    path = f"sys/class/thermal/thermal_zone{number}"
    files = dict(folder(path, {"type": kind, "mode": "enabled", "policy": policy}))
    files[f"{path}/temp"] = "" if temp == "" else f"{temp}\n"
    for trip, (effect, temp_mc, hyst_mc) in enumerate(trips):
        values = {"type": effect, "temp": temp_mc, "hyst": hyst_mc}
        files |= folder(path, {f"trip_point_{trip}_{name}": one for name, one in values.items()})
    for index, (trip, device) in enumerate(maps):
        files |= folder(path, {f"cdev{index}_trip_point": trip, f"cdev{index}_weight": 0})
        files[f"{path}/cdev{index}"] = Link(f"../cooling_device{device}")
    return files


def cooling(number: int, kind: str, state: int, highest: int, *, stats: bool = False) -> Part:
    """A cooling device; `stats` as with CONFIG_THERMAL_STATISTICS, in milliseconds."""
    path = f"sys/class/thermal/cooling_device{number}"
    files = dict(folder(path, {"type": kind, "cur_state": state, "max_state": highest}))
    if stats:
        spent_ms = [600000 if one == 0 else 0 for one in range(highest + 1)]
        spent_ms[state] += 42000
        lines = [f"state{one}\t{ms}" for one, ms in enumerate(spent_ms)]
        files |= folder(
            f"{path}/stats", {"total_trans": 2 * state, "time_in_state_ms": "\n".join(lines)}
        )
    return files


def hwmon(number: int, name: str, readings: Mapping[str, object]) -> Part:
    """A chip; numbers change between boots. A value of "" stands for a read that fails."""
    path = f"sys/class/hwmon/hwmon{number}"
    files = dict(folder(path, {"name": name, **readings}))
    return files | {f"{path}/{key}": "" for key, value in readings.items() if value == ""}


def devfreq(
    name: str, freqs_hz: Sequence[int], cur: int, governor: str, *, load: int | None = None
) -> Part:
    """A device with its own frequency; `load` in percent."""
    return folder(
        f"sys/class/devfreq/{name}",
        {
            "name": name,
            "available_frequencies": " ".join(map(str, freqs_hz)),
            "cur_freq": cur,
            "target_freq": cur,
            "min_freq": freqs_hz[0],
            "max_freq": freqs_hz[-1],
            "governor": governor,
            **({} if load is None else {"load": f"{load}@{cur}Hz"}),
        },
    )


def supply(name: str, kind: str, readings: Mapping[str, object]) -> Part:
    """A power supply: uA, uV, uW and tenths of a degree."""
    return folder(f"sys/class/power_supply/{name}", {"type": kind, **readings})
