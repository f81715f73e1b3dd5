"""Steps of `edgebench deploy` on the device; the host sends this file to the device's Python.

edgebench may not be installed on the device yet, so this file is self-contained: it uses only the
standard library of Python 3.10 on Linux. The argument of the script is a request in JSON, and the
last line of the output is the reply in JSON. The host also imports this file, for the types of the
replies.

    $XDG_DATA_HOME/edgebench/       agent-venv/           Python packages, without the system's;
                                    agent-venv-2/         in use, and for the next deploy
                                    agent-wheels/         wheels that were installed
                                    agent-deployed.json   record for the next deploy
                                    agent-deploy.lock     exists during a deploy
                                    agent.log, agent.pid  log and process of the started agent
                                    agent/                the agent's own state
    $XDG_CONFIG_HOME/edgebench/     agent/                the agent's identity and its hosts
    $XDG_STATE_HOME/edgebench/      tracebacks/           of faults in the agent
    $XDG_CACHE_HOME/edgebench/      runtimes.json         the agent's runtimes, until they change
    a systemd unit, an OpenRC script, or a crontab line   starts the agent at boot

Directories that are missing before the first deploy are recorded, because uninstalling removes only
directories that a deploy has created.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import hashlib
import json
import os
import platform
import pwd
import re
import shlex
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import sysconfig
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, cast

ANSWER_MARK = "edgebench-answer "
"""First word of the line that contains a step's reply."""
FAILURE_MARK = "edgebench-failure "
"""First word of the line that contains a `StepFailure` instead of a step's reply."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
STATUS_TIMEOUT_S = 30.0
INSTALL_TIMEOUT_S = 3600.0
"""Time limit of a run of pip; numpy alone takes a minute to unpack onto an SD card."""
POLL_S = 0.05
BROKEN_OFF_S = 120.0
"""Time after a deploy's last step, in seconds, at which the deploy counts as interrupted, so that
another deploy may begin. Wheels are sent between two steps, so another deploy may also begin if
sending them takes longer than this."""
MAX_LIBC_VERSION = 999
"""Maximum of the major and of the minor version of a C library; higher numbers are invalid."""
SERVICE_TIMEOUT_S = 60.0
"""Time limit of a service manager's command, which may wait until a service has stopped."""
VENVS = ("agent-venv", "agent-venv-2")
"""Names of the two virtual environments. Packages are installed into the unused environment."""
SERVICE = "edgebench-agent"
UNIT = f"{SERVICE}.service"
CRON_MARK = "# edgebench-agent"
"""Comment that ends the crontab line of a deploy, and identifies this line."""
_NOTHING = "none"
"""Word for no meters or no sync line; equal to edgebench.meters.wiring.NOTHING."""
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class EnvironmentMarkers:
    """Properties of a Python interpreter that a requirement may depend on.

    Source: PEP 508, "Environment Markers".
    """

    implementation_name: str
    implementation_version: str
    os_name: str
    platform_machine: str
    platform_python_implementation: str
    platform_release: str
    platform_system: str
    platform_version: str
    python_full_version: str
    python_version: str
    sys_platform: str


@dataclass(frozen=True, slots=True)
class Interpreter:
    """Properties of a Python interpreter that determine which wheels fit."""

    markers: EnvironmentMarkers
    abi: str
    """ABI tag of wheels for this interpreter, such as cp311."""
    bits: int
    libc: str
    """C library: glibc or musl."""
    libc_version: tuple[int, int]

    def __post_init__(self) -> None:
        # These become parts of directory names and wheel tags on the host.
        markers = self.markers
        for text in (markers.platform_machine, markers.python_version, self.abi, self.libc):
            if not re.fullmatch(r"\w[\w .]{0,31}", text, re.ASCII):
                raise ValueError(f"not a platform: {text!r}")
        if not all(0 <= number <= MAX_LIBC_VERSION for number in self.libc_version):
            raise ValueError(f"not a version of a C library: {self.libc_version}")

    def __str__(self) -> str:
        machine = f"{self.markers.sys_platform} {self.markers.platform_machine}"
        libc = f"{self.libc} {self.libc_version[0]}.{self.libc_version[1]}"
        return f"Python {self.markers.python_version} on {machine}, {libc}"


