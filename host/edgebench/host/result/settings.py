"""Settings of a run, as requested and as in effect.

A runtime may use fewer threads than requested, a control group may throttle them, a file may
contain several graphs, and a delegate may leave operators to the CPU. None of these is an error of
the run, but each changes the meaning of its numbers. `show.settings` words each difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum

from edgebench.host.result.reason import Fact


class SettingState(Enum):
    """Comparison of a setting in effect with the request."""

    AS_REQUESTED = "as_requested"
    """The setting took effect as requested, or nothing was requested and there was no
    alternative."""
    DIFFERENT = "different"
    NOT_CHOSEN = "not_chosen"
    """Nothing was requested, and there were several possibilities."""
    UNKNOWN = "unknown"
    """The device does not report what was in effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting of a run."""

    requested: Fact
    """Requested value; None if the default was used."""
    effective: Fact
    """Value in effect; None if it is unknown or unset."""
    state: SettingState
    reason: str | None = None
    """Name of the sentence in `show.settings`; None if no sentence is needed."""
    facts: Mapping[str, Fact] = field(default_factory=dict[str, Fact])
    """Names and counts in that sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSettings:
    """All settings for which the effect is compared with the request."""

    threads: Setting
    """Threads of the runtime. The value in effect is the number of threads that used CPU time in
    the timed loop. Some of them may only wait in a loop, so the number of working threads may be
    lower."""
    cpus: Setting
    """Number of CPUs. The value in effect is the number of CPUs, possibly fractional, that
    affinity, cpuset and quota allow."""
    signature: Setting
    """Signature of the model's graph."""
    delegate: Setting
    """Delegates or execution providers, separated by commas."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the settings, in their order."""
        return tuple(setting.name for setting in fields(cls))

    @property
    def by_name(self) -> dict[str, Setting]:
        """The settings by their names, in their order."""
        return {name: getattr(self, name) for name in self.names()}
