"""Real agents in processes of their own, with directories of their own."""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from edgebench.agent.control import send_request
from edgebench.agent.files import make_private_directory
from edgebench.agent.identity import IDENTITY_FILE
from edgebench.agent.identity import _create as create_identity
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.lab import Lab
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.identity import (
    PAIRING_VALID_S,
    SECRET_BYTES,
    PairingString,
    pairing_identity,
)
from edgebench.protocol.messages import PairingOpen, PairingReady, Status, StatusAsk
from edgebench.system.control_address import ControlAddress
from edgebench.system.paths import cache_directory
from support.failures import assert_one_error
from support.process_server import (
    AGENT,
    HOST,
    ProcessServer,
    StartedProcess,
    fork_local_agents,
)

START_TIMEOUT_S = 90.0
CACHE = str(Path(cache_directory(os.environ)) / "tests")
"""Cache directory of all hosts, so that not each of their agents probes every runtime for a second
of CPU time. The user's own cache may hold wheels, which a test that deploys must not find."""


@functools.cache
def process_server(program: str) -> ProcessServer:
    """The one of a program, for the tests of this process."""
    return ProcessServer(program, process_server(AGENT) if program == HOST else None)


fork_local_agents(lambda: process_server(AGENT))


@dataclass
class AgentProcess:
    """`edgebench-agent serve` on loopback; killed without notice when the test ends."""

    folder: Path
    options: Sequence[str] = ()
    prefix: Sequence[str] = ()
    """Words before the command, such as `ip netns exec NAME`."""
    listen: str = "127.0.0.1:0"
    environment: dict[str, str] = field(default_factory=dict)
    process: StartedProcess | None = None
    port: int = 0
    can_fork: ClassVar[bool] = True
    """Whether its command is that of every agent."""

    @property
    def state(self) -> Path:
        """The agent's state directory."""
        return self.folder / "state"

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        assert self.process is not None
        return self.process.pid

    def command(self, *words: str) -> list[str]:
        """A command line of the agent, on this agent's directories."""
        return [*self.prefix, sys.executable, "-m", "edgebench.agent", *self._words(*words)]

    def _words(self, *words: str) -> list[str]:
        return ["--state", str(self.state), "--config", str(self.folder / "config"), *words]

    def start(self) -> AgentProcess:
        """Start it and wait until it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        advertise = [] if self.prefix else ["--no-advertise"]
        with (self.folder / "stderr.txt").open("ab") as errors:
            self.process = self._popen(
                ("serve", "--listen", self.listen, *advertise, *self.options), errors.fileno()
            )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], START_TIMEOUT_S)
        line = self.process.stdout.readline() if readable else ""
        assert line.startswith("ready "), f"agent did not start: {self.errors()}"
        self.port = int(line.split()[-1])
        return self

    def _popen(self, words: Sequence[str], errors: int) -> StartedProcess:
        server = process_server(AGENT)
        # A variable of its own may be a mark, which is read from /proc/PID/environ.
        is_plain = self.can_fork and not self.environment and not self.prefix
        if is_plain and server.can_start(os.environ):
            self._make_identity()
            return server.popen(self._words(*words), os.environ, err=errors)
        return subprocess.Popen(
            self.command(*words),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | self.environment,
        )

    def _make_identity(self) -> None:
        """Make the identity as the agent does, which takes a process of its own for that."""
        path = self.folder / "config" / IDENTITY_FILE
        if not path.exists():
            make_private_directory(path.parent)
            create_identity(path)

    def errors(self) -> str:
        """Its standard error so far."""
        return (self.folder / "stderr.txt").read_text(errors="replace")

    def pairing_string(self) -> str:
        """The output of `edgebench-agent pair`, with the address of loopback."""
        secret = secrets.token_bytes(SECRET_BYTES)
        request = PairingOpen(pairing_identity(secret).certificate_pem, PAIRING_VALID_S)
        ready = asyncio.run(send_request(ControlAddress(self.state), request, PairingReady))
        addresses = ready.addresses if self.prefix else ("127.0.0.1",)
        return str(PairingString(addresses, ready.port, ready.fingerprint, secret))

    def status(self) -> Status:
        """The status that the agent reports."""
        return asyncio.run(send_request(ControlAddress(self.state), StatusAsk(), Status))

    def kill(self) -> None:
        """SIGKILL the daemon, and only the daemon."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def stop(self) -> int:
        """SIGTERM the daemon; its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process = None
        return code

    def cpu_s(self) -> float:
        """CPU time that the daemon has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Resident memory of the daemon."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Host:
    """A host with a configuration and a store of its own, as Python and as a command line."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables that give a command this host's directories."""
        return {
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CACHE_HOME": CACHE,
            "HOME": str(self.folder),
            # Programs of its own, such as `ssh` with its own configuration.
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "COLUMNS": "160",
        }

    @property
    def config(self) -> Path:
        """The host's configuration directory."""
        return self.folder / "config" / "edgebench" / "host"

    @property
    def state(self) -> Path:
        """The host's state directory."""
        return self.folder / "data" / "edgebench" / "host"

    @property
    def devices(self) -> tuple[KnownDevice, ...]:
        """Devices that it is paired with."""
        return HostFiles(self.config).devices()

    @property
    def lab(self) -> Lab:
        """The same directories from Python."""
        return Lab(
            self.folder / "data" / "edgebench",
            config=self.config,
            agent_state=self.folder / "data" / "edgebench" / "agent",
            state=self.state,
        )

    def run(
        self, *words: str, timeout_s: float = 400, prefix: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        """Run `edgebench` with these arguments; a failure is one error and one hint."""
        self.folder.mkdir(parents=True, exist_ok=True)
        variables = os.environ | self.environment
        server = process_server(HOST)
        if server.can_start(variables, prefix):
            result = server.run(words, variables, timeout_s, prefix)
        else:
            result = subprocess.run(
                [*prefix, sys.executable, "-m", "edgebench.host.cli", *words],
                capture_output=True,
                text=True,
                timeout=timeout_s,
                env=variables,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        assert_one_error(words, result.returncode, result.stderr)
        return result

    def popen(self, *words: str, prefix: Sequence[str] = ()) -> StartedProcess:
        """Start `edgebench` with these arguments, in a session of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        variables = os.environ | self.environment
        server = process_server(HOST)
        if server.can_start(variables, prefix):
            return server.popen(words, variables, prefix=prefix, is_session=True)
        return subprocess.Popen(
            [*prefix, sys.executable, "-m", "edgebench.host.cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=variables,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def end_local_agent(host: Host) -> None:
    """End the agent that a command of this host started, by its pid."""
    address = ControlAddress(host.folder / "data" / "edgebench" / "agent")
    if not address.is_there:
        return
    with suppress(EdgebenchError, ProcessLookupError):
        os.kill(asyncio.run(send_request(address, StatusAsk(), Status)).pid, signal.SIGTERM)


def wait_until(condition: Any, what: str, timeout_s: float = 90.0) -> None:
    """Wait for an action of another process; fails the test when it does not happen.

    A condition that sends a request or runs a command is checked less often: else it would take a
    CPU from that process.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        began_s = time.monotonic()
        if condition():
            return
        now_s = time.monotonic()
        assert now_s < deadline_s, f"did not happen within {timeout_s} s: {what}"
        time.sleep(min(max(0.02, 5 * (now_s - began_s)), 1.0))
