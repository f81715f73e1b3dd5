"""Install an agent on a device through a shell, start it, and pair with it; and remove it again.

    connect ─▶ look ─▶ fetch wheels ─▶ send the missing ─▶ stop the old agent ─▶ install
                       (host)                                                      │
               check ◀─ pair, unless we are paired ◀─ start ◀─────────────────────┘

Until the old agent is stopped, nothing that it uses has changed. Everything on the device is
done by `on_device.py`, which says where things are kept.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from edgebench.host.devices.account import Account, open_account, parse_answer
from edgebench.host.devices.discovery import open_device, open_known
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.install import OnStep, install
from edgebench.host.devices.kits import bring_python, present_python, remove_kits
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.devices.on_device import DeviceFacts, UninstallReport
from edgebench.host.devices.pairing import Pairing, pair
from edgebench.host.devices.shell import DeployTarget, Shell
from edgebench.host.devices.target import parse_target
from edgebench.host.devices.wheel import BRIDGE_EXTRAS, RUNTIMES, is_with_bridge
from edgebench.host.transports.ssh import SshTransport
from edgebench.meters.registry import extras_of
from edgebench.meters.wiring import NOTHING, check_line, check_meters
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    AccessDenied,
    KitMissing,
    LeaseHeld,
    NotPaired,
    PortTaken,
    PythonMissing,
    TargetError,
    TransportError,
    Unreachable,
    UsageError,
    WrongBoard,
    unknown_name,
)
from edgebench.protocol.identity import DEFAULT_PORT, parse_pairing_string

PAIR_TIMEOUT_S = 60.0

_AT_BOOT = {
    "systemd": "it starts at boot, by a unit of systemd",
    "systemd-user": "it starts at boot, by a unit of systemd in this account, which lingers",
    "openrc": "it starts at boot, by a service of OpenRC",
    "cron": "it starts at boot, by a line of crontab",
}

_NAMING = threading.Lock()
"""From the choice of a name until the device is remembered: else two phones of one model that are
deployed to at the same time would have one name."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeployRequest:
    """What to deploy, and where."""

    target: DeployTarget
    identity_file: Path | None = None
    runtimes: tuple[str, ...] = RUNTIMES
    wheels: Path | None = None
    """Only directory that wheels are taken from; None: the package index."""
    python: str | None = None
    """Python on the device; None: the first one that is new enough, or on a phone that of a kit."""
    kit: Path | None = None
    """File of a kit; None: the one that was made here or is installed."""
    port: int | None = None
    """Port of the agent; None: unchanged, or the default one."""
    name: str | None = None
    """Name of the device; None: unchanged, or its host name."""
    at_boot: bool = True
    """Whether the agent starts at boot, too."""
    via: str | None = None
    """Transport that reaches the agent; None: unchanged, or what fits the login."""
    meters: Sequence[str] = ()
    """Meters that the agent serves, or just "none"; empty: unchanged."""
    sync_line: str | None = None
    """Wire to a meter's digital input, or "none"; None: unchanged."""
    has_bridge: bool | None = None
    """Whether the firmware bridge comes along, for microcontrollers beside the device; None:
    unchanged, initially not."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options that the agent is started with."""

    name: str
    port: int
    meters: Sequence[str]
    """Meters, as in `DeployRequest`; empty when they were never set."""
    sync_line: str | None


@dataclass(frozen=True, slots=True)
class DeployReport:
    """A device that is ready."""

    device: KnownDevice
    system: SystemDescription
    warnings: tuple[str, ...] = ()
    """Warnings of its agent, about meters and lines that are not there."""


@dataclass(frozen=True, slots=True)
class _AgentPairing:
    """Output of `edgebench-agent pair --json`."""

    pairing: str


def deploy_request(target: str, **settings: Any) -> DeployRequest:
    """A request from the text of its target; the settings are the other fields.

    Raises:
        UsageError: the target or a setting makes no sense.
    """
    request = DeployRequest(parse_target(target), **settings)
    if unknown := set(request.runtimes) - set(RUNTIMES):
        raise unknown_name("runtime", min(unknown), RUNTIMES)
    if request.name == LOCAL_NAME:
        raise UsageError(f"name {LOCAL_NAME!r} is kept for the host's own machine")
    if request.wheels is not None and not request.wheels.is_dir():
        raise UsageError(f"no directory of wheels: {request.wheels}")
    check_meters(request.meters)
    if request.sync_line is not None:
        check_line(request.sync_line)
    return request


