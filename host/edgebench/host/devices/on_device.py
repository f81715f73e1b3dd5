"""What `edgebench deploy` does on the device; sent through its shell and fed to its Python.

The device has nothing of ours yet, so this one file stands alone: the standard library of Python
3.10, Linux, no import of edgebench. Its argument is a request in JSON, its last line the answer
in JSON. The host imports this file too, for the types of the answers.

    $XDG_DATA_HOME/edgebench/       agent-venv/           Python packages, none of the system's
                                    agent-wheels/         what they were installed from
                                    agent-deployed.json   what was installed, made and served
                                    agent.log, agent.pid  log and process of the started agent
                                    agent/                the agent's own state
    $XDG_CONFIG_HOME/edgebench/     agent/                the agent's identity and its hosts

Directories that are missing before the first deploy are recorded: uninstalling removes what
deploying made, and nothing else.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, cast

ANSWER_MARK = "edgebench-answer "
"""First word of the line that holds a step's answer."""
FAILURE_MARK = "edgebench-failure "
"""First word of the line that holds a `StepFailure` instead."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
STATUS_TIMEOUT_S = 30.0
INSTALL_TIMEOUT_S = 3600.0
"""Limit on one run of pip; numpy alone takes a minute to unpack onto an SD card."""
POLL_S = 0.05
MAX_LIBC_VERSION = 999
"""Most of either number of a C library's version; glibc is at 2.42 after 29 years."""
_NOTHING = "none"
"""Value of edgebench.meters.wiring.NOTHING."""
_FULL = {errno.ENOSPC, errno.EDQUOT}


@dataclass(frozen=True, slots=True)
class EnvironmentMarkers:
    """Properties of a Python that a requirement may depend on.

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
    """A Python, as far as it decides which wheels fit."""

    markers: EnvironmentMarkers
    abi: str
    """Tag of the binary interface: cp311."""
    bits: int
    libc: str
    """C library: glibc or musl."""
    libc_version: tuple[int, int]

    def __post_init__(self) -> None:
        # These name directories and tags of wheels on the host.
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
    """A wheel, by name and content."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """State of the device and the account before a deploy."""

    interpreter: Interpreter
    host_name: str
    agent: str
    """Path of the command `edgebench-agent`, installed or not."""
    wheels: str
    """Directory that wheels are sent to."""
    log: str
    """Path of the agent's log."""
    free_bytes: int
    """Disk space for packages that this account may use."""
    held: tuple[WheelFile, ...] = ()
    """Wheels of an earlier deploy."""
    installed: tuple[WheelFile, ...] = ()
    """Wheels in the virtual environment; empty when it is broken, or was filled from an index."""
    pin: str | None = None
    """Fingerprint of the agent's certificate, when it has one."""
    busy_with: str | None = None
    """Host that holds the agent's lease now."""
    spooled_count: int = 0
    """Runs on the device that wait for their host."""
    meters: tuple[str, ...] = ()
    """Meters that the agent serves, or was last started with, as `serve --meter` takes them:
    `none` when there are none; empty when no deploy has set them."""
    sync_line: str | None = None
    """Sync line of the agent, likewise, as `serve --sync-line` takes it."""
    has_bridge: bool | None = None
    """Whether the last deploy brought the firmware bridge along; None when none has told."""


@dataclass(frozen=True, slots=True)
class DeployRecord:
    """File that a deploy leaves on the device for the next one."""

    created: tuple[str, ...] = ()
    """Directories that did not exist before the first deploy."""
    installed: tuple[WheelFile, ...] = ()
    meters: tuple[str, ...] = ()
    """Meters, as in `DeviceFacts`, for when the agent does not run."""
    sync_line: str | None = None
    has_bridge: bool | None = None


