"""Install an agent on a device through a shell, start it and pair with it; or remove an agent.

    connect ─▶ look ─▶ fetch wheels ─▶ send the missing ─▶ stop the old agent ─▶ install
                       (host)                                                      │
               check ◀─ pair, unless we are paired ◀─ start ◀─────────────────────┘

Files that the old agent uses are not changed before the agent is stopped. `on_device.py` makes all
changes on the device, and documents the locations of the files.
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
    "systemd": "the agent starts at boot, by a systemd unit",
    "systemd-user": "the agent starts at boot, by a systemd unit in this account, with lingering "
    "enabled",
    "openrc": "the agent starts at boot, by an OpenRC service",
    "cron": "the agent starts at boot, by a crontab entry",
}

_NAMING = threading.Lock()
"""Lock that is held from the choice of a name until the device is stored. Without it, simultaneous
deploys to two phones of the same model would choose the same name."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeployRequest:
    """The target and the options of a deploy."""

    target: DeployTarget
    identity_file: Path | None = None
    runtimes: tuple[str, ...] = RUNTIMES
    wheels: Path | None = None
    """Directory from which all wheels are taken; None for the package index."""
    python: str | None = None
    """Python on the device; None selects the first Python that is new enough or, on a phone, the
    Python of a kit."""
    kit: Path | None = None
    """File of a kit (a Python for phones); None selects the kit that is built or installed here."""
    port: int | None = None
    """Port of the agent; None keeps the port, or takes the default port for a new device."""
    name: str | None = None
    """Name of the device; None keeps the name, or takes the host name of a new device."""
    at_boot: bool = True
    """Whether the agent also starts at boot."""
    via: str | None = None
    """Transport for the agent; None keeps the present transport. For a new device, None selects the
    transport of the login."""
    meters: Sequence[str] = ()
    """Meters that the agent serves, or only the word "none" for no meter; empty keeps the
    meters."""
    sync_line: str | None = None
    """Line from the device to a digital input of a meter, or the word "none" for no line; None
    keeps the setting."""
    has_bridge: bool | None = None
    """Whether to install the firmware bridge, for microcontrollers attached to the device. None
    keeps the present choice; on a new device, the bridge is then not installed."""


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """Options with which the agent is started."""

    name: str
    port: int
    meters: Sequence[str]
    """Meters, as in `DeployRequest`; empty if the meters were never set."""
    sync_line: str | None


@dataclass(frozen=True, slots=True)
class DeployReport:
    """The result of a deploy: a device that is ready for use."""

    device: KnownDevice
    system: SystemDescription
    warnings: tuple[str, ...] = ()
    """Warnings of the device's agent about missing meters and sync lines."""


@dataclass(frozen=True, slots=True)
class _AgentPairing:
    """Output of `edgebench-agent pair --json`."""

    pairing: str


def deploy_request(target: str, **settings: Any) -> DeployRequest:
    """Make a deploy request from the text that names its target; `settings` are its other fields.

    Raises:
        UsageError: the target or a setting is invalid.
    """
    request = DeployRequest(parse_target(target), **settings)
    if unknown := set(request.runtimes) - set(RUNTIMES):
        raise unknown_name("runtime", min(unknown), RUNTIMES)
    if request.name == LOCAL_NAME:
        raise UsageError(f"name {LOCAL_NAME!r} is reserved for the host's own machine")
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
    """Install or update the agent on a device.

    Args:
        files: This host's identity and devices.
        request: The target and options.
        on_step: Called with a line of text for each step.
        on_paired: Called with the result of a new pairing.

    Raises:
        UsageError: the name belongs to another device.
        AccessDenied: the device refuses the login.
        TargetError: the agent cannot be installed on the device; a subclass states the reason.
        TransportError: the device cannot be reached.
    """
    on_step = on_step or logger.info
    # By default the transport is the same as after the last deploy to this target.
    known = files.devices()
    vias = [device.via for device in known if device.deployed_to == str(request.target)]
    via = request.via or (vias[0] if vias else None)
    with closing(request.target.connect(request.identity_file, via)) as shell:
        account = _open_account(shell, request, on_step)
        with account.changing():
            facts = account.look()
            on_step(f"connected to {request.target}: {facts.interpreter}")
            _refuse_busy(request, facts)
            # Also checked here, so that a taken name is rejected before anything is installed.
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
                facts = account.look()  # the agent may have a new identity on a copied card
                device = _paired(files, request, shell, options, facts, on_paired)
        if shell.kits:  # not earlier: restoring the previous agent needs its own kit
            remove_kits(shell, keep=account.python)
    with open_device(files, device.pin) as client:
        return DeployReport(device, client.describe(), warnings)


def undeploy(
    files: HostFiles, request: DeployRequest, on_step: OnStep | None = None
) -> UninstallReport:
    """Remove the agent and all of its files from a device, and forget the device.

    Raises:
        LeaseHeld: a host is measuring with the agent.
        AccessDenied: the device refuses the login.
        TargetError: a file cannot be removed, or the agent does not stop.
        TransportError: the device cannot be reached.
    """
    on_step = on_step or logger.info
    with closing(request.target.connect(request.identity_file)) as shell:
        report, pin = UninstallReport(was_there=False), None
        account: Account | None = None
        if request.python is not None or not shell.kits:
            account = open_account(shell, request.python)
        else:
            with suppress(PythonMissing):  # a phone without Python has no agent
                account = open_account(shell, present_python(shell))
        if account is not None:
            facts = account.look()
            _refuse_busy(request, facts)
            if count := facts.spooled_count:
                on_step(f"note: {count} runs that were never fetched are also removed")
            with account.changing():
                account.stop()
                report, pin = account.remove(), facts.pin
            for path in report.kept:
                on_step(
                    f"note: {path} is kept on the device, because it is older than the first deploy"
                )
        if shell.kits:
            remove_kits(shell)
    for device in files.devices():
        # A copied SD card may have the identity of a device that was deployed elsewhere.
        is_pinned = pin is not None and device.pin == pin and device.deployed_to is None
        if device.deployed_to == str(request.target) or is_pinned:
            files.forget(device)
    return report


