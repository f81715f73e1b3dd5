"""Fetch Debian's Python for another machine into a root directory, by apt, without root rights.

Source: apt.conf(5), apt-get(8), dpkg-deb(1).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from edgebench.host.kit.root import DPKG, Root
from edgebench.protocol.errors import KitNotBuilt

ARCHITECTURES = {"aarch64": "arm64", "armv7l": "armhf", "x86_64": "amd64"}
"""Debian's names of the machines. Source: dpkg's cputable."""
PACKAGES = ("python3-minimal", "libpython3-stdlib", "libstdc++6", "libgcc-s1")
"""Packages from which the kit is built; apt adds their dependencies."""
TIMEOUT_S = 900.0
_CONFIGURATION = """\
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
"""
"""apt settings: the system's package sources and keys are used, and its apt state is not changed.
"""


def fetch_root(machine: str, folder: Path) -> Root:
    """Fetch the packages from the sources of this system's apt, and unpack them.

    Args:
        machine: Machine, as uname(1) prints it.
        folder: Empty directory for all files.

    Raises:
        KitNotBuilt: apt-get or dpkg-deb is not installed, or fails, for example because the sources
            lack a package.
    """
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        raise KitNotBuilt(
            "building a kit requires apt-get and dpkg-deb; at least one of them is not installed"
        )
    for name in ("state/lists/partial", "cache/archives/partial", "root"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    configuration = folder / "apt.conf"
    configuration.write_text(
        _CONFIGURATION.format(architecture=ARCHITECTURES[machine], folder=folder)
    )
    environment = os.environ | {"APT_CONFIG": str(configuration), "LC_ALL": "C"}
    _run(["apt-get", "-qq", "update"], environment)
    _run(["apt-get", "-qq", "-y", "--download-only", "install", *PACKAGES], environment)
    root = folder / "root"
    info = root / DPKG / "info"
    info.mkdir(parents=True)
    for archive in sorted((folder / "cache" / "archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(archive), str(root)])
        # Record the package and its files in dpkg's format.
        fields = _run(["dpkg-deb", "--field", str(archive), "Package", "Version"]).decode()
        name = dict(line.split(": ", 1) for line in fields.splitlines())["Package"]
        words = ["dpkg-deb", "--fsys-tarfile", str(archive)]
        with (
            subprocess.Popen(words, stdout=subprocess.PIPE) as process,
            tarfile.open(fileobj=process.stdout, mode="r|") as listed,
        ):
            paths = [f"/{member.name.lstrip('./')}\n" for member in listed if not member.isdir()]
        (info / f"{name}.list").write_text("".join(paths))
        with (root / DPKG / "status").open("a") as status:
            status.write(f"{fields}\n")
    return Root(root)


def _run(words: Sequence[str], environment: dict[str, str] | None = None) -> bytes:
    try:
        result = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise KitNotBuilt(f"{words[0]} did not end within {TIMEOUT_S:.0f} s") from None
    if result.returncode:
        lines = [line for line in result.stderr.decode("utf-8", "replace").splitlines() if line]
        errors = [line for line in lines if line.startswith("E: ")] or lines[-1:]
        reason = "; ".join(line.removeprefix("E: ") for line in errors[:2])
        raise KitNotBuilt(f"{words[0]} failed: {reason or f'status {result.returncode}'}")
    return result.stdout
