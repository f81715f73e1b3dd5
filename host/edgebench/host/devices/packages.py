"""Fetch wheels for a device on the host, so that the device needs no internet access.

    our wheel + runtimes ──▶ one set that pip resolves for the device ──▶ kept under
              + extras       (from the index, or from --wheels DIR)       $XDG_CACHE_HOME

A set is shared by all devices with the same Python, platform, runtimes, extras and requirements.
For a day, a set is reused without a request to the index. An older set is reused only if the index
is unreachable. A runtime without a wheel is left out. An error is raised if no runtime has a wheel,
or if an extra that a meter needs has no wheel.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from edgebench.host.devices.on_device import Interpreter
from edgebench.host.devices.wheel import build_wheel
from edgebench.host.wheel_file import package_of
from edgebench.protocol.distributions import AGENT_DISTRIBUTION
from edgebench.protocol.errors import PackagesMissing
from edgebench.protocol.runtime import RUNTIME_PACKAGES
from edgebench.system.paths import cache_directory
from edgebench.system.python_start import python_command
from edgebench.system.whole_files import make_directory, sync_tree

FRESH_S = 24 * 3600.0
PIP_TIMEOUT_S = 1800.0
_ARCH_32 = {"x86_64": "i686", "aarch64": "armv7l", "armv8l": "armv7l"}
"""Architecture of wheels for a 32-bit Python on a 64-bit kernel."""
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
"""Legacy names of some manylinux tags. Source: PEP 600."""
_OFFLINE = re.compile(r"connection broken by|Temporary failure in name resolution|unreachable")


@dataclass(frozen=True, slots=True)
class WheelSet:
    """A set of wheels that can be installed together."""

    own: Path
    """Wheel of edgebench-agent itself; `files` also contains this wheel."""
    files: tuple[Path, ...]
    runtimes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Requested runtimes that have no wheel for the device."""
    extras: tuple[str, ...] = ()
    """Optional dependencies (pip extras) that the agent's meters need."""

    @property
    def requirement(self) -> str:
        """Argument of `pip install` that installs the set."""
        return with_extras(AGENT_DISTRIBUTION, (*self.runtimes, *self.extras))


@dataclass(frozen=True, slots=True)
class _SetRequest:
    """The inputs that together determine a set of wheels."""

    own: Path
    interpreter: Interpreter
    runtimes: tuple[str, ...]
    extras: tuple[str, ...]


class _IndexUnreachable(PackagesMissing):
    """The package index cannot be reached, or pip cannot be run."""


def with_extras(what: str, extras: Sequence[str]) -> str:
    """Write a requirement and its extras in the format for pip.

    >>> with_extras("agent", ["onnx", "serial"]), with_extras("agent", [])
    ('agent[onnx,serial]', 'agent')
    """
    return f"{what}[{','.join(extras)}]" if extras else what


def fetch(
    interpreter: Interpreter,
    runtimes: Sequence[str],
    scratch: Path,
    source: Path | None = None,
    *,
    extras: Sequence[str] = (),
    has_bridge: bool = False,
) -> WheelSet:
    """Get the wheels for a device from a directory, the cache or the package index.

    Args:
        interpreter: The device's Python.
        runtimes: Requested runtimes; runtimes without a wheel are left out.
        scratch: Directory for files that are not kept.
        source: Directory from which all wheels are taken; None for the package index.
        extras: Extras that the agent's meters need; all are required.
        has_bridge: Whether the agent's wheel contains the firmware bridge.

    Raises:
        PackagesMissing: a wheel of the agent, of an extra, or of every runtime is missing.
    """
    own = build_wheel(scratch, has_bridge=has_bridge)
    request = _SetRequest(own, interpreter, tuple(runtimes), tuple(extras))
    if source is not None:
        _resolve(request, scratch / "set", source)
        return _wheel_set(request, scratch / "set")
    kept = Path(cache_directory(os.environ)) / "wheels" / _set_name(request)
    if not kept.exists() or time.time() - kept.stat().st_mtime > FRESH_S:
        make_directory(kept.parent, mode=0o700)
        try:
            with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".") as folder:
                fresh = Path(folder) / "set"
                _resolve(request, fresh, None)
                (fresh / own.name).unlink()  # it is built each time, as it changes with every edit
                if kept.exists():
                    kept.replace(Path(folder) / "old")
                # Otherwise a power cut may leave empty wheels, which are never fetched again.
                sync_tree(fresh)
                try:
                    fresh.replace(kept)
                except OSError:
                    if not kept.exists():  # else another deploy was faster, with the same set
                        raise
        except _IndexUnreachable:
            if not kept.exists():
                raise
    return _wheel_set(request, kept)


def why_no_runtime(interpreter: Interpreter) -> str:
    """Reason why no index has a runtime wheel for this Python; empty if such a wheel may exist.

    Source: files of ai-edge-litert, onnxruntime and tflite-runtime on PyPI, November 2026: none for
    musl, for 64-bit RISC-V, or for 32-bit x86. Devices with 32-bit ARM use a separate package
    index.
    """
    machine = interpreter.markers.platform_machine
    arch = _ARCH_32.get(machine, machine) if interpreter.bits == 32 else machine
    if interpreter.libc == "musl":
        return "runtimes are built for glibc (as in Debian), not for musl (as in Alpine)"
    if arch in ("i386", "i486", "i586", "i686"):
        return "runtimes are not built for 32-bit x86; use a 64-bit system"
    if arch == "riscv64":
        return "runtimes are not built for 64-bit RISC-V"
    return ""


