"""Machines on one cable or switch: network namespaces that see each other and nothing else."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

_DEVICE = "wire"
_BRIDGE = "bridge"


@dataclass(frozen=True)
class Namespace:
    """One of the machines."""

    name: str
    address: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that is to run there."""
        return ("ip", "netns", "exec", self.name)

    def unplug(self) -> None:
        """Take the link down: what is on its way is lost, and nobody is told."""
        _ip("-n", self.name, "link", "set", _DEVICE, "down")

    @property
    def pids(self) -> list[int]:
        """Processes that run there."""
        return [int(pid) for pid in _ip("netns", "pids", self.name).split()]


@contextmanager
def two_machines() -> Iterator[tuple[Namespace, Namespace]]:
    """The host's machine and the device's; what still runs there at the end is killed."""
    run = f"eb{os.getpid()}{secrets.token_hex(2)}"
    pair = Namespace(f"{run}h", "10.77.0.1"), Namespace(f"{run}d", "10.77.0.2")
    made: list[Namespace] = []
    try:
        for namespace in pair:
            _ip("netns", "add", namespace.name)
            made.append(namespace)
        # Made inside the namespaces: the names never meet those of the machine's own devices.
        here, there = pair
        _ip("-n", here.name, "link", "add", _DEVICE, "type", "veth",
            "peer", "name", _DEVICE, "netns", there.name)  # fmt: skip
        for namespace in pair:
            _bring_up(namespace)
        yield pair
    finally:
        for namespace in made:
            _remove(namespace)


@contextmanager
def three_machines() -> Iterator[tuple[Namespace, Namespace, Namespace]]:
    """The host's machine, one between, and the device's, which only the one between can reach."""
    run = f"eb{os.getpid()}{secrets.token_hex(2)}"
    here, there = Namespace(f"{run}h", "10.77.0.1"), Namespace(f"{run}d", "10.78.0.2")
    between = Namespace(f"{run}j", "10.77.0.2")
    made: list[Namespace] = []
    try:
        for namespace in (here, between, there):
            _ip("netns", "add", namespace.name)
            made.append(namespace)
        _ip("-n", here.name, "link", "add", _DEVICE, "type", "veth",
            "peer", "name", _DEVICE, "netns", between.name)  # fmt: skip
        _ip("-n", there.name, "link", "add", _DEVICE, "type", "veth",
            "peer", "name", "inner", "netns", between.name)  # fmt: skip
        for namespace in made:
            _bring_up(namespace)
        _ip("-n", between.name, "address", "add", "10.78.0.1/24", "dev", "inner")
        _ip("-n", between.name, "link", "set", "inner", "up")
        yield here, between, there
    finally:
        for namespace in made:
            _remove(namespace)


class Network:
    """Machines on one switch: each has a cable to it that can be pulled out and put in again."""

    def __init__(self, run: str, stack: ExitStack) -> None:
        self._run = run
        self._stack = stack
        self._switch = self._namespace("sw", "")
        _ip("-n", self._switch.name, "link", "add", _BRIDGE, "type", "bridge")
        _ip("-n", self._switch.name, "link", "set", _BRIDGE, "up")
        self._ports: dict[str, str] = {}

    def add(self) -> Namespace:
        """Another machine."""
        number = len(self._ports) + 1
        machine, port = self._namespace(str(number), f"10.77.0.{number}"), f"port{number}"
        _ip("-n", machine.name, "link", "add", _DEVICE, "type", "veth",
            "peer", "name", port, "netns", self._switch.name)  # fmt: skip
        _bring_up(machine)
        _ip("-n", self._switch.name, "link", "set", port, "master", _BRIDGE, "up")
        self._ports[machine.name] = port
        return machine

    def pull(self, machine: Namespace) -> None:
        """Pull out a machine's cable at the switch: what is on its way is lost."""
        _ip("-n", self._switch.name, "link", "set", self._ports[machine.name], "down")

    def plug(self, machine: Namespace) -> None:
        """Put it in again."""
        _ip("-n", self._switch.name, "link", "set", self._ports[machine.name], "up")

    def _namespace(self, suffix: str, address: str) -> Namespace:
        made = Namespace(f"{self._run}{suffix}", address)
        _ip("netns", "add", made.name)
        self._stack.callback(_remove, made)
        return made


@contextmanager
def switched_network() -> Iterator[Network]:
    """A switch without machines; what still runs on its machines at the end is killed."""
    with ExitStack() as stack:
        yield Network(f"eb{os.getpid()}{secrets.token_hex(2)}", stack)


def _remove(namespace: Namespace) -> None:
    _kill_inside(namespace)
    _ip("netns", "delete", namespace.name)


def _bring_up(namespace: Namespace) -> None:
    inside = ("-n", namespace.name)
    _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "address", "add", f"{namespace.address}/24", "dev", _DEVICE)
    _ip(*inside, "link", "set", _DEVICE, "up")
    # There is no default route; without one of its own, multicast would have nowhere to go.
    _ip(*inside, "route", "add", "224.0.0.0/4", "dev", _DEVICE)


def _kill_inside(namespace: Namespace) -> None:
    # Whatever runs there was started by the test, by way of a login perhaps.
    for pid in namespace.pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _ip(*words: str) -> str:
    result = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 0, f"ip {' '.join(words)}: {result.stderr}"
    return result.stdout
