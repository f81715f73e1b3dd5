"""The wheels that a device needs, fetched by the host, so that the device needs no internet.

    our wheel + runtimes ──▶ one set that pip resolves for the device ──▶ kept under
              + extras       (from the index, or from --wheels DIR)       $XDG_CACHE_HOME

A set is what one kind of device gets: same Python, platform, runtimes, extras and requirements. It
is used again for a day without asking the index, and after that whenever the index is out of reach.
Of the runtimes, those without a wheel are left out; an extra that a meter needs has to be there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from edgebench.host.devices.on_device import Interpreter
from edgebench.host.devices.wheel import build_wheel, extra_packages, normalized
from edgebench.protocol.errors import PackagesMissing
from edgebench.protocol.paths import APPLICATION

FRESH_S = 24 * 3600.0
PIP_TIMEOUT_S = 1800.0
_ARCH_32 = {"x86_64": "i686", "aarch64": "armv7l", "armv8l": "armv7l"}
"""What a 32-bit Python on a 64-bit kernel can load."""
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
"""Names that some manylinux tags had first. Source: PEP 600."""
_OFFLINE = re.compile(r"connection broken by|Temporary failure in name resolution|unreachable")


@dataclass(frozen=True, slots=True)
class Wheels:
    """A set of wheels that can be installed together."""

    own: Path
    """Ours; among `files`, too."""
    files: tuple[Path, ...]
    runtimes: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    """Runtimes that were asked for and have no wheel for the device."""
    extras: tuple[str, ...] = ()
    """That a meter needs."""

    @property
    def requirement(self) -> str:
        """What pip is asked to install from them."""
        return with_extras(APPLICATION, (*self.runtimes, *self.extras))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a set depends on."""

    own: Path
    interpreter: Interpreter
    runtimes: tuple[str, ...]
    extras: tuple[str, ...]


class _Offline(PackagesMissing):
    """The index is out of reach."""


def with_extras(what: str, extras: Sequence[str]) -> str:
    """A requirement, as pip reads it.

    >>> with_extras("edgebench", ["onnx", "serial"]), with_extras("edgebench", [])
    ('edgebench[onnx,serial]', 'edgebench')
    """
    return f"{what}[{','.join(extras)}]" if extras else what


def fetch(
    interpreter: Interpreter,
    runtimes: Sequence[str],
    scratch: Path,
    source: Path | None = None,
    *,
    extras: Sequence[str] = (),
) -> Wheels:
    """The wheels for a device.

    Args:
        interpreter: The device's Python.
        runtimes: Those that are wanted; what has no wheel is left out.
        scratch: A directory for what is not kept.
        source: A directory to take wheels from, and from nowhere else; None: the index.
        extras: Those that meters need.

    Raises:
        PackagesMissing: not even one of the runtimes can be had, or the agent itself or an extra
            not.
    """
    wanted = _Wanted(build_wheel(scratch), interpreter, tuple(runtimes), tuple(extras))
    if source is not None:
        _resolve(wanted, scratch / "set", source)
        return _chosen(wanted, scratch / "set")
    kept = _cache() / _set_name(wanted)
    if not kept.exists() or time.time() - kept.stat().st_mtime > FRESH_S:
        try:
            _refresh(kept, wanted)
        except _Offline:
            if not kept.exists():
                raise
    return _chosen(wanted, kept)


def platform_tags(interpreter: Interpreter) -> list[str]:
    """Every platform tag whose wheels run there, the newest first.

    Source: PEP 600 (manylinux), PEP 656 (musllinux).
    """
    machine = interpreter.markers["platform_machine"]
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


def _refresh(kept: Path, wanted: _Wanted) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=kept.parent, prefix=".") as folder:
        fresh = Path(folder) / "set"
        _resolve(wanted, fresh, None)
        (fresh / wanted.own.name).unlink()  # it changes with every edit; it is built each time
        if kept.exists():
            kept.replace(Path(folder) / "old")
        try:
            fresh.replace(kept)
        except OSError:
            if not kept.exists():  # else another deploy was quicker, with the same
                raise


