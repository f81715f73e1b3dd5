"""The agent on this machine, over its unix socket; started when none is running."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from websockets.sync.client import unix_connect

from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.host.transports.link import WEBSOCKET_OPTIONS, Link, opening
from edgebench.protocol.errors import NotPaired, TargetError, Unreachable
from edgebench.protocol.paths import CONTROL_SOCKET, user_paths

START_TIMEOUT_S = 20.0
POLL_S = 0.02
RESTART_S = 0.2
"""An agent that does not get the state directory has taken longer than this to find out."""
FAILED_LOG = "start-failed.log"
"""Log of the last agent that did not start, in the agent's state directory."""
IDLE_EXIT_S = 10.0
"""Time without a connection after which an agent that we start stops by itself."""


class LocalTransport:
    """The unix socket of this machine's agent; whoever may open it is trusted."""

    name = "local"

    def __init__(self, state: Path | None = None) -> None:
        self._state = state or Path(user_paths(os.environ).agent_state)

    def connect(self, endpoint: Endpoint) -> Link:
        """Open a connection, and start an agent if none is running; there is one endpoint only.

        Raises:
            TargetError: the agent does not start.
        """
        try:
            return _connect(self._state)
        except Unreachable:
            return _start_and_connect(self._state)

    def discover(self, timeout_s: float) -> list[Announcement]:
        """Nothing: this machine is always known."""
        return []


def is_running(state: Path | None = None) -> bool:
    """Whether an agent seems to run on this machine; its state directory as for the transport."""
    return ((state or Path(user_paths(os.environ).agent_state)) / CONTROL_SOCKET).exists()


def _connect(state: Path) -> Link:
    peer = "the agent on this machine"
    try:
        with opening(peer):
            path = str(state / CONTROL_SOCKET)
            return Link(unix_connect(path, uri="ws://agent/", **WEBSOCKET_OPTIONS), peer)
    except NotPaired as exc:  # nobody is refused here: it ended while we connected
        raise Unreachable(f"{peer} is ending") from exc


def _start_and_connect(state: Path) -> Link:
    # Two hosts may get here together: one agent wins the state directory, both connect to it. An
    # agent that is about to end wins it too, for the last time: then ours is started again.
    deadline_s = time.monotonic() + START_TIMEOUT_S
    process, reason = _start(state), ""
    while time.monotonic() < deadline_s:
        try:
            link = _connect(state)
            # The agent ends by itself, mostly after us; if before us, it must be waited for.
            threading.Thread(target=process.communicate, name="agent", daemon=True).start()
            return link
        except Unreachable:
            code = process.poll()
        if code is None:
            time.sleep(POLL_S)
        elif code in (0, 1) and _may_hold_state(state):
            reason = _last_line(_end(process))
            time.sleep(RESTART_S)
            process = _start(state)
        else:
            break
    is_late = process.poll() is None
    log = _end(process)
    reason = _last_line(log) or reason
    if is_late:
        late = f"no answer at {state / CONTROL_SOCKET} after {START_TIMEOUT_S:.0f} s"
        reason = f"{late}; the last line of its log: {reason}" if reason else late
    kept = _keep(state, log)
    raise TargetError(f"agent on this machine does not start: {reason or 'no output'}{kept}")


def _may_hold_state(state: Path) -> bool:
    """Whether this user may write the state directory, or make it: else no agent ever starts."""
    try:
        nearest = next(path for path in (state, *state.parents) if path.exists())
        return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except OSError:  # below a directory that this user may not enter
        return False


def _keep(state: Path, log: str) -> str:
    """Keep the log of an agent that did not start; a clause that says where."""
    path = state / FAILED_LOG
    if not log:
        return ""
    try:
        path.write_text(log)
    except OSError:  # that may be why it did not start
        return ""
    return f"; its log: {path}"


def _start(state: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "edgebench.agent", "--state", str(state)),
            *("serve", "--local", "--idle-exit", str(IDLE_EXIT_S)),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C at the host must not end the agent
    )


def _end(process: subprocess.Popen[bytes]) -> str:
    """End an agent that is not wanted any more; its log."""
    process.kill()
    return process.communicate()[1].decode("utf-8", "replace")


def _last_line(log: str) -> str:
    """Last line of an agent's log, but for its hint: that is for whoever starts one by hand."""
    lines = [line for line in log.splitlines() if line and not line.startswith("hint: ")]
    return lines[-1].removeprefix("error: ") if lines else ""
