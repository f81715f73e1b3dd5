"""Checks beyond the schema: whether the values of a profile are consistent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from edgebench.device_profiles.ranges import out_of_range
from edgebench.device_profiles.schema import Cluster, Fact, Profile
from edgebench.protocol.toml_positions import Path
from edgebench.protocol.toml_text import Complaint

GENERIC_PREFIX = "generic-"
"""Prefix of the ids of profiles that may match every device."""
_NAMES = ("role", "name", "kind")
"""The key of a fact selects a list item by the value of any of these fields."""


def check(profile: Profile, name: str) -> Iterator[Complaint]:
    """All complaints about a profile that conforms to the schema."""
    if profile.id != name:
        yield Complaint(("id",), f"is {profile.id!r}, but the file is {name}.toml")
    yield from (Complaint(path, what) for path, what in out_of_range(profile))
    yield from _matches(profile)
    yield from _clusters(profile)
    yield from _zones(profile)
    yield from _limits(profile)
    yield from _indicators(profile)
    for index, fact in enumerate(profile.fact):
        yield from _fact(profile, index, fact)


def cpus_of(cpulist: str) -> frozenset[int]:
    """The CPUs of a kernel cpulist such as `0-3,8`.

    Raises:
        ValueError: the text is not a cpulist.
    """
    cpus: set[int] = set()
    for part in cpulist.split(","):
        first, dash, last = part.partition("-")
        numbers = range(int(first), int(last if dash else first) + 1)
        if not numbers:
            raise ValueError(f"{part} counts backwards")
        cpus |= set(numbers)
    return frozenset(cpus)


def _matches(profile: Profile) -> Iterator[Complaint]:
    for index, match in enumerate(profile.match):
        is_empty = match.specificity == 0
        if is_empty and not profile.id.startswith(GENERIC_PREFIX):
            yield Complaint(("match", index), "has no condition and would match every device")
        for usb in match.usb:
            if not (0 <= usb.vid <= 0xFFFF and 0 <= usb.pid <= 0xFFFF):
                yield Complaint(("match", index, "usb"), "vid and pid must be 0..0xffff")


def _clusters(profile: Profile) -> Iterator[Complaint]:
    taken: set[int] = set()
    for index, cluster in enumerate(profile.soc.cluster if profile.soc else ()):
        path: Path = ("soc", "cluster", index)
        yield from _cluster_freq(path, cluster)
        if cluster.cpus is None:
            continue
        try:
            cpus = cpus_of(cluster.cpus)
        except ValueError as exc:
            yield Complaint((*path, "cpus"), f"{cluster.cpus!r} is not a list of CPUs: {exc}")
            continue
        if taken & cpus:
            yield Complaint((*path, "cpus"), f"CPU {min(taken & cpus)} is also in another cluster")
        taken |= cpus


def _cluster_freq(path: Path, cluster: Cluster) -> Iterator[Complaint]:
    low, high = cluster.freq_hz_min, cluster.freq_hz_max
    if low is not None and high is not None and low > high:
        yield Complaint((*path, "freq_hz_min"), f"{low} is above freq_hz_max, {high}")
    for name, value in (("freq_hz_min", low), ("freq_hz_max", high)):
        if value is not None and value < 1_000_000:
            yield Complaint((*path, name), f"{value} is below 1 MHz; the unit is Hz")


def _zones(profile: Profile) -> Iterator[Complaint]:
    for index, zone in enumerate(profile.thermal.zone):
        steps = [zone.throttle_c, zone.hard_c, zone.critical_c]
        known = [step for step in steps if step is not None]
        if known != sorted(known):
            yield Complaint(
                ("thermal", "zone", index),
                f"throttle_c, hard_c and critical_c must be in ascending order, got {known}",
            )
    roles = [zone.role for zone in profile.thermal.zone]
    if len(set(roles)) < len(roles):
        yield Complaint(("thermal", "zone"), f"two zones have the same role: {', '.join(roles)}")


def _limits(profile: Profile) -> Iterator[Complaint]:
    zones = {zone.role: zone for zone in profile.thermal.zone}
    cooldown, abort_c = profile.cooldown, profile.limits.abort_c
    zone = zones.get(cooldown.zone)
    if zones and zone is None:
        yield Complaint(("cooldown", "zone"), f"{cooldown.zone!r} is not a zone of this profile")
    if zone and zone.throttle_c is not None and (cooldown.max_c or 0.0) >= zone.throttle_c:
        yield Complaint(
            ("cooldown", "max_c"), f"{cooldown.max_c} is not below throttle_c = {zone.throttle_c}"
        )
    if cooldown.timeout_s < cooldown.stable_s:
        yield Complaint(("cooldown", "timeout_s"), f"is below stable_s, {cooldown.stable_s}")
    for other in zones.values():
        if abort_c is not None and other.throttle_c is not None and abort_c <= other.throttle_c:
            yield Complaint(
                ("limits", "abort_c"), f"{abort_c} is not above throttle_c = {other.throttle_c}"
            )


def _indicators(profile: Profile) -> Iterator[Complaint]:
    for index, indicator in enumerate(profile.throttle.indicator):
        heat = indicator.thermal_now | indicator.thermal_sticky
        power = indicator.power_now | indicator.power_sticky
        if heat & power:
            what = f"bits {heat & power:#x} cannot mean both heat and power"
            yield Complaint(("throttle", "indicator", index), what)


def _fact(profile: Profile, index: int, fact: Fact) -> Iterator[Complaint]:
    if fact.value is None:
        return
    path: Path = ("fact", index)
    try:
        value = _value(profile, fact.key.split("."))
    except LookupError as exc:
        yield Complaint((*path, "key"), f"{fact.key!r}: {exc.args[0]}")
        return
    stated = tuple(fact.value) if isinstance(fact.value, list) else fact.value
    if value != stated:
        yield Complaint((*path, "value"), f"is {fact.value!r}, but {fact.key} is {value!r}")


def _value(value: Any, names: Sequence[str]) -> Any:
    """The value at the key of a fact.

    Raises:
        LookupError: the profile has no such value.
    """
    for name in names:
        if isinstance(value, tuple):
            value = _item(value, name)
        elif isinstance(value, dict):
            value = value[name] if name in value else _nothing(name)
        elif is_dataclass(value) and name in {field.name for field in fields(value)}:
            value = getattr(value, name)
        else:
            _nothing(name)
    return value


def _item(items: tuple[Any, ...], name: str) -> Any:
    if name.isdigit() and int(name) < len(items):
        return items[int(name)]
    named = [item for item in items if name in {getattr(item, field, None) for field in _NAMES}]
    return named[0] if named else _nothing(name)


def _nothing(name: str) -> Any:
    raise LookupError(f"there is no {name}")
