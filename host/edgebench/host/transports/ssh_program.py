"""The user's own `ssh`: its command line, and the meaning of its messages.

    text ─▶ SshAddress ── ssh -G ─▶ SshConfig          as configured in ~/.ssh/config
                     └─── ssh … ──▶ its log, stderr ─▶ SshFailure

`ssh` alone determines how to log in: aliases, jump hosts, proxy commands, certificates, keys in SSH
agents and hardware tokens, `known_hosts`. Only this file parses the messages of `ssh`. OpenSSH does
not translate its messages, and the wording of the messages has been stable for many versions. An
unknown message is quoted.

Source of the messages: OpenSSH 9.2, sshconnect.c, sshconnect2.c, packet.c, kex.c, channels.c.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from edgebench.protocol.errors import (
    AccessDenied,
    EdgebenchError,
    TooManyKeys,
    Unreachable,
    UsageError,
)
from edgebench.protocol.text import one_line, printable

CONNECT_TIMEOUT_S = 15
"""Time limit for a device to accept a connection and to show its host key, unless ~/.ssh/config
sets a limit."""
ALIVE_INTERVAL_S = 15
"""If no byte arrives from the device for this time, `ssh` requests a response; ~/.ssh/config may
set a different time. After three requests without a response, `ssh` closes the connection. Source:
ssh_config(5), ServerAliveCountMax."""
CONFIG_TIMEOUT_S = 30.0
MAX_LOG_BYTES = 256 * 1024
FAILED = 255
"""Exit status if `ssh` itself fails, as opposed to the command on the device. Source: ssh(1)."""


@dataclass(frozen=True, slots=True)
class SshAddress:
    """The destination of a login with `ssh`; `parse_address` can parse its string form."""

    user: str | None
    """User name; None: the user in ~/.ssh/config, else the name of the local user."""
    host: str
    """Host name, address, or alias of ~/.ssh/config."""
    port: int | None = None
    """Port; None: the port in ~/.ssh/config, else 22."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        user = f"{self.user}@" if self.user else ""
        return f"{user}{host}" + (f":{self.port}" if self.port else "")

    @property
    def words(self) -> tuple[str, ...]:
        """Arguments of `ssh` for the destination; the words of a remote command follow directly."""
        port = ("-p", str(self.port)) if self.port else ()
        user = ("-l", self.user) if self.user else ()
        return (*port, *user, "--", self.host)

    @property
    def login(self) -> str:
        """Arguments of `ssh` with which the user can log in by hand."""
        user = f"{self.user}@" if self.user else ""
        return (f"-p {self.port} " if self.port else "") + f"{user}{self.host}"


def parse_address(text: str) -> SshAddress | None:
    """Parse `[USER@]HOST[:PORT]` or `ssh://…`; return None for any other text.

    An IPv6 address is in brackets.

    >>> parse_address("pi"), str(parse_address("ssh://pi@[fe80::1]:2222"))
    (SshAddress(user=None, host='pi', port=None), 'pi@[fe80::1]:2222')
    """
    # No part may begin with a hyphen, because the login is passed as arguments of `ssh`.
    match = re.fullmatch(
        r"(?P<scheme>ssh://)?(?:(?P<user>[^@\s:/-][^@\s:/]*)@)?"
        r"(?P<host>\[[\w:.%]+\]|\w[\w.-]*)(?::(?P<port>\d{1,5}))?(?(scheme)/?)",
        text,
    )
    port = int(match["port"]) if match and match["port"] else None
    if match is None or (port is not None and not 0 < port < 65536):
        return None
    return SshAddress(match["user"], match["host"].strip("[]"), port)


@dataclass(frozen=True, slots=True)
class SshConfig:
    """The settings of `ssh` that this module uses, for a single address."""

    host_name: str
    known_hosts: tuple[str, ...]
    strict_checking: str
    """Value of StrictHostKeyChecking: yes, ask, accept-new or no."""
    is_proxied: bool
    """Whether `ssh` reaches the device through other programs or hosts."""
    control_path: str | None
    """Control socket that the user's own logins share; None if no control socket is configured."""
    has_connect_timeout: bool
    has_alive_interval: bool


def find_ssh() -> str | None:
    """Path of the user's `ssh`; None if it is missing, or the system has no control sockets."""
    return shutil.which("ssh") if os.name == "posix" else None


