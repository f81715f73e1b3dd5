"""Advice of rules, as steps that may improve the next run, with numbers from the run's options.

Each advice is a function of the situation. The function leaves out steps that do not apply. A step
that raises a setting raises it above the value that the run requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from edgebench.host.options.bench import OPTIONS
from edgebench.host.options.command import CommandLine, NextStep, command

AWAKE = "adb shell svc power stayon true"
_SHARED = (
    "measure on CPUs without other load: the CPUs of a virtual machine or container are shared"
)


class Advice(NamedTuple):
    """Steps that may improve the next run."""

    steps: tuple[NextStep, ...]
    joint: str = "or"
    """Word between the steps."""

    def __str__(self) -> str:
        """The steps in one line."""
        return f"; {self.joint} ".join(map(str, self.steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Settings of the measured runs, and the changes that the device allows."""

    given: CommandLine = field(default_factory=CommandLine)
    """Options that the runs were requested with."""
    free_cpus: tuple[int, ...] = ()
    """CPUs to which the model can be bound. Other CPUs remain for other processes. Empty if there
    are no such CPUs."""
    own_cpus: tuple[int, ...] = ()
    """CPUs of a single type for the model. Empty if the device reports no second type of CPU and
    the model did not move to another type. The scheduler's choice is then as good."""
    has_governors: bool = True
    """Whether the kernel reports governors of the CPU's frequency."""
    can_be_longer: bool = True
    """Whether a longer requested duration makes a run longer; False if the query count ends it."""
    warmup_query_count: int = 0
    """Number of queries of a warm-up that is long enough."""
    larger_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    """Maps names of inputs with open dimensions to larger tensor shapes; empty without such
    inputs."""


@dataclass(frozen=True, slots=True)
class Advise:
    """Function that makes the advice for a situation."""

    make: Callable[[Situation], Advice]

    def __call__(self, to: Situation) -> Advice:
        """The advice for this situation."""
        return self.make(to)


def do(text: str, *values: object) -> Advice:
    """Advice that consists of a single step."""
    return Advice((NextStep(text, *values),))


def always(text: str, *values: object) -> Advise:
    """Advice of a step that applies in every situation."""
    return Advise(lambda _: do(text, *values))


def again(text: str, *words: str, **changes: Any) -> Advise:
    """Advise to measure again, with other settings."""
    return Advise(lambda to: do(text, to.given.bench(*words, **changes)))


def more(text: str, field_name: str, least: float, needs: str | None = None) -> Advise:
    """Advise to measure again, with a setting above the requested value.

    Args:
        text: The step.
        field_name: Setting to raise.
        least: Smallest value to advise.
        needs: Field of another option, which the setting requires. The advised command includes the
            option's flag if the run did not set it.
    """

    @Advise
    def advise(to: Situation) -> Advice:
        changes: dict[str, Any] = {field_name: to.given.more(field_name, least)}
        row = next((row for row in OPTIONS if row.field == needs), None)
        is_given = row is None or to.given.value(row.field) is not None
        words = [] if row is None or is_given else [row.flag, str(row.metavar)]
        return do(text, to.given.bench(*words, **changes))

    return advise


def longer_than(least_s: float) -> Advise:
    """Advise a longer measurement; for runs that end after a number of queries, advise `alone`.

    A longer requested duration does not make such runs longer.
    """

    @Advise
    def advise(to: Situation) -> Advice:
        if not to.can_be_longer:
            return alone(to)
        return more("measure for longer: {}", "duration_s", least_s)(to)

    return advise


longer = longer_than(120.0)


def larger_input_or(text: str) -> Advise:
    """Advise the step `text`, and before it a larger input if the model accepts one."""

    @Advise
    def advise(to: Situation) -> Advice:
        if not to.larger_shapes:
            return do(text)
        larger = to.given.bench(input_shapes=dict(to.larger_shapes))
        return Advice((NextStep("measure a larger input: {}", larger), NextStep(text)))

    return advise


@Advise
def alone(to: Situation) -> Advice:
    """Keep other programs off the model's CPUs."""
    if not to.own_cpus:
        return do("end other programs on the device (top lists them)")
    text = (
        "end other programs on the device (top lists them), or give the model CPUs of its own: {}"
    )
    return do(text, to.given.bench(cpus=to.own_cpus))


@Advise
def alone_or_longer(to: Situation) -> Advice:
    """Keep other programs off the model's CPUs, or measure for longer."""
    return Advice(tuple(dict.fromkeys((*alone(to).steps, *longer_than(300.0)(to).steps))))