@dataclass(frozen=True, slots=True)
class StepReport:
    """Result of a step that may fail for reasons that its caller handles."""

    error: str | None = None
    """Last line of the output of what failed; None when it succeeded."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepFailure:
    """Answer of a step that the operating system did not let finish."""

    problem: str
    is_full: bool
    """Whether the disk is full, or a quota reached."""


@dataclass(frozen=True, slots=True)
class UninstallReport:
    """Result of uninstalling."""

    was_there: bool
    kept: tuple[str, ...] = ()
    """Directories of the agent that are older than the first deploy."""


class Places:
    """Paths of everything that a deploy puts into this account."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        home = Path(environment.get("HOME") or os.path.expanduser("~"))
        self.data = _base(environment, "XDG_DATA_HOME", home / ".local" / "share") / "edgebench"
        self.config = _base(environment, "XDG_CONFIG_HOME", home / ".config") / "edgebench"
        self.venv = self.data / "agent-venv"
        self.wheels = self.data / "agent-wheels"
        self.record = self.data / "agent-deployed.json"
        self.log = self.data / "agent.log"
        self.pid = self.data / "agent.pid"
        self.python = self.venv / "bin" / "python"
        self.agent = self.venv / "bin" / "edgebench-agent"
        self.agents_own = (self.data / "agent", self.config / "agent")

    def read_record(self) -> DeployRecord:
        """Record of an earlier deploy; an empty one, if that is damaged."""
        try:
            plain = json.loads(self.record.read_text())
            return DeployRecord(
                created=tuple(plain["created"]),
                installed=tuple(WheelFile(**wheel) for wheel in plain["installed"]),
                meters=tuple(plain.get("meters", ())),  # older deploys knew of none
                sync_line=plain.get("sync_line"),
                has_bridge=plain.get("has_bridge"),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return DeployRecord()

    def write_record(self, **changes: Any) -> None:
        """Change fields of the record; the file is replaced whole or not at all."""
        beside = self.record.with_suffix(".new")
        beside.write_text(json.dumps(asdict(replace(self.read_record(), **changes)), indent=1))
        beside.replace(self.record)

    def held(self) -> tuple[WheelFile, ...]:
        """Wheels on the device."""
        return tuple(
            WheelFile(path.name, path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in sorted(self.wheels.glob("*.whl"))
        )


def look(places: Places) -> DeviceFacts:
    """Gather what the host has to know; changes nothing."""
    existing = next(path for path in (places.data, *places.data.parents) if path.is_dir())
    disk = os.statvfs(existing)
    status = _status(places)
    record = places.read_record()
    meters, sync_line = record.meters, record.sync_line
    if status:  # a running agent knows better than the record
        meters = tuple(status.get("meters", ())) or (_NOTHING,)
        sync_line = status.get("sync_line") or _NOTHING
    return DeviceFacts(
        interpreter=describe_interpreter(),
        host_name=socket.gethostname(),
        agent=str(places.agent),
        wheels=str(places.wheels),
        log=str(places.log),
        free_bytes=disk.f_bavail * disk.f_frsize,
        held=places.held(),
        installed=record.installed if _is_usable(places) else (),
        pin=_pin(places.config / "agent" / "identity.pem"),
        busy_with=status.get("lease_holder") or (status.get("running") and "somebody"),
        spooled_count=int(status.get("spooled_count", 0)),
        meters=meters,
        sync_line=sync_line,
        has_bridge=record.has_bridge,
    )


def describe_interpreter() -> Interpreter:
    """This Python."""
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
    """Make the directories, and remove the wheels that are not to be kept.

    Whether the firmware bridge comes along is recorded here, before the install: the next try need
    not say so again.
    """
    created = places.read_record().created
    # The agent makes its own directories; here they are only recorded.
    leaves = (places.venv, places.wheels, *places.agents_own)
    wanted = {path for leaf in leaves for path in (leaf, *leaf.parents)}
    missing = [str(path) for path in sorted(wanted) if not path.exists()]
    created += tuple(path for path in missing if path not in created)
    for path in (*reversed(places.wheels.parents), places.wheels):
        path.mkdir(mode=0o700, exist_ok=True)
    places.write_record(created=created, has_bridge=has_bridge)
    for path in places.wheels.iterdir():
        if path.name not in keep:
            path.unlink()
    return StepReport()


def renew(places: Places) -> StepReport:
    """Make an empty virtual environment in place of the old one."""
    places.write_record(installed=())
    # Without pip: Debian's Python has none to give unless a second package is installed.
    return _run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(places.venv)])


