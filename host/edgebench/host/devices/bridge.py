"""Access to the firmware bridge of this machine, if it is installed, for manual operations.

No other file of the host looks for the bridge.
"""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.protocol.bridge import ENTRY_POINT_GROUP, BridgeTools, EmulatedBoard
from edgebench.protocol.errors import TargetDriverMissing
from edgebench.protocol.extension import first_installed
from edgebench.protocol.target import MEMORY_FILE
from edgebench.system.paths import user_paths


def find_tools() -> BridgeTools:
    """The tools of the installed firmware bridge.

    Raises:
        TargetDriverMissing: the firmware bridge is not installed.
    """
    tools: BridgeTools | None = first_installed(ENTRY_POINT_GROUP)
    if tools is None:
        raise TargetDriverMissing("the firmware bridge is not installed here")
    return tools


def emulated_boards() -> list[EmulatedBoard]:
    """Boards that can be emulated here; empty if the firmware bridge is not installed."""
    tools: BridgeTools | None = first_installed(ENTRY_POINT_GROUP)
    return list(tools.emulated_boards()) if tools else []


def board_memory() -> Path:
    """File of known boards; this user's agent also reads this file, and serves the boards in it."""
    return Path(user_paths(os.environ).agent_state) / MEMORY_FILE
