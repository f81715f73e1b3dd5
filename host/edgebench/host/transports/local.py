"""Connections to the agent on this machine over its unix socket; the agent is started if needed."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from websockets.sync.client import unix_connect

from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.host.transports.link import (
    AGENT_URI,
    OPEN_TIMEOUT_S,
    WEBSOCKET_OPTIONS,
    Link,
    opening,
)
from edgebench.protocol.codec import decode, encode
from edgebench.protocol.errors import (
    LeaseHeld,
    LinkLost,
    OtherEnvironment,
    TargetError,
    Unreachable,
)
from edgebench.protocol.messages import AgentClaim, AgentClaimed, ClaimOutcome
from edgebench.system.control_address import ControlAddress
from edgebench.system.paths import user_paths
from edgebench.system.python_environment import PythonEnvironment, this_environment
from edgebench.system.python_start import python_command

START_TIMEOUT_S = 20.0
POLL_S = 0.02
END_TIMEOUT_S = 10.0
"""Time that an agent has to end its run and exit; after this time, the agent is killed."""
RESTART_S = 0.2
"""Pause before the agent is started again. It is shorter than the time in which an agent detects a
locked state directory."""
FAILED_LOG = "start-failed.log"
"""Name of the log of the most recent agent that failed to start; the log is in the agent's state
directory."""
USED_TIMEOUT_S = 5.0
"""Time to wait for the end of a command that runs in a different Python environment."""
IDLE_EXIT_S = 10.0
"""Time without a connection after which the agent exits, if this module started the agent."""
_PEER = "the agent on this machine"
"""Name by which error texts refer to this machine's agent."""


class LocalTransport:
    """The unix socket of this machine's agent; every user who may open it is trusted."""

    name = "local"

    def __init__(self, state: Path | None = None, *, any_environment: bool = False) -> None:
        self._state = state or Path(user_paths(os.environ).agent_state)
        self._any_environment = any_environment

    def connect(self, endpoint: Endpoint) -> Link:
        """Open a connection to this machine's agent, which is started if it is not running.

        The agent has to run in the Python environment of this process, unless `any_environment` was
        set. If a command of another environment started the agent, and the agent is idle, then the
        agent exits, and a new agent is started.

        Raises:
            LeaseHeld: a command of another Python environment uses the agent.
            OtherEnvironment: an agent of another Python environment serves this machine.
            TargetError: the agent does not start.
        """
        environment = this_environment()
        try:
            if self._any_environment:
                return _open(self._state)
            return _connect(self._state, environment)
        except Unreachable:
            return _start_and_connect(self._state, environment)

    def discover(self, timeout_s: float) -> list[Announcement]:
        """The result is always empty, because this machine is known without discovery."""
        return []


def is_running(state: Path | None = None) -> bool:
    """Whether the socket of this machine's agent exists in the state directory `state`."""
    return ControlAddress(state or Path(user_paths(os.environ).agent_state)).is_there


def _connect(state: Path, environment: PythonEnvironment) -> Link:
    """Connect to the agent on this machine, if it runs in the given Python environment.

    Raises:
        Unreachable: no agent runs, or it is exiting.
        LeaseHeld: the agent runs in another environment and is in use.
        OtherEnvironment: an agent of another Python environment serves this machine.
    """
    deadline_s = time.monotonic() + USED_TIMEOUT_S
    while True:
        link = _open(state)
        try:
            link.send(encode(1, AgentClaim(environment.libraries, environment.settings)))
            claimed = decode(link.receive(START_TIMEOUT_S)).message
        except LinkLost as exc:
            link.close()
            raise Unreachable(f"{_PEER} is ending") from exc
        except BaseException:
            link.close()
            raise
        if not isinstance(claimed, AgentClaimed):  # an older agent does not compare environments
            link.close()
            return _open(state)
        if claimed.outcome is ClaimOutcome.SAME:
            return link
        link.close()
        if claimed.outcome is ClaimOutcome.SERVES:
            raise OtherEnvironment(
                f"agent that serves this machine (process {claimed.pid}) uses other packages than "
                f"this command: {_difference(claimed, environment)}",
                pid=claimed.pid,
            )
        if claimed.outcome is ClaimOutcome.LEAVES:
            _wait_for_end(claimed.pid)
            raise Unreachable(f"{_PEER} has left")
        if time.monotonic() > deadline_s:
            used_by = claimed.used_by or "another command"
            raise LeaseHeld(
                f"device is in use by {used_by}, in another Python environment: "
                f"{_difference(claimed, environment)}",
                is_by_this_host=True,
            )
        time.sleep(RESTART_S)


