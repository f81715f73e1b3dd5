"""A laptop with four Intel cores, eight threads and CPU 7 switched off.

Quirks: two zones of type acpitz, one of them constant, a type with a space, a gap in the numbers,
trips at 0 and -274 °C, and a Wi-Fi zone that cannot be read; counters and the policy of the offline
CPU are empty; counters of the package are repeated on every CPU and those of a core on both
threads; no time_in_state with intel_pstate; cooling devices at -1 and, since boot, at 5; the
battery reports power, not current; RAPL shows the package twice, with a sub-zone.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts

PROFILE = "generic-x86_64"
IDENTITY: Mapping[str, str] = {"machine": "x86_64"}

_CPU = "sys/devices/system/cpu"
_ONLINE = range(7)
_OFFLINE = 7
_THROTTLED = (12, 4, 31, 0)
"""Events of each core."""
_CPUINFO = """\
processor\t: {cpu}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 142
model name\t: Intel(R) Core(TM) i5-8350U CPU @ 1.70GHz
cpu MHz\t\t: 1700.021
physical id\t: 0
siblings\t: 7
core id\t\t: {core}
cpu cores\t: 4
flags\t\t: fpu vme de pse tsc msr sse4_2 x2apic avx avx2 fma f16c aperfmperf dtherm pts lahf_lm

"""


def _cpu(cpu: int) -> parts.Part:
    core = cpu % 4
    siblings = str(core) if core + 4 == _OFFLINE else f"{core},{core + 4}"
    pstate = {"cpuinfo_avg_freq": 1690 * 1000 + cpu, "energy_performance_preference": "default"}
    counters = {
        f"{place}_throttle_{what}": value
        for place, count in (("core", _THROTTLED[core]), ("package", 57))
        for what, value in (("count", count), ("max_time_ms", 41), ("total_time_ms", 9 * count))
    }
    return {
        **parts.topology(cpu, core=core, siblings=siblings, cluster=core),
        **parts.policy(
            cpu,
            [cpu],
            (400000, 3600000),
            1701234,
            "powersave",
            driver="intel_pstate",
            governors="performance powersave",
            stats=False,
            extra=pstate,
        ),
        **parts.folder(f"{_CPU}/cpu{cpu}/thermal_throttle", counters),
    }


def _offline_cpu() -> parts.Part:
    """The same files as of an online one, without content."""
    policy = parts.policy(_OFFLINE, [_OFFLINE], (400000, 3600000), 0, "powersave", stats=False)
    names = [f"{place}_throttle_count" for place in ("core", "package")]
    return {
        **{name: one if isinstance(one, parts.Link) else "" for name, one in policy.items()},
        **{f"{_CPU}/cpu{_OFFLINE}/thermal_throttle/{name}": "" for name in names},
    }


def _coretemp() -> parts.Part:
    readings: dict[str, object] = {}
    labels = ["Package id 0", *(f"Core {core}" for core in range(4))]
    for number, (label, temp) in enumerate(zip(labels, (58, 57, 55, 58, 54), strict=True), 1):
        values = {"label": label, "input": temp * 1000, "crit": 100000, "crit_alarm": 0}
        readings |= {f"temp{number}_{name}": value for name, value in values.items()}
    return parts.hwmon(4, "coretemp", readings)


def _rapl(zone: str, name: str, energy_uj: int) -> parts.Part:
    readings = {"name": name, "energy_uj": energy_uj, "max_energy_range_uj": 262143328850}
    return parts.folder(f"sys/class/powercap/{zone}", {**readings, "enabled": 1})


FILES, LINKS = parts.tree(
    parts.system("Fedora Linux 42 (Workstation Edition)", 8350),
    parts.folder(
        "sys/class/dmi/id",
        {"sys_vendor": "Example Computers", "product_name": "Notebook 14", "board_name": "NB14-A"},
    ),
    {"proc/cpuinfo": "".join(_CPUINFO.format(cpu=cpu, core=cpu % 4) for cpu in _ONLINE)},
    parts.memory(16151380, 11240112, swap_kb=8388604, swap_free_kb=8388604),
    parts.activity(_ONLINE),
    parts.pressure(),
    parts.cgroup(),
    parts.cpu_lists(range(8), offline=[_OFFLINE]),
    parts.folder(_CPU, {"smt/active": 1, "smt/control": "on"}),
    parts.folder(f"{_CPU}/intel_pstate", {"status": "active", "no_turbo": 0}),
    *(_cpu(cpu) for cpu in _ONLINE),
    _offline_cpu(),
    parts.zone(0, "acpitz", 58000, trips=[("critical", 128000, 0)]),
    parts.zone(1, "acpitz", 27800, trips=[("critical", 0, 0)]),
    parts.zone(2, "INT3400 Thermal", 20000, policy="user_space"),
    parts.zone(5, "x86_pkg_temp", 58000, trips=[("passive", -274000, 0), ("passive", 0, 0)]),
    parts.zone(6, "iwlwifi_1", ""),
    *(parts.cooling(cpu, "Processor", 0, 3) for cpu in range(8)),
    parts.cooling(8, "intel_powerclamp", -1, 50),
    parts.cooling(9, "TCC Offset", 5, 63),
    parts.hwmon(0, "acpitz", {"temp1_input": 58000, "temp2_input": 27800}),
    parts.hwmon(
        2,
        "nvme",
        {
            "temp1_label": "Composite",
            "temp1_input": 41850,
            "temp1_min": -273150,
            "temp1_max": 81850,
            "temp1_crit": 84850,
            "temp2_label": "Sensor 1",
            "temp2_input": 44850,
        },
    ),
    _coretemp(),
    parts.hwmon(6, "iwlwifi_1", {"temp1_input": ""}),
    parts.supply("AC", "Mains", {"online": 1}),
    parts.supply(
        "BAT0",
        "Battery",
        {"status": "Charging", "capacity": 72, "voltage_now": 12213000, "power_now": 18400000},
    ),
    _rapl("intel-rapl:0", "package-0", 98765432101),
    _rapl("intel-rapl:0:0", "core", 45678901234),
    _rapl("intel-rapl-mmio:0", "package-0", 98765432101),
    parts.folder(
        "sys/class/powercap/intel-rapl:0",
        {"constraint_0_name": "long_term", "constraint_0_power_limit_uw": 15000000},
    ),
)
COMMANDS: Mapping[str, str] = {}
