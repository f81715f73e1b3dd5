"""The address of a cluster's scheduler, and the certificates for mutual authentication."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.protocol.distributions import HOST_DISTRIBUTION, install_command
from edgebench.protocol.errors import UsageError

if TYPE_CHECKING:
    from distributed.security import Security

INSTALL = install_command("cluster", HOST_DISTRIBUTION)
CONNECT_TIMEOUT_S = 5.0
"""Longest wait for a connection to a scheduler or a lab host."""
_SCHEMES = ("tcp://", "tls://")
_PORT = re.compile(r"[0-9]{1,9}")
MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Address of a Dask scheduler."""

    address: str
    """Address in Dask's format, tcp://HOST:PORT or tls://HOST:PORT."""
    tls_ca_file: Path | None = None
    """Certificate of the CA that signs certificates of scheduler, lab hosts and coordinators."""
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        scheme, _, authority = self.address.partition("://")
        host, _, port = authority.rpartition(":")
        if f"{scheme}://" not in _SCHEMES or not host or not _PORT.fullmatch(port):
            raise UsageError(
                f"cluster address must be tcp://HOST:PORT or tls://HOST:PORT, got {self.address!r}"
            )
        if not 1 <= int(port) <= MAX_PORT:
            raise UsageError(f"cluster port must be 1 to {MAX_PORT}, got {port}")
        files = (self.tls_ca_file, self.tls_cert, self.tls_key)
        if scheme == "tls" and None in files:
            raise UsageError("tls:// needs --tls-ca-file, --tls-cert and --tls-key")
        if scheme == "tcp" and any(files):
            raise UsageError(f"certificates need a tls:// address, got {self.address}")
        for path in files:
            if path is not None and not path.is_file():
                raise UsageError(f"no such file: {path}")

    @classmethod
    def of(cls, cluster: str | ClusterAddress) -> ClusterAddress:
        """Parse an address without certificates; an instance is returned unchanged.

        Raises:
            UsageError: the address is malformed.
        """
        return cluster if isinstance(cluster, ClusterAddress) else cls(cluster)

    @property
    def host(self) -> str:
        """Name or IP address of the scheduler's machine."""
        return self.address.partition("://")[2].rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """TCP port of the scheduler, 1 to 65535."""
        return int(self.address.rpartition(":")[2])

    def security(self) -> Security:
        """The certificates as Dask's security settings."""
        from distributed.security import Security

        if self.tls_ca_file is None:
            return Security(require_encryption=False)
        cert, key = str(self.tls_cert), str(self.tls_key)
        return Security(
            require_encryption=True,
            tls_ca_file=str(self.tls_ca_file),
            tls_client_cert=cert,
            tls_client_key=key,
            tls_worker_cert=cert,
            tls_worker_key=key,
        )


def configure_dask() -> None:
    """Configure Dask to log nothing to stderr, and to limit attempts to connect to a few seconds.

    Raises:
        UsageError: Dask is not installed.
    """
    if find_spec("distributed") is None:
        raise UsageError(f"clusters need the Python package `distributed`: {INSTALL}")
    from dask import config  # pyright: ignore[reportPrivateImportUsage]  # dask exports it so

    # Set before distributed is imported, because the import configures its logging.
    config.set(
        {
            "logging": {"distributed": "critical"},
            "distributed.comm.timeouts.connect": "5s",
            "distributed.worker.profile.enabled": False,
            "distributed.admin.tick.limit": "1h",
        }
    )
