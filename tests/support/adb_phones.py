"""Emulated phones on the real adb server: their cables, their root directories, their reboots.

A phone is a set of namespaces of this machine: processes that end with its debug bridge, a network
with its own loopback, a root directory with no more of Linux than a phone has, and user 2000.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgebench.host.devices.account import Account
from edgebench.host.devices.on_device import DeviceFacts
from edgebench.host.kit.elf import relocated
from support import adbd
from support.adbd import SHELL_UID, AdbdSettings
from support.boards import BOARDS, make_board
from support.tools import need_root, need_tool
from support.trees import make_tree

CHECKOUT = Path(__file__).resolve().parents[2]
ADB_TIMEOUT_S = 60.0
CONNECT_TRIES = 10
"""Times half a second for which a connection is tried."""
APP_UID = 10123
"""User of an app. Source: android_filesystem_config.h, AID_APP_START."""
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_PROGRAMS, _LIBRARIES = "/system/bin", "/system/lib"
_TOYBOX = (
    *("basename", "cat", "chmod", "cp", "dirname", "echo", "env", "ls", "mkdir", "mv", "rm"),
    *("rmdir", "tar", "uname"),
)
"""Programs of Android's own toolbox that a deploy may use, or a command of a made-up phone."""
_PROPERTY = re.compile(r"\[(.+)\]: \[(.*)\]")
_LINK = """
import pathlib, sys, sysconfig, venv
folder, packages = pathlib.Path(sys.argv[1]), sys.argv[2]
venv.create(folder, symlinks=True)
[site] = folder.glob("lib/python*/site-packages")
(site / "linked.pth").write_text(f"import site; site.addsitedir({packages!r})")
script = folder / "bin" / "edgebench-agent"
script.write_text(f"#!{folder}/bin/python\\nfrom edgebench.agent.cli import main\\nmain()\\n")
script.chmod(0o755)
"""


def need_phones() -> None:
    """The test needs emulated phones."""
    need_root()
    need_tool("adb", "unshare", "mount", "ip")


