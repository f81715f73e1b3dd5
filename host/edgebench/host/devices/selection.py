"""Selection of devices by name or by conditions: `--on pi4,pi5`, `--on label:pi,arch:aarch64`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from edgebench.host.devices.discovery import THIS_MACHINE, named
from edgebench.host.devices.farm import Farm
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.names import EMULATED, LOCAL_NAME, SEAT_MARK
from edgebench.protocol.errors import AllQuarantined, NoSuchDevice, UsageError

ALL = "all"
SEPARATOR = ","

_CONDITIONS: dict[str, Callable[[KnownDevice, Farm], Iterable[str]]] = {
    "label": lambda device, farm: farm.entry(device).labels,
    "arch": lambda device, _: (device.arch,),
    "name": lambda device, _: (device.name,),
}
"""Maps the key of a condition to a function that returns the values of a device for this key. The
condition holds if at least one value matches the pattern in the condition."""


def select(
    words: Sequence[str], paired: Sequence[KnownDevice], farm: Farm, left_out: Collection[str] = ()
) -> list[KnownDevice]:
    """Devices that the given words select, without duplicates, in the order of the words.

    A word is `all`, a comma-separated list of names, or a comma-separated list of conditions, which
    must all hold. Devices in `left_out` are selected only if a word names them.

    Raises:
        NoSuchDevice: a name matches no device or several devices, or no device fits the conditions.
        AllQuarantined: all devices that fit are in `left_out`.
        UsageError: a condition is unknown, or a word contains both names and conditions.
    """
    chosen: dict[str, KnownDevice] = {}
    for word in words:
        for device in _chosen(word, paired, farm, left_out):
            chosen.setdefault(device.name, device)
    return list(chosen.values())


def _chosen(
    word: str, paired: Sequence[KnownDevice], farm: Farm, left_out: Collection[str]
) -> list[KnownDevice]:
    every = every_device(paired, farm)
    if exact := [device for device in paired if device.name == word]:
        return exact  # even if the name looks like a condition
    if word == ALL:
        if not every:
            raise NoSuchDevice("--on all selects all paired devices, but no device is paired")
        return _without(left_out, every, word)
    terms = [term.strip() for term in word.split(SEPARATOR)]
    conditions = [term for term in terms if _is_condition(term)]
    if not conditions:
        return [named(paired, term) for term in terms]
    if len(conditions) < len(terms):
        name = next(term for term in terms if not _is_condition(term))
        raise UsageError(
            f"--on takes names or conditions, got both: {word!r}; use a separate --on {name}"
        )
    fitting = [device for device in every if all(_holds(term, device, farm) for term in conditions)]
    if not fitting:
        known = ", ".join(device.name for device in every)
        among = f"available: {known}" if every else "no device is paired"
        raise NoSuchDevice(f"no device fits {word!r}; {among}")
    return _without(left_out, fitting, word)


def _is_condition(term: str) -> bool:
    """Whether a term is a condition, not a name; names of emulated boards also contain a colon."""
    return ":" in term and not term.rpartition(SEAT_MARK)[2].startswith(EMULATED)


def _without(left_out: Collection[str], fitting: list[KnownDevice], word: str) -> list[KnownDevice]:
    """Devices that are not left out; `AllQuarantined` is raised if all are left out."""
    if healthy := [device for device in fitting if device.name not in left_out]:
        return healthy
    names, first = ", ".join(device.name for device in fitting), shlex.quote(fitting[0].name)
    raise AllQuarantined(f"{word!r} matches only devices in quarantine: {names}", first)


def every_device(paired: Sequence[KnownDevice], farm: Farm) -> list[KnownDevice]:
    """Devices of the farm; if the farm file lists seats of an agent, they replace the agent."""
    agents = [THIS_MACHINE, *paired] if farm.has_this_machine else list(paired)
    known = {LOCAL_NAME, *(device.name for device in paired)}
    seats = [
        named(paired, name)
        for name in farm.device
        if name not in known and name.rpartition(SEAT_MARK)[0] in known
    ]
    with_seats = {seat.pin for seat in seats}
    return [agent for agent in agents if agent.pin not in with_seats] + seats


def _holds(condition: str, device: KnownDevice, farm: Farm) -> bool:
    key, _, pattern = condition.partition(":")
    if key not in _CONDITIONS:
        raise UsageError(f"unknown condition {condition!r}; available: {', '.join(_CONDITIONS)}")
    return any(fnmatchcase(value, pattern) for value in _CONDITIONS[key](device, farm))
