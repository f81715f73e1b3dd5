"""Pairing and storing as a lane does it, in a thread or as a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import RUN_FILE, Store

EACH = 10
"""Devices that each one pairs with, and runs that it stores."""


def pair_and_store(root: Path, name: str) -> None:
    """Remember devices, and store a run of each, under the directory that all share."""
    files, store = HostFiles(root / "config"), Store(root / "store")
    for number in range(EACH):
        device = f"{name}-{number}"
        files.identity_path()
        files.remember(KnownDevice(device, f"id-{device}", f"pin-{device}", ("10.0.0.1",), 7747))
        with store.incoming(device) as directory:
            (directory / RUN_FILE).write_text("{}")
        note_run(store, device)


if __name__ == "__main__":
    pair_and_store(Path(sys.argv[1]), sys.argv[2])
