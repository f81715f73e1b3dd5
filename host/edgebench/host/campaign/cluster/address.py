"""The scheduler of a cluster, and the certificates by which it and lab hosts know each other."""

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
"""Longest wait for a scheduler, or for a lab host's first answer."""
_SCHEMES = ("tcp://", "tls://")
_PORT = re.compile(r"[0-9]{1,9}")
MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Where a Dask scheduler listens."""

    address: str
    """As Dask prints it: tcp://HOST:PORT, or tls://HOST:PORT."""
    tls_ca_file: Path | None = None
    """Certificate of the authority that signed those of scheduler, lab hosts and coordinators."""
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        scheme, _, authority = self.address.partition("://")
        host, _, port = authority.rpartition(":")
        if f"{scheme}://" not in _SCHEMES or not host or not _PORT.fullmatch(port):
            raise UsageError(
                f"address of a cluster is tcp://HOST:PORT or tls://HOST:PORT, got {self.address!r}"
            )
        if not 1 <= int(port) <= MAX_PORT:
            raise UsageError(f"port of a cluster is 1 to {MAX_PORT}, got {port}")
        files = (self.tls_ca_file, self.tls_cert, self.tls_key)
        if scheme == "tls" and None in files:
            raise UsageError("tls:// needs --tls-ca-file, --tls-cert and --tls-key")
        if scheme == "tcp" and any(files):
            raise UsageError(f"certificates are for tls://, got {self.address}")
        for path in files:
            if path is not None and not path.is_file():
                raise UsageError(f"no such file: {path}")

    @property
    def host(self) -> str:
        """Name or address of its machine."""
        return self.address.partition("://")[2].rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """Port at which it listens."""
        return int(self.address.rpartition(":")[2])

    def security(self) -> Security:
        """What Dask needs to know of the certificates."""
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
    """Load Dask, which says nothing on stderr and gives up on a silent peer within seconds.

    Raises:
        UsageError: it is not installed.
    """
    if find_spec("distributed") is None:
        raise UsageError(f"several lab hosts need the package distributed: {INSTALL}")
    from dask import config  # pyright: ignore[reportPrivateImportUsage]  # dask exports it so

    # Before distributed is loaded, which sets up its logs by this.
    config.set(
        {
            "logging": {"distributed": "critical"},
            "distributed.comm.timeouts.connect": "5s",
            "distributed.worker.profile.enabled": False,
            "distributed.admin.tick.limit": "1h",
        }
    )