def read_config(program: str, address: SshAddress, identity_file: Path | None) -> SshConfig:
    """Read the settings for an address from ~/.ssh/config and the system's configuration.

    Raises:
        UsageError: `ssh` rejects a line of the configuration, or does not read it in time.
    """
    words = [program, "-G", "-T", *identity_words(identity_file), *address.words]
    try:
        result = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CONFIG_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise UsageError(
            f"ssh did not read its configuration within {CONFIG_TIMEOUT_S:.0f} s"
        ) from exc
    if result.returncode:
        # The first message names the line; the last message is only a count.
        messages = _messages(_text(result.stderr)) or [f"status {result.returncode}"]
        raise UsageError(f"ssh rejects its configuration: {messages[0]}")
    values: dict[str, str] = {}
    for line in _text(result.stdout).splitlines():
        name, _, value = line.partition(" ")
        values.setdefault(name, value)

    def value_of(name: str) -> str | None:
        return None if values.get(name, "none") in ("none", "") else values[name]

    return SshConfig(
        host_name=values.get("hostname", address.host),
        known_hosts=tuple(values.get("userknownhostsfile", "~/.ssh/known_hosts").split()),
        strict_checking=values.get("stricthostkeychecking", "ask"),
        is_proxied=any(value_of(name) for name in ("proxyjump", "proxycommand")),
        control_path=value_of("controlpath"),
        has_connect_timeout=value_of("connecttimeout") is not None,
        has_alive_interval=values.get("serveraliveinterval", "0") != "0",
    )


def identity_words(identity_file: Path | None) -> tuple[str, ...]:
    """Options by which `ssh` offers only this key; servers may reject a login with many keys."""
    if identity_file is None:
        return ()
    return ("-i", str(identity_file), "-oIdentitiesOnly=yes")