def platform_tags(interpreter: Interpreter) -> list[str]:
    """Platform tags of wheels that run on the device, the newest first.

    Source: PEP 600 (manylinux), PEP 656 (musllinux).
    """
    machine = interpreter.markers.platform_machine
    arch = _ARCH_32.get(machine, machine) if interpreter.bits == 32 else machine
    minor = interpreter.libc_version[1]
    tags = []
    if interpreter.libc == "musl":
        tags = [f"musllinux_1_{number}_{arch}" for number in range(minor, -1, -1)]
    elif arch != "armv6l":  # manylinux begins at ARMv7
        first = 5 if arch in ("x86_64", "i686") else 17
        for number in range(minor, first - 1, -1):
            tags.append(f"manylinux_2_{number}_{arch}")
            if number in _LEGACY:
                tags.append(f"{_LEGACY[number]}_{arch}")
    return [*tags, f"linux_{arch}"]


def _resolve(request: _SetRequest, destination: Path, source: Path | None) -> None:
    """Fill `destination` with the wheels of all extras, and of those runtimes that have wheels."""

    def download(runtimes: Sequence[str]) -> None:
        extras = (*runtimes, *request.extras)
        _download(request.own, request.interpreter, extras, destination, source)

    try:
        return download(request.runtimes)
    except _IndexUnreachable:
        raise
    except PackagesMissing as exc:
        failure = exc
    if request.extras:
        download(())  # a missing library of a meter must not be reported as a runtime's
    usable = []
    for runtime in request.runtimes if len(request.runtimes) > 1 else ():
        try:
            download([runtime])
            usable.append(runtime)
        except PackagesMissing as exc:
            failure = exc
    if not usable:
        raise failure
    shutil.rmtree(destination)
    return download(usable)


def _download(
    own: Path,
    interpreter: Interpreter,
    extras: Sequence[str],
    destination: Path,
    source: Path | None,
) -> None:
    if find_spec("pip") is None:
        raise _IndexUnreachable("this host's Python has no pip")
    where = ["--no-index", "--find-links", str(source)] if source else ["--retries", "1"]
    # pip's own settings, such as PIP_FIND_LINKS, may be relative to the current directory.
    python = python_command(
        "edgebench.host.devices.foreign_pip",
        *(json.dumps(asdict(interpreter.markers)), "download", "--no-input"),
        *("--disable-pip-version-check", "--only-binary=:all:", "--implementation", "cp"),
        *("--python-version", interpreter.markers.python_version, "--abi", interpreter.abi),
        *(word for tag in platform_tags(interpreter) for word in ("--platform", tag)),
        *(*where, "--dest", str(destination)),
        # The device may have no pip; a wheel of pip can be run without installing it.
        *(f"{with_extras(AGENT_DISTRIBUTION, extras)} @ {own.absolute().as_uri()}", "pip"),
        directory=None,
        environment=_closed_environment(os.environ) if source else None,
    )
    try:
        result = subprocess.run(
            python.words,
            cwd=python.directory,
            env=python.environment,
            capture_output=True,
            text=True,
            timeout=PIP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise _IndexUnreachable(f"pip did not end within {PIP_TIMEOUT_S:.0f} s") from exc
    if result.returncode:
        if source is None and _OFFLINE.search(result.stderr):
            raise _IndexUnreachable("this host cannot reach the package index")
        lines = result.stderr.split("\n")
        errors = [line.removeprefix("ERROR: ") for line in lines if "ERROR: " in line]
        error = (errors or lines)[-1].strip() or "pip failed"
        raise PackagesMissing(f"no wheels for {interpreter}: {error}")


def _closed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which pip uses only the sources on its command line."""
    kept = {name: value for name, value in environment.items() if not name.startswith("PIP_")}
    return kept | {"PIP_CONFIG_FILE": os.devnull}


def _wheel_set(request: _SetRequest, directory: Path) -> WheelSet:
    own, requested = request.own, request.runtimes
    others = sorted(path for path in directory.glob("*.whl") if path.name != own.name)
    names = {package_of(path.name) for path in others}
    runtimes = tuple(name for name in requested if RUNTIME_PACKAGES[name] in names)
    if not runtimes:
        raise PackagesMissing(
            f"none of these runtimes has a wheel for {request.interpreter}: {', '.join(requested)}"
        )
    left_out = tuple(name for name in requested if name not in runtimes)
    return WheelSet(own, (own, *others), runtimes, left_out, request.extras)


def _set_name(request: _SetRequest) -> str:
    """Directory name of a set; it depends on all inputs of the set except the kernel's version."""
    interpreter = request.interpreter
    with zipfile.ZipFile(request.own) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        digest = hashlib.sha256(wheel.read(metadata))
    extras = sorted((*request.runtimes, *request.extras))
    digest.update(repr((platform_tags(interpreter), extras)).encode())
    machine = interpreter.markers.platform_machine
    return f"{interpreter.abi}-{machine}-{digest.hexdigest()[:16]}"
