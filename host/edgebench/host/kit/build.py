"""Build a kit, a Python without outside dependencies, from the root directory of a Linux system.

    root ─▶ program, standard library, needed libraries ─▶ moved to its place ─▶ checked ─▶ file

The program refers to its loader by an absolute path in the kit, and to its libraries by paths
relative to the program. Therefore the program needs no file outside the kit. It also needs no
environment variable such as LD_LIBRARY_PATH; such a variable would affect Android's programs, too.
The same packages give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from edgebench.host.kit.elf import PAGE_BYTES, read_elf, relocated
from edgebench.host.kit.kit import (
    ARCHIVE,
    DISTRIBUTION,
    MANIFEST,
    PACKAGE,
    PLACE,
    PROGRAM,
    KitManifest,
    KitMember,
    KitPackage,
    kits_directory,
)
from edgebench.host.kit.libraries import Libraries
from edgebench.host.kit.root import Package, Root
from edgebench.host.wheel_file import write_wheel
from edgebench.protocol.distributions import HOST_DISTRIBUTION
from edgebench.protocol.errors import KitNotBuilt
from edgebench.protocol.plain import to_plain
from edgebench.system.installed import installed_version
from edgebench.system.whole_files import make_directory, whole_file

PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.10")
"""Versions of Python in order of preference; tflite-runtime has no wheel for versions after
3.11."""
LEFT_OUT = (
    r"(test|tests|idlelib|lib2to3|tkinter|turtledemo|ensurepip|pydoc_data|curses|dbm|sqlite3)/.*",
    r"(site|dist)-packages/.*|config-[^/]*/.*|(.*/)?__pycache__/.*|.*\.a",
    r"(turtle|antigravity|sitecustomize)\.py|EXTERNALLY-MANAGED",
    r"lib-dynload/(_test|_xx|xx|nis|ossaudiodev|_dbm|_gdbm|_tkinter|_curses|readline|_sqlite3).*",
)
"""Path patterns of the parts of the standard library that no agent needs."""
COMPRESSION = 1
"""Compression preset of xz; preset 9 would take six times as long, and save an eighth of the size.
"""
_FORMAT_SALT = b"edgebench-kit 1\n"
"""Text that is part of the hash in a kit's name. Change the text when files are processed
differently, so that the resulting kits get other names."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A file that goes into a kit."""

    data: bytes
    is_program: bool = False
    package: Package | None = None


@dataclass(frozen=True, slots=True)
class BuiltKit:
    """A kit that was written."""

    path: Path
    manifest: KitManifest
    size_bytes: int
    left_out: tuple[str, ...]
    """Names of modules that are not in the kit, because the root lacks a library that they need."""
    unlicensed: tuple[str, ...]
    """Files whose licence is not recorded in the root."""
    is_kept: bool
    """Whether the kit is in the directory where a deploy finds it."""


def build_kit(root: Root, output: Path | None, *, machine: str | None = None) -> BuiltKit:
    """Build a kit and write it.

    Args:
        root: System from which the kit is built.
        output: File to write, or a directory. None selects the directory where `deploy` finds the
            kit.
        machine: Required machine; None selects the machine of the root.

    Raises:
        KitNotBuilt: the root has no supported Python, lacks a file that a kit needs, or is for
            another machine.
    """
    program, python = _find_python(root)
    elf = read_elf(root.read(program))
    if elf is None or not elf.interpreter or not elf.machine:
        raise KitNotBuilt(f"not a program for a supported machine: {root.directory / program}")
    if machine not in (None, elf.machine):
        raise KitNotBuilt(f"Python of {root.directory} is for {elf.machine}, not for {machine}")
    if "ld-linux" not in elf.interpreter:
        raise KitNotBuilt(
            f"Python of {root.directory} uses {elf.interpreter}, but runtimes need glibc"
        )
    libraries = Libraries(root, elf)
    library = "lib64" if root.find(f"{program.parents[1]}/lib64/python{python}/os.py") else "lib"
    members = {PROGRAM: _member(root, program, is_program=True)}
    modules, left_out = _standard_library(
        root, f"{program.parents[1]}/{library}", python, libraries
    )
    members |= {f"{library}/{path}": member for path, member in modules.items()}
    for needed, place in libraries.needed().items():
        is_program = needed == libraries.loader
        members[f"{library}/{needed}"] = _member(root, place, is_program=is_program)
    digest = hashlib.sha256(_FORMAT_SALT + PLACE.encode())
    for path, member in sorted(members.items()):
        digest.update(f"{hashlib.sha256(member.data).hexdigest()} {path}\n".encode())
    name = digest.hexdigest()[:16]
    moved = relocated(
        members[PROGRAM].data,
        interpreter=f"{PLACE}/{name}/{library}/{libraries.loader}",
        library_path=f"$ORIGIN/../{library}",
        needed=libraries.support,
    )
    members[PROGRAM] = replace(members[PROGRAM], data=moved)
    _check(members, elf.machine, library)
    return _write(
        output, root, members, left_out,
        name=name, machine=elf.machine, python=python, libc=libraries.libc(),
    )  # fmt: skip


def _find_python(root: Root) -> tuple[PurePosixPath, str]:
    for version in PYTHONS:
        for prefix in ("usr", "usr/local"):
            if (path := root.find(f"{prefix}/bin/python{version}")) is not None:
                return path, version
    raise KitNotBuilt(f"no Python in usr/bin of {root.directory}; supported: {', '.join(PYTHONS)}")


