"""Two machines on one cable: network namespaces that see each other and nothing else."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

_DEVICE = "wire"


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
    for pid in _ip("netns", "pids", namespace.name).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def _ip(*words: str) -> str:
    result = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 0, f"ip {' '.join(words)}: {result.stderr}"
    return result.stdout
