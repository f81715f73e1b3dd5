"""Selects the profile of a device: the most specific profile that matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.device_profiles.load import load_profiles
from edgebench.device_profiles.schema import Match, Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceIdentity:
    """Names and ids of a device; an empty field is a name or id that the device does not have."""

    machine: str = ""
    """Machine, as printed by uname(1)."""
    dt_compatible: tuple[str, ...] = ()
    """`compatible` entries of the device tree's root."""
    dmi_product: str = ""
    cpuinfo_model: str = ""
    """`model name` in /proc/cpuinfo."""
    adb_device: str = ""
    """`ro.product.device` of an Android device."""
    system: str = ""
    """`android`; empty for any other operating system."""
    usb: tuple[int, int] | None = None
    """USB vendor and product."""
    mbed_id: str = ""


def match_profile(identity: DeviceIdentity, profiles: Sequence[Profile] | None = None) -> Profile:
    """The most specific profile that matches a device; generic profiles match every device.

    Args:
        identity: Names and ids of the device.
        profiles: Profiles to choose from; None: the shipped profiles.
    """
    fits = [
        (condition.specificity, condition.priority, profile.id, profile)
        for profile in (load_profiles() if profiles is None else profiles)
        for condition in profile.match
        if fits_device(condition, identity)
    ]
    return max(fits, key=lambda fit: fit[:3])[3]


def fits_device(condition: Match, identity: DeviceIdentity) -> bool:
    """Whether a device meets every condition that the match states."""
    usb = {(device.vid, device.pid) for device in condition.usb}
    return all(
        (
            condition.machine in (None, identity.machine),
            not condition.dt_compatible
            or not set(condition.dt_compatible).isdisjoint(identity.dt_compatible),
            condition.dmi_product in (None, identity.dmi_product),
            (condition.cpuinfo_model_contains or "") in identity.cpuinfo_model,
            condition.adb_device in (None, identity.adb_device),
            condition.system in (None, identity.system),
            not usb or identity.usb in usb,
            condition.mbed_id in (None, identity.mbed_id),
        )
    )