def _difference(claimed: AgentClaimed, environment: PythonEnvironment) -> str:
    """Difference between the environments of the agent and of this command, as text."""
    if claimed.interpreter != environment.interpreter:
        return f"its Python is {claimed.interpreter}, this command's is {environment.interpreter}"
    return "its Python is the same, but its environment variables, such as PYTHONPATH, differ"


def _wait_for_end(pid: int) -> None:
    """Wait until an exiting agent has released its state directory."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state in "ZX":  # it has ended, and its parent has not waited for it
            return
        time.sleep(POLL_S)


def _open(state: Path) -> Link:
    with opening(_PEER):
        connection = ControlAddress(state).connect(OPEN_TIMEOUT_S)
        opened = unix_connect(sock=connection, uri=AGENT_URI, **WEBSOCKET_OPTIONS)
        return Link(opened, _PEER)


def _start_and_connect(state: Path, environment: PythonEnvironment) -> Link:
    # Two processes may each start an agent at the same time: only one agent can lock the state
    # directory, and both processes connect to that agent. An agent that is about to exit may still
    # hold the lock: then our agent is started again.
    deadline_s = time.monotonic() + START_TIMEOUT_S
    process, reason = _start(state, environment), ""
    while time.monotonic() < deadline_s:
        try:
            link = _connect(state, environment)
            # If the agent exits before this process, its exit status must be read.
            threading.Thread(target=process.communicate, name="agent", daemon=True).start()
            return link
        except Unreachable:
            code = process.poll()
        except BaseException:  # an agent of another environment was faster
            _end(process)
            raise
        if code is None:
            time.sleep(POLL_S)
        elif code in (0, 1) and _may_hold_state(state):
            reason = _last_line(_end(process))
            time.sleep(RESTART_S)
            process = _start(state, environment)
        else:
            break
    is_late = process.poll() is None
    log = _end(process)
    reason = _last_line(log) or reason
    if is_late:
        late = f"no answer at {ControlAddress(state)} after {START_TIMEOUT_S:.0f} s"
        reason = f"{late}; the last line of its log: {reason}" if reason else late
    kept = ""
    with suppress(OSError):  # an unwritable directory may be why it did not start
        if log:
            (state / FAILED_LOG).write_text(log)
            kept = f"; its log: {state / FAILED_LOG}"
    raise TargetError(f"agent on this machine does not start: {reason or 'no output'}{kept}")


def _may_hold_state(state: Path) -> bool:
    """Whether this user may create the state directory or write to it, as an agent must."""
    try:
        nearest = next(path for path in (state, *state.parents) if path.exists())
        return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except OSError:  # below a directory that this user may not enter
        return False


@contextmanager
def simulated_agent(state: Path, board: str) -> Iterator[None]:
    """Run an agent that serves a simulated board to this machine, until the block ends.

    The agent also exits after `IDLE_EXIT_S` without a connection. Therefore the agent does not run
    on for long if this process is killed.

    Args:
        state: State directory of the agent, which is also the argument of `LocalTransport`.
        board: Name of the simulated board.

    Raises:
        TargetError: the agent does not start.
    """
    process = _start(state, this_environment(), ("--simulate", board))
    try:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not ControlAddress(state).is_there:
            if process.poll() is not None or time.monotonic() > deadline_s:
                reason = _last_line(_end(process)) or "no output"
                raise TargetError(f"agent of the simulated board does not start: {reason}")
            time.sleep(POLL_S)
        threading.Thread(target=process.communicate, name="agent", daemon=True).start()
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _start(
    state: Path, environment: PythonEnvironment, options: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    # The agent starts in this directory, because EDGEBENCH_METERS may contain a relative path; it
    # changes its directory after it has read the variable.
    python = python_command(
        *("edgebench.agent.entry", "--state", state.absolute()),
        *("serve", "--local", "--idle-exit", str(IDLE_EXIT_S), *options),
        *("--environment", f"{environment.libraries}:{environment.settings}"),
        directory=None,
    )
    return subprocess.Popen(
        python.words,
        cwd=python.directory,
        env=python.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C at the host must not end the agent
    )


def _end(process: subprocess.Popen[bytes]) -> str:
    """Kill an agent that is no longer needed; return the agent's log."""
    process.kill()
    return process.communicate()[1].decode("utf-8", "replace")


def _last_line(log: str) -> str:
    """Last line of an agent's log, except hints for users who start an agent by hand."""
    lines = [line for line in log.splitlines() if line and not line.startswith("hint: ")]
    return lines[-1].removeprefix("error: ") if lines else ""
