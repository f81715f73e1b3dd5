"""Which board is this? The most specific profile that fits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from edgebench.device_profiles.schema import Match, Profile, load_profiles


def match_profile(
    *, arch: str, dt_compatible: Collection[str] = (), profiles: Sequence[Profile] | None = None
) -> Profile:
    """The profile for a device; generic profiles match everything, least specifically.

    Args:
        arch: Machine name as uname(1) prints it.
        dt_compatible: `compatible` entries of the device tree's root, empty where there is none.
        profiles: Where to look; the shipped ones unless given.
    """
    fits = [
        (condition.specificity, profile.id, profile)
        for profile in (load_profiles() if profiles is None else profiles)
        for condition in profile.matches
        if _holds(condition, arch, dt_compatible)
    ]
    return max(fits, key=lambda fit: fit[:2])[2]


def _holds(condition: Match, arch: str, dt_compatible: Collection[str]) -> bool:
    if condition.arch is not None and condition.arch != arch:
        return False
    return not condition.dt_compatible or any(
        entry in dt_compatible for entry in condition.dt_compatible
    )
