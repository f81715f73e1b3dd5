"""Sources of the governor, sensors and environment of a seat.

Theory of operation. An agent may serve devices other than the machine on which the agent runs.
Nothing about a seat is therefore read from that machine by default. The governor, the temperature,
the load and the environment of a seat come from the surroundings of the seat.

    LinuxSurroundings        a Linux system under a root; the root / is the agent's own machine
    AndroidSurroundings      a Linux system that is Android (`android.py`)
    SimulatedSurroundings    a simulated board; the simulation writes the files under its root
    TargetSurroundings       a target that times itself, driven by the agent's machine

Surroundings without sensors have no thermometer, and a sampling rate of 0.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from edgebench.agent.cooldown import Gate, Sleep, find_thermometer, wait_until_cool
from edgebench.agent.coolest import COOLEST_FILE, Coolest, settled_c
from edgebench.agent.cpu_ticks import own_cpus
from edgebench.agent.expectation import expect
from edgebench.agent.governor import Governors
from edgebench.agent.system import describe_environment, load_1m
from edgebench.agent.telemetry.job import SamplerJob
from edgebench.device_profiles.schema import Profile
from edgebench.protocol.device import Environment
from edgebench.protocol.errors import GovernorRefused, SettingRefused
from edgebench.protocol.simulation import Simulation
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.target import TargetDescription
from edgebench.protocol.thermal import CooldownFacts, CooldownOutcome, Expectation

GUARD_HZ = 1.0
"""Minimum sampling rate of a device whose profile has a temperature limit."""


class Surroundings(Protocol):
    """The system around the models that run on a seat (a device of the agent)."""

    @property
    def root(self) -> Path:
        """Directory that replaces / for a worker or a sampler that reads the device."""
        ...

    @property
    def simulation(self) -> Simulation | None:
        """The simulated board; None if the device is real."""
        ...

    @property
    def target(self) -> TargetDescription | None:
        """The target, if the device is a target; None for a machine that runs models itself."""
        ...

    @property
    def expected(self) -> Expectation:
        """Expectations of the profile, among them the temperature at which a run must end."""
        ...

    @property
    def cooldown_timeout_s(self) -> float:
        """Longest cool-down, in seconds, of a run that sets no limit itself; 0: no cool-down."""
        ...

    @property
    def has_thermometer(self) -> bool:
        """Whether the temperature that the cool-down gate needs can be read."""
        ...

    def environment(self) -> Environment:
        """Describe the current conditions of the device."""
        ...

    def load_1m(self) -> float | None:
        """Load average over the last minute; None if the system does not report it."""
        ...

    def temp_c(self) -> float | None:
        """Current temperature of the cool-down gate's zone; None if it cannot be read."""
        ...

    def change_settings(self, spec: RunSpec) -> None:
        """Apply the settings that a run requests, such as the governor, until `restore_settings`.

        Raises:
            GovernorRefused: the governor is not offered, or cannot be set.
            SettingRefused: a phone setting does not exist, or did not change.
        """
        ...

    def restore_settings(self) -> None:
        """Restore all settings; may be called twice."""
        ...

    async def cool_down(
        self,
        timeout_s: float,
        *,
        is_stopping: Callable[[], bool],
        may_start: Callable[[], bool],
        sleep: Sleep,
    ) -> CooldownFacts:
        """Wait until the device is cool enough; requires a thermometer."""
        ...

    def sampler_job(self, spec: RunSpec, worker_pid: int) -> SamplerJob:
        """Parameters of the sampler for a run; a rate of 0 disables the sampler."""
        ...


def refuse_phone_settings(spec: RunSpec) -> None:
    """Reject a run that requests phone settings on a device other than a phone.

    Raises:
        SettingRefused: the run requests airplane mode or a screen brightness.
    """
    if spec.is_airplane_mode:
        raise SettingRefused("airplane mode not set: only Android supports it")
    if spec.screen_brightness is not None:
        raise SettingRefused("screen brightness not set: only Android supports it")