@dataclass(frozen=True, slots=True)
class WheelFile:
    """A wheel, identified by its file name and the digest of its content."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """State of the device and the account before a deploy."""

    interpreter: Interpreter
    host_name: str
    agent: str
    """Path of the command `edgebench-agent`, whether or not it is installed."""
    wheels: str
    """Directory on the device to which wheels are sent."""
    log: str
    """Path of the agent's log."""
    free_bytes: int
    """Disk space that this account may use for packages."""
    held: tuple[WheelFile, ...] = ()
    """Wheel files that are still on the device from earlier deploys."""
    installed: tuple[WheelFile, ...] = ()
    """Wheels that are installed; empty if the environment is broken, or if its packages came from
    an index."""
    pin: str | None = None
    """Fingerprint of the agent's certificate; None before the agent has a certificate."""
    busy_with: str | None = None
    """Host that holds the agent's lease now; None if no host holds it, or no agent is running."""
    spooled_count: int = 0
    """Number of finished runs on the device that no host has fetched yet."""
    meters: tuple[str, ...] = ()
    """Meters of the running agent, or of its last start, as values of `serve --meter`. `none`
    stands for no meters; the tuple is empty if no deploy has set them."""
    sync_line: str | None = None
    """Sync line of the agent, as a value of `serve --sync-line`. The text `none` stands for no sync
    line; None means that no deploy has set it."""
    has_bridge: bool | None = None
    """Whether the last deploy installed the firmware bridge; None if no deploy recorded this."""
    listen: str | None = None
    """Listen address that the last deploy set; empty for all addresses, None before any deploy."""


@dataclass(frozen=True, slots=True)
class DeployRecord:
    """Facts that a deploy stores in a file on the device for the next deploy."""

    created: tuple[str, ...] = ()
    """Directories that did not exist before the first deploy."""
    installed: tuple[WheelFile, ...] = ()
    """Wheels in the virtual environment in use; empty if its packages came from an index."""
    venv: str = VENVS[1]
    """Name of the virtual environment in use. By default, it is the second environment, so that the
    first deploy installs into the first environment."""
    installed_before: tuple[WheelFile, ...] = ()
    """Wheels in the previous environment; empty once the agent of the new environment has
    started."""
    meters: tuple[str, ...] = ()
    """Meters as in `DeviceFacts`; this record is used only if the agent is not running."""
    sync_line: str | None = None
    has_bridge: bool | None = None
    listen: str | None = None
    """Listen address of the agent, as in `DeviceFacts`."""
    has_set_linger: bool = False
    """Whether a deploy has enabled lingering, so that the account's services run without a login.
    """


