"""Expectations of the matched profile, and differences between this device and the profile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edgebench.agent.telemetry.source import numbered, read_text
from edgebench.device_profiles.checks import GENERIC_PREFIX
from edgebench.device_profiles.power import POWER_W_BOUNDS
from edgebench.device_profiles.schema import Cluster, Indicator, Profile
from edgebench.protocol.thermal import (
    Expectation,
    ExpectedAccelerator,
    ExpectedCluster,
    ExpectedPower,
    ExpectedZone,
    Mismatch,
)


def expect(profile: Profile, root: Path = Path("/")) -> Expectation:
    """Expectations of a profile, and how the device under this root differs from them."""
    indicators = {indicator.kind: indicator for indicator in profile.throttle.indicator}
    firmware = indicators.get("vcgencmd", Indicator(kind="none"))
    cooling = indicators.get("cooling_device", Indicator(kind="none"))
    bounds_w = POWER_W_BOUNDS.get(profile.device_class)
    return Expectation(
        profile=profile.id,
        zones=tuple(
            # The HAL of a phone reports its thresholds together with the temperatures.
            ExpectedZone(
                zone.match_type,
                zone.throttle_c,
                trips_in_sysfs=zone.trips_in_sysfs or zone.source == "dumpsys",
            )
            for zone in profile.thermal.zone
        ),
        is_freq_a_request=profile.freq.cur_is_request,
        freq_truth=profile.freq.truth,
        clusters=tuple(_nominal(profile)),
        is_limit_sustained=_is_limit_sustained(profile),
        accelerators=tuple(
            ExpectedAccelerator(accelerator.name, accelerator.kind, accelerator.devfreq)
            for accelerator in profile.accelerator
            if accelerator.devfreq is not None
        ),
        indicators=tuple(indicators),
        cooling_exclude=cooling.types_exclude,
        thermal_now=firmware.thermal_now,
        thermal_sticky=firmware.thermal_sticky,
        power_now=firmware.power_now,
        power_sticky=firmware.power_sticky,
        abort_c=profile.limits.abort_c,
        power=None if bounds_w is None else ExpectedPower(profile.device_class, *bounds_w),
        mismatches=tuple(find_mismatches(profile, root)),
    )


def _is_limit_sustained(profile: Profile) -> bool:
    """Whether all cores can run at the highest frequency together, as on boards with Arm cores."""
    is_board = not profile.id.startswith(GENERIC_PREFIX)
    return is_board and profile.soc is not None and profile.soc.arch in ("aarch64", "armv7l")


def _nominal(profile: Profile) -> Iterator[ExpectedCluster]:
    if profile.freq.nominal == "cluster.freq_hz_max" and profile.soc:
        for cluster in profile.soc.cluster:
            if cluster.policy is not None and cluster.freq_hz_max is not None:
                yield ExpectedCluster(cluster.policy, cluster.freq_hz_max)


def find_mismatches(profile: Profile, root: Path) -> Iterator[Mismatch]:
    """Differences between device and profile; none for a generic profile."""
    if profile.id.startswith(GENERIC_PREFIX):
        return
    yield from _zones(profile, root)
    for index, cluster in enumerate(profile.soc.cluster if profile.soc else ()):
        yield from _cluster(index, cluster, root)


def _zones(profile: Profile, root: Path) -> Iterator[Mismatch]:
    types = [read_text(z / "type") for z in numbered(root / "sys/class/thermal", "thermal_zone")]
    for zone in profile.thermal.zone:
        if zone.source == "sysfs" and zone.match_type not in types:
            shown = ", ".join(types) or "no zone"
            yield Mismatch(f"thermal.zone.{zone.role}.match_type", zone.match_type, shown)


def _cluster(index: int, cluster: Cluster, root: Path) -> Iterator[Mismatch]:
    if cluster.policy is None:
        return
    key = f"soc.cluster.{index}"
    policy = root / f"sys/devices/system/cpu/cpufreq/policy{cluster.policy}"
    if not policy.exists():
        yield Mismatch(f"{key}.policy", str(cluster.policy), "no such policy")
        return
    khz = read_text(policy / "cpuinfo_max_freq")
    if (
        cluster.freq_hz_max is not None
        and khz.isdecimal()
        and int(khz) * 1000 != cluster.freq_hz_max
    ):
        yield Mismatch(f"{key}.freq_hz_max", str(cluster.freq_hz_max), str(int(khz) * 1000))
