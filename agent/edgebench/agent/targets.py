"""Finds the driver of targets, which is the optional firmware bridge.

The agent looks for the driver only here. The firmware bridge registers itself as an entry point.
"""

from __future__ import annotations

from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import TargetDriverMissing
from edgebench.protocol.extension import first_installed
from edgebench.protocol.target import ENTRY_POINT_GROUP, TargetDriver


def find_driver() -> TargetDriver:
    """Return the driver of targets that is installed with the agent.

    Raises:
        TargetDriverMissing: no driver is installed.
    """
    driver: TargetDriver | None = first_installed(ENTRY_POINT_GROUP)
    if driver is None:
        raise TargetDriverMissing("the firmware bridge is not installed here")
    return driver


def runtime_report() -> RuntimeReport:
    """Describe the runtime of targets.

    Raises:
        TargetDriverMissing: no driver is installed.
    """
    driver = find_driver()
    return RuntimeReport(driver.runtime, driver.formats, driver.version, is_target=True)
