"""Write docs/devices.md from the device profiles: which boards are known, and what of them.

python devtools/write_device_table.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgebench.device_profiles.load import load_profiles
from edgebench.device_profiles.schema import Cluster, Profile

PATH = Path(__file__).parent.parent / "docs" / "devices.md"
HEAD = """\
# Known devices

Written by `devtools/write_device_table.py` from `device_profiles/…/profiles`; do not edit.

A device that is not here runs as well, with a generic profile: its temperatures and frequencies are
recorded, but nobody knows at which temperature it throttles. `edgebench devices` shows which
profile an agent has matched; how to add one is in [architecture.md](architecture.md).

*Throttles at*: the first temperature at which the device slows down, by the profile; `sysfs`: the
kernel's own trip points are used where they differ. *Says so*: what tells that it does. *Ends a run
at*: the agent stops a run there, whether a host is connected or not.

| profile | device | cores | throttles at | says so | ends a run at | facts |
|---|---|---|---|---|---|---|
"""


def main(arguments: list[str]) -> int:
    """Write the page, or say whether it is as it would be written."""
    text = HEAD + "".join(map(row, load_profiles())) + FOOT
    if "--check" in arguments:
        return 0 if PATH.read_text() == text else 1
    PATH.write_text(text)
    return 0


FOOT = """
Facts are graded: S read in a primary source, V verified by running, O observed by others, M from
memory and to be checked, R to be read from the device. Each has its source in the profile.
"""


def row(profile: Profile) -> str:
    """One line of the table; profiles that only others extend have none."""
    if not profile.match:
        return ""
    cells = [
        f"`{profile.id}`",
        profile.name,
        cores(profile),
        throttles(profile),
        ", ".join(dict.fromkeys(one.kind for one in profile.throttle.indicator)) or "–",
        "–" if profile.limits.abort_c is None else f"{profile.limits.abort_c:g} °C",
        grades(profile),
    ]
    return f"| {' | '.join(cells)} |\n"


def cores(profile: Profile) -> str:
    """Clusters with their cores and clocks."""
    if profile.soc is None or not profile.soc.cluster:
        return "–"
    return ", ".join(map(cluster, profile.soc.cluster))


def cluster(one: Cluster) -> str:
    """One cluster: its CPUs, its core, its highest clock."""
    cpus = f"{one.cpus}: " if one.cpus else ""
    clock = f" {one.freq_hz_max / 1e6:g} MHz" if one.freq_hz_max else ""
    return f"{cpus}{one.core}{clock}"


def throttles(profile: Profile) -> str:
    """The lowest temperature at which something slows down."""
    known = [zone for zone in profile.thermal.zone if zone.throttle_c is not None]
    if not known:
        return "sysfs" if any(zone.trips_in_sysfs for zone in profile.thermal.zone) else "–"
    lowest = min(known, key=lambda zone: zone.throttle_c or 0.0)
    return f"{lowest.throttle_c:g} °C" + (" (sysfs)" if lowest.trips_in_sysfs else "")


def grades(profile: Profile) -> str:
    """How many facts of each grade."""
    found = [fact.grade for fact in profile.fact]
    return " ".join(f"{found.count(g)}{g}" for g in "SVOMR" if g in found) or "–"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
