"""The agent on this machine, over its unix socket; started when none is running."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from websockets.sync.client import unix_connect

from edgebench.host.transports.link import WEBSOCKET_OPTIONS, Link, opening
from edgebench.protocol.errors import NotPaired, TargetError, Unreachable
from edgebench.protocol.paths import CONTROL_SOCKET, user_paths

START_TIMEOUT_S = 20.0
POLL_S = 0.02
RESTART_S = 0.2
"""An agent that does not get the state directory has taken longer than this to find out."""
IDLE_EXIT_S = 10.0
"""The agent that we start stops by itself after this long without us."""


def connect(state: Path | None = None) -> Link:
    """Open a connection to this machine's agent, and start one if none is running.

    Raises:
        TargetError: the agent does not start.
    """
    state = state or Path(user_paths(os.environ).agent_state)
    path = state / CONTROL_SOCKET
    try:
        return _connect(path)
    except Unreachable:
        return _start_and_connect(state, path)


def _connect(path: Path) -> Link:
    peer = "the agent on this machine"
    try:
        with opening(peer):
            return Link(unix_connect(str(path), uri="ws://agent/", **WEBSOCKET_OPTIONS), peer)
    except NotPaired as exc:  # nobody is refused here: it ended while we connected
        raise Unreachable(f"{peer} is ending") from exc


def _start_and_connect(state: Path, path: Path) -> Link:
    # Two hosts may get here together: one agent wins the state directory, both connect to it. An
    # agent that is about to end wins it too, for the last time: then ours is started again.
    deadline_s = time.monotonic() + START_TIMEOUT_S
    process, reason = _start(state), ""
    while time.monotonic() < deadline_s:
        try:
            link = _connect(path)
            _let_go(process)
            return link
        except Unreachable:
            code = process.poll()
        if code is None:
            time.sleep(POLL_S)
        elif code in (0, 1):
            reason = _last_line(process)
            time.sleep(RESTART_S)
            process = _start(state)
        else:
            break
    reason = _last_line(process) or reason or f"no answer within {START_TIMEOUT_S:.0f} s"
    raise TargetError(f"agent on this machine does not start: {reason}")


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


def _let_go(process: subprocess.Popen[bytes]) -> None:
    """The agent ends by itself, mostly after us; if before us, somebody must hear of it."""
    threading.Thread(target=process.communicate, name="agent", daemon=True).start()


def _last_line(process: subprocess.Popen[bytes]) -> str:
    """What the agent said last, but for its hint: that is for somebody who started it."""
    process.kill()
    text = process.communicate()[1].decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line and not line.startswith("hint: ")]
    return lines[-1].removeprefix("error: ") if lines else ""
