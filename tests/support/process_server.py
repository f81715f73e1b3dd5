"""Processes that have imported a program, and fork for each of its commands.

These are real processes that do not need up to a second of imports each.

    ProcessServer.start ──▶ socket: command, directory, variables, files ──▶ serve()
                                                                               │ fork
    ForkedProcess       ◀── a socket of its own: pid, then the exit status ── command
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import is_dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import IO, TYPE_CHECKING, Any, TextIO, Union, get_args, get_type_hints

from support.forked_children import (
    CHILDREN,
    PADDING,
    exit_fork,
    fork_children,
    read_at_start,
    run_to_exit_code,
)

if TYPE_CHECKING:
    from cattrs import Converter

HOST, AGENT = "edgebench", "edgebench-agent"
"""The programs."""
REQUEST_BYTES = 2**20
START_TIMEOUT_S = 90.0
_IN_NAMESPACE = ("ip", "netns", "exec")
"""Words before the name of a network namespace and a command."""
_IMPORTED_BY_WORKERS = (
    *("runtimes.shapes", "runtimes.tflite_file", "runtimes.text"),
    "worker.loadgen",
)
"""Modules of the agent that workers import in functions; none of them imports numpy, whose import
counts as part of the runtime's."""
_IMPORTED_LATE = ("pyarrow.compute", "scipy.special", "zeroconf.asyncio")
"""Modules that commands import in functions, and that take a tenth of a second."""
_OF_HOST = ("HOME", "PATH")
"""Variables on which a report on a runtime depends, and that differ between hosts of tests."""
_AGENT_MODULE = "edgebench.agent.entry"
_TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_CLONE_NEWNET = 0x40000000
"""Network namespace, for setns. Source: linux/sched.h."""