def _open_account(shell: Shell, request: DeployRequest, on_step: OnStep) -> Account:
    """Open the account with the requested Python, a kit's Python, or a Python of the device.

    Raises:
        UsageError: a kit is named for a device that is not a phone.
        KitMissing: the device is a phone without Python, and there is no kit for it.
        PythonMissing: the device has no Python that is new enough.
    """
    if request.kit is not None and not shell.kits:
        raise UsageError(f"--kit does not apply to {request.target}, which is not a phone")
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
    """Options of the agent: each requested option, or else the device's previous option.

    Name and port are stored on this host. Meters and the sync line, which are wired to the device,
    are stored on the device, so that a deploy from another host keeps them.

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
        raise UsageError(
            f"name {name!r} belongs to another device, {where}; choose another name with --name"
        )
    return AgentOptions(
        name=name,
        port=request.port or (earlier.port if earlier else DEFAULT_PORT),
        meters=request.meters or facts.meters,
        sync_line=request.sync_line or facts.sync_line,
    )


def _has_bridge(request: DeployRequest, facts: DeviceFacts) -> bool:
    """Whether to install the bridge; without a request, the last deploy's choice is repeated."""
    if request.has_bridge is not None:
        return request.has_bridge
    if facts.has_bridge is not None:
        return facts.has_bridge
    return any(is_with_bridge(wheel.name) for wheel in facts.held)  # not recorded by older deploys


def _extras(request: DeployRequest, options: AgentOptions, *, has_bridge: bool) -> tuple[str, ...]:
    """Optional dependencies (pip extras) that the agent's meters and the bridge need."""
    try:
        check_line(options.sync_line or NOTHING)
        extras = extras_of(check_meters(options.meters))
    except UsageError as exc:
        raise UsageError(
            f"{exc}; this setting is stored on {request.target}; replace it, or remove it with "
            "the value none"
        ) from exc
    return tuple(dict.fromkeys((*extras, *(BRIDGE_EXTRAS if has_bridge else ()))))


def _start_or_restore(
    account: Account, starting: Callable[[], tuple[str, ...]], on_step: OnStep
) -> tuple[str, ...]:
    """Start the agent of a new environment; on failure, restore and start the previous agent."""
    try:
        warnings = starting()
    except TargetError as exc:
        if not account.restore():
            raise
        on_step("note: the new agent does not start; starting the previous agent")
        try:
            starting()
        except TargetError as again:
            raise TargetError(f"{exc}; the previous agent does not start either: {again}") from exc
        raise type(exc)(f"{exc}; the previous agent runs again") from exc
    account.settle()
    return warnings


def _start(
    account: Account, facts: DeviceFacts, options: AgentOptions, on_step: OnStep, *, at_boot: bool
) -> tuple[str, ...]:
    """Start the agent, and return its warnings.

    Raises:
        PortTaken: another program uses the port on the device.
        TargetError: the agent does not start for another reason.
    """
    listen = _listen(account.shell, facts)
    report = account.start(
        ["--listen", f"{listen}:{options.port}", "--name", options.name],
        listen=listen,
        meters=options.meters,
        sync_line=options.sync_line,
        at_boot=at_boot,
    )
    if report.error is None:
        on_step(f"agent runs on port {options.port}; its log: {facts.log}")
        if at_boot:
            on_step(_AT_BOOT.get(report.boot or "", f"note: {account.shell.restart_note}"))
        return report.warnings
    target = account.shell.target
    if "address already in use" in report.error.lower():
        raise PortTaken(f"port {options.port} is taken on {target}")
    raise TargetError(f"agent does not start on {target}: {report.error}; its log: {facts.log}")


def _listen(shell: Shell, facts: DeviceFacts) -> str:
    """Listen address of the agent.

    An agent that already accepts connections on all addresses keeps this setting, because other
    hosts may use these addresses.
    """
    return "" if facts.listen == "" else shell.listen


def _paired(
    files: HostFiles,
    request: DeployRequest,
    shell: Shell,
    options: AgentOptions,
    facts: DeviceFacts,
    on_paired: Callable[[Pairing], None],
) -> KnownDevice:
    """Return the paired device; pair with the agent if no existing pairing is valid."""
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
                break  # the agent has lost its list of hosts, or the list was another user's
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
            # The user has named this machine by its login, so its board needs no confirmation.
            decide=lambda known, is_certain: is_certain or known.deployed_to == shell.target,
        )
    except (NotPaired, AccessDenied):
        raise
    except TransportError as exc:
        raise Unreachable(
            f"agent runs on {shell.target}, but is not reachable from here: {exc}"
        ) from exc


def _first(address: str, others: tuple[str, ...]) -> tuple[str, ...]:
    return (address, *(other for other in others if other != address))
