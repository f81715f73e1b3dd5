"""A kit is a Python for phones, packed as a wheel with an archive and its manifest.

    edgebench_kit/manifest.json   contents, machine and place
    edgebench_kit/kit.tar.xz      the files, below a directory with the kit's name
    …dist-info/licenses/          copyright and licence of each package

pip can install the wheel, and `edgebench deploy --kit` accepts it as a file.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import zipfile
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from edgebench.host.wheel_file import newest_wheel
from edgebench.protocol.errors import KitMissing, KitOfOtherMachine, NotAKit, RemoteProtocolError
from edgebench.protocol.plain import from_outside
from edgebench.protocol.text import one_line
from edgebench.system.paths import user_paths

DISTRIBUTION = "edgebench-kit"
PACKAGE = "edgebench_kit"
MANIFEST, ARCHIVE = f"{PACKAGE}/manifest.json", f"{PACKAGE}/kit.tar.xz"
PLACE = "/data/local/tmp/edgebench-kit"
"""Directory of kits on a phone. The program of a kit contains the absolute path of its loader,
which begins with this directory."""
PHONE_MACHINE = "aarch64"
"""Machine of today's phones, and the default machine of a kit."""
PROGRAM = "bin/python3"
"""Path of Python below a kit's directory."""
FORMAT = 1
MAX_UNPACKED_BYTES = 256 * 2**20
_MACHINE_NAMES = {"armv8l": "armv7l"}
"""Alternative names of a machine in uname(1). Source: linux/kernel/sys.c, personality of 32-bit
programs on a 64-bit kernel."""


@dataclass(frozen=True, slots=True)
class KitMember:
    """A file of a kit."""

    path: str
    """Path below the kit's directory."""
    size_bytes: int
    sha256: str
    package: str = ""
    """Package that contains the file; empty if the root does not record a package."""


@dataclass(frozen=True, slots=True)
class KitPackage:
    """A package with files in a kit."""

    name: str
    version: str
    licence: str = ""
    """Name of the licence file in the wheel's metadata; empty if no licence was found."""


@dataclass(frozen=True, slots=True)
class KitManifest:
    """Contents and properties of a kit."""

    name: str
    """First 16 digits of a SHA-256 over the files, before the program is adapted to `place`."""
    machine: str
    """Machine, as uname(1) prints it."""
    python: str
    """Version of Python, such as 3.11."""
    libc: str
    """C library and its version, such as glibc 2.36."""
    unpacked_bytes: int
    archive_sha256: str
    files: tuple[KitMember, ...]
    packages: tuple[KitPackage, ...]
    place: str = PLACE
    format: int = FORMAT

    @property
    def directory(self) -> str:
        """Directory of the kit on a phone."""
        return f"{self.place}/{self.name}"

    @property
    def python_path(self) -> str:
        """Path of Python on a phone."""
        return f"{self.directory}/{PROGRAM}"

    def __str__(self) -> str:
        return f"Python {self.python} for {self.machine}, {self.libc}"


@dataclass(frozen=True, slots=True)
class Kit:
    """A kit that has been read."""

    manifest: KitManifest
    source: str
    """Path of the kit, for messages."""
    archive: bytes
    """Content of the archive, compressed by xz."""

    def tar(self) -> bytes:
        """Decompress the archive, which is a tar file.

        Raises:
            NotAKit: the archive is damaged, or larger than its manifest states.
        """
        limit = self.manifest.unpacked_bytes + 2**20 + 2048 * len(self.manifest.files)
        try:
            unpacked = lzma.LZMADecompressor().decompress(self.archive, max_length=limit + 1)
        except lzma.LZMAError as exc:
            raise NotAKit(f"kit is damaged: {exc}: {self.source}") from exc
        if len(unpacked) > limit:
            raise NotAKit(
                f"kit unpacks to more than the {limit} bytes that its manifest states: "
                f"{self.source}"
            )
        return unpacked


def kits_directory() -> Path:
    """Directory of the kits that `edgebench kit build` keeps, with a folder for each machine."""
    return Path(user_paths(os.environ).data) / "kits"


def find_kit(machine: str, given: Path | None = None) -> Kit:
    """The kit for a machine, from the given file, from a kit built here, or from a package.

    Args:
        machine: Machine, as uname(1) prints it.
        given: File that `edgebench kit build` has written.

    Raises:
        NotAKit: the kit cannot be read, or is for another machine or place.
        KitMissing: no kit for the machine was found.
    """
    machine = _MACHINE_NAMES.get(machine, machine)
    if given is not None:
        return _fitting(_read_wheel(given), machine)
    if (path := newest_wheel(kits_directory() / machine)) is not None:
        return _fitting(_read_wheel(path), machine)
    spec = find_spec(PACKAGE)
    for directory in (spec.submodule_search_locations or ()) if spec else ():
        manifest, archive = (Path(directory, Path(name).name) for name in (MANIFEST, ARCHIVE))
        try:
            kit = _kit(manifest.read_bytes(), archive.read_bytes(), directory)
        except OSError as exc:
            raise NotAKit(f"kit cannot be read: {exc.strerror or exc}: {directory}") from exc
        if kit.manifest.machine == machine:
            return _fitting(kit, machine)
    raise KitMissing(f"no kit for {machine}; a phone needs a kit to run Python", machine)


def _fitting(kit: Kit, machine: str) -> Kit:
    if kit.manifest.machine != machine:
        text = f"kit is for {kit.manifest.machine}, not for {machine}: {kit.source}"
        raise KitOfOtherMachine(text, machine)
    return kit


def _read_wheel(path: Path) -> Kit:
    try:
        with zipfile.ZipFile(path) as wheel:
            for name in (MANIFEST, ARCHIVE):
                if wheel.getinfo(name).file_size > MAX_UNPACKED_BYTES:
                    raise NotAKit(f"{name} is larger than {MAX_UNPACKED_BYTES} bytes: {path}")
            return _kit(wheel.read(MANIFEST), wheel.read(ARCHIVE), str(path))
    except OSError as exc:
        raise NotAKit(f"kit cannot be read: {exc.strerror or exc}: {path}") from exc
    except (
        zipfile.BadZipFile,
        zlib.error,
        KeyError,
        EOFError,
        NotImplementedError,
        RuntimeError,
    ) as exc:
        reason = exc.args[0] if exc.args else "unexpected end of file"
        raise NotAKit(f"not a kit, or damaged: {one_line(str(reason))}: {path}") from exc


def _kit(manifest_text: bytes, archive: bytes, source: str) -> Kit:
    try:
        plain = json.loads(manifest_text)
        if not isinstance(plain, dict) or plain.get("format") != FORMAT:
            raise NotAKit(f"kit of another version of edgebench: {source}")
        manifest = from_outside(plain, KitManifest)
    except (ValueError, RemoteProtocolError) as exc:
        raise NotAKit(f"manifest of the kit is damaged: {source}") from exc
    if not re.fullmatch("[0-9a-f]{16}", manifest.name):
        raise NotAKit(f"manifest of the kit is damaged: {source}")
    if manifest.place != PLACE:
        raise NotAKit(f"kit is for {manifest.place}, not for {PLACE}: {source}")
    if hashlib.sha256(archive).hexdigest() != manifest.archive_sha256:
        raise NotAKit(f"kit is damaged: its archive does not match its manifest: {source}")
    if manifest.unpacked_bytes > MAX_UNPACKED_BYTES:
        raise NotAKit(f"kit is larger than {MAX_UNPACKED_BYTES} bytes: {source}")
    return Kit(manifest, source, archive)