def _member(root: Root, path: PurePosixPath, *, is_program: bool = False) -> _Member:
    return _Member(root.read(path), is_program, root.package_of(path))


def _standard_library(
    root: Root, base: str, python: str, libraries: Libraries
) -> tuple[dict[str, _Member], tuple[str, ...]]:
    """Modules of the kit by path, and the names of modules whose libraries are missing."""
    members, left_out = dict[str, _Member](), []
    directory = f"python{python}"
    for name, path in root.files(f"{base}/{directory}"):
        if any(re.fullmatch(pattern, name) for pattern in LEFT_OUT):
            continue
        member = _member(root, path)
        if libraries.is_served(member.data):
            members[f"{directory}/{name}"] = member
        else:
            left_out.append(PurePosixPath(name).name.partition(".")[0])
    for required in ("os.py", "venv/__init__.py", "encodings/utf_8.py"):
        if f"{directory}/{required}" not in members:
            raise KitNotBuilt(f"standard library lacks {required}: {root.directory / base}")
    return members, tuple(left_out)


def _check(members: Mapping[str, _Member], machine: str, library: str) -> None:
    """Check that a phone can load every file.

    Raises:
        KitNotBuilt: a file is for another machine, needs a library that is not in the kit, needs
            smaller pages, or needs an executable stack. Android refuses executable stacks.
    """
    for path, member in members.items():
        elf = read_elf(member.data)
        if elf is None:
            continue
        missing = [name for name in elf.needed if f"{library}/{name}" not in members]
        problem = (
            f"the file is for {elf.machine or 'another machine'}, not for {machine}"
            if elf.machine != machine
            else f"the file needs {missing[0]}, which is not in the kit"
            if missing
            else f"the file needs pages of {elf.alignment_bytes} bytes, but phones have "
            f"{PAGE_BYTES[machine]}"
            if elf.alignment_bytes < PAGE_BYTES[machine]
            else "the file needs an executable stack"
            if elf.has_executable_stack
            else None
        )
        if problem:
            raise KitNotBuilt(f"{path} cannot be loaded on a phone: {problem}")


def _write(
    output: Path | None,
    root: Root,
    members: Mapping[str, _Member],
    left_out: tuple[str, ...],
    *,
    name: str,
    machine: str,
    python: str,
    libc: str,
) -> BuiltKit:
    version = installed_version(HOST_DISTRIBUTION) or "0"
    info = f"{PACKAGE}-{version}.dist-info"
    packages, licences = _packages(root, members)
    archive = lzma.compress(_tar(name, members), preset=COMPRESSION)
    manifest = KitManifest(
        name=name,
        machine=machine,
        python=python,
        libc=libc,
        unpacked_bytes=sum(len(member.data) for member in members.values()),
        archive_sha256=hashlib.sha256(archive).hexdigest(),
        files=tuple(
            KitMember(
                path,
                len(member.data),
                hashlib.sha256(member.data).hexdigest(),
                member.package.name if member.package else "",
            )
            for path, member in sorted(members.items())
        ),
        packages=packages,
    )
    # Source: https://packaging.python.org/en/latest/specifications/core-metadata/.
    metadata = (
        f"Metadata-Version: 2.4\nName: {DISTRIBUTION}\nVersion: {version}\n"
        f"Summary: {manifest}, which edgebench deploys to phones\nRequires-Python: >=3.10\n"
    )
    metadata += "".join(f"License-File: {file}\n" for file in sorted(licences))
    wheel = {
        f"{PACKAGE}/__init__.py": b'"""A Python for phones, which edgebench deploys."""\n',
        MANIFEST: (json.dumps(to_plain(manifest), indent=1) + "\n").encode(),
        ARCHIVE: archive,
        f"{info}/METADATA": metadata.encode(),
        **{f"{info}/licenses/{file}": text for file, text in sorted(licences.items())},
    }
    path = output or kits_directory() / machine
    if path.suffix != ".whl":
        path /= f"{PACKAGE}-{version}-py3-none-any.whl"
    make_directory(path.parent)
    with whole_file(path) as file:
        write_wheel(file, info, wheel, compressed=(ARCHIVE,))
    recorded = {package.name for package in packages if package.licence}
    unlicensed = tuple(file.path for file in manifest.files if file.package not in recorded)
    return BuiltKit(
        path, manifest, path.stat().st_size, left_out, unlicensed, is_kept=output is None
    )


def _packages(
    root: Root, members: Mapping[str, _Member]
) -> tuple[tuple[KitPackage, ...], dict[str, bytes]]:
    """Packages of the files, and a mapping of file names to licences."""
    licences, packages = dict[str, bytes](), []
    for package in sorted({member.package for member in members.values() if member.package}):
        licence = root.licence_of(package)
        file = f"{package.name}.txt" if licence is not None else ""
        if licence is not None:
            licences[file] = licence
        packages.append(KitPackage(package.name, package.version, file))
    return tuple(packages), licences


def _tar(name: str, members: Mapping[str, _Member]) -> bytes:
    """Tar archive without the build time; the files are below a directory with the kit's name."""
    buffer = io.BytesIO()
    with tarfile.TarFile(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, member in sorted(members.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(member.data)
            entry.mode = 0o755 if member.is_program else 0o644
            tar.addfile(entry, io.BytesIO(member.data))
    return buffer.getvalue()
