"""Local address of an agent, in its state directory, for processes on the same machine.

Theory of operation. The control socket is a file in the state directory, which other users may not
enter. In two cases, a socket file cannot be used directly:

    a long path         a path in sockaddr_un has at most 107 bytes. For a longer path, the
                        directory is opened, and the path of the socket contains the descriptor of
                        the directory: /proc/self/fd/N/agent.sock.
    no socket file      the file system does not support socket files, or the system forbids them.
                        For example, Android forbids them for its shell (SELinux). The socket then
                        has an abstract name, which is not a file. The name has a random part, and
                        is stored in a file in the directory.

An abstract name has no permissions, so any process may bind it, also after its agent has ended. So
agent and client check the user at the other end with SO_PEERCRED. The user must be root or the user
of the checking process; a client also accepts the owner of the directory. The same check is made
for a socket file.

A client looks for either of the two files. To stop accepting connections, the agent renames the
file; connections that exist by then are accepted, and later clients find no agent.

Source: unix(7); proc(5).
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgebench.system.paths import CONTROL_SOCKET
from edgebench.system.whole_files import write_whole

CONTROL_NAME = "agent.address"
"""Name of the file that contains the abstract name of a socket."""
SHUT_SUFFIX = ".shut"
"""Suffix that the socket file or name file has while the agent accepts no connections."""
MAX_SOCKET_PATH = 107
"""Maximum bytes of sun_path, without the NUL. Source: unix(7)."""
_NO_SOCKET_FILES = {errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOENT}
"""Errors of bind(2) if no socket file can be created; ENOENT: the path is long, and there is no
/proc."""
_BACKLOG = 100
"""Maximum pending connections. Source: asyncio, `create_unix_server`."""
_NAME = re.compile(r"edgebench-[0-9a-f]{32}")
_CREDENTIALS = "3i"
"""struct ucred: pid, uid, gid. Source: unix(7), SO_PEERCRED."""


def peer_uid(connection: socket.socket) -> int:
    """Id of the user at the other end of a connected unix socket; both ends can use this."""
    size = struct.calcsize(_CREDENTIALS)
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    uid: int = struct.unpack(_CREDENTIALS, packed)[1]
    return uid


def may_control(uid: int) -> bool:
    """Whether a user is root or this process's user; only these may control the user's agents."""
    return uid in (0, os.geteuid())


@dataclass(frozen=True, slots=True)
class ControlAddress:
    """Control address of the agent with this state directory."""

    state: Path

    def __str__(self) -> str:
        """Path of the name file if it exists, otherwise path of the socket file, for display."""
        name = CONTROL_NAME if (self.state / CONTROL_NAME).exists() else CONTROL_SOCKET
        return str(self.state / name)

    @property
    def is_there(self) -> bool:
        """Whether an agent seems to run; also true after the agent was killed without cleanup."""
        return any((self.state / name).exists() for name in (CONTROL_SOCKET, CONTROL_NAME))

    @contextmanager
    def listening(self) -> Iterator[socket.socket]:
        """Listen inside the block; the address is removed at the end of the block.

        Raises:
            OSError: neither a socket file nor a name file can be created.
        """
        self.remove()
        with self._reached(CONTROL_SOCKET) as path, socket.socket(socket.AF_UNIX) as listener:
            name = None if _bind_file(listener, path) else f"edgebench-{secrets.token_hex(16)}"
            try:
                if name is not None:
                    listener.bind(_abstract(name))
                listener.listen(_BACKLOG)
                listener.setblocking(False)
                if name is not None:
                    write_whole(self.state / CONTROL_NAME, f"{name}\n", mode=0o600)
                yield listener
            finally:
                self.remove()

    def connect(self, timeout_s: float) -> socket.socket:
        """Connect to the agent if it runs as this user, as root, or as the directory's owner.

        Args:
            timeout_s: Maximum time to wait for a listener whose queue is full; 0: do not wait.

        Returns:
            A blocking socket.

        Raises:
            OSError: no agent is listening, or the listener belongs to another user.
        """
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout_s)
            name = self._abstract_name()
            if name is None:
                with self._reached(CONTROL_SOCKET) as path:
                    connection.connect(path)
            else:
                connection.connect(_abstract(name))
                if self._abstract_name() != name:  # it was shut during the connection attempt
                    raise ConnectionRefusedError(
                        errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)
                    )
            self._require_own(peer_uid(connection))
            connection.settimeout(None)
        except BaseException:
            connection.close()
            raise
        return connection

    def shut(self) -> None:
        """Accept no new connection, until `reopen`."""
        self._rename("", SHUT_SUFFIX)

    def reopen(self) -> None:
        """Accept connections again."""
        self._rename(SHUT_SUFFIX, "")

    def remove(self) -> None:
        """Remove the files of this agent, or of an earlier agent."""
        for name in (CONTROL_SOCKET, CONTROL_NAME):
            for suffix in ("", SHUT_SUFFIX):
                (self.state / f"{name}{suffix}").unlink(missing_ok=True)

    def _rename(self, before: str, after: str) -> None:
        for name in (CONTROL_SOCKET, CONTROL_NAME):
            try:
                (self.state / f"{name}{before}").rename(self.state / f"{name}{after}")
            except FileNotFoundError:  # the socket uses the other file, or the file was removed
                continue

    def _abstract_name(self) -> str | None:
        """Abstract name of the socket; None if the socket is a file, or does not exist."""
        try:
            name = (self.state / CONTROL_NAME).read_text(errors="replace").rstrip("\n")
        except FileNotFoundError:
            return None
        return name if _NAME.fullmatch(name) else None

    @contextmanager
    def _reached(self, name: str) -> Iterator[str]:
        """Short path of a file in the directory, for a socket address; valid inside the block."""
        path = str(self.state / name)
        if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
            yield path
            return
        directory = os.open(self.state, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{directory}/{name}"
        finally:
            os.close(directory)

    def _require_own(self, uid: int) -> None:
        if may_control(uid) or uid == self.state.stat().st_uid:
            return
        raise PermissionError(
            errno.EACCES, f"a process of another user (uid {uid}) owns this address"
        )


def _bind_file(listener: socket.socket, path: str) -> bool:
    """Bind a socket to a file that only its owner may use.

    Returns False if no socket file can be created at this path.
    """
    mask = os.umask(0o177)  # so that it is never accessible to others
    try:
        listener.bind(path)
    except OSError as exc:
        if exc.errno in _NO_SOCKET_FILES:
            return False
        raise
    finally:
        os.umask(mask)
    return True


def _abstract(name: str) -> bytes:
    return b"\0" + name.encode("ascii")