def install(
    places: Places, words: list[str], is_offline: bool, wheels: list[dict[str, Any]]
) -> StepReport:
    """Run `pip install` in the virtual environment, on the wheels that were sent or on an index.

    Only on exactly those wheels: pip prefers any newer one that lies beside them, and pip itself is
    run from one.
    """
    if problem := _difference(places.held(), {WheelFile(**wheel) for wheel in wheels}):
        return StepReport(problem)
    pip = [str(places.python), "-m", "pip"]
    if bundles := sorted(places.wheels.glob("pip-*.whl")):
        pip = [str(places.python), str(bundles[-1] / "pip")]
    elif (bundled := _run([str(places.python), "-m", "ensurepip"])).error is not None:
        return bundled
    command = [*pip, "install", "--no-cache-dir", "--disable-pip-version-check", "--no-input"]
    environment = dict(os.environ)
    if is_offline:
        command += ["--no-index", "--find-links", str(places.wheels)]
        environment = {key: environment[key] for key in environment if not key.startswith("PIP_")}
        environment["PIP_CONFIG_FILE"] = os.devnull
    done = _run([*command, "--quiet", *words], environment)
    if is_offline and done.error is None:
        places.write_record(installed=places.held())
    return done


def start(places: Places, words: list[str], meters: list[str], sync_line: str | None) -> StepReport:
    """Start the agent, detached from this login, and wait until it serves."""
    # Recorded before it is known whether it starts: the next try need not name them again.
    places.write_record(meters=tuple(meters), sync_line=sync_line)
    wired = [word for meter in meters for word in ("--meter", meter)]
    wired += ["--sync-line", sync_line] if sync_line else []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the agent inherits it
    with places.log.open("a") as log:
        begin = log.tell()
        process = subprocess.Popen(
            [str(places.agent), "serve", "--log", str(places.log), *words, *wired],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )
    places.pid.write_text(f"{process.pid}\n")
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline_s:
        log_text = _said_since(places.log, begin)
        if re.search("^ready ", log_text, re.MULTILINE):
            return StepReport(warnings=tuple(re.findall("^warning: (.+)", log_text, re.MULTILINE)))
        time.sleep(POLL_S)
    is_late = process.poll() is None
    process.kill()
    process.wait()
    places.pid.unlink()
    last = _last_line(_said_since(places.log, begin))
    if is_late:
        late = f"it was not ready after {START_TIMEOUT_S:g} s"
        return StepReport(f"{late}; the last line of its log: {last}" if last else late)
    return StepReport(last or f"it ended with status {process.returncode} and no output")


def _said_since(log: Path, begin: int) -> str:
    """What was written to a log behind its first `begin` bytes; all of one that began anew."""
    data = log.read_bytes()
    return (data[begin:] if len(data) >= begin else data).decode("utf-8", "replace")


def stop(places: Places) -> StepReport:
    """Stop the agent that runs from our virtual environment, if one does."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in _agents(places):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        while any(_agents(places)) and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
    places.pid.unlink(missing_ok=True)
    pids = [str(pid) for pid in _agents(places)]
    return StepReport(f"agent {', '.join(pids)} does not stop" if pids else None)


def remove(places: Places) -> UninstallReport:
    """Remove everything that deploying made, after the agent was stopped."""
    if not places.venv.exists() and not places.record.exists():
        return UninstallReport(was_there=False)
    created = places.read_record().created
    kept = [str(path) for path in places.agents_own if path.exists() and str(path) not in created]
    for tree in (places.venv, places.wheels, *places.agents_own):
        if tree.exists() and str(tree) not in kept:
            shutil.rmtree(tree)
    logs = places.data.glob(f"{places.log.name}*")  # the older ones, too
    for file in (*logs, places.pid, places.record):
        file.unlink(missing_ok=True)
    for path in sorted(created, key=len, reverse=True):
        with suppress(OSError):  # somebody else keeps something there by now
            os.rmdir(path)
    return UninstallReport(was_there=True, kept=tuple(kept))


def _difference(held: Iterable[WheelFile], sent: set[WheelFile]) -> str | None:
    """The first wheel here that is not as it was sent; None when all are."""
    here = {wheel.name: wheel for wheel in held}
    there = {wheel.name: wheel for wheel in sent}
    for name in sorted({*here, *there}):
        if name not in here:
            return f"wheel {name} was sent and is not there"
        if name not in there:
            return f"wheel {name} is there and was not sent"
        if here[name] != there[name]:
            found, expected = here[name].sha256[:12], there[name].sha256[:12]
            return f"wheel {name} was changed: its sha256 is {found}…, sent was {expected}…"
    return None


def _agents(places: Places) -> Iterator[int]:
    """Process ids of the agents that this account runs from our virtual environment."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended, or is not ours to look at
                words = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                if Path(words[0]).name.startswith("qemu-"):
                    del words[0]  # an emulator, which the kernel shows in front of the program
                is_ours = Path(words[0]).parent == places.venv / "bin" and "serve" in words
                if is_ours and entry.stat().st_uid == os.getuid():
                    yield int(entry.name)


