"""Names of devices: reserved names and names of paired devices, without slow imports."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from edgebench.system.paths import user_paths

DEVICES_FILE = "devices.json"
LOCAL_NAME = "local"
"""The name of this machine; no other device may have it."""
EMULATED = "qemu:"
"""Prefix of the name of an emulated board; without an agent's name before it, the board runs on
this machine."""


def device_names() -> list[str]:
    """Names of the paired devices; empty if the list cannot be read."""
    path = Path(user_paths(os.environ).host_config) / DEVICES_FILE
    with suppress(OSError, ValueError, TypeError, KeyError):
        return [str(one["name"]) for one in json.loads(path.read_bytes())]
    return []