@Advise
def alone_and_more_runs(to: Situation) -> Advice:
    """Keep other programs off the model's CPUs, and make more runs."""
    cpus: dict[str, Any] = {"cpus": to.own_cpus} if to.own_cpus else {}
    runs = to.given.bench(**cpus, runs=int(to.given.more("runs", 15)))
    return Advice((*alone(to).steps, NextStep("make more runs: {}", runs)), joint="and")


@Advise
def one_level(to: Situation) -> Advice:
    """Advise CPUs of a single type and a fixed frequency, to keep the latency on one level."""
    if not to.has_governors:
        return one_kind(to) if to.own_cpus else do(_SHARED)
    if not to.own_cpus:
        return governor(to)
    text = "bind the model to CPUs of the same type, and fix their frequency: {}"
    return do(text, to.given.bench(cpus=to.own_cpus, governor="performance"))


@Advise
def one_kind(to: Situation) -> Advice:
    """Advise to keep the model on CPUs of a single type."""
    if not to.own_cpus:
        text = "measure while no other process uses the device's memory: {}"
        return do(text, to.given.bench())
    return do("bind the model to CPUs of the same type: {}", to.given.bench(cpus=to.own_cpus))


@Advise
def governor(to: Situation) -> Advice:
    """Fix the frequency of the CPU if the kernel has governors."""
    if not to.has_governors:
        return do(_SHARED)
    return do("fix the CPU's frequency during the run: {}", to.given.bench(governor="performance"))


@Advise
def schedule(to: Situation) -> Advice:
    """Advise CPUs or a scheduling policy that the agent is permitted to set."""
    if not to.free_cpus:
        text = "start the agent as root for --priority realtime: {}"
        return do(text, to.given.bench())
    text = "choose CPUs that the agent may use, or start it as root for --priority realtime: {}"
    return do(text, to.given.bench(cpus=to.free_cpus))


@Advise
def sample_less(to: Situation) -> Advice:
    """Advise to run the sampler less often, or on a CPU that the model does not use."""
    rate_hz = min(2.0, (to.given.value("telemetry_rate_hz") or 4.0) / 2)
    slower = to.given.bench(telemetry_rate_hz=rate_hz)
    if not to.free_cpus:
        return do("sample less often: {}", slower)
    text = "sample less often, or leave a CPU free for the sampler: {}, or --cpus {}"
    return do(text, slower, ",".join(map(str, to.free_cpus)))


@Advise
def warm_up(to: Situation) -> Advice:
    """Warm up for long enough."""
    longer_warmup = to.given.bench(warmup_query_count=to.warmup_query_count)
    return do("warm up until the latency is steady: {}", longer_warmup)


@Advise
def settle(to: Situation) -> Advice:
    """Let the device settle before the runs, or make more runs to see where it settles."""
    runs = int(to.given.more("runs", 15))
    return Advice(
        (
            NextStep("let the device settle, then measure again: {}", to.given.bench()),
            NextStep(
                "make more runs, to see where the latency settles: {}", to.given.bench(runs=runs)
            ),
        )
    )


@Advise
def cool(to: Situation) -> Advice:
    """Advise better cooling, or longer waits before runs that are not meant to heat the device."""
    if to.given.value("sustained_s") is not None:
        return do(
            "improve the cooling, then repeat the run to see its effect: {}", to.given.bench()
        )
    text = "improve the cooling, or wait for longer before each run: {}"
    return more(text, "cooldown_timeout_s", 1200.0)(to)


more_quota = again(
    "raise or remove the CPU quota of the agent's container, pod or unit (docker run --cpus N, "
    "limits.cpu, CPUQuota=); then measure again: {}"
)
more_memory = always("end other programs on the device to free memory, or measure a smaller model")
see_sensors = always(
    "measure on the device itself, not in a virtual machine or container that hides its sensors"
)
sample = again("enable sampling: {}", telemetry_rate_hz=10.0)
other_runtime = again("try another runtime or no delegate: {}", runtime="all")
check_meter = always(
    "look up the failed check in docs/meters.md, and test the meter: {}",
    command("meters", "selftest", "METER"),
)


def without_repeats(advices: Iterable[Advice]) -> list[Advice]:
    """The advice in the given order, without duplicates and without parts of other advice."""
    once = list(dict.fromkeys(advices))
    return [
        advice
        for advice in once
        if not any(other != advice and set(advice.steps) <= set(other.steps) for other in once)
    ]