class LinuxSurroundings:
    """A Linux system whose files are under a root directory."""

    simulation: Simulation | None = None
    target: TargetDescription | None = None

    def __init__(
        self, profile: Profile, device_id: str, *, state: Path, root: Path = Path("/")
    ) -> None:
        self.root = root
        self.expected = expect(profile, root)
        self._cooldown = profile.cooldown
        self._governors = Governors(state, root)
        self._governors.restore()  # an earlier agent may have been killed in a run
        self._thermometer = find_thermometer(profile, root)
        self._coolest = Coolest(state / COOLEST_FILE, device_id)
        if self._thermometer:
            self._coolest.see_at_start(settled_c(self._thermometer), self._idle_max_c, root)

    @property
    def _idle_max_c(self) -> float | None:
        """Above this temperature, a device is idle only if its load is low, too; None: no limit."""
        return self._cooldown.max_c

    @property
    def cooldown_timeout_s(self) -> float:
        """The profile's cool-down limit."""
        return self._cooldown.timeout_s

    @property
    def has_thermometer(self) -> bool:
        """Whether the thermal zone that the profile names exists."""
        return self._thermometer is not None

    def environment(self) -> Environment:
        """The conditions that the files under the root show."""
        return describe_environment(self.root)

    def load_1m(self) -> float | None:
        """Load average over the last minute, read under the root."""
        return load_1m(self.root)

    def temp_c(self) -> float | None:
        """Temperature of the gate's zone."""
        return self._thermometer() if self._thermometer else None

    def change_settings(self, spec: RunSpec) -> None:
        """Set every frequency policy to the governor of the run."""
        refuse_phone_settings(spec)
        if spec.governor is not None:
            self._governors.set(spec.governor)

    def restore_settings(self) -> None:
        """Restore the previous governors."""
        self._governors.restore()

    async def cool_down(
        self,
        timeout_s: float,
        *,
        is_stopping: Callable[[], bool],
        may_start: Callable[[], bool],
        sleep: Sleep,
    ) -> CooldownFacts:
        """Wait until the profile's gate opens."""
        assert self._thermometer is not None
        gate = Gate(self._cooldown, self._coolest.temp_c)
        facts = await wait_until_cool(
            gate,
            self._thermometer,
            timeout_s=timeout_s,
            is_stopping=is_stopping,
            may_start=may_start,
            sleep=sleep,
        )
        self._coolest.see(gate.settled_c)
        return facts

    def sampler_job(self, spec: RunSpec, worker_pid: int) -> SamplerJob:
        """Sample the files under the root, on other CPUs than the CPUs of the run."""
        cpus = set(own_cpus()) - set(spec.cpus)
        rate_hz = spec.telemetry_rate_hz
        if self.expected.abort_c is not None:
            rate_hz = max(rate_hz, GUARD_HZ)  # a host cannot switch the guard off
        return SamplerJob(
            worker_pid=worker_pid,
            root=str(self.root),
            rate_hz=rate_hz,
            cpus=tuple(sorted(cpus)) if spec.cpus else (),
            abort_c=self.expected.abort_c,
            zones=tuple(zone.match_type for zone in self.expected.zones),
            freq_sources=self.expected.believed_freq_sources,
        )


class SimulatedSurroundings(LinuxSurroundings):
    """A simulated board; the processor of this machine computes the models that run on it."""

    def __init__(self, profile: Profile, device_id: str, simulation: Simulation) -> None:
        self.simulation = simulation
        # The state belongs to the board, which is created again at each start, and not to a
        # machine.
        super().__init__(profile, device_id, state=simulation.root, root=simulation.root)

    @property
    def _idle_max_c(self) -> float | None:
        return None  # it starts cool

    def environment(self) -> Environment:
        """The conditions of the board, with this machine's processor, which runs the models."""
        return describe_environment(self.root, processor=Path("/"))


class TargetSurroundings:
    """A target: no governor, sensors or load; its environment is that of the agent's machine."""

    root = Path("/")
    simulation: Simulation | None = None
    expected = Expectation()
    cooldown_timeout_s = 0.0
    has_thermometer = False

    def __init__(self, target: TargetDescription) -> None:
        self.target = target

    def environment(self) -> Environment:
        """The conditions of the agent's machine."""
        return describe_environment(self.root)

    def load_1m(self) -> float | None:
        """Return None, because the load of the agent's machine does not describe the target."""
        return None

    def temp_c(self) -> float | None:
        """Return None, because a target's temperature cannot be read."""
        return None

    def change_settings(self, spec: RunSpec) -> None:
        """Reject all settings, because a target has none.

        Raises:
            GovernorRefused: the run requests a governor.
            SettingRefused: the run requests phone settings.
        """
        refuse_phone_settings(spec)
        if spec.governor is not None:
            raise GovernorRefused(
                f"governor {spec.governor} not set: {self.target.name} has no governors"
            )

    def restore_settings(self) -> None:
        """There is nothing to restore."""

    async def cool_down(
        self,
        timeout_s: float,
        *,
        is_stopping: Callable[[], bool],
        may_start: Callable[[], bool],
        sleep: Sleep,
    ) -> CooldownFacts:
        """Report that no sensor exists."""
        del timeout_s, is_stopping, may_start, sleep
        return CooldownFacts(CooldownOutcome.NO_SENSOR)

    def sampler_job(self, spec: RunSpec, worker_pid: int) -> SamplerJob:
        """Disable the sampler, because a target has no files to sample."""
        del spec
        return SamplerJob(worker_pid=worker_pid, rate_hz=0.0)