def _resolve(wanted: _Wanted, destination: Path, source: Path | None) -> None:
    """Fill `destination`, with all extras, and as many of the runtimes as there are wheels for."""

    def download(runtimes: Sequence[str]) -> None:
        extras = (*runtimes, *wanted.extras)
        _download(wanted.own, wanted.interpreter, extras, destination, source)

    try:
        return download(wanted.runtimes)
    except _Offline:
        raise
    except PackagesMissing as exc:
        failure = exc
    if wanted.extras:
        download(())  # where a meter's library is missing, that is told, and no runtime blamed
    usable = []
    for runtime in wanted.runtimes if len(wanted.runtimes) > 1 else ():
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
        raise _Offline("this host's Python has no pip")
    where = ["--no-index", "--find-links", str(source)] if source else ["--retries", "1"]
    command = [
        *(sys.executable, "-m", "edgebench.host.devices.foreign_pip"),
        *(json.dumps(interpreter.markers), "download", "--no-input"),
        *("--disable-pip-version-check", "--only-binary=:all:", "--implementation", "cp"),
        *("--python-version", interpreter.markers["python_version"], "--abi", interpreter.abi),
        *(word for tag in platform_tags(interpreter) for word in ("--platform", tag)),
        *(*where, "--dest", str(destination)),
        # The device may have no pip; its own one, as a wheel, can be run as it is.
        *(f"{with_extras(APPLICATION, extras)} @ {own.absolute().as_uri()}", "pip"),
    ]
    try:
        result = subprocess.run(
            command,
            env=_closed_environment(os.environ) if source else None,
            capture_output=True,
            text=True,
            timeout=PIP_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise _Offline(f"pip did not end within {PIP_TIMEOUT_S:.0f} s") from exc
    if result.returncode:
        if source is None and _OFFLINE.search(result.stderr):
            raise _Offline("this host cannot reach the package index")
        raise PackagesMissing(f"no wheels for {interpreter}: {_pip_error(result.stderr)}")


def _closed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which pip takes wheels from nowhere but where it is told."""
    kept = {name: value for name, value in environment.items() if not name.startswith("PIP_")}
    return kept | {"PIP_CONFIG_FILE": os.devnull}


def _pip_error(text: str) -> str:
    errors = [line.removeprefix("ERROR: ") for line in text.splitlines() if "ERROR: " in line]
    lines = errors or text.split("\n") or [""]
    return lines[-1].strip() or "pip failed"


def _chosen(wanted: _Wanted, directory: Path) -> Wheels:
    own, asked = wanted.own, wanted.runtimes
    others = sorted(path for path in directory.glob("*.whl") if path.name != own.name)
    names = {normalized(path.name) for path in others}
    packages = extra_packages()
    runtimes = tuple(name for name in asked if packages[name] and packages[name] <= names)
    if not runtimes:
        raise PackagesMissing(f"no wheel of a runtime for {wanted.interpreter}: {', '.join(asked)}")
    left_out = tuple(name for name in asked if name not in runtimes)
    return Wheels(own, (own, *others), runtimes, left_out, wanted.extras)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if base.startswith("/") else Path.home() / ".cache"
    return root / APPLICATION / "wheels"


def _set_name(wanted: _Wanted) -> str:
    """Names all that a set depends on, as far as it may differ; not the kernel's version."""
    interpreter = wanted.interpreter
    with zipfile.ZipFile(wanted.own) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        digest = hashlib.sha256(wheel.read(metadata))
    extras = sorted((*wanted.runtimes, *wanted.extras))
    digest.update(repr((platform_tags(interpreter), extras)).encode())
    machine = interpreter.markers["platform_machine"]
    return f"{interpreter.abi}-{machine}-{digest.hexdigest()[:16]}"