@dataclass(frozen=True, slots=True)
class StepReport:
    """Result of a step of a deploy; if the step failed, the caller handles the failure."""

    error: str | None = None
    """Last line of the failed command's output; None if the step succeeded."""
    warnings: tuple[str, ...] = ()
    boot: str | None = None
    """Service that starts the agent at boot: systemd, openrc, systemd-user, cron, or None."""


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Reply of a step that was ended by an error of the operating system, or by another deploy."""

    problem: str
    is_full: bool
    """Whether the error is that the disk is full, or a disk quota is reached."""
    is_other_deploy: bool = False
    """Whether another deploy is in progress in this account."""


@dataclass(frozen=True, slots=True)
class UninstallReport:
    """Result of uninstalling."""

    was_there: bool
    kept: tuple[str, ...] = ()
    """Directories of the agent that were kept because they are older than the first deploy."""


class Places:
    """Paths of everything that a deploy puts into this account."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        home = Path(environment.get("HOME") or os.path.expanduser("~"))
        self.data = _base(environment, "XDG_DATA_HOME", home / ".local" / "share") / "edgebench"
        self.config = _base(environment, "XDG_CONFIG_HOME", home / ".config") / "edgebench"
        self.wheels = self.data / "agent-wheels"
        self.record = self.data / "agent-deployed.json"
        self.log = self.data / "agent.log"
        self.pid = self.data / "agent.pid"
        self.lock = self.data / "agent-deploy.lock"
        self.venvs = tuple(self.data / name for name in VENVS)
        state = _base(environment, "XDG_STATE_HOME", home / ".local" / "state")
        self.tracebacks = state / "edgebench" / "tracebacks"
        self.cache = _base(environment, "XDG_CACHE_HOME", home / ".cache") / "edgebench"
        self.reports = self.cache / "runtimes.json"
        self.agents_own = (self.data / "agent", self.config / "agent")
        # A shell of adb sets TMPDIR, because an Android device has no /tmp.
        temporary = Path(environment.get("TMPDIR", ""))
        self.temporary = (temporary,) if temporary.parent == home else ()
        """Directory for temporary files as a tuple; empty if the directory is not in the home
        directory."""

    @property
    def venv(self) -> Path:
        """Virtual environment in use; it does not exist before the first deploy."""
        return self.data / self.read_record().venv

    @property
    def spare(self) -> Path:
        """Virtual environment that is not in use."""
        first, second = self.venvs
        return second if self.venv == first else first

    @property
    def python(self) -> Path:
        """Python of the environment in use."""
        return self.venv / "bin" / "python"

    @property
    def agent(self) -> Path:
        """Command `edgebench-agent` of the environment in use."""
        return self.venv / "bin" / "edgebench-agent"

    def read_record(self) -> DeployRecord:
        """Read the record of earlier deploys; it is empty if the file is missing or damaged."""
        try:
            plain = json.loads(self.record.read_text())
            return DeployRecord(
                created=tuple(plain["created"]),
                venv=plain["venv"] if plain.get("venv") in VENVS else VENVS[0],
                installed=tuple(WheelFile(**wheel) for wheel in plain["installed"]),
                installed_before=tuple(
                    WheelFile(**wheel) for wheel in plain.get("installed_before", ())
                ),
                meters=tuple(plain.get("meters", ())),  # not recorded by older deploys
                sync_line=plain.get("sync_line"),
                has_bridge=plain.get("has_bridge"),
                listen=plain.get("listen", ""),  # older deploys always listened on all
                has_set_linger=plain.get("has_set_linger", False),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return DeployRecord()

    def write_record(self, **changes: Any) -> None:
        """Change fields of the record atomically, so that a power cut cannot damage it.

        Installed packages are flushed to the disk first. Otherwise, a power cut could leave empty
        files of packages that the record lists as installed. Source: sync(2).
        """
        replacement = self.record.with_suffix(".new")
        replacement.write_text(json.dumps(asdict(replace(self.read_record(), **changes)), indent=1))
        os.sync()
        replacement.replace(self.record)
        os.sync()

    def held(self) -> tuple[WheelFile, ...]:
        """Wheels that are on the device, with their digests."""
        return tuple(
            WheelFile(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in sorted(self.wheels.glob("*.whl"))
        )


def look(places: Places) -> DeviceFacts:
    """Collect the state of the device and the account, without any change."""
    existing = next(path for path in (places.data, *places.data.parents) if path.is_dir())
    disk = os.statvfs(existing)
    status = AgentStatus()
    with suppress(OSError, ValueError, subprocess.SubprocessError):  # else no agent is running
        command = [str(places.agent), "status", "--json"]
        result = subprocess.run(command, capture_output=True, timeout=STATUS_TIMEOUT_S, check=True)
        status = cast(AgentStatus, dict(json.loads(result.stdout)))
    record = places.read_record()
    meters, sync_line = record.meters, record.sync_line
    if status:  # a running agent takes precedence over the record
        meters = tuple(status.get("meters", ())) or (_NOTHING,)
        sync_line = status.get("sync_line") or _NOTHING
    # Whether the virtual environment works, and belongs to this Python.
    ours = (sys.version, sys.base_prefix)
    check = f"import sys; sys.exit((sys.version, sys.base_prefix) != {ours!r})"
    command = [str(places.python), "-I", "-c", check]
    is_usable = places.agent.exists() and _run(command).error is None
    pin = None
    with suppress(OSError, ValueError):  # as edgebench.protocol.identity computes it
        text = (places.config / "agent" / "identity.pem").read_text()
        der = ssl.PEM_cert_to_DER_cert(text[text.index(ssl.PEM_HEADER) :])
        pin = base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")
    return DeviceFacts(
        interpreter=describe_interpreter(),
        host_name=socket.gethostname(),
        agent=str(places.agent),
        wheels=str(places.wheels),
        log=str(places.log),
        free_bytes=disk.f_bavail * disk.f_frsize,
        held=places.held(),
        installed=record.installed if is_usable else (),
        pin=pin,
        busy_with=status.get("lease_holder") or (status.get("running") and "another client"),
        spooled_count=int(status.get("spooled_count", 0)),
        meters=meters,
        sync_line=sync_line,
        has_bridge=record.has_bridge,
        listen=record.listen,
    )


def describe_interpreter() -> Interpreter:
    """Description of the Python that runs this script."""
    version = sys.implementation.version
    libc, libc_version = _libc()
    markers = EnvironmentMarkers(
        implementation_name=sys.implementation.name,
        implementation_version=".".join(map(str, version[:3])),
        os_name=os.name,
        platform_machine=platform.machine(),
        platform_python_implementation=platform.python_implementation(),
        platform_release=platform.release(),
        platform_system=platform.system(),
        platform_version=platform.version(),
        python_full_version=platform.python_version(),
        python_version=".".join(platform.python_version_tuple()[:2]),
        sys_platform=sys.platform,
    )
    # cpython-311-aarch64-linux-gnu, or cpython-313t-… without a global lock.
    abi = str(sysconfig.get_config_var("SOABI") or "").split("-")[1:2]
    return Interpreter(markers, f"cp{''.join(abi)}", struct.calcsize("P") * 8, libc, libc_version)


def make_room(places: Places, keep: list[str], *, has_bridge: bool = False) -> StepReport:
    """Create the directories, and remove the wheels that are not in `keep`.

    This step also records the choice whether to install the firmware bridge, so that after a failed
    install the next attempt does not need the option again.
    """
    created = places.read_record().created
    # The agent creates its own directories; here they are only recorded.
    made = (*places.venvs, places.wheels, places.tracebacks, places.cache)
    wants = _SystemdUser(places).file.parent / "default.target.wants"
    leaves = (*made, *places.agents_own, *places.temporary, wants)
    wanted = {path for leaf in leaves for path in (leaf, *leaf.parents)}
    missing = [str(path) for path in sorted(wanted) if not path.exists()]
    created += tuple(path for path in missing if path not in created)
    for path in (*reversed(places.wheels.parents), places.wheels, *places.temporary):
        path.mkdir(mode=0o700, exist_ok=True)
    places.write_record(created=created, has_bridge=has_bridge)
    for path in places.wheels.iterdir():
        if path.name not in keep:
            path.unlink()
    return StepReport()


def renew(places: Places) -> StepReport:
    """Create the spare virtual environment anew, without packages."""
    # Without pip: Debian's Python does not bundle pip unless a second package is installed.
    words = ["-I", "-m", "venv", "--clear", "--without-pip", str(places.spare)]
    return _run([sys.executable, *words])


def duplicate(places: Places) -> StepReport:
    """Replace the spare virtual environment by a copy of the environment in use."""
    shutil.rmtree(places.spare, ignore_errors=True)
    shutil.copytree(places.venv, places.spare, symlinks=True)
    return StepReport()


def drop(places: Places) -> StepReport:
    """Remove both virtual environments; called if there is no space for two."""
    places.write_record(installed=(), installed_before=())
    for path in places.venvs:
        shutil.rmtree(path, ignore_errors=True)
    return StepReport()


def switch(places: Places, is_offline: bool) -> StepReport:
    """Put the spare virtual environment into use.

    `is_offline`: whether this environment contains only held wheels (wheel files on the device).
    """
    before = places.read_record().installed
    installed = places.held() if is_offline else ()
    places.write_record(venv=places.spare.name, installed=installed, installed_before=before)
    return StepReport()


def restore(places: Places) -> StepReport:
    """Switch back to the previous virtual environment, and remove the current environment."""
    failed, before = places.venv, places.spare
    if not (before / "bin" / "edgebench-agent").exists():
        return StepReport("no previous environment")
    places.write_record(
        venv=before.name, installed=places.read_record().installed_before, installed_before=()
    )
    shutil.rmtree(failed, ignore_errors=True)
    return StepReport()


def settle(places: Places) -> StepReport:
    """Remove the previous virtual environment."""
    places.write_record(installed_before=())
    shutil.rmtree(places.spare, ignore_errors=True)
    return StepReport()


def install(
    places: Places, words: list[str], is_offline: bool, wheels: list[dict[str, Any]]
) -> StepReport:
    """Run `pip install` in the spare environment, with the held wheels or with a package index.

    The held wheels (the wheel files on the device) must be exactly the wheels that were sent.
    Otherwise, pip might select an unknown newer wheel in the directory of the held wheels. If this
    directory contains a wheel of pip, pip itself runs from that wheel.
    """
    if problem := _difference(places.held(), {WheelFile(**wheel) for wheel in wheels}):
        return StepReport(problem)
    # Isolated like this script: `-m` alone would import code from the directory of the login.
    python = str(places.spare / "bin" / "python")
    pip = [python, "-I", "-m", "pip"]
    if bundles := sorted(places.wheels.glob("pip-*.whl")):
        pip = [python, "-I", str(bundles[-1] / "pip")]
    elif (bundled := _run([python, "-I", "-m", "ensurepip"])).error is not None:
        return bundled
    command = [*pip, "install", "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
    environment = dict(os.environ)
    if is_offline:
        command += ["--no-index", "--find-links", str(places.wheels)]
        environment = {key: environment[key] for key in environment if not key.startswith("PIP_")}
        environment["PIP_CONFIG_FILE"] = os.devnull
    else:  # without wheels, a board would compile packages for hours
        command += ["--only-binary", ":all:"]
    return _run([*command, "--quiet", *words], environment)


def start(
    places: Places,
    words: list[str],
    listen: str,
    meters: list[str],
    sync_line: str | None,
    at_boot: bool,
) -> StepReport:
    """Start the agent, detached from this login, and wait until it serves.

    If `at_boot` is set, the first available service also starts it at boot.
    """
    # Recorded before the start, so that the next attempt does not need the options again.
    places.write_record(listen=listen, meters=tuple(meters), sync_line=sync_line)
    wired = [word for meter in meters for word in ("--meter", meter)]
    wired += ["--sync-line", sync_line] if sync_line else []
    command = [str(places.agent), "serve", "--log", str(places.log), *words, *wired]
    begin = places.log.stat().st_size if places.log.exists() else 0
    service = next((s for s in _services(places) if s.is_available()), None) if at_boot else None
    for other in _services(places):
        if type(other) is not type(service):
            other.remove()
    if isinstance(service, _Supervisor):
        service.install(command)
        report = _when_ready(places, begin, service.is_running, service.stop)
    else:
        report = _start_detached(places, command, begin)
        if service is not None and report.error is None:
            service.install(command)
    if report.error is not None:
        if service is not None:
            service.remove()
        return report
    return replace(report, boot=service.name if service else None)


def _start_detached(places: Places, command: list[str], begin: int) -> StepReport:
    """Start the agent as a process that outlives this login."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the agent inherits it
    with places.log.open("a") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )
    places.pid.write_text(f"{process.pid}\n")

    def end() -> None:
        process.kill()
        process.wait()
        places.pid.unlink()

    report = _when_ready(places, begin, lambda: process.poll() is None, end)
    if report.error == "":
        error = f"the agent ended with status {process.returncode} and no output"
        return replace(report, error=error)
    return report


def _when_ready(
    places: Places, begin: int, is_running: Callable[[], bool], end: Callable[[], None]
) -> StepReport:
    """Wait until the agent is ready; if it is not ready in time, end it and report the reason.

    Args:
        places: Paths of the deploy.
        begin: Size of the log before the start.
        is_running: Function that returns whether the agent's process is running.
        end: Function that ends the agent.

    Returns: The report. Its `error` is an empty string if the agent ended without output.
    """
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while (is_alive := is_running()) and time.monotonic() < deadline_s:
        log_text = _logged_since(places.log, begin)
        if re.search("^ready ", log_text, re.MULTILINE):
            return StepReport(warnings=tuple(re.findall("^warning: (.+)", log_text, re.MULTILINE)))
        time.sleep(POLL_S)
    end()
    last = _last_line(_logged_since(places.log, begin))
    if is_alive:
        late = f"the agent was not ready after {START_TIMEOUT_S:g} s"
        return StepReport(f"{late}; the last line of its log: {last}" if last else late)
    return StepReport(last)


class _Supervisor(ABC):
    """A service manager's file that starts the agent at boot, and restarts it after a failure."""

    name: str
    enable: tuple[str, ...]
    """Commands that load the manager's file, start the agent now, and enable its start at boot."""
    status: str
    """Command that succeeds while the manager runs the agent, or is about to restart it."""
    end: str
    disable: tuple[str, ...]
    """Commands to run before the file is removed."""
    forget: tuple[str, ...] = ()
    """Commands to run after the file was removed."""

    def __init__(self, places: Places, file: Path) -> None:
        self.places, self.file = places, file

    @abstractmethod
    def is_available(self) -> bool:
        """Whether the manager can start an agent now and at boot."""

    @abstractmethod
    def text(self, command: list[str]) -> str:
        """Content of the manager's file for an agent with this command line."""

    @property
    def is_there(self) -> bool:
        """Whether the manager's file exists, and this account may remove it."""
        return self.file.exists() and os.access(self.file.parent, os.W_OK)

    def install(self, command: list[str]) -> None:
        """Write the file, and start the agent with it, now and at boot."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.text(command))
        os.sync()
        self._control(*self.enable)

    def is_running(self) -> bool:
        """Whether the manager keeps the agent running."""
        return self._control(self.status)

    def stop(self) -> None:
        """End the agent through the manager; no effect if the manager's file does not exist."""
        if self.is_there:
            self._control(self.end)

    def remove(self) -> None:
        """Remove the file, so that the agent does not start at boot."""
        if self.is_there:
            self._control(*self.disable)
            self.file.unlink()
            self._control(*self.forget)

    def _control(self, *commands: str) -> bool:
        """Run commands of the manager; return whether all succeed.

        The manager's programs are also searched in directories that usually only root's PATH
        contains.
        """
        # A login without PAM has no XDG_RUNTIME_DIR, even if lingering is enabled.
        runtime = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
        path = {"PATH": f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"}
        environment = runtime | dict(os.environ) | path
        codes = [_succeeds(command.split(), environment) for command in commands]
        return all(codes)


class _Systemd(_Supervisor):
    """A unit of the system's systemd, for root."""

    name = "systemd"
    target = "multi-user.target"
    enable = ("systemctl daemon-reload", f"systemctl enable {UNIT}", f"systemctl restart {UNIT}")
    status = f"systemctl is-active --quiet {UNIT}"
    end = f"systemctl stop {UNIT}"
    disable = (f"systemctl disable --now {UNIT}",)
    forget = ("systemctl daemon-reload",)

    def __init__(self, places: Places) -> None:
        super().__init__(places, Path("/etc/systemd/system") / UNIT)

    def is_available(self) -> bool:
        """Whether the system was booted with systemd, and the user is root."""
        return os.getuid() == 0 and Path("/run/systemd/system").is_dir()

    def text(self, command: list[str]) -> str:
        return unit_text(command, self.places, os.environ, self.target)


class _OpenRc(_Supervisor):
    """An OpenRC service, for root."""

    name = "openrc"
    enable = (f"rc-update add {SERVICE} default", f"rc-service {SERVICE} restart")
    status = f"rc-service {SERVICE} status"
    end = f"rc-service {SERVICE} stop"
    disable = (f"rc-service {SERVICE} stop", f"rc-update delete {SERVICE} default")

    def __init__(self, places: Places) -> None:
        super().__init__(places, Path("/etc/init.d") / SERVICE)

    def is_available(self) -> bool:
        """Whether the system was booted with OpenRC, and the user is root."""
        # Source: OpenRC, src/librc/rc.h.in, RC_SVCDIR and its file `softlevel`.
        return os.getuid() == 0 and Path("/run/openrc/softlevel").exists()

    def text(self, command: list[str]) -> str:
        return openrc_text(command, self.places, os.environ)

    def install(self, command: list[str]) -> None:
        """Write the script as executable, and start the agent with it, now and at boot."""
        self.file.touch(mode=0o755)
        super().install(command)


class _SystemdUser(_Systemd):
    """A unit of the account; with lingering, the account's services run from boot without login."""

    name = "systemd-user"
    target = "default.target"
    enable = (
        "systemctl --user daemon-reload",
        f"systemctl --user enable {UNIT}",
        f"systemctl --user restart {UNIT}",
    )
    status = f"systemctl --user is-active --quiet {UNIT}"
    end = f"systemctl --user stop {UNIT}"
    disable = (f"systemctl --user disable --now {UNIT}",)
    forget = ("systemctl --user daemon-reload",)

    def __init__(self, places: Places) -> None:
        super().__init__(places)
        self.file = places.config.parent / "systemd" / "user" / UNIT

    def is_available(self) -> bool:
        """Whether the account has a service manager, and lingering is enabled.

        This method tries to enable lingering if it is off, and records whether it did so.
        """
        if os.getuid() == 0 or not self._control("systemctl --user show --property=Version"):
            return False
        if self._lingers():
            return True
        if _succeeds(["loginctl", "--no-ask-password", "enable-linger"]) and self._lingers():
            self.places.write_record(has_set_linger=True)
            return True
        return False

    def remove(self) -> None:
        """Remove the unit, and disable lingering if a deploy has enabled it."""
        super().remove()
        if self.places.read_record().has_set_linger:
            _succeeds(["loginctl", "--no-ask-password", "disable-linger"])
            self.places.write_record(has_set_linger=False)

    def _lingers(self) -> bool:
        # Source: systemd, loginctl(1) and src/login/logind-user.c: a file per user with lingering.
        return (Path("/var/lib/systemd/linger") / pwd.getpwuid(os.getuid()).pw_name).exists()


class _Cron:
    """A line of the account's crontab, for systems with a cron daemon that supports @reboot."""

    name = "cron"

    def __init__(self, places: Places) -> None:
        self.places = places

    def is_available(self) -> bool:
        """Whether crontab and a cron daemon exist that support @reboot; those of busybox do not."""
        program = shutil.which("crontab")
        if program is None or "busybox" in os.path.realpath(program):
            return False
        for entry in Path("/proc").iterdir():
            with suppress(OSError):  # the process has ended
                name = (entry / "comm").read_text().strip() if entry.name.isdigit() else ""
                if name in ("cron", "crond", "fcron"):
                    return True
        return False

    def install(self, command: list[str]) -> None:
        """Add the agent's line to the crontab; replace the line of an earlier deploy."""
        line = cron_line(command, self.places, os.environ)
        self._write([*self._others(), line])

    def stop(self) -> None:
        """Do nothing: cron starts the agent, but does not keep it running."""

    def remove(self) -> None:
        """Remove the agent's line; remove the crontab if it contains no other lines."""
        if not self.is_available():
            return
        lines, others = self._lines(), self._others()
        if others and others != lines:
            self._write(others)
        elif lines and not others:
            _succeeds(["crontab", "-r"])

    def _lines(self) -> list[str]:
        result = subprocess.run(
            ["crontab", "-l"], capture_output=True, timeout=SERVICE_TIMEOUT_S, check=False
        )
        return [] if result.returncode else os.fsdecode(result.stdout).splitlines()

    def _others(self) -> list[str]:
        return [line for line in self._lines() if not line.endswith(CRON_MARK)]

    def _write(self, lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        subprocess.run(
            ["crontab", "-"],
            input=os.fsencode(text),
            capture_output=True,
            timeout=SERVICE_TIMEOUT_S,
            check=False,
        )


def _services(places: Places) -> tuple[_Supervisor | _Cron, ...]:
    """Services that may start an agent at boot, in order of preference."""
    return _Systemd(places), _OpenRc(places), _SystemdUser(places), _Cron(places)


def unit_text(
    command: list[str], places: Places, environment: Mapping[str, str], target: str
) -> str:
    """A systemd unit that keeps an agent running.

    Source: systemd.service(5), "Command lines"; systemd.exec(5); systemd.unit(5), "Specifiers".
    """

    def quoted(word: str) -> str:
        escaped = word.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped.replace("%", "%%")}"'

    start = " ".join(quoted(word.replace("$", "$$")) for word in command)
    settings = [f"Environment={quoted(variable)}" for variable in _xdg(environment)]
    output = f"append:{str(places.log).replace('%', '%%')}"
    return "\n".join(
        (
            "[Unit]",
            "Description=edgebench agent",
            "",
            "[Service]",
            f"ExecStart={start}",
            *settings,
            "Restart=on-failure",
            "RestartSec=5",
            f"StandardOutput={output}",
            f"StandardError={output}",
            "",
            "[Install]",
            f"WantedBy={target}",
            "",
        )
    )


def openrc_text(command: list[str], places: Places, environment: Mapping[str, str]) -> str:
    """An OpenRC service that keeps an agent running.

    Values are quoted twice, because OpenRC's shell parses them twice: in the script, and as words
    of a command. Source: openrc-run(8); supervise-daemon(8).
    """
    program, words = shlex.quote(command[0]), shlex.join(command[1:])
    settings = " ".join(f"--env {shlex.quote(variable)}" for variable in _xdg(environment))
    output = shlex.quote(str(places.log))
    values = {
        "description": "edgebench agent",
        "supervisor": "supervise-daemon",
        "command": program,
        "command_args": words,
        "directory": "/",
        "output_log": output,
        "error_log": output,
        "respawn_delay": "5",
        "respawn_max": "0",
        "supervise_daemon_args": settings,
    }
    lines = (f"{name}={shlex.quote(value)}" for name, value in values.items())
    return "\n".join(("#!/sbin/openrc-run", *lines, "", "depend() {", "\tuse net", "}", ""))


def cron_line(command: list[str], places: Places, environment: Mapping[str, str]) -> str:
    """A crontab line that starts an agent at boot.

    Source: crontab(5): an unescaped percent sign ends the command.
    """
    words = shlex.join(["env", *_xdg(environment), *command])
    text = f"cd / && {words} >> {shlex.quote(str(places.log))} 2>&1"
    return f"@reboot {text} {CRON_MARK}".replace("%", "\\%")


def _xdg(environment: Mapping[str, str]) -> list[str]:
    """Environment variables of the agent's directories; at boot, no login sets these variables."""
    names = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
    return [f"{name}={environment[name]}" for name in names if environment.get(name)]


def _succeeds(command: list[str], environment: Mapping[str, str] | None = None) -> bool:
    """Whether a command of a service manager succeeds; False if the program does not exist."""
    with suppress(OSError, subprocess.SubprocessError):
        result = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SERVICE_TIMEOUT_S,
            check=False,
        )
        return result.returncode == 0
    return False


def _logged_since(log: Path, begin: int) -> str:
    """Content of a log after its first `begin` bytes; the whole log if it is shorter than that."""
    data = log.read_bytes()
    return (data[begin:] if len(data) >= begin else data).decode("utf-8", "replace")


def stop(places: Places) -> StepReport:
    """Stop the agents that run from the virtual environments of deploys."""
    for service in _services(places):
        service.stop()
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _agents(places):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while any(_agents(places)) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
    places.pid.unlink(missing_ok=True)
    pids = [str(pid) for pid in _agents(places)]
    return StepReport(f"agent process {', '.join(pids)} does not stop" if pids else None)


def remove(places: Places) -> UninstallReport:
    """Remove everything that deploys have created; the agent must be stopped before."""
    if not any(path.exists() for path in (*places.venvs, places.record)):
        return UninstallReport(was_there=False)
    for service in _services(places):
        service.remove()
    created = places.read_record().created
    kept = [str(path) for path in places.agents_own if path.exists() and str(path) not in created]
    ours = [path for path in places.temporary if str(path) in created]
    for tree in (*places.venvs, places.wheels, *places.agents_own, *ours):
        if tree.exists() and str(tree) not in kept:
            shutil.rmtree(tree)
    logs = places.data.glob(f"{places.log.name}*")  # includes rotated logs
    tracebacks = places.tracebacks.glob("edgebench-agent-*.txt")  # keeps tracebacks of a host
    for file in (*logs, *tracebacks, places.reports, places.pid, places.record, places.lock):
        file.unlink(missing_ok=True)
    for path in sorted(created, key=len, reverse=True):
        with suppress(OSError):  # other programs use the directory now
            os.rmdir(path)
    return UninstallReport(was_there=True, kept=tuple(kept))


def release(places: Places) -> StepReport:
    """End the deploy, so that other hosts can deploy."""
    places.lock.unlink(missing_ok=True)
    return StepReport()


def _difference(held: Iterable[WheelFile], sent: set[WheelFile]) -> str | None:
    """The first difference between the held and the sent wheels; None if they are equal."""
    here = {wheel.name: wheel for wheel in held}
    there = {wheel.name: wheel for wheel in sent}
    for name in sorted({*here, *there}):
        if name not in here:
            return f"wheel {name} was sent but is missing on the device"
        if name not in there:
            return f"wheel {name} was not sent but exists on the device"
        if here[name] != there[name]:
            found, expected = here[name].sha256[:12], there[name].sha256[:12]
            return f"wheel {name} was changed: its sha256 is {found}…, expected {expected}…"
    return None


def _agents(places: Places) -> Iterator[int]:
    """Process ids of this account's running agents that a deploy has installed."""
    programs = {path / "bin" for path in places.venvs}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # the process has ended, or may not be read
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                if Path(words[0]).name.startswith("qemu-"):
                    del words[0]  # an emulator, which the kernel lists before the program
                is_ours = Path(words[0]).parent in programs and "serve" in words
                if is_ours and entry.stat().st_uid == os.getuid():
                    yield int(entry.name)


class AgentStatus(TypedDict, total=False):
    """The fields of `edgebench-agent status --json` that are used here."""

    meters: list[str]
    sync_line: str | None
    lease_holder: str | None
    running: str | None
    spooled_count: int


def _run(command: list[str], environment: Mapping[str, str] | None = None) -> StepReport:
    try:
        result = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return StepReport(f"the installation did not end within {INSTALL_TIMEOUT_S:.0f} s")
    text = result.stdout.decode("utf-8", "replace")
    if re.search("No space left on device|Disk quota exceeded", text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), command[0])
    return StepReport(_last_line(text) or "no output" if result.returncode else None)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if line.lower().startswith("error:")]
    return re.sub("^error: *", "", (marked or lines or [""])[-1], flags=re.IGNORECASE)[:400]


def _libc() -> tuple[str, tuple[int, int]]:
    with suppress(OSError, ValueError, AttributeError):  # glibc only; not on Android
        version = re.search(r"glibc (\d+)\.(\d+)", os.confstr("CS_GNU_LIBC_VERSION") or "")
        if version:
            return "glibc", (int(version[1]), int(version[2]))
    for loader in Path("/lib").glob("ld-musl-*.so.1"):
        # Without arguments, the loader prints its version and fails.
        text = subprocess.run([str(loader)], capture_output=True, text=True, check=False).stderr
        if version := re.search(r"Version (\d+)\.(\d+)", text):
            return "musl", (int(version[1]), int(version[2]))
    return "unknown libc", (0, 0)


def _base(environment: Mapping[str, str], name: str, default: Path) -> Path:
    # A relative path must be ignored. Source: XDG base directory specification.
    value = environment.get(name, "")
    return Path(value) if value.startswith("/") else default


_VERBS: dict[str, Callable[..., Any]] = {
    verb.__name__: verb
    for verb in (
        *(look, make_room, renew, duplicate, drop, install),
        *(switch, restore, settle, start, stop, remove, release),
    )
}


class OtherDeploy(Exception):
    """Another deploy is in progress in this account."""


@contextmanager
def turn(places: Places, deploy: str, by: str) -> Iterator[None]:
    """Context in which a deploy makes a step, while no other deploy can make a step.

    A deploy is in progress from its first step that changes something until its step `release`, or
    until `BROKEN_OFF_S` have passed since its last step. A single step may take longer than that,
    because the lock file is also locked by flock(2) during a step.

    Args:
        places: The account.
        deploy: Random name of the deploy.
        by: Host and user of the deploy.

    Raises:
        OtherDeploy: another deploy is in progress.
    """
    try:
        descriptor = os.open(places.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # no directory: there was no deploy yet
        yield
        return
    with open(descriptor, "r+", encoding="utf-8", errors="replace") as file:
        is_in_step = False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_in_step = True
        except OSError:  # a file system without locks: only the time of the last step is checked
            pass
        named, _, other = file.read(1000).strip().partition(" ")
        age_s = time.time() - os.fstat(descriptor).st_mtime
        is_under_way = bool(named) and named != deploy and 0 <= age_s < BROKEN_OFF_S
        if is_in_step or is_under_way:
            raise OtherDeploy(
                f"{other or 'another host'} is deploying to this device; the last step of "
                f"this deployment was {age_s:.0f} s ago"
            )
        file.seek(0)
        file.truncate()
        file.write(f"{deploy} {by}\n")
        file.flush()
        yield
        os.utime(descriptor)


def main() -> None:
    """Execute the request in the argument, and print the reply."""
    request = json.loads(sys.argv[1])
    verb, deploy, by = (request.pop(name, "") for name in ("verb", "deploy", "by"))
    places = Places(os.environ)
    mark = ANSWER_MARK
    answer: Any
    try:
        if verb == look.__name__:
            answer = look(places)
        else:
            with turn(places, deploy, by):
                answer = _VERBS[verb](places, **request)
    except OtherDeploy as exc:
        mark, answer = FAILURE_MARK, StepFailure(str(exc), is_full=False, is_other_deploy=True)
    except OSError as exc:
        text = f"{exc.strerror or exc}: {exc.filename}" if exc.filename else str(exc)
        mark, answer = FAILURE_MARK, StepFailure(text, exc.errno in _FULL)
    print(f"\n{mark}{json.dumps(asdict(answer))}", flush=True)


if __name__ == "__main__":
    main()
