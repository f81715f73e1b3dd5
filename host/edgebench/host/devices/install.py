"""Bring the packages to a device: fetch, send what is missing there, install."""

from __future__ import annotations

import hashlib
import sysconfig
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from edgebench.host.devices.account import Account
from edgebench.host.devices.on_device import Facts, WheelFile
from edgebench.host.devices.packages import Wheels, fetch, with_extras
from edgebench.host.devices.wheel import build_wheel, normalized
from edgebench.protocol.errors import NoSpace, PackagesMissing, TargetError
from edgebench.protocol.paths import APPLICATION

MIB = 2**20
_UNPACKED_FACTOR = 1.25
"""Bytecode, and blocks that are not full, over what the wheels unpack to."""

Say = Callable[[str], None]
"""Told of each step in one line."""


def install(
    account: Account,
    facts: Facts,
    say: Say,
    *,
    runtimes: Sequence[str],
    source: Path | None,
    extras: Sequence[str] = (),
) -> None:
    """Install the agent, the runtimes and the extras; ends with no agent running.

    Args:
        account: Where.
        facts: What is there.
        say: Told of each step.
        runtimes: Those that are wanted; what has no wheel is left out.
        source: A directory to take wheels from, and from nowhere else; None: the index.
        extras: Those that its meters need; none is left out.

    Raises:
        PackagesMissing: the agent, an extra or every runtime can be had neither here nor there.
        NoSpace: it does not fit on the device.
        TargetError: the device cannot install it.
    """
    with tempfile.TemporaryDirectory(prefix="edgebench-") as folder:
        scratch = Path(folder)
        say(f"finding wheels of {', '.join((*runtimes, *extras))}")
        try:
            wheels = fetch(facts.interpreter, runtimes, scratch, source, extras=extras)
        except PackagesMissing as exc:
            if source is not None:
                raise
            say(f"note: {exc}; trying with the device's own index")
            own = build_wheel(scratch)
            _send(account, facts, (own, *_bundled_pip()), say)
            there = f"{facts.wheels}/{own.name}"
            _install_from_index(account, there, runtimes, exc, say, extras=extras)
        else:
            for runtime in wheels.left_out:
                say(f"note: runtime {runtime} is left out: no wheel for {facts.interpreter}")
            _install_wheels(account, facts, wheels, say)


def _install_wheels(account: Account, facts: Facts, wheels: Wheels, say: Say) -> None:
    described = _send(account, facts, wheels.files, say)
    account.stop()
    # pip itself is sent along but not installed: a newer one changes nothing.
    wanted, present = (
        {wheel for wheel in found if not wheel.name.startswith("pip-")}
        for found in (described, facts.installed)
    )
    changed = {normalized(wheel.name) for wheel in wanted ^ present}
    if not changed:
        say("installed already, nothing has changed")
        return
    say(f"installing {wheels.requirement}")
    if changed == {APPLICATION} and present:
        path = f"{facts.wheels}/{wheels.own.name}"
        done = account.install(["--no-deps", "--force-reinstall", path], is_offline=True)
    else:
        account.renew()
        done = account.install([wheels.requirement], is_offline=True)
    if done.error:
        raise TargetError(f"not installed on {account.shell.target}: {done.error}")


def _install_from_index(
    account: Account,
    own: str,
    runtimes: Sequence[str],
    cause: PackagesMissing,
    say: Say,
    *,
    extras: Sequence[str],
) -> None:
    """Let the device fetch what it needs itself."""
    account.stop()
    account.renew()
    problem = account.install([with_extras(own, extras)], is_offline=False).error
    usable = []
    for runtime in () if problem else runtimes:
        problem = account.install([with_extras(own, [runtime])], is_offline=False).error
        if problem:
            say(f"note: runtime {runtime} is left out: {problem}")
        else:
            usable.append(runtime)
    if not usable:
        raise PackagesMissing(f"{cause}; the device: {problem}") from cause
    say(f"installed from the device's index: {', '.join(usable)}")


def _send(account: Account, facts: Facts, files: Iterable[Path], say: Say) -> set[WheelFile]:
    """Bring wheels to the device, as far as it does not hold them; what they are."""
    described = {path: _described(path) for path in files}
    missing = [path for path, wheel in described.items() if wheel not in facts.held]
    size_bytes = sum(described[path].size_bytes for path in missing)
    needed_bytes = size_bytes + int(_UNPACKED_FACTOR * sum(map(_unpacked_bytes, missing)))
    target = account.shell.target
    if needed_bytes > facts.free_bytes:
        raise NoSpace(
            f"disk full on {target}: {facts.free_bytes // MIB} MiB free, "
            f"{needed_bytes // MIB + 1} MiB needed: {facts.wheels}"
        )
    account.make_room([wheel.name for wheel in described.values()])
    if missing:
        say(f"sending {len(missing)} of {len(described)} wheels, {size_bytes / MIB:.1f} MiB")
        try:
            account.shell.put(missing, facts.wheels)
        except TargetError as exc:
            if account.look().free_bytes < size_bytes:
                raise NoSpace(f"disk full on {target}: {facts.wheels}") from exc
            raise
    return set(described.values())


def _described(path: Path) -> WheelFile:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return WheelFile(path.name, path.stat().st_size, digest)


def _unpacked_bytes(path: Path) -> int:
    with zipfile.ZipFile(path) as wheel:
        return sum(member.file_size for member in wheel.infolist())


def _bundled_pip() -> tuple[Path, ...]:
    """The wheel of pip that this host's Python brings along, if it does."""
    # Debian keeps it in a directory of its own.
    debian = sysconfig.get_config_var("WHEEL_PKG_DIR")
    usual = Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled"
    found = sorted((Path(debian) if debian else usual).glob("pip-*.whl"))
    return tuple(found[-1:])