def login_words(config: SshConfig, log: Path, *, can_prompt: bool) -> tuple[str, ...]:
    """Options of a login that only carries commands or a single stream.

    Args:
        config: Settings of `ssh` for the address.
        log: File for the messages of `ssh`. Prompts are not written to the file, nor is the output
            of the programs that connect to the device.
        can_prompt: Whether `ssh` may prompt for a password on the terminal.
    """
    options = ["LogLevel=DEBUG1", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no"]
    options += ["PermitLocalCommand=no", "RemoteCommand=none"]
    if not can_prompt:
        options.append("BatchMode=yes")
        if config.strict_checking == "ask":
            options.append("StrictHostKeyChecking=yes")  # refuses as well, and states the reason
    if not config.has_connect_timeout:
        options.append(f"ConnectTimeout={CONNECT_TIMEOUT_S}")
    if not config.has_alive_interval:
        options.append(f"ServerAliveInterval={ALIVE_INTERVAL_S}")
    return ("-T", "-E", str(log), *(f"-o{option}" for option in options))


class FailureKind(Enum):
    """Kind of a failure of `ssh`; the kinds differ in what the user has to fix."""

    UNREACHABLE = auto()
    """The network or the device has to be fixed."""
    REFUSED = auto()
    """The user's access has to be fixed: the host key is not trusted, or the login is refused."""
    TOO_MANY_KEYS = auto()
    """The user's access has to be fixed: the login was refused before the right key was offered."""
    NO_STREAM = auto()
    """The device has to be fixed: it accepts the login, but does not connect to the port."""


@dataclass(frozen=True, slots=True)
class SshFailure:
    """A failure of `ssh`, as a kind and a text."""

    kind: FailureKind
    text: str

    def error(self, address: SshAddress) -> EdgebenchError:
        """The error to raise for a login at an address."""
        if self.kind is FailureKind.REFUSED:
            return AccessDenied(self.text, address.login)
        if self.kind is FailureKind.TOO_MANY_KEYS:
            return TooManyKeys(self.text, address.login)
        return Unreachable(self.text)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A message of `ssh`, and its meaning."""

    kind: FailureKind
    pattern: str
    text: str
    """Template of the failure's text; words in braces name groups of the pattern, or facts of
    `_first_match`."""


_UNREACHABLE, _REFUSED = FailureKind.UNREACHABLE, FailureKind.REFUSED
_RULES = (
    _Rule(
        _REFUSED,
        r"No \S+ host key is known for (?P<name>\S+) and you have requested strict checking\.",
        "host key of {name} is unknown: {shown} is not in {file}",
    ),
    _Rule(
        _REFUSED,
        r"Host key for (?P<name>\S+) has changed and you have requested strict checking\.",
        "host key of {name} has changed: the host presents {shown}{line}",
    ),
    _Rule(
        _REFUSED,
        r"(?P<type>\S+) host (?P<what>key|certificate) for (?P<name>\S+) was revoked and .*",
        "host {what} of {name} is revoked: {shown}",
    ),
    _Rule(
        _REFUSED,
        r"Certificate invalid: (?P<reason>.+)",
        "host certificate of {address} is not accepted: {reason}",
    ),
    _Rule(_REFUSED, r"Host key verification failed\.", "host key of {address} is not accepted"),
    _Rule(
        _REFUSED,
        r"Unable to negotiate with \S+ port \d+: (?P<reason>.+)",
        "{address} and ssh have no algorithm in common: {reason}",
    ),
    _Rule(
        FailureKind.TOO_MANY_KEYS,
        r"(?:Received disconnect from .*: ?)?Too many authentication failures.*",
        "{address} refuses this login: too many authentication failures{offered}",
    ),
    _Rule(
        _REFUSED,
        r"(?P<who>\S+): Permission denied \((?P<methods>.*)\)\.",
        "{who} refuses this login: Permission denied ({methods}){key}",
    ),
    _Rule(
        _UNREACHABLE,
        r"ssh: Could not resolve hostname (?P<name>\S+): (?P<reason>.+)",
        "cannot reach {name}: {reason}",
    ),
    _Rule(
        _UNREACHABLE,
        r"ssh: connect to host (?P<name>\S+) port (?P<port>\d+): (?P<reason>.+)",
        "cannot reach {name} port {port}: {reason}",
    ),
    _Rule(
        FailureKind.NO_STREAM,
        r"channel \d+: open failed: connect failed:? ?(?P<reason>.*)",
        "{reason}",
    ),
    _Rule(
        FailureKind.NO_STREAM,
        r"channel \d+: open failed: administratively prohibited: .*",
        "its SSH server does not forward connections (AllowTcpForwarding, PermitOpen)",
    ),
    _Rule(
        _UNREACHABLE,
        r"Connection timed out during banner exchange",
        "cannot reach {address}: no SSH banner in time",
    ),
    _Rule(
        _UNREACHABLE,
        r"(?:kex_exchange_identification|banner exchange): (?P<reason>.+)",
        "{address} does not speak SSH, or refuses every connection: {reason}",
    ),
    _Rule(
        _UNREACHABLE,
        r"(?:ssh_dispatch_run_fatal|ssh_packet_\w+): (?P<reason>.+)",
        "{address} does not speak SSH: {reason}",
    ),
)
_PROXY_ENDED = re.compile(r"Connection (?:closed|reset) by UNKNOWN port 65535|.*: Broken pipe")
"""Pattern of the messages of `ssh` about the end of the program that connects to the device."""
_ABOUT_KEYS = re.compile(
    r"Load key |sign_and_send_pubkey: |no such identity: |Couldn't sign |.*sk-"
)
"""Pattern of the beginning of messages about the user's keys."""
_DEBUG = re.compile(r"debug\d: ")


def failure_of(
    address: SshAddress, config: SshConfig, log: str, output: str, *, status: int | None = None
) -> SshFailure:
    """Determine the failure of `ssh` from its messages.

    Args:
        address: Destination of the login.
        config: Settings of `ssh` for the address.
        log: Log of `ssh`.
        output: Standard error of `ssh`, with the messages of the programs that connect to the
            device.
        status: Exit status of `ssh`.
    """
    messages, others = _messages(log), _messages(output)
    if config.is_proxied and any(map(_PROXY_ENDED.fullmatch, messages)):
        found = _first_match(others, "a host on the way", config)
        if found is None:
            text = others[-1] if others else "no output"
            return SshFailure(
                _UNREACHABLE, f"cannot reach {address}: jump host or proxy command ended: {text}"
            )
        if found.kind is FailureKind.NO_STREAM:
            return SshFailure(_UNREACHABLE, f"jump host cannot reach {address}: {found.text}")
        return SshFailure(found.kind, f"on the way to {address}: {found.text}")
    if found := _first_match((*messages, *others), str(address), config, log, who=str(address)):
        return found
    text = (messages or others or [f"ssh ended with status {status}"])[-1]
    return SshFailure(_UNREACHABLE, f"no login at {address}: {text}")


def _first_match(
    messages: Sequence[str], address: str, config: SshConfig, log: str = "", **known: str
) -> SshFailure | None:
    """Failure according to the first rule that matches a message, with details from the log."""
    shown = re.search(r"^debug1: Server host (?:key|certificate): (\S+ [^\s,]+)", log, re.MULTILINE)
    offending = re.search(r"^Offending \S+ key in (.+):(\d+)", log, re.MULTILINE)
    offered = len(re.findall(r"^debug1: Offering public key: ", log, re.MULTILINE))
    key = [message for message in messages if _ABOUT_KEYS.match(message)]
    facts = {
        "address": address,
        "shown": printable(shown[1]) if shown else "its key",
        "file": config.known_hosts[0] if config.known_hosts else "~/.ssh/known_hosts",
        "line": f"; {offending[1]} line {offending[2]} has another key" if offending else "",
        "offered": f" after {offered} keys" if offered else "",
        "key": f"; {key[-1]}" if key else "",
    }
    for rule in _RULES:
        for message in messages:
            if match := re.fullmatch(rule.pattern, message):
                return SshFailure(
                    rule.kind, rule.text.format_map(facts | match.groupdict() | known)
                )
    return None


def last_message(log: str) -> str:
    """The last message of a log that is not a debug message; empty if there is none."""
    return (_messages(log) or [""])[-1]


def read_log(path: Path) -> str:
    """Output of `ssh` in a file, at most its last `MAX_LOG_BYTES`; empty if the file is missing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - MAX_LOG_BYTES))
            return _text(file.read())
    except OSError:  # nothing was written
        return ""


def _messages(text: str) -> list[str]:
    lines = (one_line(line, 400) for line in text.splitlines() if line.strip())
    return [line for line in lines if not _DEBUG.match(line)]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