def deploy(
    files: HostFiles,
    request: DeployRequest,
    on_step: OnStep | None = None,
    on_paired: Callable[[Pairing], None] = lambda _: None,
) -> DeployReport:
    """Bring the agent to a device, or bring it up to date there.

    Args:
        files: This host's identity and devices.
        request: Where, and with what.
        on_step: Called with each step.
        on_paired: Called with a device that was paired with, and may have replaced another.

    Raises:
        UsageError: the name is another device's.
        AccessDenied: the device does not let us in.
        TargetError: the device cannot take the agent; the subclass says why.
        TransportError: the device cannot be reached.
    """
    on_step = on_step or logger.info
    # By default this host reaches the agent as after its last deploy there.
    known = files.devices()
    vias = [device.via for device in known if device.deployed_to == str(request.target)]
    via = request.via or (vias[0] if vias else None)
    with closing(request.target.connect(request.identity_file, via)) as shell:
        account = _open_account(shell, request, on_step)
        with account.changing():
            facts = account.look()
            on_step(f"connected to {request.target}: {facts.interpreter}")
            _refuse_busy(request, facts)
            # Now as well, so that a name that is taken is refused before anything is installed.
            options = _agent_options(files, request, facts, shell.default_name)
            has_bridge = _has_bridge(request, facts)
            is_new = install(
                account,
                facts,
                on_step,
                runtimes=request.runtimes,
                source=request.wheels,
                extras=_extras(request, options, has_bridge=has_bridge),
                has_bridge=has_bridge,
            )
            with _NAMING:
                options = _agent_options(files, request, facts, shell.default_name)
                at_boot = request.at_boot
                starting = partial(_start, account, facts, options, on_step, at_boot=at_boot)
                warnings = _start_or_restore(account, starting, on_step) if is_new else starting()
                facts = account.look()  # on a copy of a card, the agent has made a new identity
                device = _paired(files, request, shell, options, facts, on_paired)
        if shell.kits:  # only now: the agent of before, which may be needed again, has its own
            remove_kits(shell, keep=account.python)
    with open_device(files, device.pin) as client:
        return DeployReport(device, client.describe(), warnings)


def undeploy(
    files: HostFiles, request: DeployRequest, on_step: OnStep | None = None
) -> UninstallReport:
    """Remove the agent and all that it keeps from a device, and forget the device.

    Raises:
        LeaseHeld: a host measures with it now.
        AccessDenied: the device does not let us in.
        TargetError: something cannot be removed.
        TransportError: the device cannot be reached.
    """
    on_step = on_step or logger.info
    with closing(request.target.connect(request.identity_file)) as shell:
        report, pin = UninstallReport(was_there=False), None
        account: Account | None = None
        if request.python is not None or not shell.kits:
            account = open_account(shell, request.python)
        else:
            with suppress(PythonMissing):  # a phone without one has no agent
                account = open_account(shell, present_python(shell))
        if account is not None:
            facts = account.look()
            _refuse_busy(request, facts)
            if count := facts.spooled_count:
                on_step(f"note: {count} runs that no host has fetched are removed, too")
            with account.changing():
                account.stop()
                report, pin = account.remove(), facts.pin
            for path in report.kept:
                on_step(f"note: kept on the device, older than the first deploy: {path}")
        if shell.kits:
            remove_kits(shell)
    for device in files.devices():
        # A copy of its card may have the identity of a device that was deployed elsewhere.
        is_pinned = pin is not None and device.pin == pin and device.deployed_to is None
        if device.deployed_to == str(request.target) or is_pinned:
            files.forget(device)
    return report


def _open_account(shell: Shell, request: DeployRequest, on_step: OnStep) -> Account:
    """The account, with the requested Python, that of a kit, or one that the device has.

    Raises:
        UsageError: a kit is named for a device that is no phone.
        KitMissing: it is a phone without Python, and there is no kit for it.
        PythonMissing: the device has no Python that is new enough.
    """
    if request.kit is not None and not shell.kits:
        raise UsageError(f"{request.target} takes no kit: it has a Python of its own")
    if request.python is not None or not shell.kits:
        return open_account(shell, request.python)
    try:
        return open_account(shell, bring_python(shell, request.kit, on_step))
    except KitMissing as missing:
        with suppress(PythonMissing):
            return open_account(shell)
        raise missing from None


def _refuse_busy(request: DeployRequest, facts: DeviceFacts) -> None:
    if facts.busy_with:
        raise LeaseHeld(f"agent on {request.target} is in use by {facts.busy_with}")


def _agent_options(
    files: HostFiles, request: DeployRequest, facts: DeviceFacts, default_name: str = ""
) -> AgentOptions:
    """Options as requested, and where nothing is requested as the device had them.

    Name and port are remembered here; meters and line, which are wired to the device, there: so
    another host's deploy keeps them, too.

    Raises:
        UsageError: another device has the name.
    """
    known = files.devices()
    earlier = next((device for device in known if device.pin == facts.pin), None) or next(
        (device for device in known if device.deployed_to == str(request.target)), None
    )
    if default_name:
        default_name = files.free_name(default_name, facts.pin or "")
    name = request.name or (earlier.name if earlier else default_name or facts.host_name)
    other = next((device for device in known if device.name == name), None)
    if other is not None and other is not earlier:
        where = other.deployed_to or ", ".join(other.addresses)
        raise UsageError(f"name {name!r} belongs to another device, {where}; use --name")
    return AgentOptions(
        name=name,
        port=request.port or (earlier.port if earlier else DEFAULT_PORT),
        meters=request.meters or facts.meters,
        sync_line=request.sync_line or facts.sync_line,
    )


