"""A lab file, by which several hosts share an identity and the devices paired with it.

The file contains the private key. Every device that is paired with the lab accepts any holder of
the file.
"""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.protocol.errors import RemoteProtocolError, StoreError, UsageError
from edgebench.protocol.identity import der_of, fingerprint
from edgebench.protocol.pem import Pem
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.system.whole_files import sync_directory, whole_file

LAB_FILE_VERSION = 1
MAX_FILE_BYTES = 2**20
"""Maximum size of a lab file; each device takes about 300 bytes."""


@dataclass(frozen=True, slots=True)
class LabFile:
    """The identity and the devices that the hosts of a lab share."""

    version: int
    identity_pem: Pem
    """Private key and certificate."""
    devices: tuple[KnownDevice, ...]


@dataclass(frozen=True, slots=True)
class JoinReport:
    """The changes made by joining a lab."""

    devices: tuple[KnownDevice, ...]
    """Devices of the lab, with their names on this host."""
    forgotten: tuple[KnownDevice, ...]
    """Devices that this host has removed, because they were paired with its previous identity."""


def export_lab(files: HostFiles, path: Path) -> LabFile:
    """Write this host's identity and devices into a new file, which only its owner may read.

    Raises:
        UsageError: the file exists already.
        StoreError: the file cannot be written.
    """
    identity_pem = Pem(files.identity_path().read_text())
    lab_file = LabFile(LAB_FILE_VERSION, identity_pem, files.devices())
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)  # independent of the umask
            file.write(json.dumps(to_plain(lab_file), indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        sync_directory(path.parent)
    except FileExistsError as exc:
        raise UsageError(f"lab not exported: file exists: {path}") from exc
    except OSError as exc:
        raise StoreError(f"lab not exported: {exc.strerror}: {path}") from exc
    return lab_file


def join_lab(files: HostFiles, path: Path, *, replaces: bool = False) -> JoinReport:
    """Adopt the identity of a lab, and add its devices to this host's devices.

    Args:
        files: This host's identity and devices.
        path: File that `export_lab` wrote.
        replaces: Whether this host's identity may be replaced. The replacement removes the devices
            that are paired with the old identity. The permission is not needed if this host has no
            devices, or already has the lab's identity.

    Raises:
        UsageError: the file is not a lab file; or this host has devices that are paired with
            another identity, and `replaces` is false.
        StoreError: this host's files cannot be read or written.
    """
    lab = read_lab_file(path)
    own, identity_path = files.devices(), files.identity_path()
    pins = {fingerprint(der_of(pem)) for pem in (identity_path.read_text(), lab.identity_pem)}
    is_member = len(pins) == 1
    if own and not is_member and not replaces:
        names = ", ".join(device.name for device in own)
        raise UsageError(
            f"lab not joined: this host has its own identity, with which {names} are paired; "
            "--replace replaces the identity, and these devices must then be paired again"
        )
    if not is_member:
        # The lab's identity is checked before it replaces this host's identity.
        try:
            with whole_file(identity_path, mode=0o600) as file:
                file.write(lab.identity_pem.encode())
                file.flush()
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(file.name, password="")
        except ssl.SSLError as exc:
            raise UsageError("not a lab file: its key does not belong to its certificate") from exc
        except OSError as exc:
            raise StoreError(f"lab not joined: {exc.strerror}: {identity_path}") from exc
    forgotten = () if is_member else own
    for device in forgotten:
        files.forget(device)
    added: list[KnownDevice] = []
    for device in lab.devices:
        added.append(replace(device, name=files.free_name(device.name, device.pin)))
        files.remember(added[-1])
    return JoinReport(tuple(added), forgotten)


def read_lab_file(path: Path) -> LabFile:
    """Read and check a lab file.

    Raises:
        UsageError: the file cannot be read, is not a lab file, or has another version.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"more than {MAX_FILE_BYTES} bytes")
        lab = from_outside(json.loads(content), LabFile)
        der_of(lab.identity_pem)
    except OSError as exc:
        raise UsageError(f"lab file not readable: {exc.strerror}: {path}") from exc
    except (ValueError, RecursionError, RemoteProtocolError, UsageError) as exc:
        raise UsageError(f"not a lab file: {exc}: {path}") from exc
    if lab.version != LAB_FILE_VERSION:
        raise UsageError(
            f"lab file has version {lab.version}, supported is {LAB_FILE_VERSION}: {path}"
        )
    return lab
