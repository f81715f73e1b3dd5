"""Install an agent on a machine over SSH, start it, and pair with it; and remove it again.

    connect ─▶ look ─▶ fetch wheels ─▶ send the missing ─▶ stop the old agent ─▶ install
                       (host)                                                      │
               check ◀─ pair, unless we are paired ◀─ start ◀─────────────────────┘

Until the old agent is stopped, nothing that it uses has changed. Everything on the device is
done by `on_device.py`, which says where things are kept.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgebench.host.devices.account import Account, open_account
from edgebench.host.devices.discovery import open_device
from edgebench.host.devices.files import LOCAL_NAME, HostFiles, KnownDevice
from edgebench.host.devices.install import Say, install
from edgebench.host.devices.on_device import Facts, Removed
from edgebench.host.devices.pairing import pair
from edgebench.host.devices.shell import Shell
from edgebench.host.devices.ssh import connect
from edgebench.host.devices.target import Target, parse_target
from edgebench.host.devices.wheel import RUNTIMES
from edgebench.meters.registry import extras_of
from edgebench.meters.wiring import NOTHING, check_line, check_meters
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    LeaseHeld,
    NotPaired,
    PortTaken,
    TargetError,
    TransportError,
    Unreachable,
    UsageError,
)
from edgebench.protocol.identity import DEFAULT_PORT, parse_pairing_string

__all__ = ["Deployed", "Order", "Removed", "Say", "deploy", "new_order", "undeploy"]

PAIR_TIMEOUT_S = 60.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Order:
    """What to deploy, and where."""

    target: Target
    identity_file: Path | None = None
    runtimes: tuple[str, ...] = RUNTIMES
    wheels: Path | None = None
    """Take wheels from this directory only; None: from the index."""
    python: str | None = None
    port: int | None = None
    """None: as before, or the default one."""
    name: str | None = None
    """None: as before, or the device's host name."""
    meters: Sequence[str] = ()
    """That the agent is to serve, or just "none"; empty: as before."""
    sync_line: str | None = None
    """To a meter's digital input, or "none"; None: as before."""


@dataclass(frozen=True, slots=True)
class Deployed:
    """A device that is ready."""

    device: KnownDevice
    system: SystemDescription
    warnings: tuple[str, ...] = ()
    """Of its agent, about meters and lines that are not there."""


def new_order(target: str, **settings: Any) -> Order:
    """An order from the text of its target; the settings are the other fields.

    Raises:
        UsageError: the target or a setting makes no sense.
    """
    order = Order(parse_target(target), **settings)
    if unknown := set(order.runtimes) - set(RUNTIMES):
        raise UsageError(f"unknown runtime {min(unknown)!r}: there are {', '.join(RUNTIMES)}")
    if order.name == LOCAL_NAME:
        raise UsageError(f"name {LOCAL_NAME!r} is kept for the host's own machine")
    if order.wheels is not None and not order.wheels.is_dir():
        raise UsageError(f"no directory of wheels: {order.wheels}")
    check_meters(order.meters)
    if order.sync_line is not None:
        check_line(order.sync_line)
    return order


def deploy(files: HostFiles, order: Order, say: Say | None = None) -> Deployed:
    """Bring the agent to a device, or bring it up to date there.

    Raises:
        UsageError: the name is another device's.
        AccessDenied: SSH does not let us in.
        TargetError: the device cannot take the agent; the subclass says why.
        TransportError: the device cannot be reached.
    """
    say = say or logger.info
    with connect(order.target, order.identity_file) as shell:
        account = open_account(shell, order.python)
        facts = account.look()
        say(f"connected to {order.target}: {facts.interpreter}")
        _refuse_busy(order, facts)
        order = _completed(files, order, facts)
        install(
            account, facts, say,
            runtimes=order.runtimes, source=order.wheels, extras=_extras(order),
        )  # fmt: skip
        warnings = _start(account, facts, order, say)
        device = _paired(files, shell, order, facts)
    with open_device(files, device.pin) as client:
        return Deployed(device, client.describe(), warnings)


