"""Installation of the packages on a device: fetch wheels, send missing wheels, run pip there."""

from __future__ import annotations

import sysconfig
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from edgebench.host.devices.account import Account
from edgebench.host.devices.on_device import DeviceFacts, WheelFile
from edgebench.host.devices.packages import WheelSet, fetch, why_no_runtime, with_extras
from edgebench.host.devices.wheel import build_wheel, is_with_bridge
from edgebench.host.wheel_file import newest_wheel, package_of
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.distributions import AGENT_DISTRIBUTION
from edgebench.protocol.errors import NoSpace, PackagesMissing, TargetError

MIB = 2**20
_UNPACKED_FACTOR = 1.25
"""Ratio of the disk space of installed wheels to their unpacked size; it allows for bytecode and
partly filled blocks."""

_FETCHING = threading.Lock()
"""Lock that serialises the fetching of wheels, so that a second device of the same kind finds all
of its wheels in the cache."""

OnStep = Callable[[str], None]
"""Called with a line of text for each step."""


def install(
    account: Account,
    facts: DeviceFacts,
    on_step: OnStep,
    *,
    runtimes: Sequence[str],
    source: Path | None,
    extras: Sequence[str] = (),
    has_bridge: bool = False,
) -> bool:
    """Install the agent, the runtimes and the extras; a running agent is stopped.

    The packages are installed into a new environment. The previous environment is kept, unless the
    disk has no space for both environments.

    Args:
        account: Account to install into.
        facts: State of the device.
        on_step: Called with a line of text for each step.
        runtimes: Requested runtimes; runtimes without a wheel are left out.
        source: Directory from which all wheels are taken; None for the package index.
        extras: Extras that the agent's meters need; all are required.
        has_bridge: Whether to install the firmware bridge.

    Returns: Whether a new environment was made; False if nothing has changed.

    Raises:
        PackagesMissing: wheels of the agent, an extra or all runtimes are available neither to
            this host nor to the device.
        NoSpace: the packages do not fit on the device.
        TargetError: the device cannot install the packages.
    """
    # Otherwise pip searches for minutes, here and on the device, and may compile for hours there.
    if source is None and (reason := why_no_runtime(facts.interpreter)):
        raise PackagesMissing(f"no runtime for {facts.interpreter}: {reason}")
    with tempfile.TemporaryDirectory(prefix="edgebench-") as folder:
        scratch = Path(folder)
        on_step(f"finding wheels of {', '.join((*runtimes, *extras))}")
        try:
            with _FETCHING:
                wheels = fetch(
                    facts.interpreter,
                    runtimes,
                    scratch,
                    source,
                    extras=extras,
                    has_bridge=has_bridge,
                )
        except PackagesMissing as exc:
            if source is not None:
                raise
            on_step(f"note: {exc}; trying the package index of the device")
            own = build_wheel(scratch, has_bridge=has_bridge)
            # pip is sent if this host's Python bundles it; Debian keeps the wheel elsewhere.
            usual = Path(sysconfig.get_path("stdlib")) / "ensurepip" / "_bundled"
            bundled = sysconfig.get_config_var("WHEEL_PKG_DIR") or usual
            pip = newest_wheel(Path(bundled), "pip-*.whl")
            sent = _send(account, facts, (own, pip) if pip else (own,), on_step)
            there = f"{facts.wheels}/{own.name}"
            account.renew()
            problem = account.install([with_extras(there, extras)], sent, is_offline=False).error
            usable = []
            for runtime in () if problem else runtimes:
                words = [with_extras(there, [runtime])]
                if problem := account.install(words, sent, is_offline=False).error:
                    on_step(f"note: runtime {runtime} is left out: {problem}")
                else:
                    usable.append(runtime)
            if not usable:
                raise PackagesMissing(f"{exc}; the device: {problem}") from exc
            account.stop()
            account.switch(is_offline=False)
            on_step(f"installed from the package index of the device: {', '.join(usable)}")
            return True
        else:
            for runtime in wheels.left_out:
                on_step(f"note: runtime {runtime} is left out: no wheel for {facts.interpreter}")
            return _install_wheels(account, facts, wheels, on_step)


def _install_wheels(
    account: Account, facts: DeviceFacts, wheels: WheelSet, on_step: OnStep
) -> bool:
    sent = _send(account, facts, wheels.files, on_step)
    # pip itself is sent but not installed, so a newer pip is not a change.
    wanted, present = (
        {wheel for wheel in files if not wheel.name.startswith("pip-")}
        for files in (sent, facts.installed)
    )
    changed = {package_of(wheel.name) for wheel in wanted ^ present}
    if not changed:
        on_step("already installed, no changes")
        account.stop()
        return False
    # If there is no space for a second environment, the previous environment is removed now.
    held = {wheel.name for wheel in facts.held}
    sent_bytes = sum(path.stat().st_size for path in wheels.files if path.name not in held)
    needed_bytes = int(_UNPACKED_FACTOR * sum(map(_unpacked_bytes, wheels.files)))
    has_room = facts.free_bytes - sent_bytes >= needed_bytes
    if not has_room:
        account.stop()
        account.drop()
        on_step(
            "note: no space for two Python environments, so the previous environment was removed"
        )
    on_step(f"installing {wheels.requirement}")
    if changed == {AGENT_DISTRIBUTION} and present and has_room:
        path = f"{facts.wheels}/{wheels.own.name}"
        account.duplicate()
        report = account.install(["--no-deps", "--force-reinstall", path], sent, is_offline=True)
    else:
        account.renew()
        report = account.install([wheels.requirement], sent, is_offline=True)
    if report.error:
        raise TargetError(f"not installed on {account.shell.target}: {report.error}")
    account.stop()
    account.switch(is_offline=True)
    return True


def _send(
    account: Account, facts: DeviceFacts, files: Iterable[Path], on_step: OnStep
) -> set[WheelFile]:
    """Send the wheels that the device does not have yet; return descriptions of all wheels."""
    described: dict[Path, WheelFile] = {}
    for path in files:
        with path.open("rb") as file:
            digest = sha256_of(file).hexdigest()
        described[path] = WheelFile(path.name, path.stat().st_size, digest)
    missing = [path for path, wheel in described.items() if wheel not in facts.held]
    size_bytes = sum(described[path].size_bytes for path in missing)
    needed_bytes = size_bytes + int(_UNPACKED_FACTOR * sum(map(_unpacked_bytes, missing)))
    target = account.shell.target
    if needed_bytes > facts.free_bytes:
        raise NoSpace(
            f"disk full on {target}: {facts.free_bytes // MIB} MiB free in {facts.wheels}, "
            f"{needed_bytes // MIB + 1} MiB needed"
        )
    names = [path.name for path in described]
    account.make_room(names, has_bridge=any(map(is_with_bridge, names)))
    if missing:
        on_step(f"sending {len(missing)} of {len(described)} wheels, {size_bytes / MIB:.1f} MiB")
        try:
            account.shell.put(missing, facts.wheels)
        except TargetError as exc:
            if account.look().free_bytes < size_bytes:
                raise NoSpace(f"disk full on {target}: {facts.wheels}") from exc
            raise
    return set(described.values())


def _unpacked_bytes(path: Path) -> int:
    with zipfile.ZipFile(path) as wheel:
        return sum(member.file_size for member in wheel.infolist())
