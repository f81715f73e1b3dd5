"""The firmware bridge of this machine, if it is installed, for use by hand.

This is the only place of the host that looks for it.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.protocol.bridge import ENTRY_POINT_GROUP, BridgeTools
from edgebench.protocol.errors import TargetDriverMissing
from edgebench.protocol.extension import first_installed
from edgebench.protocol.target import MEMORY_FILE
from edgebench.system.paths import user_paths


def find_tools() -> BridgeTools:
    """The tools that are installed beside the host.

    Raises:
        TargetDriverMissing: none are.
    """
    tools: BridgeTools | None = first_installed(ENTRY_POINT_GROUP)
    if tools is None:
        raise TargetDriverMissing("the firmware bridge is not installed here")
    return tools


def board_memory() -> Path:
    """File in which this user's agent remembers boards: what is confirmed here, it serves."""
    return Path(user_paths(os.environ).agent_state) / MEMORY_FILE