def _has_bridge(request: DeployRequest, facts: DeviceFacts) -> bool:
    """Whether the bridge comes along: as requested, else as at the last deploy."""
    if request.has_bridge is not None:
        return request.has_bridge
    if facts.has_bridge is not None:
        return facts.has_bridge
    return any(is_with_bridge(wheel.name) for wheel in facts.held)  # no deploy has recorded it


def _extras(request: DeployRequest, options: AgentOptions, *, has_bridge: bool) -> tuple[str, ...]:
    """Extras that the agent's meters and the bridge need."""
    try:
        check_line(options.sync_line or NOTHING)
        extras = extras_of(check_meters(options.meters))
    except UsageError as exc:
        raise UsageError(f"{exc}; {request.target} serves it: name another, or none") from exc
    return tuple(dict.fromkeys((*extras, *(BRIDGE_EXTRAS if has_bridge else ()))))


def _start_or_restore(
    account: Account, starting: Callable[[], tuple[str, ...]], on_step: OnStep
) -> tuple[str, ...]:
    """Start the agent of a new environment; the one of before if it does not start."""
    try:
        warnings = starting()
    except TargetError as exc:
        if not account.restore():
            raise
        on_step("note: the new agent does not start; starting the one of before")
        try:
            starting()
        except TargetError as again:
            raise TargetError(f"{exc}; nor does the one of before: {again}") from exc
        raise type(exc)(f"{exc}; the one of before runs again") from exc
    account.settle()
    return warnings


def _start(
    account: Account,
    facts: DeviceFacts,
    options: AgentOptions,
    on_step: OnStep,
    *,
    at_boot: bool,
) -> tuple[str, ...]:
    """Start the agent; its warnings."""
    listen = _listen(account.shell, facts)
    report = account.start(
        ["--listen", f"{listen}:{options.port}", "--name", options.name],
        listen=listen,
        meters=options.meters,
        sync_line=options.sync_line,
        at_boot=at_boot,
    )
    if report.error is None:
        on_step(f"agent runs, on port {options.port}; its log: {facts.log}")
        if at_boot:
            on_step(_AT_BOOT.get(report.boot or "", f"note: {account.shell.restart_note}"))
        return report.warnings
    target = account.shell.target
    if "address already in use" in report.error.lower():
        raise PortTaken(f"port {options.port} is taken on {target}")
    raise TargetError(f"agent does not start on {target}: {report.error}; its log: {facts.log}")


def _listen(shell: Shell, facts: DeviceFacts) -> str:
    """Address for the agent: a host that has opened its port to all may still reach it by that."""
    return "" if facts.listen == "" else shell.listen


def _paired(
    files: HostFiles,
    request: DeployRequest,
    shell: Shell,
    options: AgentOptions,
    facts: DeviceFacts,
    on_paired: Callable[[Pairing], None],
) -> KnownDevice:
    """The device, paired: as before if that still holds, else anew."""
    identity_file = ""
    if request.identity_file is not None and shell.via == SshTransport.name:
        identity_file = str(request.identity_file.absolute())
    for known in files.devices():
        if known.pin == facts.pin:
            device = replace(
                known,
                name=options.name,
                addresses=_first(
                    shell.address,
                    known.addresses if known.via == shell.via and not shell.listen else (),
                ),
                port=options.port,
                deployed_to=shell.target,
                via=shell.via,
                identity_file=identity_file,
            )
            try:
                open_known(files, device).close()
            except WrongBoard:
                raise
            except NotPaired:
                break  # it has lost its list of hosts, or the list was another user's
            files.remember(device)
            return device
    pairing = _pair(files, shell, facts, identity_file)
    on_paired(pairing)
    return pairing.device


def _pair(files: HostFiles, shell: Shell, facts: DeviceFacts, identity_file: str) -> Pairing:
    words = [facts.agent, "pair", "--json"]
    output = shell.run(words, what="pairing", timeout_s=PAIR_TIMEOUT_S)
    answers = [line for line in output.text.splitlines() if line.startswith("{")]
    if output.code or not answers:
        raise TargetError(f"pairing on {shell.target} failed: {output.text.strip()[-400:]}")
    answer = parse_answer(answers[-1], _AgentPairing, source=f"pairing on {shell.target}")
    string = parse_pairing_string(answer.pairing)
    others = () if shell.listen else string.addresses
    string = replace(string, addresses=_first(shell.address, others))
    try:
        return pair(
            files,
            string,
            via=shell.via,
            deployed_to=shell.target,
            identity_file=identity_file,
            # Whoever deploys has said which machine is meant: no question, if it is that board.
            decide=lambda known, is_certain: is_certain or known.deployed_to == shell.target,
        )
    except (NotPaired, AccessDenied):
        raise
    except TransportError as exc:
        raise Unreachable(f"agent runs on {shell.target}, but from here: {exc}") from exc


def _first(address: str, others: tuple[str, ...]) -> tuple[str, ...]:
    return (address, *(other for other in others if other != address))