def free_port() -> int:
    """A free port that the adb server does not try as an emulator's."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = int(server.getsockname()[1])
        if not 5554 <= port <= 5700:
            return port


@dataclass(frozen=True)
class AdbProcess:
    """An adb server of the test's own, and its client."""

    folder: Path
    port: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables that point to it."""
        return {
            "ANDROID_ADB_SERVER_PORT": str(self.port),
            "ADB_MDNS": "0",
            "HOME": str(self.folder),
            "ANDROID_USER_HOME": str(self.folder / ".android"),
        }

    def run(self, *words: str) -> str:
        """Output of `adb` with these arguments."""
        result = subprocess.run(
            ["adb", *words],
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ADB_TIMEOUT_S,
            check=False,
        )
        assert result.returncode == 0, f"adb {shlex.join(words)}: {result.stdout}{result.stderr}"
        return result.stdout

    def kill_server(self) -> None:
        """End it, as any user of this machine may."""
        with suppress(subprocess.TimeoutExpired):
            self.run("kill-server")


@contextmanager
def adb_server() -> Iterator[AdbProcess]:
    """A server that is started on demand, and ended."""
    need_tool("adb")
    with tempfile.TemporaryDirectory(prefix="eb-adb-") as folder:
        process = AdbProcess(Path(folder), free_port())
        try:
            yield process
        finally:
            with suppress(OSError, AssertionError):
                socket.create_connection(("127.0.0.1", process.port), 1.0).close()
                process.kill_server()


class Cable:
    """What connects a TCP port of this machine with a phone's debug bridge."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._links: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self.port = free_port()

    def plug(self) -> None:
        """Connect."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            threading.Thread(target=self._serve, args=(self._listener,), daemon=True).start()

    def pull(self) -> None:
        """Cut every connection, and refuse new ones."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for link in list(self._links):
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def _serve(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                try:
                    far.connect(self._path)
                except OSError:  # the phone is off
                    near.close()
                    far.close()
                    continue
                threading.Thread(target=self._relay, args=(near, far), daemon=True).start()

    def _relay(self, near: socket.socket, far: socket.socket) -> None:
        self._links |= {near, far}

        def pump(source: socket.socket, sink: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(262144):
                    sink.sendall(data)
            for link in (source, sink):
                with suppress(OSError):
                    link.shutdown(socket.SHUT_RDWR)

        with near, far:
            back = threading.Thread(target=pump, args=(far, near), daemon=True)
            back.start()
            pump(near, far)
            back.join()
        self._links -= {near, far}


@dataclass
class EmulatedPhone:
    """A phone; `start` is its power button."""

    folder: Path
    """Short, as it holds a socket."""
    adb: AdbProcess
    model: str = "Pixel 8"
    properties: Mapping[str, str] = field(default_factory=dict)
    settings: AdbdSettings = field(default_factory=lambda: AdbdSettings(""))
    is_bare: bool = False
    """Whether its root has nothing of this machine's but the packages of the tests: no Python, no
    /lib, /usr, /bin, /etc or /tmp; its shell and programs are mksh and toybox, and it may make no
    socket file, FIFO or hard link, as on a phone."""
    machine: str = ""
    """Machine that it passes for; empty: that of this one. Its programs run under an emulator that
    is registered with the kernel."""
    cpuinfo: str = ""
    """Content of /proc/cpuinfo; empty: that of this machine."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Variables of every command beside Android's."""
    board: str = ""
    """Made-up phone (`support.boards`) whose /sys and commands it has; empty: /sys of this machine,
    and no command but `getprop`."""
    is_namespaced: bool = True
    """Whether it has namespaces and a root of its own; else commands run as they would here."""
    process: subprocess.Popen[str] | None = None

    def __post_init__(self) -> None:
        self.cable = Cable(str(self.folder / "adbd"))

    @property
    def serial(self) -> str:
        """Its name at the adb server."""
        return f"127.0.0.1:{self.cable.port}"

    @property
    def serial_number(self) -> str:
        """Its serial number, which it reports on every link."""
        return f"EMU{self.cable.port}"

    @property
    def root(self) -> Path:
        """Its root directory."""
        return self.folder / "root"

    @property
    def data(self) -> Path:
        """The only directory that its shell may write to."""
        return self.root / "data" / "local" / "tmp"

    def start(self) -> None:
        """Switch it on, with its cable plugged in."""
        path = self.folder / "adbd"
        path.unlink(missing_ok=True)
        settings = replace(self.settings, path=str(path), model=self.model.replace(" ", "_"))
        prefix: list[str] = []
        if self.is_namespaced:
            self._make_root()
            settings = replace(
                settings,
                root=str(self.root),
                uid=SHELL_UID,
                environment=self._environment(),
                shell=f"{_PROGRAMS}/sh" if self.is_bare else settings.shell,
                has_denials=self.is_bare,
            )
            unshare = ("unshare", "--mount", "--pid", "--net", "--fork", "--kill-child")
            prefix = [*unshare, "--mount-proc", "sh", "-ec", self._mounts() + ' exec "$@"', "sh"]
        python = [sys.executable, "-m", adbd.__name__, settings.dump()]
        self.process = subprocess.Popen(
            [*prefix, *python],
            cwd=CHECKOUT / "tests",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.cable.plug()

    def switch_off(self) -> None:
        """End all of its processes and its debug bridge, as a reboot does."""
        self.cable.pull()
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def connect(self) -> None:
        """Make the adb server connect to it, and wait for the outcome."""
        # It retries a lost connection by itself, but only every ten seconds. On a busy machine the
        # end of the previous connection may come after the new one, and end that too.
        for _ in range(CONNECT_TRIES):
            with suppress(AssertionError):
                self.adb.run("disconnect", self.serial)
            self.adb.run("connect", self.serial)
            if self.state() not in ("absent", "offline"):
                return
            time.sleep(0.5)

    def state(self) -> str:
        """Its state, as the adb server lists it."""
        lines = (line.split(None, 1) for line in self.adb.run("devices").splitlines()[1:])
        return dict(line for line in lines if len(line) == 2).get(self.serial, "absent")

    def shell(self, *words: str) -> str:
        """Output of a command, by the real client."""
        return self.adb.run("-s", self.serial, "shell", shlex.join(words))

    def as_stranger(self, program: str) -> Any:
        """Output of a Python program of an app: another user, in the phone's namespaces."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        namespaces = ["--mount", "--net", "--pid"]
        inside = ["nsenter", "--target", children.read_text().split()[0], *namespaces]
        user = ["chroot", f"--userspec={APP_UID}:{APP_UID}", "--groups=", str(self.root)]
        [kit] = self.data.glob("edgebench-kit/*/bin/python3")
        python = [f"/{kit.relative_to(self.root)}", "-I", "-c", program]
        result = subprocess.run(
            [*inside, *user, *python],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return json.loads(result.stdout)

    def leftovers(self) -> list[str]:
        """Files in the directory that its shell may write to."""
        return sorted(str(path.relative_to(self.data)) for path in self.data.rglob("*"))

    def _environment(self) -> dict[str, str]:
        # As adbd sets it. Source: AOSP, packages/modules/adb, daemon/shell_service.cpp.
        others = "" if self.is_bare else f":{sys.base_prefix}/bin:/usr/bin:/bin"
        return {
            "PATH": f"{_PROGRAMS}{others}",
            "HOME": "/",
            "TMPDIR": "/data/local/tmp",
            "USER": "shell",
            "LOGNAME": "shell",
            "ANDROID_ROOT": "/system",
            "ANDROID_DATA": "/data",
            **self.variables,
        }

    def _shared(self) -> list[Path]:
        """Directories of this machine that it sees: those that a native Python needs."""
        if self.is_bare:
            return [Path(sys.prefix), CHECKOUT]
        system = [path for path in map(Path, ("/usr", "/lib", "/lib64", "/bin")) if path.exists()]
        python = {Path(sys.base_prefix), Path(sys.prefix), CHECKOUT}
        return [*system, *sorted(path for path in python if Path("/usr") not in path.parents)]

    def _make_root(self) -> None:
        for name in ("data", "data/local", "data/local/tmp", "dev", "proc", "sys", "system/bin"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        os.chown(self.data, SHELL_UID, SHELL_UID)
        self.data.chmod(0o771)
        for path in self._shared():
            inside = self.root / path.relative_to("/")
            if path.is_symlink():
                if not inside.is_symlink():
                    inside.symlink_to(path.readlink())
            else:
                inside.mkdir(parents=True, exist_ok=True)
        for name in _DEVICES:
            (self.root / "dev" / name).touch()
        if self.is_bare:
            self._add_toolbox()
        if self.board:
            self._add_board()
            return
        own = {"ro.product.model": self.model, "ro.serialno": self.serial_number}
        properties = {**own, **self.properties}
        cases = "".join(
            f"{shlex.quote(name)}) echo {shlex.quote(value)};; "
            for name, value in properties.items()
        )
        self.add_program("getprop", f'case "$1" in {cases}*) echo;; esac')

    def _add_board(self) -> None:
        board = BOARDS[self.board]
        if (self.root / "sim").exists():  # it was on before
            return
        # The processes are the kernel's own list.
        files = {name: text for name, text in board.files.items() if not name.startswith("proc/")}
        make_board(self.root, replace(board, files=files, commands={}))
        pairs = _PROPERTY.findall((self.root / "sim/getprop").read_text())
        values = {**dict(pairs), "ro.serialno": self.serial_number}
        make_tree(
            self.root, {f"sim/getprop-{name}": f"{value}\n" for name, value in values.items()}
        )
        for path, script in board.commands.items():
            if path != f"{_PROGRAMS.lstrip('/')}/sh":
                self.add_program(Path(path).name, script.partition("\n")[2])

    def add_program(self, name: str, script: str) -> None:
        """Install a program on it."""
        path = self.root / _PROGRAMS.lstrip("/") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shell = f"{_PROGRAMS}/sh" if self.is_bare else "/bin/sh"
        path.write_text(f"#!{shell}\n{script}\n")
        path.chmod(0o755)

    def _add_toolbox(self) -> None:
        """The static mksh, and toybox, moved next to its libraries."""
        programs, libraries = (self.root / path.lstrip("/") for path in (_PROGRAMS, _LIBRARIES))
        libraries.mkdir(parents=True, exist_ok=True)
        shutil.copy(str(shutil.which("mksh-static")), programs / "sh")
        need_tool("mksh-static", "toybox")
        toybox = str(shutil.which("toybox"))
        listed = subprocess.run(["ldd", toybox], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", listed):
            shutil.copy(library, libraries)
        [loader] = (path.name for path in libraries.glob("ld-linux*"))
        moved = relocated(
            Path(toybox).read_bytes(),
            interpreter=f"{_LIBRARIES}/{loader}",
            library_path=_LIBRARIES,
            needed=(),
        )
        (programs / "toybox").write_bytes(moved)
        (programs / "toybox").chmod(0o755)
        if self.machine:
            self.add_program("uname", f"echo {self.machine}")
        for name in _TOYBOX:
            if not (programs / name).exists():
                (programs / name).symlink_to("toybox")

    def _mounts(self) -> str:
        binds = [path for path in self._shared() if not path.is_symlink()]
        binds += [Path("/dev") / name for name in _DEVICES]
        lines = [f"mount --bind {path} {self.root}{path};" for path in binds]
        if not self.board:
            lines.append(f"mount --rbind /sys {self.root}/sys;")
        lines.append(f"mount -t proc proc {self.root}/proc;")
        if self.cpuinfo:
            file = self.folder / "cpuinfo"
            file.write_text(self.cpuinfo)
            lines.append(f"mount --bind {file} {self.root}/proc/cpuinfo;")
        lines.append("ip link set lo up;")
        return " ".join(lines)


@contextmanager
def phone(
    adb: AdbProcess, *, is_connected: bool = True, **settings: object
) -> Iterator[EmulatedPhone]:
    """A phone that is switched on; settings are fields of `EmulatedPhone`."""
    with tempfile.TemporaryDirectory(prefix="eb-phone-") as folder:
        Path(folder).chmod(0o711)  # its shell is another user
        made = EmulatedPhone(Path(folder), adb, **settings)  # type: ignore[arg-type]
        try:
            made.start()
            if is_connected:
                made.connect()
            yield made
        finally:
            made.switch_off()


def link(account: Account, facts: DeviceFacts, *_: object, **__: object) -> None:
    """Install the tests' own environment, in place of wheels."""
    account.stop()
    account.make_room([])
    [packages] = (path for path in sys.path if path.startswith(f"{sys.prefix}/lib/"))
    folder = str(Path(facts.agent).parents[1])
    words = [account.python, "-c", _LINK, folder, packages]
    output = account.shell.run(words, what="linking", timeout_s=60.0)
    assert output.code == 0, output.text