class ForkedProcess:
    """A fork, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._lock = threading.Lock()
        self._link.settimeout(START_TIMEOUT_S)
        self.pid = int(self._link.recv(64))
        self.returncode: int | None = None
        self.stdout: TextIO | None = None
        self.stderr: TextIO | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        with suppress(TimeoutError):
            return self._receive_end(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return the exit code.

        Raises:
            subprocess.TimeoutExpired: it runs for longer than so many seconds.
        """
        try:
            return self._receive_end(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0) from None

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Everything that it still prints, to standard output and to standard error.

        Raises:
            subprocess.TimeoutExpired: it runs for longer than so many seconds.
        """

        def read(file: TextIO | None) -> str:
            if file is None or file.closed:
                return ""
            with file:
                return file.read()

        with ThreadPoolExecutor(2) as pool:
            texts = [pool.submit(read, file) for file in (self.stdout, self.stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            out, err = (text.result() for text in texts)
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _receive_end(self, timeout_s: float | None) -> int:
        # Several threads may wait, one of which receives it.
        with suppress(ValueError):  # another thread has closed the socket
            if not select.select([self._link], [], [], timeout_s)[0]:
                raise TimeoutError
        with self._lock:
            if self.returncode is None:
                self.returncode = int(self._link.recv(64))
                self._link.close()
        return self.returncode


class ForkedAgent(ForkedProcess):
    """An agent that a command has started, with the part of `subprocess.Popen` that it uses."""

    def __init__(self, link: socket.socket, errors: IO[bytes]) -> None:
        super().__init__(link)
        self._errors = errors

    def terminate(self) -> None:
        """Send SIGTERM, unless it has ended."""
        self.send_signal(signal.SIGTERM)

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:  # type: ignore[override]
        """Nothing, and everything that it prints to standard error."""
        with self._errors:
            text = self._errors.read()
        with suppress(ValueError):  # the server, which reports the end, has ended with the tests
            self.wait(timeout)
        return b"", text


StartedProcess = Union["subprocess.Popen[str]", ForkedProcess]
"""A process, forked or started."""


class ForkLink:
    """Link to a process that forks commands; forks of the process that has it may use it, too."""

    def __init__(self, link: socket.socket, variables: Mapping[str, str]) -> None:
        """Use a socket to a server that was started with these of the variables at its start."""
        self._link = link
        self._variables = dict(variables)
        self._lock = threading.Lock()

    def can_start(self, variables: Mapping[str, str], prefix: Sequence[str] = ()) -> bool:
        """Whether a fork is equal to a process that starts with these variables.

        It is not where variables differ that imports depend on, or after other words than those
        that enter a network namespace.
        """
        if prefix and tuple(prefix[:-1]) != _IN_NAMESPACE:
            return False
        return read_at_start(variables) == self._variables

    def start(
        self,
        words: Sequence[str],
        variables: Mapping[str, str],
        out: int,
        err: int,
        *,
        prefix: Sequence[str] = (),
        is_session: bool = False,
    ) -> socket.socket:
        """Start a command, with these descriptors as its standard output and standard error.

        Returns:
            Socket on which its process id and its exit code arrive.
        """
        request = [list(words), os.getcwd(), dict(variables), [*prefix[-1:]], is_session]
        data = json.dumps(request).encode()
        assert len(data) < REQUEST_BYTES
        link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, self._lock:
            socket.send_fds(self._link, [data], [out, err, theirs.fileno()])
        return link

    def popen(
        self,
        words: Sequence[str],
        variables: Mapping[str, str],
        *,
        err: int | None = None,
        prefix: Sequence[str] = (),
        is_session: bool = False,
    ) -> ForkedProcess:
        """Start a command, with pipes to read its output from.

        Args:
            words: Its arguments.
            variables: Its environment.
            err: Descriptor for its standard error; None: a pipe.
            prefix: Words that enter a network namespace.
            is_session: Whether it has a session of its own.
        """
        with ExitStack() as stack:

            def pipe() -> tuple[TextIO, int]:
                near, far = os.pipe()
                stack.callback(os.close, far)
                return os.fdopen(near), far

            stdout, out = pipe()
            stderr = None
            if err is None:
                stderr, err = pipe()
            link = self.start(words, variables, out, err, prefix=prefix, is_session=is_session)
            process = ForkedProcess(link)
        process.stdout, process.stderr = stdout, stderr
        return process

    def run(
        self,
        words: Sequence[str],
        variables: Mapping[str, str],
        timeout_s: float,
        prefix: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            link = self.start(words, variables, out.fileno(), err.fileno(), prefix=prefix)
            process = ForkedProcess(link)
            try:
                code = process.wait(timeout_s)
            except BaseException:  # the time of the command, or of the test, is over
                process.kill()
                process.wait(START_TIMEOUT_S)
                err.seek(0)
                print(err.read())  # pytest shows how far it came
                raise
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(words, code, out.read(), err.read())

    def popen_agent(self, words: Sequence[str], variables: Mapping[str, str]) -> ForkedAgent:
        """Start an agent in a session of its own, with a pipe to read its errors from."""
        near, far = os.pipe()
        with open(os.devnull, "w") as nothing:
            link = self.start(words, variables, nothing.fileno(), far, is_session=True)
        os.close(far)
        return ForkedAgent(link, os.fdopen(near, "rb"))


class ProcessServer(ForkLink):
    """Forks commands of a program for the tests of this process; started with the first of them."""

    def __init__(self, program: str, agents: ProcessServer | None = None) -> None:
        """Start it.

        Args:
            program: The program.
            agents: Server that forks the agents which its commands start.
        """
        link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        super().__init__(link, read_at_start(os.environ))
        passed = [theirs.fileno()]
        words = [program, str(theirs.fileno()), PADDING]
        if agents is not None:
            passed.append(agents._link.fileno())
            words[2:] = [str(agents._link.fileno()), json.dumps(agents._variables)]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, *words],
                cwd=_TESTS,
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self._end)
        self._link.settimeout(START_TIMEOUT_S)
        assert self._link.recv(64) == b"ready"

    def _end(self) -> None:
        self._link.close()
        self._process.wait(START_TIMEOUT_S)


def fork_local_agents(agents: Callable[[], ForkLink]) -> None:
    """Agents that commands of this process start are forks of this server."""
    from edgebench.host.transports import local

    def popen(words: Sequence[str], **options: Any) -> Any:
        variables = options["env"]
        module, arguments = words[2], words[3:]
        if module == _AGENT_MODULE and agents().can_start(variables):
            return agents().popen_agent(arguments, variables)
        return subprocess.Popen(words, **options)

    local.__dict__["subprocess"] = SimpleNamespace(**{**vars(subprocess), "Popen": popen})


def serve(link: socket.socket, program: str) -> None:
    """Fork for each request until the other side is gone; returns in a fork as its command."""
    ends: dict[int, socket.socket] = {}
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    watched: list[socket.socket | int] = [link, ended]
    link.send(b"ready")
    while True:
        ready, _, _ = select.select(watched, [], [])
        if ended in ready:
            os.read(ended, 4096)
            _report_ends(ends)
        if link not in ready:
            continue
        request, files, _, _ = socket.recv_fds(link, REQUEST_BYTES, 3)
        if not request:
            raise SystemExit
        end = socket.socket(fileno=files.pop())
        if (pid := os.fork()) == 0:
            break
        for file in files:
            os.close(file)
        ends[pid] = end
        end.send(str(pid).encode())
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for opened in (link, end, *ends.values()):
        opened.close()
    os.close(ended)
    os.close(wake)
    words, directory, variables, namespaces, is_session = json.loads(request)
    if is_session:
        os.setsid()
    for name in namespaces:
        enter(name)
    for number, file in enumerate(files, 1):
        os.dup2(file, number)
        os.close(file)
    # Opened again: the old ones would seek, which a pipe does not.
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    random.seed()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = [program, *words]


def _report_ends(ends: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            with ends.pop(pid) as end, suppress(OSError):  # the test may have ended
                end.send(str(os.waitstatus_to_exitcode(status)).encode())


def enter(namespace: str) -> None:
    """Move this process to a named network namespace, without the mount of /sys that `ip` makes."""
    with open(f"/run/netns/{namespace}") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"not entered: {namespace}")


def _import_commands() -> None:
    from edgebench.host.cli.main import _LOADED, COMMANDS
    from edgebench.protocol.messages import Message

    for name in COMMANDS:
        import_module(f"edgebench.host.cli.{name.replace('-', '_')}")
    for names in _LOADED.values():
        for name in names:
            import_module(name)
    for name in _IMPORTED_LATE:
        import_module(name)
    from edgebench.host.result import document
    from edgebench.host.result.facts import HostFacts
    from edgebench.host.result.run import Run
    from edgebench.host.result.run_set import RunSet
    from edgebench.host.store.live import LiveCommand, LiveDevice
    from edgebench.protocol.record import RunRecord

    _make_hooks(document._converter, Run, RunSet)
    _make_hooks_of_plain(Message, RunRecord, HostFacts, LiveCommand, LiveDevice)


def _import_agent() -> None:
    from edgebench.protocol.messages import Message

    for name in ("agent.cli", "agent.daemon", "agent.advertise"):
        import_module(f"edgebench.{name}")
    for name in (*CHILDREN, *(f"edgebench.agent.{name}" for name in _IMPORTED_BY_WORKERS)):
        import_module(name)
    assert "numpy" not in sys.modules
    from edgebench.agent.worker.job import Job
    from edgebench.protocol.record import Confinement, WorkerRecord

    _make_hooks_of_plain(Message, Job, WorkerRecord, Confinement)
    _share_reports()


def _share_reports() -> None:
    """Hosts share the stored reports on runtimes, whose libraries are in none of their homes."""
    from edgebench.agent.runtimes import kept_reports

    listed_variables = vars(kept_reports)["listed_variables"]

    def shared_variables(variables: Mapping[str, str]) -> dict[str, str]:
        listed = listed_variables(variables)
        return {name: listed[name] for name in listed if name not in _OF_HOST}

    kept_reports.__dict__["listed_variables"] = shared_variables


def _make_hooks_of_plain(*kinds: object) -> None:
    from edgebench.protocol import plain

    for converter in (plain._converter, plain._wire_converter):
        _make_hooks(converter, *kinds)


def _make_hooks(converter: Converter, *kinds: object) -> None:
    """Make the functions that convert these types and their fields, which takes longer than a call.

    Each fork would make them anew.
    """
    left, done = list(kinds), set[object]()
    while left:
        kind = left.pop()
        if kind in done:
            continue
        done.add(kind)
        left += get_args(kind)
        if isinstance(kind, type) and is_dataclass(kind):
            converter.get_structure_hook(kind)
            converter.get_unstructure_hook(kind)
            left += get_type_hints(kind).values()


def main(program: str, link: socket.socket, agents: ForkLink | None) -> None:
    """Serve the forks of a program; in a fork, run it."""
    if program == HOST:
        from edgebench.host.cli.entry import run

        _import_commands()
    else:
        from edgebench.agent.entry import run

        _import_agent()
    from edgebench.device_profiles.load import load_profiles

    load_profiles()  # cached; each fork would parse them anew
    gc.freeze()
    serve(link, program)
    if agents is not None:
        fork_local_agents(lambda: agents)
    else:
        fork_children()
    code = run_to_exit_code(run)
    vars(threading)["_shutdown"]()  # waits for its threads
    exit_fork(code)


if __name__ == "__main__":
    del sys.path[0]  # the folder of the tests
    program, descriptor, *rest = sys.argv[1:]
    agents = None
    if program == HOST:
        agents = ForkLink(socket.socket(fileno=int(rest[0])), json.loads(rest[1]))
    main(program, socket.socket(fileno=int(descriptor)), agents)