class AgentStatus(TypedDict, total=False):
    """What `edgebench-agent status --json` says of an agent, as far as it matters here."""

    meters: list[str]
    sync_line: str | None
    lease_holder: str | None
    running: str | None
    spooled_count: int


def _status(places: Places) -> AgentStatus:
    """Status of the running agent; empty when none runs."""
    command = [str(places.agent), "status", "--json"]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        result = subprocess.run(command, capture_output=True, timeout=STATUS_TIMEOUT_S, check=True)
        return cast(AgentStatus, dict(json.loads(result.stdout)))
    return {}


def _is_usable(places: Places) -> bool:
    """Whether the virtual environment works, with this very Python."""
    check = f"import sys; sys.exit(sys.version != {sys.version!r})"
    return places.agent.exists() and _run([str(places.python), "-c", check]).error is None


def _pin(identity: Path) -> str | None:
    """Fingerprint of the agent's certificate, as edgebench.protocol.identity computes it."""
    try:
        text = identity.read_text()
        der = ssl.PEM_cert_to_DER_cert(text[text.index(ssl.PEM_HEADER) :])
    except (OSError, ValueError):
        return None
    return base64.urlsafe_b64encode(hashlib.sha256(der).digest()).decode().rstrip("=")


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
        return StepReport(f"it did not end within {INSTALL_TIMEOUT_S:.0f} s")
    text = result.stdout.decode("utf-8", "replace")
    if re.search("No space left on device|Disk quota exceeded", text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), command[0])
    return StepReport(_last_line(text) or "no output" if result.returncode else None)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if line.lower().startswith("error:")]
    return re.sub("^error: *", "", (marked or lines or [""])[-1], flags=re.IGNORECASE)[:400]


def _libc() -> tuple[str, tuple[int, int]]:
    with suppress(OSError, ValueError, AttributeError):  # only glibc knows it, Android no names
        version = re.search(r"glibc (\d+)\.(\d+)", os.confstr("CS_GNU_LIBC_VERSION") or "")
        if version:
            return "glibc", (int(version[1]), int(version[2]))
    for loader in Path("/lib").glob("ld-musl-*.so.1"):
        # Run without arguments, it says its version and fails.
        text = subprocess.run([str(loader)], capture_output=True, text=True, check=False).stderr
        if version := re.search(r"Version (\d+)\.(\d+)", text):
            return "musl", (int(version[1]), int(version[2]))
    return "unknown libc", (0, 0)


def _base(environment: Mapping[str, str], name: str, default: Path) -> Path:
    # A relative path must be ignored. Source: XDG base directory specification.
    value = environment.get(name, "")
    return Path(value) if value.startswith("/") else default


_VERBS: dict[str, Callable[..., Any]] = {
    verb.__name__: verb for verb in (look, make_room, renew, install, start, stop, remove)
}


def main() -> None:
    """Do what the argument says; print the answer."""
    request = json.loads(sys.argv[1])
    mark = ANSWER_MARK
    try:
        answer = _VERBS[request.pop("verb")](Places(os.environ), **request)
    except OSError as exc:
        text = f"{exc.strerror or exc}: {exc.filename}" if exc.filename else str(exc)
        mark, answer = FAILURE_MARK, StepFailure(text, exc.errno in _FULL)
    print(f"\n{mark}{json.dumps(asdict(answer))}", flush=True)


if __name__ == "__main__":
    main()
