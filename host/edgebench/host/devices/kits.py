"""Installs and removes kits, which are Pythons for devices without Python, through a shell.

The directory of a kit gets its final name only when the kit is complete. If a deploy finds the kit
on the device, it does not send the kit again; it only checks that the kit's Python runs. An agent
uses the kit with which its environment was made, until a deploy installs a different kit.
"""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path

from edgebench.host.devices.install import MIB, OnStep
from edgebench.host.devices.shell import CommandOutput, Shell
from edgebench.host.kit.kit import find_kit
from edgebench.protocol.errors import KitMissing, NoSpace, TargetError
from edgebench.protocol.text import one_line

COMMAND_TIMEOUT_S = 60.0
UNPACK_TIMEOUT_S = 300.0


def bring_python(shell: Shell, given: Path | None, on_step: OnStep) -> str:
    """Return the path of a kit's Python on a device; send the kit if it is missing there.

    If this machine has no kit, the kit on the device is used; an earlier deploy with `--kit FILE`
    has sent it.

    Args:
        shell: Shell of a device; its `kits` is not empty.
        given: File of the kit; None selects the kit that was built or is installed here.
        on_step: Called with a line if a kit is sent.

    Raises:
        NotAKit: the file cannot be read, or is not for this kind of machine.
        KitMissing: neither this machine nor the device has a kit for the device.
        NoSpace: the kit does not fit on the device.
        TargetError: the kit does not run on the device.
    """
    machine = _run(shell, "reading its machine", "uname", "-m").text.strip()
    try:
        kit = find_kit(machine, given)
    except KitMissing:
        if (present := present_python(shell)) is None:
            raise
        return present
    python = kit.manifest.python_path
    if _runs(shell, python).code != 0:
        on_step(f"sending {kit.manifest}, {kit.manifest.unpacked_bytes / MIB:.1f} MiB")
        name = kit.manifest.name
        # A unique name, because another host may send the same kit at the same time.
        partial = f"{shell.kits}/{name}.{secrets.token_hex(4)}"
        directory = kit.manifest.directory
        _run(shell, "making room for a kit", "rm", "-rf", partial, directory)
        _run(shell, "making room for a kit", "mkdir", "-p", partial)
        with tempfile.TemporaryDirectory(prefix="edgebench-") as folder:
            file = Path(folder) / f"{name}.tar"
            file.write_bytes(kit.tar())
            shell.put([file], partial)
        _run(shell, "unpacking a kit", "tar", "-xf", f"{partial}/{file.name}", "-C", partial)
        _run(shell, "unpacking a kit", "mv", f"{partial}/{name}", directory)
        _run(shell, "unpacking a kit", "rm", "-rf", partial)
        if (output := _runs(shell, python)).code != 0:
            reason = one_line(output.text.strip() or f"status {output.code}", 400)
            raise TargetError(f"{kit.manifest} does not run on {shell.target}: {reason}")
    return python


def present_python(shell: Shell) -> str | None:
    """Path of a Python that starts, from a kit on the device; None if no Python starts."""
    for name in _names(shell):
        python = f"{shell.kits}/{name}/bin/python3"
        if _runs(shell, python).code == 0:
            return python
    return None


def remove_kits(shell: Shell, *, keep: str = "") -> None:
    """Remove the kits of a device, except the kit that contains the Python at the path `keep`."""
    for name in _names(shell):
        path = f"{shell.kits}/{name}"
        if not keep.startswith(f"{path}/"):
            _run(shell, "removing a kit", "rm", "-rf", path)
    if not keep:
        _run(shell, "removing the kits", "rm", "-rf", shell.kits)


def _names(shell: Shell) -> list[str]:
    listed = shell.run(
        ["ls", "-1", shell.kits], what="looking for kits", timeout_s=COMMAND_TIMEOUT_S
    )
    return listed.text.split() if listed.code == 0 else []


def _runs(shell: Shell, python: str) -> CommandOutput:
    # Import the modules whose libraries every wheel of a runtime needs.
    words = [python, "-I", "-c", "import ssl, ctypes, zlib"]
    return shell.run(words, what="starting Python", timeout_s=COMMAND_TIMEOUT_S)


def _run(shell: Shell, what: str, *words: str) -> CommandOutput:
    """Run a command; raise an error if it fails."""
    output = shell.run(words, what=what, timeout_s=UNPACK_TIMEOUT_S)
    if output.code == 0:
        return output
    reason = one_line(output.text.strip() or f"status {output.code}", 400)
    if "No space left on device" in output.text:
        raise NoSpace(f"disk full on {shell.target}: {shell.kits}")
    raise TargetError(f"{what} on {shell.target} failed: {reason}")
