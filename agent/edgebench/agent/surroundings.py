"""What governor, sensors and environment of a seat come from.

Theory of operation. An agent may serve devices that are not the machine on which it runs. So
nothing about a seat is read from that machine by chance: whoever needs the governor, the
temperature, the load or the environment of a seat asks its surroundings.

    LinuxSurroundings        a Linux system under a root; / is the machine that the agent runs on
    AndroidSurroundings      a Linux system that is Android (`android.py`)
    SimulatedSurroundings    a simulated board, under a root that it writes itself
    TargetSurroundings       a target that times itself, beside the machine that the agent runs on

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
"""Least sampling rate of a device with a temperature at which a run must end."""


class Surroundings(Protocol):
    """The system around the models of one seat."""

    @property
    def root(self) -> Path:
        """Directory that stands for / wherever a worker or a sampler reads the device."""
        ...

    @property
    def simulation(self) -> Simulation | None:
        """The simulated board; None where the device is real."""
        ...

    @property
    def target(self) -> TargetDescription | None:
        """The target that is the device; None where models run on a machine with a worker."""
        ...

    @property
    def expected(self) -> Expectation:
        """Expectations of the profile, among them the temperature at which a run has to end."""
        ...

    @property
    def cooldown_timeout_s(self) -> float:
        """Longest cool-down where a run names none; 0: no gate."""
        ...

    @property
    def has_thermometer(self) -> bool:
        """Whether the gate has a temperature to go by."""
        ...

    def environment(self) -> Environment:
        """The conditions now."""
        ...

    def load_1m(self) -> float | None:
        """Load average over the last minute, if the system reports it."""
        ...

    def temp_c(self) -> float | None:
        """Temperature now, of the zone that the gate goes by."""
        ...

    def change_settings(self, spec: RunSpec) -> None:
        """Change what a run asks to have changed, as the governor, until `restore_settings`.

        Raises:
            GovernorRefused: that governor is not offered, or may not be set.
            SettingRefused: a setting of a phone does not exist, or is not changed.
        """
        ...

    def restore_settings(self) -> None:
        """Put everything back as it was before; may be called twice."""
        ...

    async def cool_down(
        self,
        timeout_s: float,
        *,
        is_stopping: Callable[[], bool],
        may_start: Callable[[], bool],
        sleep: Sleep,
    ) -> CooldownFacts:
        """Wait until the device is cool enough; only where it has a thermometer."""
        ...

    def sampler_job(self, spec: RunSpec, worker_pid: int) -> SamplerJob:
        """The sampling beside a run; a rate of 0: none."""
        ...


def refuse_phone_settings(spec: RunSpec) -> None:
    """Refuse a run that asks for settings of a phone, on a device that is none.

    Raises:
        SettingRefused: it does.
    """
    if spec.is_airplane_mode:
        raise SettingRefused("airplane mode not set: only Android can do that")
    if spec.screen_brightness is not None:
        raise SettingRefused("screen brightness not set: only Android can do that")


class LinuxSurroundings:
    """A Linux system under a root."""

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
        """Temperature above which the device counts as idle only by its load; None: never."""
        return self._cooldown.max_c

    @property
    def cooldown_timeout_s(self) -> float:
        """The profile's."""
        return self._cooldown.timeout_s

    @property
    def has_thermometer(self) -> bool:
        """Whether the profile's zone is there."""
        return self._thermometer is not None

    def environment(self) -> Environment:
        """The conditions that the files under the root show."""
        return describe_environment(self.root)

    def load_1m(self) -> float | None:
        """The load under the root."""
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
        """Put the previous governors back."""
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
        """The sampler of the files under the root, away from the CPUs of the run."""
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
    """A simulated board; its models are computed by the processor of this machine."""

    def __init__(self, profile: Profile, device_id: str, simulation: Simulation) -> None:
        self.simulation = simulation
        # What is kept belongs to the board, which is made anew each time, and not to a machine.
        super().__init__(profile, device_id, state=simulation.root, root=simulation.root)

    @property
    def _idle_max_c(self) -> float | None:
        return None  # it starts cool

    def environment(self) -> Environment:
        """The conditions of the board, and the processor that does compute."""
        return describe_environment(self.root, processor=Path("/"))


class TargetSurroundings:
    """A target: no governor, no sensors, no load; its environment is what is beside it."""

    root = Path("/")
    simulation: Simulation | None = None
    expected = Expectation()
    cooldown_timeout_s = 0.0
    has_thermometer = False

    def __init__(self, target: TargetDescription) -> None:
        self.target = target

    def environment(self) -> Environment:
        """The machine beside it."""
        return describe_environment(self.root)

    def load_1m(self) -> float | None:
        """The load of the machine beside it says nothing of the target."""
        return None

    def temp_c(self) -> float | None:
        """It cannot be read."""
        return None

    def change_settings(self, spec: RunSpec) -> None:
        """Refuse: a target has none.

        Raises:
            GovernorRefused: the run asks for one.
            SettingRefused: it asks for settings of a phone.
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
        """Whether it is cool is unknown."""
        del timeout_s, is_stopping, may_start, sleep
        return CooldownFacts(CooldownOutcome.NO_SENSOR)

    def sampler_job(self, spec: RunSpec, worker_pid: int) -> SamplerJob:
        """No sampling."""
        del spec
        return SamplerJob(worker_pid=worker_pid, rate_hz=0.0)
