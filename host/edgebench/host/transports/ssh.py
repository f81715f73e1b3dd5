"""TLS through a tunnel of the user's own `ssh`, to devices that are reachable only by SSH.

    this process ── socket pair ── ssh -W 127.0.0.1:PORT ── SSH ── agent's port on the device

No port is opened on this machine. The tunnel is a single process, which ends with its connection.
The tunnel carries TLS with pinned certificates: hosts on the way cannot read the data, and access
to the device's SSH account is not enough to use the agent.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.host.transports.pinned import PinnedTransport, PlainStream, peer_name
from edgebench.host.transports.ssh_program import (
    FAILED,
    FailureKind,
    SshAddress,
    SshConfig,
    failure_of,
    find_ssh,
    identity_words,
    login_words,
    parse_address,
    read_config,
    read_log,
)
from edgebench.protocol.errors import EdgebenchError, Unreachable, UsageError

LOOPBACK = "127.0.0.1"
"""Address of the agent on the device."""
END_TIMEOUT_S = 10.0
"""Time that `ssh` has to exit after its stream has ended; a jump host may close its connection more
slowly than the device."""


class SshTransport(PinnedTransport):
    """TLS through `ssh -W`; the address of a device is the destination argument of `ssh`."""

    name = "ssh"

    def dial(self, place: Endpoint) -> PlainStream:
        """Start a tunnel; only the first bytes from the device show whether the tunnel works.

        Raises:
            Unreachable: `ssh` is not installed, or rejects its configuration.
        """
        address, program = parse_address(place.addresses[0]), find_ssh()
        if address is None:  # written by a newer version
            raise Unreachable(f"{place.name}: not an SSH address: {place.addresses[0]!r}")
        if program is None:
            raise Unreachable(f"cannot reach {peer_name(place)}: ssh is not installed")
        identity_file = Path(place.identity_file) if place.identity_file else None
        try:
            config = read_config(program, address, identity_file)
        except UsageError as exc:
            raise Unreachable(f"cannot reach {peer_name(place)}: {exc}") from exc
        tunnel = _Tunnel(peer_name(place), address, config)
        words = [program, *tunnel.words, "-W", f"{LOOPBACK}:{place.port}"]
        return tunnel.open([*words, *identity_words(identity_file), *address.words])

    def discover(self, timeout_s: float) -> list[Announcement]:
        """Always empty: a device behind SSH cannot announce itself to this host."""
        return []


class _Tunnel:
    """A process of `ssh` that carries a single stream."""

    def __init__(self, peer: str, address: SshAddress, config: SshConfig) -> None:
        self._peer, self._address, self._config = peer, address, config
        self._folder = Path(tempfile.mkdtemp(prefix="edgebench-"))
        self._has_ended = threading.Event()
        self._status, self._log, self._output = 0, "", ""

    @property
    def words(self) -> tuple[str, ...]:
        """Options of `ssh` for the login, without the destination."""
        return login_words(self._config, self._folder / "log", can_prompt=False)

    def open(self, words: list[str]) -> PlainStream:
        ours, theirs = socket.socketpair()
        try:
            with theirs, (self._folder / "output").open("wb") as output:
                process = subprocess.Popen(
                    words,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=output,
                    start_new_session=True,  # kept on Ctrl-C, so that a run can end in order
                )
        except BaseException:
            ours.close()
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        waiting = threading.Thread(target=self._wait, args=(process,), daemon=True, name="ssh")
        waiting.start()
        return PlainStream(ours, self._end_reason)

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the end of the process, and keep its status and output."""
        self._status = process.wait()
        self._log = read_log(self._folder / "log")
        self._output = read_log(self._folder / "output")
        shutil.rmtree(self._folder, ignore_errors=True)
        self._has_ended.set()

    def _end_reason(self) -> EdgebenchError | None:
        """Reason why the tunnel did not reach the agent; None if the agent ended the stream."""
        if not self._has_ended.wait(END_TIMEOUT_S) or self._status != FAILED:
            return None
        failure = failure_of(
            self._address, self._config, self._log, self._output, status=self._status
        )
        if failure.kind is FailureKind.NO_STREAM:
            text = f"cannot reach {self._peer}: {failure.text}"
            return Unreachable(text, reason=failure.text)
        return failure.error(self._address)
