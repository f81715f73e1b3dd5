"""A process that has imported the command line and forks for each command.

These are real processes that do not need a second of imports each.

    Host.run ──▶ CommandServer ──socket: command, directory, variables, two files──▶ serve()
                                                                                       │ fork
                               ◀──────────── pid, then the exit status ───────────  edgebench
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module

REQUEST_BYTES = 2**20
START_TIMEOUT_S = 90.0
_AT_START = ("PYTHON", "LD_", "LC_", "LANG", "OMP_", "OPENBLAS_", "MKL_")
"""Variables that a process reads when it starts or imports: the server's are those of its start."""
_IN_NAMESPACE = ("ip", "netns", "exec")
"""Words before the name of a network namespace and a command."""
_CLONE_NEWNET = 0x40000000
"""Network namespace, for setns. Source: linux/sched.h."""


class CommandServer:
    """Forks commands for the tests of this process; started with the first of them."""

    def __init__(self) -> None:
        self._variables = _read_at_start(os.environ)
        self._lock = threading.Lock()
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self._end)
        self._link.settimeout(START_TIMEOUT_S)
        assert self._link.recv(64) == b"ready"

    def _end(self) -> None:
        self._link.close()
        self._process.wait(START_TIMEOUT_S)

    def run(
        self,
        words: Sequence[str],
        variables: Mapping[str, str],
        timeout_s: float,
        prefix: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str] | None:
        """Run a command; None if it needs a process of its own from the start.

        That is so during another command, where variables differ that imports depend on, and after
        other words than those that enter a network namespace.
        """
        if prefix and tuple(prefix[:-1]) != _IN_NAMESPACE:
            return None
        if _read_at_start(variables) != self._variables or not self._lock.acquire(blocking=False):
            return None
        try:
            return self._run(list(words), variables, timeout_s, [*prefix[-1:]])
        finally:
            self._lock.release()

    def _run(
        self,
        words: list[str],
        variables: Mapping[str, str],
        timeout_s: float,
        namespaces: list[str],
    ) -> subprocess.CompletedProcess[str]:
        request = json.dumps([words, os.getcwd(), dict(variables), namespaces]).encode()
        assert len(request) < REQUEST_BYTES
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            socket.send_fds(self._link, [request], [out.fileno(), err.fileno()])
            self._link.settimeout(START_TIMEOUT_S)
            pid = int(self._link.recv(64))
            self._link.settimeout(timeout_s)
            try:
                code = int(self._link.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._link.settimeout(START_TIMEOUT_S)
                self._link.recv(64)
                raise subprocess.TimeoutExpired(words, timeout_s) from None
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(words, code, out.read(), err.read())


def _read_at_start(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name.startswith(_AT_START)}


def serve(link: socket.socket) -> None:
    """Fork for each request until the other side is gone; returns in a fork as its command."""
    link.send(b"ready")
    while True:
        request, files, _, _ = socket.recv_fds(link, REQUEST_BYTES, 2)
        if not request:
            raise SystemExit
        if (pid := os.fork()) == 0:
            break
        for file in files:
            os.close(file)
        link.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        link.send(str(os.waitstatus_to_exitcode(status)).encode())
    link.close()
    words, directory, variables, namespaces = json.loads(request)
    for name in namespaces:
        enter(name)
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    random.seed()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = ["edgebench", *words]


def enter(namespace: str) -> None:
    """Move this process to a named network namespace, without the mount of /sys that `ip` makes."""
    with open(f"/run/netns/{namespace}") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"not entered: {namespace}")


def _import_commands() -> None:
    from edgebench.host.cli.main import _LOADED, COMMANDS

    for name in COMMANDS:
        import_module(f"edgebench.host.cli.{name.replace('-', '_')}")
    for names in _LOADED.values():
        for name in names:
            import_module(name)
    gc.freeze()


if __name__ == "__main__":
    del sys.path[0]  # the folder of this file
    from edgebench.host.cli.entry import run

    _import_commands()
    serve(socket.socket(fileno=int(sys.argv[1])))
    raise SystemExit(run())