def undeploy(files: HostFiles, order: Order, say: Say | None = None) -> Removed:
    """Remove the agent and all that it keeps from a device, and forget the device.

    Raises:
        LeaseHeld: somebody measures with it now.
        AccessDenied: SSH does not let us in.
        TargetError: something cannot be removed.
        TransportError: the device cannot be reached.
    """
    say = say or logger.info
    with connect(order.target, order.identity_file) as shell:
        account = open_account(shell, order.python)
        facts = account.look()
        _refuse_busy(order, facts)
        if facts.spooled_count:
            say(f"note: {facts.spooled_count} runs that no host has fetched are removed, too")
        account.stop()
        removed = account.remove()
    for path in removed.kept:
        say(f"note: kept on the device, older than the first deploy: {path}")
    for device in files.devices():
        if device.deployed_to == str(order.target) or device.pin == facts.pin:
            files.forget(device)
    return removed


def _refuse_busy(order: Order, facts: Facts) -> None:
    if facts.busy_with:
        raise LeaseHeld(f"agent on {order.target} is in use by {facts.busy_with}")


def _completed(files: HostFiles, order: Order, facts: Facts) -> Order:
    """The order with what the device had, where nothing else is asked for.

    Name and port are remembered here; meters and line, which are wired to the device, there: so
    another host's deploy keeps them, too.

    Raises:
        UsageError: another device has the name.
    """
    known = files.devices()
    earlier = next((device for device in known if device.pin == facts.pin), None) or next(
        (device for device in known if device.deployed_to == str(order.target)), None
    )
    name = order.name or (earlier.name if earlier else facts.host_name)
    port = order.port or (earlier.port if earlier else DEFAULT_PORT)
    other = next((device for device in known if device.name == name), None)
    if other is not None and other is not earlier:
        where = other.deployed_to or ", ".join(other.addresses)
        raise UsageError(f"name {name!r} belongs to another device, {where}; use --name")
    return replace(
        order,
        name=name,
        port=port,
        meters=order.meters or facts.meters,
        sync_line=order.sync_line or facts.sync_line,
    )


def _extras(order: Order) -> tuple[str, ...]:
    """The extras that its meters need.

    Raises:
        UsageError: the device has had a meter or a line that this version does not know.
    """
    try:
        check_line(order.sync_line or NOTHING)
        return extras_of(check_meters(order.meters))
    except UsageError as exc:
        raise UsageError(f"{exc}; {order.target} serves it: name another, or none") from exc


def _start(account: Account, facts: Facts, order: Order, say: Say) -> tuple[str, ...]:
    """Start the agent; its warnings."""
    assert order.name is not None
    done = account.start(
        ["--listen", f":{order.port}", "--name", order.name],
        meters=order.meters,
        sync_line=order.sync_line,
    )
    if done.error is None:
        say(f"agent runs, on port {order.port}; its log: {facts.log}")
        say("note: it does not start by itself after a reboot; docs/deploy.md has a systemd unit")
        return done.warnings
    if "address already in use" in done.error.lower():
        raise PortTaken(f"port {order.port} is taken on {order.target}")
    raise TargetError(f"agent does not start on {order.target}: {done.error}")


def _paired(files: HostFiles, shell: Shell, order: Order, facts: Facts) -> KnownDevice:
    """The device, paired: as before if that still holds, else anew."""
    for known in files.devices():
        if known.pin == facts.pin:
            device = _updated(known, shell, order)
            files.remember(device)
            try:
                open_device(files, device.pin).close()
                return device
            except NotPaired:
                break  # it has lost its list of hosts, or the list was another user's
    return _pair(files, shell, order, facts)


def _updated(known: KnownDevice, shell: Shell, order: Order) -> KnownDevice:
    assert order.name is not None
    assert order.port is not None
    return replace(
        known,
        name=order.name,
        addresses=_first(shell.address, known.addresses),
        port=order.port,
        deployed_to=str(order.target),
    )


def _pair(files: HostFiles, shell: Shell, order: Order, facts: Facts) -> KnownDevice:
    words = [facts.agent, "pair", "--json"]
    output = shell.run(words, what="pairing", timeout_s=PAIR_TIMEOUT_S)
    answers = [line for line in output.text.splitlines() if line.startswith("{")]
    if output.code or not answers:
        raise TargetError(f"pairing on {order.target} failed: {output.text.strip()[-400:]}")
    string = parse_pairing_string(json.loads(answers[-1])["pairing"])
    string = replace(string, addresses=_first(shell.address, string.addresses))
    try:
        return pair(files, str(string), deployed_to=str(order.target))
    except NotPaired:
        raise
    except TransportError as exc:
        raise Unreachable(f"agent runs on {order.target}, but from here: {exc}") from exc


def _first(address: str, others: tuple[str, ...]) -> tuple[str, ...]:
    return (address, *(other for other in others if other != address))
